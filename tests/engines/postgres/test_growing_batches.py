"""A batch that waited for a pool's lock includes the calls that came for that pool meanwhile, and reads its time after that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import holdkit
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, Group, Sweep
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done, Outcome, Reason
from holdkit.engines.port import Applied, BatchRejected
from holdkit.engines.postgres import PostgresEngine
from holdkit.errors import Overloaded
from holdkit.testing import FakeClock
from tests.engines.commands import confirm, create, groups, put
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import await_waiter, caller, done, place, pool_in
from tests.support.lockable_engine import queued_behind_locks
from tests.support.threads import PATIENCE, wait_until

TAKEN, OTHER = pool_in(0), pool_in(0, 1)
START = 1_000_000 * SECOND
Fits = Callable[[Group], bool]


@pytest.fixture
def engine(open_engine: Open) -> PostgresEngine:
    engine = open_engine(clock=FakeClock(START), guarded=False)
    for each in (TAKEN, OTHER):
        done(engine, create(each, total=3))
    return engine


@contextmanager
def waiting(
    engine: PostgresEngine, url: str, add_late: Callable[[Fits], Sequence[Group]], *first: AnyCommand
) -> Iterator[Future[Applied]]:
    """A batch that waits until the block is over."""
    assert engine.capabilities.growing_batches is engine
    with ThreadPoolExecutor(1) as thread, caller(url) as tx:
        engine.apply_in(tx, groups(place(TAKEN)))
        running = thread.submit(engine.apply_growing, groups(*(first or (place(TAKEN),))), add_late)
        await_waiter(url)
        yield running
        tx.rollback()
        running.exception(PATIENCE)


def answers(applied: Applied) -> list[Outcome]:
    return [outcome for (outcome,) in applied.outcomes]


def test_a_batch_goes_by_the_guard_and_grows_if_that_waits_in_vain(open_engine: Open, postgres_url: str) -> None:
    engine = open_engine(clock=FakeClock(START), prune_every=1e9)
    done(engine, create(TAKEN, total=3))
    assert isinstance(answers(engine.apply_growing(groups(place(TAKEN)), lambda fits: []))[0], Done)
    assert isinstance(answers(engine.apply(groups(place(TAKEN)), wait_for_locks=True))[0], Done)
    assert engine.guard_stats.passed == 2
    with ThreadPoolExecutor(1) as thread, caller(postgres_url) as tx:
        tx.execute("select from holdkit.pools for update")
        running = thread.submit(engine.apply_growing, groups(place(TAKEN)), lambda fits: groups(place(TAKEN)))
        wait_until(lambda: engine.guard_stats.misses == {"lock": 1})
        await_waiter(postgres_url)
        tx.rollback()
        first, last = answers(running.result(PATIENCE))
    assert isinstance(first, Done)
    assert engine_calls.reason(last) is Reason.INSUFFICIENT_CAPACITY
    engine_calls.sound(engine, postgres_url)


def test_whoever_comes_along_is_done_behind_the_others(engine: PostgresEngine, postgres_url: str) -> None:
    with waiting(engine, postgres_url, lambda fits: groups(place(TAKEN), place(TAKEN), place(TAKEN))) as running:
        pass
    *granted, last = answers(running.result())
    fences = [outcome.hold.fence for outcome in granted if isinstance(outcome, Done) and outcome.hold is not None]
    assert fences == sorted(fences)
    assert len(fences) == 3
    assert engine_calls.reason(last) is Reason.INSUFFICIENT_CAPACITY
    assert engine_calls.pool(engine, TAKEN).held == 3
    engine_calls.sound(engine, postgres_url)


def test_only_those_fit_who_need_nothing_that_is_not_locked(engine: PostgresEngine, postgres_url: str) -> None:
    placed = done(engine, place(TAKEN)).hold
    assert placed is not None
    wanted = groups(place(TAKEN), place(TAKEN, op="an operation"), place(OTHER), place(TAKEN, OTHER), confirm(placed.id),
                    create(OTHER), put("note"), Sweep(limit=1))  # fmt: skip
    seen: list[bool] = []

    def add_late(fits: Fits) -> list[Group]:
        seen.extend(fits(group) for group in wanted)
        return []

    with waiting(engine, postgres_url, add_late) as running:
        pass
    assert len(running.result().outcomes) == 1
    assert seen == [True, True, False, False, False, False, False, False]


def test_the_clock_is_read_after_they_came(engine: PostgresEngine, postgres_url: str) -> None:
    done(engine, place(TAKEN, ttl=SECOND))

    def add_late(fits: Fits) -> list[Group]:
        assert isinstance(engine.clock, FakeClock)
        engine.clock.set(START + SECOND)
        return groups(place(TAKEN))

    with ThreadPoolExecutor(1) as thread, caller(postgres_url) as tx:
        tx.execute("select from holdkit.pools for update")
        running = thread.submit(engine.apply_growing, groups(place(TAKEN)), add_late)
        await_waiter(postgres_url)
        tx.rollback()
        found = answers(running.result(PATIENCE))
    assert [outcome.hold.held_at for outcome in found if isinstance(outcome, Done) and outcome.hold] == [
        START + SECOND
    ] * 2
    assert engine_calls.pool(engine, TAKEN).held == 2, "what had come due by then is back"
    engine_calls.sound(engine, postgres_url)


def test_one_whose_id_is_taken_does_not_call_the_others_twice(engine: PostgresEngine, postgres_url: str) -> None:
    first = done(engine, place(OTHER, op="once"))
    again = place(OTHER, op="once", id=first.hold.id if first.hold else None)
    calls: list[str] = []

    def add_late(fits: Fits) -> list[Group]:
        calls.append("boarding")
        return groups(again)

    wanted = (place(TAKEN), place(OTHER))
    with waiting(engine, postgres_url, add_late, *wanted) as running:
        pass
    *new, replayed = answers(running.result())
    assert all(isinstance(outcome, Done) and not outcome.replayed for outcome in new)
    assert isinstance(replayed, Done)
    assert replayed.replayed
    assert calls == ["boarding"]
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("first", [confirm("0" * 32), put("note"), Sweep(limit=5)], ids=["hold", "record", "sweep"])
def test_who_needs_other_locks_first_takes_nobody_along(
    first: AnyCommand, engine: PostgresEngine, postgres_url: str
) -> None:
    applied = engine.apply_growing(groups(first), lambda fits: pytest.fail("nobody is to come"))
    assert len(applied.outcomes) == 1


def test_where_growth_fails_nothing_was_done(engine: PostgresEngine, postgres_url: str) -> None:
    def add_late(fits: Fits) -> list[Group]:
        raise ZeroDivisionError

    with waiting(engine, postgres_url, add_late) as running:
        pass
    assert isinstance(running.exception(), BatchRejected)
    assert engine_calls.pool(engine, TAKEN).held == 0
    assert isinstance(engine_calls.one(engine, place(TAKEN)), Done), "and nothing is locked any more"
    engine_calls.sound(engine, postgres_url)


def test_who_waits_too_long_is_turned_away_before_anybody_came(open_engine: Open, postgres_url: str) -> None:
    engine = open_engine(limits=Limits(lock_timeout=SECOND // 4))
    done(engine, create(TAKEN))
    with caller(postgres_url) as tx:
        engine.apply_in(tx, groups(place(TAKEN)))
        with pytest.raises(Overloaded):
            engine.apply_growing(groups(place(TAKEN)), lambda fits: pytest.fail("nobody is to come"))
        tx.rollback()


def test_threads_that_wait_for_one_pool_share_one_transaction(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    with holdkit.connect(postgres_url) as hk, ThreadPoolExecutor(8) as threads, caller(postgres_url) as tx:
        hk.create_pool("hot", 100)
        hk.hold("hot", 1, ttl=600, tx=tx)
        holding = [threads.submit(hk.hold, "hot", 1, ttl=600) for _ in range(8)]
        engine_calls.await_that(lambda: queued_behind_locks(hk) == 7, "not all came to the room")
        await_waiter(postgres_url)
        tx.commit()
        holds = [each.result(PATIENCE) for each in holding]
        assert len({hold.held_at for hold in holds}) == 1, "decided together"
        assert hk.pool("hot").held == 9
        assert hk.admin.verify().ok
