"""Thousands of due legs and several engines: each leg is returned exactly once, and no scan starts behind a due leg."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import Sweep
from holdkit.core.entries import Action
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done
from holdkit.core.reading import ReadJournal, entry_of
from holdkit.engines.postgres import PostgresEngine, writing
from holdkit.testing import FakeClock
from tests.engines.commands import create, groups
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done, place, pool_in

START = 1_000_000 * SECOND
POOLS = [pool_in(lane, number) for lane in range(3) for number in range(2)]
HOLDS = 1_500
LIMITS = Limits(max_due=200)


def fill(engine: PostgresEngine, clock: FakeClock, holds: int = HOLDS) -> int:
    """So many holds of one to three legs, all of them due in the end; the number of their legs."""
    chance = random.Random(7)
    for each in POOLS:
        done(engine, create(each, 10**6))
    commands = [place(*chance.sample(POOLS, chance.randint(1, 3)), ttl=chance.randint(1, 50)) for _ in range(holds)]
    for first in range(0, holds, 500):
        applied = engine.apply(groups(*commands[first : first + 500]))
        assert all(isinstance(outcome, Done) for (outcome,) in applied.outcomes)
    clock.set(START + 100)
    return sum(len(command.legs) for command in commands)


def returned(engine: PostgresEngine) -> Counter[tuple[str, str]]:
    """How often each leg came back, by hold and pool."""
    found: Counter[tuple[str, str]] = Counter()
    seen: dict[int, int] = {}
    while rows := engine.read(ReadJournal(None, dict(seen), 5_000)):
        for row in rows:
            seen[row.lane] = row.seq
            entry = entry_of(row)
            if entry.action in (Action.HOLD_EXPIRED, Action.LEG_RETURNED):
                found.update((entry.subject, effect.pool.id) for effect in entry.effects)
    return found


@pytest.mark.slow
def test_a_backlog_met_from_all_sides_comes_back_once(open_engine: Open, postgres_url: str) -> None:
    clock = FakeClock(START)
    engines = [open_engine(clock=clock, limits=LIMITS) for _ in range(4)]
    legs = fill(engines[0], clock)

    def buy(engine: PostgresEngine, pools: list[str]) -> None:
        for each in pools:
            done(engine, place(each, pools[0]) if each != pools[0] else place(each))

    def sweep(engine: PostgresEngine) -> None:
        for _ in range(10):
            done(engine, Sweep(limit=100))

    engine_calls.together(
        lambda: buy(engines[0], POOLS),
        lambda: buy(engines[1], POOLS[::-1]),
        lambda: sweep(engines[2]),
        lambda: sweep(engines[3]),
    )
    while done(engines[0], Sweep(limit=1_000)).more:
        engine_calls.sound(engines[0], postgres_url)
    engine_calls.sound(engines[0], postgres_url)
    counts = returned(engines[0])
    assert (len(counts), set(counts.values())) == (legs, {1})
    assert sum(engine_calls.pool(engines[0], each).held for each in POOLS) == 2 * (2 * len(POOLS) - 1)


def some_left(open_engine: Open, url: str) -> PostgresEngine:
    """A sweep returned a few legs of each pool and left the others; then each pool is touched."""
    clock = FakeClock(START)
    engine = open_engine(clock=clock, limits=LIMITS)
    fill(engine, clock, 300)
    done(engine, Sweep(limit=40))
    return engine


def test_what_a_sweep_leaves_is_found_by_the_next_buyer(open_engine: Open, postgres_url: str) -> None:
    engine = some_left(open_engine, postgres_url)
    engine_calls.sound(engine, postgres_url)
    for each in POOLS:
        done(engine, place(each))
        engine_calls.sound(engine, postgres_url)
        assert engine_calls.ask(postgres_url, "select count(*) from holdkit.legs where pool = %s", each) == [(1,)]


def test_canary_a_scan_that_begins_at_the_last_slot_loses_legs(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "scanned_to", lambda view, batch, pool: view.loaded.slot)
    engine = some_left(open_engine, postgres_url)
    assert engine_calls.violations(postgres_url)
    done(engine, place(POOLS[0]))
    assert engine_calls.ask(postgres_url, "select count(*) > 1 from holdkit.legs where pool = %s", POOLS[0]) == [
        (True,)
    ]
