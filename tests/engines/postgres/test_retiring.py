"""Holds whose units are consumed are dropped under the locks of their pools: what somebody else has locked waits for the next sweep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdkit.core.commands import Consume, Group, ReturnToPool, ReturnUnits, Sweep
from holdkit.core.entries import Action
from holdkit.core.model import DAY, Leg
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindHold, FindPool, ReadJournal, entry_of
from holdkit.engines.postgres import PostgresEngine
from holdkit.testing import FakeClock
from tests.engines.commands import create, groups
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import caller, done, hold_id, place, pool_in

HERE, THERE, ELSEWHERE = pool_in(0), pool_in(1), pool_in(2)


@pytest.fixture
def engine(open_engine: Open) -> PostgresEngine:
    return open_engine(clock=FakeClock(start=1_000 * DAY))


def spend(engine: PostgresEngine, *pools: str) -> str:
    """A hold of one unit of each, confirmed."""
    id = hold_id(pools[0])
    done(engine, Consume(id=id, legs=tuple(Leg(pool) for pool in pools), token="me"))
    return id


def later(engine: PostgresEngine, days: int) -> None:
    assert isinstance(engine.clock, FakeClock)
    engine.clock.set(engine.clock() + days * DAY)


def dropped(engine: PostgresEngine) -> list[str]:
    """The holds that the journal says were dropped, each as often as it says so."""
    entries = map(entry_of, engine.read(ReadJournal(None, {}, 1_000)))
    return sorted(entry.subject for entry in entries if entry.action is Action.HOLD_RETIRED and not entry.part)


def loose(engine: PostgresEngine, pool: str) -> tuple[int, int]:
    found = engine.read(FindPool(("", pool)))
    assert found is not None
    return found.consumed, found.loose


def test_one_whose_pool_is_locked_waits_for_the_next_sweep(engine: PostgresEngine, postgres_url: str) -> None:
    for pool in (HERE, THERE, ELSEWHERE):
        done(engine, create(pool))
    wide, narrow = spend(engine, HERE, THERE), spend(engine, HERE)
    later(engine, 400)
    with caller(postgres_url) as tx:
        engine.apply_in(tx, groups(place(THERE)))
        (outcomes,) = engine.apply([Group((Sweep(),))]).outcomes
        assert isinstance(outcomes[0], Done)
        assert outcomes[0].more
        assert dropped(engine) == [narrow]
        assert engine.read(FindHold(("", wide))) is not None
        tx.commit()
    assert not done(engine, Sweep()).more
    assert dropped(engine) == sorted([narrow, wide])
    assert [loose(engine, pool) for pool in (HERE, THERE)] == [(2, 2), (1, 1)]
    done(engine, ReturnToPool(id=THERE, quantity=1, force=True, reason="refund"))
    assert [*engine.verify()] == []


def test_two_sweepers_drop_each_hold_once(open_engine: Open, engine: PostgresEngine) -> None:
    for pool in (HERE, THERE):
        done(engine, create(pool, total=100))
    ids = [spend(engine, HERE, THERE) if number % 2 else spend(engine, THERE) for number in range(40)]
    later(engine, 400)
    other = open_engine(clock=FakeClock(start=engine.clock()))

    def sweep_all(mine: PostgresEngine) -> None:
        while dropped(mine) != sorted(ids):
            mine.apply([Group((Sweep(limit=3),))])

    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(sweep_all, mine) for mine in (engine, other)]:
            one.result(120)
    assert [loose(engine, pool) for pool in (HERE, THERE)] == [(20, 20), (40, 40)]
    assert [*engine.verify()] == []


def test_a_return_and_a_sweep_at_once_bring_each_unit_back_once(engine: PostgresEngine) -> None:
    done(engine, create(HERE, total=100))
    ids = [spend(engine, HERE) for _ in range(20)]
    later(engine, 400)
    returned = 0
    with ThreadPoolExecutor(2) as threads:
        sweeping = threads.submit(
            lambda: [engine.apply([Group((Sweep(limit=1),))], wait_for_locks=True) for _ in range(25)]
        )
        for id in ids:
            command = ReturnUnits(id=id, token="me")
            (outcomes,) = engine.apply([Group((command,))], wait_for_locks=True).outcomes
            returned += isinstance(outcomes[0], Done)
        sweeping.result(120)
    while len(dropped(engine)) + returned < len(ids):
        done(engine, Sweep())
    assert loose(engine, HERE) == (len(ids) - returned, len(ids) - returned)
    assert [*engine.verify()] == []
