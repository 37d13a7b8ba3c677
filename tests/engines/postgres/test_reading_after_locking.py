"""A statement's snapshot is older than the locks it waits for: what is read behind a lock is read by a later statement, and so
is the clock."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdkit.core.command_kinds import HoldCommand
from holdkit.core.commands import ExtendHold
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Outcome, Reason
from holdkit.engines.postgres import PostgresEngine, loaded_rows
from holdkit.engines.postgres.database import BatchOptions
from holdkit.engines.postgres.driver import Row, Statement
from tests.engines.commands import confirm, create, extend, groups, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import await_waiter, caller, done, one, place
from tests.support.threads import PATIENCE

STORMERS = 4
HOLDS = 24


def storm(engine: PostgresEngine, holds: list[str], seed: int) -> list[str]:
    """Confirm, release and extend each of them, in an order of its own; which were ended by this, as often as it was said."""
    chance = random.Random(seed)
    calls: list[HoldCommand] = [make(each) for each in holds for make in (confirm, release, extend)]
    chance.shuffle(calls)
    ended: list[str] = []
    for first in range(0, len(calls), 4):
        some = calls[first : first + 4]
        for command, outcome in zip(some, engine_calls.settle(engine, *some), strict=True):
            if engine_calls.reason(outcome) is None and not isinstance(command, ExtendHold):
                ended.append(command.id)
    return ended


def test_a_storm_of_endings_ends_every_hold_once(open_engine: Open, postgres_url: str) -> None:
    first = open_engine()
    pools = [engine_calls.pool_in(0), engine_calls.pool_in(0, 1), engine_calls.pool_in(1)]
    for each in pools:
        done(first, create(each, 100))
    holds = [
        placed.hold.id
        for number in range(HOLDS)
        if (placed := done(first, place(*pools[number % 3 :][:2]))).hold is not None
    ]
    engines = [first, *(open_engine() for _ in range(STORMERS - 1))]
    ended = engine_calls.together(*(lambda n=n: storm(engines[n], holds, n) for n in range(STORMERS)))
    assert sorted(id for some in ended for id in some) == sorted(holds)
    engine_calls.sound(first, postgres_url)


def confirm_behind_a_caller(engine: PostgresEngine, url: str) -> list[Outcome]:
    """A caller confirms a hold and commits while another confirm waits for the pool."""
    done(engine, create("gpu", exist_ok=True))
    done(engine, place("gpu"))  # or the counter of units held would fall below zero, and that is noticed
    placed = done(engine, place("gpu")).hold
    assert placed is not None
    with ThreadPoolExecutor(1) as thread, caller(url) as tx:
        theirs = engine.apply_in(tx, groups(confirm(placed.id))).outcomes[0][0]
        ours = thread.submit(one, engine, confirm(placed.id))
        await_waiter(url)
        tx.commit()
        return [theirs, ours.result(PATIENCE)]


def test_a_hold_that_was_ended_while_one_waited_is_seen_as_ended(engine: PostgresEngine, postgres_url: str) -> None:
    theirs, ours = confirm_behind_a_caller(engine, postgres_url)
    assert [engine_calls.reason(theirs), engine_calls.reason(ours)] == [None, Reason.ALREADY_CONFIRMED]
    engine_calls.sound(engine, postgres_url)


def test_canary_holds_read_before_the_lock_are_confirmed_twice(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two safeguards: with the row counts still checked, even that could not happen."""
    statements, load = loaded_rows.LoadPlan.statements, loaded_rows.LoadedRows.load_first_round

    def no_wait(self: loaded_rows.LoadPlan, options: BatchOptions) -> list[Statement]:
        lock, due, *holds = statements(self, options)
        return [*holds, lock, due]

    def sorted_back(
        self: loaded_rows.LoadedRows, plan: loaded_rows.LoadPlan, answers: Iterator[list[Row]]
    ) -> loaded_rows.FirstRound:
        *holds, lock, due = answers
        return load(self, plan, iter([lock, due, *holds]))

    monkeypatch.setattr(loaded_rows.LoadPlan, "statements", no_wait)
    monkeypatch.setattr(loaded_rows.LoadedRows, "load_first_round", sorted_back)
    theirs, ours = confirm_behind_a_caller(open_engine(guarded=False), postgres_url)
    assert [engine_calls.reason(theirs), engine_calls.reason(ours)] == [None, Reason.ALREADY_CONFIRMED]
    engine_calls.sound(open_engine(), postgres_url)

    engine_calls.trust_counts(monkeypatch)
    engine = open_engine(guarded=False)
    theirs, ours = confirm_behind_a_caller(engine, postgres_url)
    assert [engine_calls.reason(theirs), engine_calls.reason(ours)] == [None, None]
    assert list(engine.verify())


def confirm_behind_the_deadline(engine: PostgresEngine, url: str) -> Outcome:
    """A confirm waits for its pool until the hold's time is over, by the server's own clock."""
    done(engine, create("gpu"))
    for ttl in (SECOND // 2, 4 * SECOND, 32 * SECOND):
        placed = done(engine, place("gpu", ttl=ttl)).hold
        assert placed is not None
        assert placed.deadline is not None
        deadline = placed.deadline / SECOND
        with ThreadPoolExecutor(1) as thread, caller(url) as tx:
            tx.execute("select from holdkit.pools for update")
            waiting = thread.submit(one, engine, confirm(placed.id))
            await_waiter(url)
            in_time = tx.execute("select clock_timestamp() < to_timestamp(%s)", (deadline,)).fetchone()
            tx.execute("select pg_sleep_until(to_timestamp(%s))", (deadline + 0.001,))
            tx.rollback()
            outcome = waiting.result(PATIENCE)
        if in_time == (True,):
            return outcome
    raise AssertionError("it never began to wait before the deadline")


def test_a_confirm_that_waited_past_the_deadline_is_too_late(engine: PostgresEngine, postgres_url: str) -> None:
    assert engine_calls.reason(confirm_behind_the_deadline(engine, postgres_url)) is Reason.HOLD_EXPIRED
    engine_calls.sound(engine, postgres_url)


def test_canary_a_clock_read_before_the_locks_is_too_early(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_calls.alter(monkeypatch, "load_due_of_holds", lambda text: text.replace("clock_timestamp()", "now()"))
    assert engine_calls.reason(confirm_behind_the_deadline(open_engine(), postgres_url)) is None
