"""A full table of pools is freed of what is due and empty, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdkit
from holdkit.testing import FakeClock

LIMITS = holdkit.Limits(max_pools=2, retention=40, retention_consumed=70)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        postgres: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(postgres, limits=LIMITS)
        return postgres
    return "memory://" if request.param == "memory" else f"{request.param}:///{tmp_path}/holds"


def test_a_hold_that_is_due_makes_room_and_none_is_dropped_beside_it(url: str) -> None:
    clock = FakeClock()
    with holdkit.connect(url, clock=clock, limits=LIMITS) as hk:
        hk.create_pool("p", 9)
        hk.hold([holdkit.Leg("one", create_with_total=1)], ttl=20)
        sold = hk.consume("p", 2)
        clock.advance(110)
        hk.hold([holdkit.Leg("two", create_with_total=1)], ttl=20)
        told = [str(entry.action) for entry in hk.journal.follow(wait=False)]
        assert (told.count("hold.expired"), told.count("pool.removed"), told.count("hold.retired")) == (1, 1, 0)
        assert (hk.get(sold.id).state, hk.pool("p").raw.loose) == ("confirmed", 0)
        assert hk.admin.verify().ok
