"""Clients on PostgreSQL whose machine has a wrong clock: behind, right, ahead. Answers must not depend on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import holdkit
from tests.conftest import Migrated
from tests.faults.sampling import sample
from tests.support.modes import Async, Sync

SKEWS = {
    "an hour behind": -3600,
    "ten minutes behind": -600,
    "right": 0,
    "ten minutes ahead": 600,
    "an hour ahead": 3600,
}


@pytest.fixture
def postgres_url(migrated: Migrated) -> str:
    """Four lanes, so that a machine whose clock is wrong decides in each."""
    return migrated(lanes=4)


TRIED = sample(list(SKEWS), 3, at_every=True)
"""The far ones and none; those between only in `make prove`."""


@pytest.fixture(params=[SKEWS[name] for name in TRIED], ids=TRIED)
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
