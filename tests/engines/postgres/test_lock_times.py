"""How long transactions keep their pools locked is counted, in a bounded number of buckets."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.core.outcomes import Refusal
from holdkit.engines.lock_times import BOUNDS, LockTimer
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.driver import Statement, Steps
from holdkit.reports import LockTimes
from tests.engines.commands import create, groups, release
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done, one, place


def counted(engine: PostgresEngine) -> int:
    timer = engine.capabilities.lock_times
    assert timer is not None
    return timer.times.transactions


def test_buckets() -> None:
    timer = LockTimer()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, 0.9, 60.0):
        timer.add(seconds)
    times = timer.times
    assert times.bounds == BOUNDS
    assert list(BOUNDS) == sorted(BOUNDS)
    assert times.counts[:2] == (2, 1)
    assert times.counts[-1] == 1
    assert times.transactions == 5
    assert times.seconds == pytest.approx(60.9 + 2 * BOUNDS[0])
    assert [times.quantile(part) for part in (0.0, 0.4, 0.6, 0.8, 1.0)] == [
        BOUNDS[0],
        BOUNDS[0],
        BOUNDS[1],
        1.0,
        float("inf"),
    ]
    assert LockTimes().quantile(0.5) == 0
    assert LockTimes() == LockTimer().times


@pytest.mark.usefixtures("no_notifier")
def test_every_transaction_that_writes_is_counted_and_no_other(open_engine: Open) -> None:
    engine = open_engine(guarded=False)
    before = counted(engine)
    done(engine, create("lamp", 2))
    held = done(engine, place("lamp")).hold
    assert held is not None
    engine.apply(groups(place("lamp")), wait_for_locks=True)
    engine.apply_growing(groups(release(held.id)), lambda fits: [])
    asyncio.run(engine.apply_async(groups(place("lamp")), lambda: None))
    assert counted(engine) - before == 5
    assert engine.capabilities.lock_times is not None
    assert engine.capabilities.lock_times.times.seconds > 0
    engine.lend(lambda lent: lent.apply(groups(create("chair", 1))))
    assert counted(engine) - before == 6
    assert isinstance(one(engine, create("chair", 1)), Refusal)
    assert counted(engine) - before == 6, "a refusal wrote nothing"


def test_no_wait_for_a_lock_counts_but_all_that_follows_does(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still but for the moments that the test adds: while the server is asked to lock, and while it commits."""
    from holdkit.engines.postgres import loading, transactions
    from holdkit.engines.postgres.connections import PipelineConnection

    now, exchange = [100.0], PipelineConnection.exchange

    def slow(self: PipelineConnection, statements: list[Statement]) -> Steps[Any]:
        answers = yield from exchange(self, statements)
        names = [name for name, _ in statements]
        now[0] += 3.0 * ("lock_pools" in names) + 0.3 * ("commit" in names)
        return answers

    engine = open_engine(guarded=False)
    done(engine, create("lamp", 2))
    for module in (loading, transactions):
        monkeypatch.setattr(module, "steady", lambda: now[0])
    monkeypatch.setattr(PipelineConnection, "exchange", slow)
    assert engine.capabilities.lock_times is not None
    before = engine.capabilities.lock_times.times.seconds
    done(engine, place("lamp"))
    assert engine.capabilities.lock_times.times.seconds - before == pytest.approx(0.3)


def test_what_a_program_sees(postgres_url: str) -> None:
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("lamp", 5)
        before = hk.admin.stats().lock_times.transactions
        hk.admin.resize_pool("lamp", 6)
        assert hk.admin.stats().lock_times.transactions == before + 1
        with psycopg.connect(postgres_url) as tx:
            hk.hold("lamp", 1, ttl=60, tx=tx)
        assert hk.admin.stats().lock_times.transactions == before + 1, "only the caller knows when that was committed"


def test_where_nobody_waits_for_locks_nothing_is_counted() -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("lamp", 5)
        assert hk.admin.stats().lock_times == LockTimes()
