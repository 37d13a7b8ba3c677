"""Guarded batches against others, each arranged by hand: what was committed while a batch waited for its lock, or between lock and write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg
import pytest

from holdkit.core.commands import AnyCommand, ArchivePool, ChangeLimits, ExtendHold, ResizePool
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done, Outcome, Reason
from holdkit.core.reading import ReadJournal
from holdkit.engines.postgres import PostgresEngine, database, guard_routing, guarded_batch
from holdkit.engines.postgres.driver import Statement
from holdkit.engines.postgres.encoding import Sql
from tests.engines.commands import Clock, confirm, create, group_of, groups, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import await_waiter, done, place, reason
from tests.support.threads import PATIENCE

GATE: Final = "select from holdkit.settings s where s.name = 'lanes' for no key update"


@pytest.fixture(autouse=True)
def _long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_batch, "LOCK_WAIT_MS", 30_000)
    monkeypatch.setattr(guarded_batch, "SEVERAL_LOCKS_WAIT_MS", 30_000)
    monkeypatch.setattr(guard_routing, "PAUSE_SECONDS", dict.fromkeys(guard_routing.PAUSE_SECONDS, 0.0))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(open_engine: Open, clock: Clock) -> PostgresEngine:
    engine = open_engine(clock=clock, prune_every=1e9)
    done(engine, create("p", 10))
    return engine


def at_once(engine: PostgresEngine, *commands: AnyCommand) -> list[Outcome]:
    applied = engine.apply(groups(*commands))
    assert not applied.skipped_locked
    return [outcome for (outcome,) in applied.outcomes]


@contextmanager
def while_it_waits(
    url: str, engine: PostgresEngine, command: AnyCommand
) -> Iterator[tuple[Any, Future[list[Outcome]]]]:
    """A caller has the pool locked, and a guarded batch waits for it."""
    with closing(psycopg.connect(url)) as tx, ThreadPoolExecutor(1) as thread:
        tx.execute("select from holdkit.pools where id = 'p' for update")
        waiting = thread.submit(at_once, engine, command)
        await_waiter(url)
        yield tx, waiting


@contextmanager
def between(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Guarded batches of engines opened in here stop between lock and write; gives what lets them go on."""
    whole = {**vars(database)["load"](), "gate": Sql("gate", GATE)}
    monkeypatch.setattr(database, "load", lambda _="holdkit": whole)

    statements_of = guarded_batch.GuardedBatch.statements

    def statements(self: guarded_batch.GuardedBatch) -> tuple[Statement, ...]:
        begin, lock, write, commit = statements_of(self)
        return begin, lock, ("gate", ()), write, commit

    monkeypatch.setattr(guarded_batch.GuardedBatch, "statements", statements)
    with closing(psycopg.connect(url)) as gate:
        gate.execute(GATE.encode())
        yield gate.rollback


def held(engine: PostgresEngine, **more: Any) -> str:
    hold = done(engine, place("p", **more)).hold
    assert hold is not None
    return hold.id


def test_the_counters_say_that_these_go_by_the_guard(engine: PostgresEngine) -> None:
    hold = held(engine)
    before = engine.guard_stats.passed
    assert isinstance(at_once(engine, confirm(hold))[0], Done)
    assert isinstance(at_once(engine, place("p"))[0], Done)
    assert engine.guard_stats.passed == before + 2


@pytest.mark.parametrize("second", [confirm, release])
def test_two_ends_of_one_hold(open_engine: Open, postgres_url: str, second: Callable[[str], AnyCommand]) -> None:
    """By processes that did not place it."""
    one, other, third = (open_engine(prune_every=1e9) for _ in range(3))
    done(one, create("p", 10))
    hold = held(one)
    with while_it_waits(postgres_url, other, confirm(hold)) as (tx, first), ThreadPoolExecutor(1) as thread:
        later = thread.submit(at_once, third, second(hold))
        await_waiter(postgres_url, 2)
        tx.rollback()
        answers = [each.result(PATIENCE)[0] for each in (first, later)]
    assert {reason(each) for each in answers} <= {None, Reason.ALREADY_CONFIRMED, Reason.ALREADY_RELEASED}
    assert sum(isinstance(each, Done) for each in answers) == 1
    engine_calls.sound(one, postgres_url)


@pytest.mark.parametrize("commits", [True, False])
def test_a_deadline_that_a_caller_moved(engine: PostgresEngine, clock: Clock, postgres_url: str, commits: bool) -> None:
    hold = held(engine, ttl=10 * SECOND)
    with closing(psycopg.connect(postgres_url)) as tx, ThreadPoolExecutor(1) as thread:
        engine.apply_in(tx, groups(ExtendHold(id=hold, token="me", by_slots=60 * SECOND)))
        clock.slot += 20 * SECOND
        waiting = thread.submit(at_once, engine, confirm(hold))
        await_waiter(postgres_url)
        (tx.commit if commits else tx.rollback)()
        (answer,) = waiting.result(PATIENCE)
    assert reason(answer) is (None if commits else Reason.HOLD_EXPIRED)
    engine_calls.sound(engine, postgres_url)


CHANGES: Final[dict[str, tuple[AnyCommand, AnyCommand, Reason | None]]] = {
    "resized": (ResizePool(id="p", total=1), place("p"), Reason.INSUFFICIENT_CAPACITY),
    "archived": (ArchivePool(id="p"), place("p"), Reason.POOL_ARCHIVED),
    "entries without a number": (place("p"), place("p"), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_caller_changed_while_the_batch_waited(engine: PostgresEngine, postgres_url: str, name: str) -> None:
    change, command, expected = CHANGES[name]
    held(engine)
    with closing(psycopg.connect(postgres_url)) as tx, ThreadPoolExecutor(1) as thread:
        engine.apply_in(tx, [group_of(change)])
        before = engine.guard_stats.passed
        waiting = thread.submit(at_once, engine, command)
        await_waiter(postgres_url)
        tx.commit()
        (answer,) = waiting.result(PATIENCE)
    assert reason(answer) is expected
    assert engine.guard_stats.passed == before
    engine_calls.sound(engine, postgres_url)


@pytest.mark.parametrize("pools", ["p", "pq"])
def test_limits_that_were_changed_between_lock_and_write(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, pools: str
) -> None:
    """By the statement for one pool, and by the one for several."""
    other = open_engine()
    for pool in pools:
        done(other, create(pool, 10))
    with between(postgres_url, monkeypatch) as go_on, ThreadPoolExecutor(1) as thread:
        engine = open_engine(prune_every=1e9)
        waiting = thread.submit(at_once, engine, *(place(pool, ttl=40 * 86_400 * SECOND) for pool in pools))
        await_waiter(postgres_url)
        done(other, ChangeLimits(changes={"max_lifetime": 86_400 * SECOND}, reason="less", tenant=""))
        go_on()
        answers = waiting.result(PATIENCE)
    assert [reason(answer) for answer in answers] == [Reason.LIFETIME_EXCEEDED] * len(pools)
    assert engine.guard_stats.misses == {"limits": len(pools)}


LOCKED_ONLY: Final = {
    "guard_places": (" and current_setting('holdkit.locked', true) = '1'", ""),
    "guard_moves": (
        "unnest(string_to_array(nullif(current_setting('holdkit.locked', true), ''), e'\\x1e')) k(key)",
        "(select concat_ws(e'\\x1f', o.lane, o.tenant, o.id) as key from holdkit.pools o where o.lane = any($6)) k",
    ),
}
"""Canaries: the statement that writes finds the pools itself."""


@pytest.mark.parametrize("canary", [False, True])
def test_a_pool_that_was_removed_and_created_again(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, canary: bool
) -> None:
    """The lock finds nothing; what the write then sees is not locked, and somebody else is changing it."""
    setup = open_engine()
    done(setup, create("p", 10))
    if canary:
        engine_calls.alter(monkeypatch, "guard_places", lambda text: text.replace(*LOCKED_ONLY["guard_places"]))
    with between(postgres_url, monkeypatch) as go_on, ThreadPoolExecutor(1) as thread:
        engine = open_engine(prune_every=1e9)
        with closing(psycopg.connect(postgres_url)) as tx:
            tx.execute("create temp table copied as select * from holdkit.pools")
            tx.execute("delete from holdkit.pools")
            waiting = thread.submit(at_once, engine, place("p"))
            await_waiter(postgres_url)
            tx.execute("insert into holdkit.pools select * from copied")
            tx.commit()
        await_gate(postgres_url)
        go_on()
        (answer,) = waiting.result(PATIENCE)
    assert isinstance(answer, Done)
    assert engine.guard_stats.misses == ({} if canary else {"pool": 1})


@pytest.mark.parametrize("canary", [False, True])
def test_a_hold_that_was_committed_between_lock_and_write(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, canary: bool
) -> None:
    """Its pool was not found, so it is not locked, and must not be written."""
    setup = open_engine(guarded=False)
    done(setup, create("p", 10))
    command = place("p")
    assert command.id is not None
    if canary:
        engine_calls.alter(monkeypatch, "guard_moves", lambda text: text.replace(*LOCKED_ONLY["guard_moves"]))
    with between(postgres_url, monkeypatch) as go_on, ThreadPoolExecutor(1) as thread:
        engine = open_engine(prune_every=1e9)
        with closing(psycopg.connect(postgres_url)) as tx:
            setup.apply_in(tx, groups(command))
            waiting = thread.submit(at_once, engine, confirm(command.id))
            await_gate(postgres_url)
            tx.commit()
        number(setup)
        go_on()
        (answer,) = waiting.result(PATIENCE)
    assert isinstance(answer, Done)
    assert engine.guard_stats.misses == ({} if canary else {"hold": 1})


def number(engine: PostgresEngine) -> None:
    """Give the entries that callers have left their numbers."""
    engine.read(ReadJournal(None, {}, 1))


def await_gate(url: str) -> None:
    """Until a session waits for the gate."""
    query = "select from pg_stat_activity where wait_event_type = 'Lock' and strpos(query, 'holdkit.settings') > 0 and pid <> pg_backend_pid()"
    engine_calls.await_that(lambda: engine_calls.ask(url, query), "nobody came to the gate")
