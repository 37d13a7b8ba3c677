"""Clients on PostgreSQL whose machine has a wrong clock: behind, right, ahead. Answers must not depend on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import holdkit
from holdkit.testing.postgres import ServerAddress
from tests.support.modes import Async, Sync

SKEWS = {
    "an hour behind": -3600,
    "ten minutes behind": -600,
    "right": 0,
    "ten minutes ahead": 600,
    "an hour ahead": 3600,
}


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    return postgres_server.template("holdkit_skew", lambda url: holdkit.migrate(url, lanes=4))


@pytest.fixture(params=list(SKEWS.values()), ids=list(SKEWS))
def skew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """By how many seconds the clock of this process is wrong, for everything that runs in it."""
    seconds: int = request.param
    right, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + seconds * 1_000_000_000)
    return seconds


@pytest.fixture(params=["sync", "async"])
def hk(request: pytest.FixtureRequest, skew: int, postgres_url: str) -> Iterator[Any]:
    """A kernel of either kind in the process whose clock is wrong."""
    kind = Sync() if request.param == "sync" else Async()
    made: Any = (
        holdkit.connect(postgres_url) if isinstance(kind, Sync) else kind.run(holdkit.connect_async, postgres_url)
    )
    yield made
    made.close()
    kind.close()
