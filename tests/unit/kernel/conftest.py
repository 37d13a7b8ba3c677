"""A kernel, sync and async, on an engine that can be stopped, watched and broken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.modes import Async, Sync, close_quietly
from tests.support.watched_engine import WatchedEngine


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine()


@pytest.fixture
def hk(mode: Sync | Async, engine: WatchedEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    kernel.create_pool("p", 10)
    engine.entered = threading.Semaphore(0)
    engine.batches.clear()
    yield kernel
    engine.gate.set()
    close_quietly(kernel)
