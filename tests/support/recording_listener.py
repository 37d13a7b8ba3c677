"""A listener that remembers what it was told."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.threads import PATIENCE


class RecordingListener:
    """A listener that remembers, and says when it heard something."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._news = threading.Semaphore(0)
        self.threads: set[str] = set()

    def __call__(self, entry: Any) -> None:
        self.heard.append(f"{entry.action} {entry.subject}")
        self.threads.add(threading.current_thread().name)
        self._news.release()

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._news.acquire(timeout=PATIENCE), self.heard
