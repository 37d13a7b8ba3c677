"""Every engine in sync and async, behind one way of calling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdkit.kernel.opening import open_engine
from holdkit.testing import FakeClock
from tests.support.modes import Async, Driven, Sync


class Place:
    """A kernel of either colour on some engine, whose clock the test moves."""

    def __init__(self, url: str, mode: Sync | Async) -> None:
        self.url, self.clock, self.mode = url, FakeClock(), mode
        self.hk = mode.open(open_engine(url, clock=self.clock, limits=None))


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    mode = Sync() if request.param == "sync" else Async()
    yield mode
    mode.close()


@pytest.fixture(params=["memory", "log", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, mode: Sync | Async, tmp_path: Path) -> Iterator[Place]:
    urls = {"memory": "memory://", "log": f"log:///{tmp_path}/log", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    if request.param == "postgres":
        urls["postgres"] = request.getfixturevalue("migrated")()
    made = Place(urls[request.param], mode)
    yield made
    assert made.hk.verify().ok
    made.hk.close()


@pytest.fixture
def memory(mode: Sync | Async) -> Iterator[Place]:
    """Where the engine makes no difference."""
    made = Place("memory://", mode)
    yield made
    made.hk.close()


def say(spending: Any, actual: Any) -> None:
    """Set what a block came to, in either colour."""
    thing = spending._thing if isinstance(spending, Driven) else spending
    thing.actual = actual
