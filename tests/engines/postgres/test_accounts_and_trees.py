"""Tallies and trees of pools in the tables: stored with their pools, swept with them, checked by `verify`, rebuilt by `repair`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdkit.core.bounds import Limits
from holdkit.core.command_kinds import Command
from holdkit.core.commands import Consume, ReturnToPool, ReturnUnits
from holdkit.core.lanes import lane_of_pool
from holdkit.core.model import DAY, SECOND, Leg, State
from holdkit.core.outcomes import Done, Reason
from holdkit.core.reading import (
    AccountUsage,
    CountRows,
    FindPool,
    FindPools,
    ListHolds,
    ListPools,
    ListUsage,
    TakeSurvey,
)
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.migrating import Layout
from tests.conftest import Migrated
from tests.engines.commands import Clock, confirm, create, groups, release, sweep
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import LANES, ask, caller, done, hold, hold_id, one, place, pool
from tests.engines.postgres.test_lines import join

VENUE, STALLS, LEFT = "venue", "venue//stalls", "venue//stalls//left"


def venue(engine: PostgresEngine) -> None:
    """10 in all, of which 6 in the stalls, of which 4 on the left."""
    for name, total in ((VENUE, 10), (STALLS, 6), (LEFT, 4)):
        done(engine, create(name, total))


def held_at(engine: PostgresEngine, *names: str) -> list[int]:
    return [pool(engine, name).held for name in names]


# Trees


def test_a_hold_moves_every_level_in_the_lane_of_the_root(engine: PostgresEngine, postgres_url: str) -> None:
    venue(engine)
    assert {lane for (lane,) in ask(postgres_url, "select lane from holdkit.pools")} == {
        lane_of_pool(("", VENUE), LANES)
    }
    placed = done(engine, place(LEFT, account="a", id=hold_id())).hold
    assert placed is not None
    assert held_at(engine, VENUE, STALLS, LEFT) == [1, 1, 1]
    assert ask(postgres_url, "select pools from holdkit.holds") == [([LEFT, VENUE, STALLS],)]
    assert [usage.pool for usage in engine.read(ListUsage("", "a"))] == [VENUE, STALLS, LEFT]
    assert [each.id for each in engine.read(ListHolds("", pool=LEFT))] == [placed.id]
    assert engine.read(ListHolds("", pool=VENUE)) == [], "it names none but its leg's"
    done(engine, confirm(placed.id))
    assert [(each.held, each.consumed) for each in engine.read(ListPools(""))] == [(0, 1)] * 3
    engine_calls.sound(engine, postgres_url)


def test_a_pool_shows_what_those_above_it_leave(engine: PostgresEngine) -> None:
    venue(engine)
    done(engine, Consume(legs=(Leg(VENUE, 8),), id=hold_id(), token="me"))
    keys = (("", LEFT), ("", "none"), ("", VENUE))
    for shown in (engine.read(FindPools(keys))[0], engine.read(FindPool(("", LEFT))), engine.read(ListPools(""))[2]):
        assert shown is not None
        assert (shown.id, shown.available, shown.bookable) == (LEFT, 4, 2)
    assert engine.read(FindPools(keys))[1] is None
    refused = one(engine, Consume(legs=(Leg(LEFT, 3),), id=hold_id(), token="me"))
    assert engine_calls.reason(refused) is Reason.INSUFFICIENT_CAPACITY


def test_what_is_due_comes_back_level_by_level(open_engine: Open, postgres_url: str) -> None:
    """Whoever touches the root alone gets its units back there, and marks the hold expired; the rest follows when it is touched."""
    clock = Clock()
    engine = open_engine(clock=clock)
    venue(engine)
    placed = done(engine, place(LEFT, ttl=SECOND, account="a")).hold
    assert placed is not None
    clock.slot += 2 * SECOND
    done(engine, place(VENUE))
    assert ask(postgres_url, "select id, held from holdkit.pools order by id") == [(VENUE, 1), (STALLS, 1), (LEFT, 1)]
    assert held_at(engine, VENUE, STALLS, LEFT) == [1, 0, 0]
    assert [usage.pool for usage in engine.read(ListUsage("", "a"))] == []
    assert hold(engine, placed.id).state is State.EXPIRED
    engine_calls.sound(engine, postgres_url)
    done(engine, sweep())
    assert ask(postgres_url, "select id, held from holdkit.pools order by id") == [(VENUE, 1), (STALLS, 0), (LEFT, 0)]
    assert ask(postgres_url, "select count(*) from holdkit.tallies") == [(0,)]
    engine_calls.sound(engine, postgres_url)


def test_an_empty_child_is_swept_away_with_its_parent_counting(engine: PostgresEngine, postgres_url: str) -> None:
    done(engine, create(VENUE, 10))
    made = done(engine, place(STALLS, on_demand=5)).hold
    assert made is not None
    assert pool(engine, VENUE).children == 1
    done(engine, release(made.id))
    done(engine, place(VENUE))
    assert pool(engine, VENUE).fence == 2
    with caller(postgres_url) as tx:
        engine.apply_in(tx, [], [("", VENUE)])
        engine.apply(groups(sweep()))
        assert engine.read(FindPool(("", STALLS))) is not None, "without the lock of its parent it stays"
    done(engine, sweep())
    assert engine.read(FindPool(("", STALLS))) is None
    assert pool(engine, VENUE).children == 0
    floors = ask(postgres_url, "select floor from holdkit.fence_floors")
    assert floors == [(1,)], "the fence of the pool that was removed, not of its parent"
    done(engine, place(VENUE))
    engine_calls.sound(engine, postgres_url)


# Accounts


def test_usage_is_paged_and_leaves_out_what_is_due(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    names = [f"pool-{number}" for number in range(6)]
    for number, name in enumerate(names):
        done(engine, create(name, 9, per_account=4 if number % 2 else None))
        done(engine, place(name, account="a", ttl=SECOND if number in (1, 2) else 60 * SECOND))
        done(engine, place(name, account="b"))
    done(engine, join(names[0], 9, account="a"))
    clock.slot += 2 * SECOND
    found: list[AccountUsage] = []
    while page := engine.read(ListUsage("", "a", after=found[-1].pool if found else "", limit=2)):
        found += page
    assert [(usage.pool, usage.used, usage.limit) for usage in found] == [
        (names[0], 10, None), (names[3], 1, 4), (names[4], 1, None), (names[5], 1, 4)]  # fmt: skip
    assert engine.read(ListUsage("other", "a")) == []
    survey = engine.read(TakeSurvey())
    assert survey.live_holds == 11, "who waits has not ended"
    rows = live = 0
    after: str | None = ""
    while after is not None:
        step = engine.read(CountRows("", "holds", after=after))
        rows, live, after = rows + step.rows, live + step.live, step.next
    assert (rows, live) == (13, 13), "nobody has ended those yet that are due"
    engine_calls.sound(engine, postgres_url)


def test_units_of_a_dropped_hold_come_back_by_pool_and_account(open_engine: Open, postgres_url: str) -> None:
    clock = Clock()
    engine = open_engine(clock=clock)
    venue(engine)
    for _ in range(2):
        done(engine, Consume(legs=(Leg(LEFT, 1),), id=hold_id(), token="me", account="a"))
    kept = done(engine, Consume(legs=(Leg(LEFT, 1),), id=hold_id(), token="me", account="a")).hold
    assert kept is not None
    done(engine, ReturnUnits(id=kept.id, token="me"))
    clock.slot += 500 * DAY
    done(engine, sweep())
    assert ask(postgres_url, "select pool, used, loose from holdkit.tallies order by pool") == [
        (VENUE, 2, 0), (STALLS, 2, 0), (LEFT, 2, 2)]  # fmt: skip
    assert isinstance(one(engine, ReturnToPool(id=LEFT, quantity=2, account="a", force=True, reason="r")), Done)
    assert ask(postgres_url, "select count(*) from holdkit.tallies") == [(0,)]
    engine_calls.sound(engine, postgres_url)


# Verify and repair


DAMAGE = {
    "a tally gone": "delete from holdkit.tallies where pool = 'show'",
    "a tally too high": "update holdkit.tallies set used = used + 1",
    "a tally in another lane": "update holdkit.tallies set lane = (lane + 1) % 4",
    "a tally of nobody": "insert into holdkit.tallies values (0, '', 'show', 'nobody', 1, 0)",
    "a place in the line": "update holdkit.legs set number = number + 5 where number > 0",
    "units waited for": "update holdkit.legs set waiting = waiting + 1 where number > 0",
    "the account of a leg": "update holdkit.legs set account = 'other'",
    "a line too long": "update holdkit.pools set waiting = waiting + 1 where id = 'show'",
    "a number given again": "update holdkit.pools set last_number = 0 where id = 'show'",
    "a child too many": "update holdkit.pools set children = children + 1 where id = 'venue'",
    "a limit": "update holdkit.pools set per_account = 1 where id = 'show'",
    "what is outstanding above": """update holdkit.holds set above = '[{"pool":"venue","held":7}]' where above is not null""",
    "the pools of a hold": "update holdkit.holds set pools = array['venue//stalls'], pool_lanes = array[0] where above is not null",
    "when it joined": "update holdkit.holds set joined_at = 1 where number is not null",
    "a waiter's account": "update holdkit.holds set account = null where state = 'waiting'",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_repaired(damage: str, engine: PostgresEngine, postgres_url: str) -> None:
    venue(engine)
    done(engine, create("show", 1, per_account=4))
    held = done(engine, place("show", account="a")).hold
    assert held is not None
    waiting = join("show", account="a")
    done(engine, waiting)
    done(engine, place(STALLS, account="b"))
    engine_calls.sound(engine, postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(DAMAGE[damage].encode())
    assert [*engine.verify()] != []
    repaired = engine.repair(Command(actor="system", reason="an accident"), dry_run=False)
    assert repaired.repaired
    assert repaired.left == ()
    engine_calls.sound(engine, postgres_url)
    done(engine, release(held.id))  # and the line goes on
    assert hold(engine, str(waiting.id)).state is State.HELD
    assert engine.read(ListUsage("", "a")) == [AccountUsage("show", 1, 4)]
    engine_calls.sound(engine, postgres_url)


# Distributed tables


@pytest.mark.parametrize("layout", ["one server", "as if"])
def test_a_sweep_feeds_lines_in_several_lanes(layout: Layout, migrated: Migrated) -> None:
    """Fewer offers than are due in one transaction: the rest is named, and the next sweep goes on."""
    url, clock = migrated(layout, 8), Clock()
    names = [f"show-{number}" for number in range(6)]
    engine = PostgresEngine(url, clock=clock, limits=Limits(max_offers=1))
    try:
        for name in names:
            done(engine, create(name, 2))
            held: list[Any] = [done(engine, place(name, id=hold_id(name, 8))).hold for _ in range(2)]
            for _ in range(2):
                done(engine, join(name))
            with caller(url) as tx:
                engine.apply_in(tx, groups(*(release(one.id) for one in held)))
                tx.commit()
        applied = engine.apply(groups(sweep()))
        outcome = applied.outcomes[0][0]
        assert isinstance(outcome, Done)
        assert outcome.more
        assert applied.unfed
        while applied.wrote:
            applied = engine.apply(groups(sweep()))
        assert [engine_calls.pool(engine, name).held for name in names] == [2] * 6
        assert [str(difference) for difference in engine.verify()] == []
    finally:
        engine.close()
