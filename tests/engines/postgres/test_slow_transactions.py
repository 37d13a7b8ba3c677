"""An application's open transaction blocks its own pools and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand
from holdkit.core.entries import Action
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done, Reason
from holdkit.core.reading import ReadJournal, entry_of
from holdkit.engines.port import BatchRejected
from holdkit.engines.postgres import PostgresEngine
from holdkit.errors import Overloaded
from holdkit.testing import FakeClock
from tests.engines.commands import confirm, create, groups, put
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import await_waiter, caller, done, place, pool_in
from tests.support.threads import PATIENCE

SHORT = Limits(lock_timeout=SECOND // 4)
TAKEN, OTHER, THIRD = pool_in(0), pool_in(0, 1), pool_in(1)
START = 1_000_000 * SECOND

Tx = psycopg.Connection[Any]


def take_pool(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    """The caller has a hold there."""
    engine.apply_in(tx, groups(place(TAKEN)))
    return place(TAKEN)


def take_pool_of_a_hold(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    """A hold whose second pool is taken; the command names only the hold."""
    placed = done(engine, place(THIRD, TAKEN)).hold
    assert placed is not None
    engine.apply_in(tx, groups(place(TAKEN)))
    return confirm(placed.id)


def lock_record(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    done(engine, put("seen"))
    engine.apply_in(tx, groups(put("seen", "[1]")))
    return put("seen", "[2]")


def make_pool(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    """A pool that nobody sees yet."""
    engine.apply_in(tx, groups(place("made", on_demand=5)))
    return place("made", on_demand=5)


def make_operation(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    """An operation id that nobody sees yet."""
    engine.apply_in(tx, groups(put("noted", op="the same")))
    return put("noted", op="the same")


def make_record(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    engine.apply_in(tx, groups(put("fresh")))
    return put("fresh", "[3]")


def mark_due_hold(engine: PostgresEngine, tx: Tx) -> AnyCommand:
    """The caller came by the other pool of a due hold, and marks the hold expired."""
    assert isinstance(engine.clock, FakeClock)
    done(engine, place(TAKEN, THIRD, ttl=10))
    engine.clock.set(engine.clock() + 10)
    engine.apply_in(tx, groups(place(TAKEN)))
    return place(THIRD)


TRIES = 3
"""The hasty leave out what is locked for a tenth of a second, and on a busy machine one of our own transactions may take that
long; who had to wait for the caller would be left out each time."""
LOCKED: list[Callable[[PostgresEngine, Tx], AnyCommand]] = [
    take_pool,
    take_pool_of_a_hold,
    lock_record,
    mark_due_hold,
]
MADE: list[Callable[[PostgresEngine, Tx], AnyCommand]] = [make_pool, make_operation, make_record]


def prepare(open_engine: Open, **options: Any) -> PostgresEngine:
    engine = open_engine(clock=FakeClock(START), **options)
    for each in (TAKEN, OTHER, THIRD):
        done(engine, create(each))
    return engine


@pytest.mark.parametrize("take", LOCKED + MADE, ids=lambda take: take.__name__)
def test_others_answer_at_once_and_in_the_same_batch_too(
    take: Callable[[PostgresEngine, Tx], AnyCommand], open_engine: Open, postgres_url: str
) -> None:
    """With a patience of a minute: whoever answers has not waited for the caller."""
    engine = prepare(open_engine, limits=Limits(lock_timeout=60 * SECOND))
    with caller(postgres_url) as tx:
        wanted = take(engine, tx)
        alone = next(
            applied for _ in range(TRIES) if not (applied := engine.apply(groups(place(OTHER)))).skipped_locked
        )
        assert isinstance(alone.outcomes[0][0], Done)
        tries = (engine_calls.without_waiting(engine, groups(place(OTHER), wanted, place(OTHER))) for _ in range(TRIES))
        outcomes = next(outcomes for outcomes, left in tries if left == [1])
        assert outcomes[1] == []
        assert all(isinstance(outcomes[n][0], Done) for n in (0, 2))
        tx.rollback()
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("take", LOCKED + MADE, ids=lambda take: take.__name__)
def test_calls_that_wait_for_locks_wait_until_the_caller_is_done(
    take: Callable[[PostgresEngine, Tx], AnyCommand], ending: str, open_engine: Open, postgres_url: str
) -> None:
    engine = prepare(open_engine)
    with ThreadPoolExecutor(1) as thread, caller(postgres_url) as tx:
        wanted = take(engine, tx)
        waiting = thread.submit(engine_calls.waiting_for_locks, engine, groups(wanted)[0])
        await_waiter(postgres_url)
        assert isinstance(engine_calls.one(engine, place(OTHER)), Done)
        tx.commit() if ending == "commit" else tx.rollback()
        (outcome,) = waiting.result(PATIENCE).outcomes[0]
    assert isinstance(outcome, Done)
    assert outcome.replayed == (take is make_operation and ending == "commit")
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("take", LOCKED + MADE, ids=lambda take: take.__name__)
def test_calls_that_wait_for_locks_are_turned_away_in_the_end(
    take: Callable[[PostgresEngine, Tx], AnyCommand], open_engine: Open, postgres_url: str
) -> None:
    engine = prepare(open_engine, limits=SHORT)
    with caller(postgres_url) as tx:
        wanted = take(engine, tx)
        with pytest.raises(Overloaded):
            engine.apply(groups(wanted), wait_for_locks=True)
        tx.rollback()
    assert isinstance(done(engine, wanted), Done)
    engine_calls.sound(engine, postgres_url)


def test_what_a_caller_took_back_never_happened(open_engine: Open, postgres_url: str) -> None:
    engine = prepare(open_engine)
    with caller(postgres_url) as tx:
        (theirs,) = engine.apply_in(tx, groups(place(TAKEN, op="x"))).outcomes[0]
        assert isinstance(theirs, Done)
        assert theirs.hold is not None
        tx.rollback()
    assert engine_calls.reason(engine_calls.one(engine, confirm(theirs.hold.id))) is Reason.HOLD_NOT_FOUND
    again = done(engine, place(TAKEN, op="x"))
    assert not again.replayed
    engine_calls.sound(engine, postgres_url)


def test_a_hold_marked_expired_by_a_caller_reads_so_before_its_other_legs_come_back(
    open_engine: Open, postgres_url: str
) -> None:
    """The caller commits after the other batch has looked whether entries wait for their numbers."""
    tx = psycopg.connect(postgres_url)

    def commit(name: str) -> None:
        if name == "lock_holds":
            tx.commit()

    engine = prepare(open_engine)
    assert isinstance(engine.clock, FakeClock)
    placed = done(engine, place(THIRD, TAKEN, ttl=10)).hold
    assert placed is not None
    engine.clock.set(START + 10)
    with closing(tx):
        engine.apply_in(tx, groups(place(TAKEN)))
        other = open_engine(clock=engine.clock, on_statement=commit)
        assert isinstance(engine_calls.one(other, place(THIRD)), Done)
    rows = [entry_of(row) for row in engine.read(ReadJournal(None)) if row.lane == 1]
    assert [entry.action for entry in rows if entry.subject == placed.id] == [
        Action.HOLD_HELD,
        Action.HOLD_EXPIRED,
        Action.LEG_RETURNED,
    ]
    engine_calls.sound(engine, postgres_url)


def test_canary_a_batch_that_waits_stops_everybody(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_calls.alter(monkeypatch, "lock_pools", lambda text: text.replace("skip locked", "") + " ")
    engine = prepare(open_engine, limits=SHORT)
    with caller(postgres_url) as tx:
        wanted = take_pool(engine, tx)
        with pytest.raises(BatchRejected):
            engine.apply(groups(place(OTHER), wanted))
        tx.rollback()
