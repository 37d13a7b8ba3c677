"""Both colours, one fixture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.modes import Async, Sync, WatchedEngine, close_quietly, no_threads_left


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    before = set(threading.enumerate())
    mode = Sync() if request.param == "sync" else Async()
    yield mode
    mode.close()
    no_threads_left(before)


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
