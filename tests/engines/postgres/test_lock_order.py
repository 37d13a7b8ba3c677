"""One lock order for everybody: records, pools, hold rows, what is new, heads. So we cause no deadlock ourselves."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest

from holdkit.core.commands import AnyCommand, RemovePool, Sweep
from holdkit.core.model import SECOND
from holdkit.core.reading import ReadJournal
from holdkit.engines.postgres import PostgresEngine, driver
from holdkit.engines.postgres.journal_rows import JOURNAL_COLUMNS
from holdkit.engines.postgres.migrating import Layout
from holdkit.engines.postgres.statements import load
from tests.conftest import Migrated
from tests.engines.commands import confirm, create, extend, groups, put, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import await_waiter, caller, done, place, pool_in
from tests.support.threads import PATIENCE

POOLS = [pool_in(lane, number) for lane in range(engine_calls.LANES) for number in range(2)]
WORKERS = 6
ROUNDS = 25


class Worker:
    """One of many who want overlapping things, in orders of their own."""

    def __init__(self, url: str, seed: int, rounds: int = ROUNDS) -> None:
        self.url, self.rounds, self.chance = url, rounds, random.Random(seed)
        self.engine = PostgresEngine(url)
        self.placed: list[str] = []

    def run(self) -> None:
        with closing(psycopg.connect(self.url)) as tx:
            for number in range(self.rounds):
                wanted = [self.command(number) for _ in range(self.chance.randint(1, 4))]
                if number % 5 == 4:
                    self.engine.apply_in(tx, groups(wanted[0]))
                    tx.commit()
                else:
                    engine_calls.settle(self.engine, *wanted)
                if number % 7 == 0:
                    self.engine.read(ReadJournal(None, limit=10))
        self.engine.close()

    def command(self, number: int) -> AnyCommand:
        kind = self.chance.randrange(8)
        if kind < 3 or not self.placed:
            pools = self.chance.sample(POOLS, self.chance.randint(1, 4))
            ttl = self.chance.choice([1, 20_000, 10 * SECOND])
            made = place(*pools, ttl=ttl, id=f"{self.chance.getrandbits(120):030x}{self.chance.randrange(256):02x}")
            assert made.id is not None
            self.placed.append(made.id)
            return made
        if kind == 3:
            return Sweep(limit=20)
        if kind == 4:
            return put(f"note-{self.chance.randrange(3)}", op=f"put-{self.chance.randrange(40)}")
        if kind == 5:
            names = self.chance.sample(range(5), 3)
            return place(*(f"made-{name}" for name in names), on_demand=1_000, ttl=self.chance.choice([1, 10 * SECOND]))
        ended = self.chance.choice(self.placed)
        endings: list[AnyCommand] = [confirm(ended), release(ended), extend(ended)]
        return self.chance.choice(endings)


def work(url: str, seed: int) -> None:
    """In a process of its own."""
    worker = Worker(url, seed)
    engine_calls.together(worker.run, Worker(url, 100 + seed).run)


def prepare(engine: PostgresEngine) -> None:
    for each in POOLS:
        done(engine, create(each, 100_000))


@pytest.mark.slow
def test_many_with_overlapping_item_sets_never_deadlock(engine: PostgresEngine, postgres_url: str) -> None:
    """Threads here and in two other processes: holds over several pools and lanes, expiries, sweeps, pools on demand, records,
    callers' own transactions and readers of the journal."""
    prepare(engine)
    spawn = get_context("spawn")
    others = [spawn.Process(target=work, args=(postgres_url, seed)) for seed in (1, 2)]
    for other in others:
        other.start()
    engine_calls.together(*(Worker(postgres_url, seed).run for seed in range(10, 10 + WORKERS)))
    for other in others:
        other.join(PATIENCE)
        assert other.exitcode == 0
    engine_calls.sound(engine, postgres_url)
    assert deadlocks_of(postgres_url, engine) == 0


def test_canary_pools_locked_in_another_order_deadlock(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that counts down meets a caller who counts up: each has its first pool when it wants its second."""
    first = open_engine()
    prepare(first)
    engine_calls.alter(
        monkeypatch,
        "lock_pools",
        lambda text: text.replace("order by p.lane, p.tenant, p.id", "order by p.lane desc, p.tenant desc, p.id desc"),
    )
    engine = open_engine()
    meet_two_pools(engine, postgres_url)
    assert deadlocks_of(postgres_url, engine, first) > 0


def test_pools_locked_in_order_do_not(engine: PostgresEngine, postgres_url: str) -> None:
    prepare(engine)
    meet_two_pools(engine, postgres_url)
    assert deadlocks_of(postgres_url, engine) == 0


def meet_two_pools(engine: PostgresEngine, url: str) -> None:
    with ThreadPoolExecutor(1) as thread, caller(url) as tx:
        tx.execute("select from holdkit.pools where id = %s for no key update", (POOLS[0],))
        waiting = thread.submit(engine.apply, groups(place(POOLS[7], POOLS[0])), wait_for_locks=True)
        await_waiter(url)
        with suppress(psycopg.errors.DeadlockDetected):  # one of the two is chosen; ours begins again
            tx.execute("select from holdkit.pools where id = %s for no key update", (POOLS[7],))
        tx.rollback()
        assert waiting.result(PATIENCE).outcomes


def deadlocks_of(url: str, *engines: PostgresEngine) -> int:
    for each in engines:
        each.close()
    return engine_calls.deadlocks(url)


@pytest.mark.parametrize("lane_count", [1, 2])
def test_heads_come_before_entries_that_wait_for_their_numbers(
    lane_count: int, engine: PostgresEngine, postgres_url: str
) -> None:
    meet_at_a_head(engine, postgres_url, lane_count)
    engine_calls.sound(engine, postgres_url)
    assert deadlocks_of(postgres_url, engine) == 0


@pytest.mark.parametrize(("layout", "lock"), [("one server", "lock_heads"), ("as if", "lock_lane_heads")])
@pytest.mark.usefixtures("no_notifier")  # its statements would be counted
def test_a_floor_is_written_under_the_lock_of_its_head(layout: Layout, lock: str, migrated: Migrated) -> None:
    """So floors need no place of their own in the lock order. A batch that neither creates nor removes a pool sends nothing more."""
    said: list[str] = []
    with closing(PostgresEngine(migrated(layout, 4), on_statement=said.append)) as engine:
        held = done(engine, place("~k", on_demand=1)).hold
        assert held is not None
        assert not {lock, "raise_floors"} & {*said}
        assert "check_floors" in said
        said.clear()
        done(engine, release(held.id))
        assert not {lock, "raise_floors", "check_floors"} & {*said}
        done(engine, RemovePool(id="~k"))
        assert [name for name in said if name in (lock, "raise_floors")] == [lock, "raise_floors"]


def meet_at_a_head(engine: PostgresEngine, postgres_url: str, lane_count: int) -> None:
    """Somebody has a head and moves a caller's entries, while a batch of that lane wants both."""
    prepare(engine)
    with caller(postgres_url) as tx:
        engine.apply_in(tx, groups(place(POOLS[0])))
        tx.commit()
    journal = load()["write_journal_with_unnumbered"].text
    with ThreadPoolExecutor(1) as thread, closing(psycopg.connect(postgres_url)) as other:
        raw = psycopg.RawCursor(other)
        raw.execute(load()["lock_heads"].text, ([0], "10000"))
        waiting = thread.submit(engine.apply, groups(place(*POOLS[1 : 1 + lane_count])), wait_for_locks=True)
        await_waiter(postgres_url)
        raw.execute(journal, ([0], [0], *[[]] * JOURNAL_COLUMNS))
        other.commit()
        assert waiting.result(PATIENCE).outcomes


def test_canary_entries_moved_before_the_head_is_locked_deadlock(
    engine: PostgresEngine, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send: Any = driver.Pipeline.exchange

    def headless(self: driver.Pipeline, statements: Any) -> Any:
        answers = yield from send(self, [each for each in statements if each[0] != "lock_heads"])
        for index, each in enumerate(statements):
            if each[0] == "lock_heads":
                answers.insert(index, [])
        return answers

    monkeypatch.setattr(driver.Pipeline, "exchange", headless)
    with suppress(psycopg.errors.DeadlockDetected):  # one of the two is chosen; ours begins again
        meet_at_a_head(engine, postgres_url, 1)
    assert deadlocks_of(postgres_url, engine) > 0
