from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")  # around the worker, which all tests of a module share
def logging_as_it_was() -> Iterator[None]:
    """A Celery worker that starts in this process sets the root logger's level and handlers, and leaves them so."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
