"""The kernel is opened by another thread than the one that drops the test database. Run by `test_shop.py`, in the example project's process."""

from __future__ import annotations

import threading

from django.db import connection
from django.test import TestCase

from holdkit.contrib.django import hk


class Dropping(TestCase):
    def test_opened_by_a_thread(self) -> None:
        def read() -> None:
            self.assertEqual(hk._limits.retention.days, 30)
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
