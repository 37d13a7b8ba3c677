"""A bounded table in a caller's own transaction: what is due or has ended makes room there too; empty pools do on SQLite, and
on PostgreSQL outside of it only, for a removal would lock the end of a lane until the caller commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.engines.sqlite import open_application_connection
from holdkit.testing import FakeClock

LIMITS = holdkit.Limits(max_pools=2, max_holds=2)
Begin = Callable[[], Any]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Begin]:
    """Where it is, and how an application opens a connection there."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(url, limits=LIMITS)
        return url, lambda: psycopg.connect(url)
    file = tmp_path / "holds.db"
    return f"sqlite:///{file}", lambda: open_application_connection(str(file))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hk(place: tuple[str, Begin], clock: FakeClock) -> Iterator[holdkit.Kernel]:
    with holdkit.connect(place[0], clock=clock, limits=LIMITS) as kernel:
        kernel.create_pool("p", 9)
        yield kernel


@contextmanager
def transaction(place: tuple[str, Begin]) -> Iterator[Any]:
    with closing(place[1]()) as connection:
        yield connection
        connection.commit()


def window(pool: str) -> list[holdkit.Leg]:
    return [holdkit.Leg(pool, 1, create_with_total=1)]


def test_empty_pools_make_room(hk: holdkit.Kernel, place: tuple[str, Begin]) -> None:
    hk.release(hk.hold(window("one"), ttl=60))
    with transaction(place) as tx:
        if place[0].startswith("postgres"):
            with pytest.raises(holdkit.errors.PoolTableFull, match=r"sweep.*tx=.*or raise max_pools") as refused:
                hk.hold(window("two"), ttl=60, tx=tx)
            assert refused.value.transient
            assert hk.hold("p", ttl=60, tx=tx).state == "held", "the transaction goes on"
            assert [pool.id for pool in hk.pools()] == ["one", "p"]
            hk.sweep()
            assert [pool.id for pool in hk.pools()] == ["p"]
        assert hk.hold(window("two"), ttl=60, tx=tx).state == "held"
    assert [pool.id for pool in hk.pools()] == ["p", "two"]
    assert hk.admin.verify().ok


def test_pools_that_are_in_use_do_not(hk: holdkit.Kernel, place: tuple[str, Begin]) -> None:
    hk.hold(window("one"), ttl=60)
    with transaction(place) as tx:
        with pytest.raises(holdkit.errors.PoolTableFull):
            hk.hold(window("two"), ttl=60, tx=tx)
        assert hk.hold("p", ttl=60, tx=tx).state == "held"
    assert hk.admin.verify().ok


def test_due_holds_make_room(hk: holdkit.Kernel, place: tuple[str, Begin], clock: FakeClock) -> None:
    due = hk.hold("p", ttl=5)
    kept = hk.hold("p", ttl=60)
    with transaction(place) as tx, pytest.raises(holdkit.errors.HoldTableFull):
        hk.hold("p", ttl=60, tx=tx)
    clock.advance(6)
    with transaction(place) as tx:
        mine = hk.hold("p", ttl=60, tx=tx)
    assert sorted(hold.id for hold in hk.holds()) == sorted([kept.id, mine.id])
    with pytest.raises(holdkit.errors.HoldNotFound):
        hk.get(due.id)
    assert hk.admin.verify().ok


def test_consumed_holds_make_room(hk: holdkit.Kernel, place: tuple[str, Begin], clock: FakeClock) -> None:
    for _ in range(2):
        clock.advance(1)
        hk.consume("p", 1)
    with transaction(place) as tx:
        assert hk.hold("p", ttl=60, tx=tx).state == "held"
    assert (hk.pool("p").consumed, hk.pool("p").raw.loose, len(hk.holds())) == (2, 1, 2)
    assert hk.admin.verify().ok
