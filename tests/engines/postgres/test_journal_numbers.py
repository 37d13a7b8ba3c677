"""Numbers of a lane have no gaps and follow commit order: a follower of each lane misses nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from holdkit.core.commands import AnyCommand, ChangeLimits, CreatePool, PutRecord
from holdkit.core.outcomes import Done
from holdkit.core.reading import ReadJournal, entry_of
from holdkit.engines.postgres import PostgresEngine
from tests.engines.commands import confirm, create, groups
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import caller, done, place, pool_in
from tests.support.threads import PATIENCE

POOLS = [pool_in(lane, number) for lane in range(engine_calls.LANES) for number in range(3)]
WRITERS, CALLERS, ROUNDS = 4, 3, 30


class Follower:
    """Reads what is new, lane by lane, until it is told to stop; then once more."""

    def __init__(self, engine: PostgresEngine) -> None:
        self.engine = engine
        self.seen: dict[int, int] = {}
        self.placed: list[str] = []
        self.gaps: list[str] = []
        self.over = threading.Event()

    def poll(self) -> None:
        for row in self.engine.read(ReadJournal(None, dict(self.seen), 200)):
            if row.seq != self.seen.get(row.lane, 0) + 1:
                self.gaps.append(f"{row.seq} in lane {row.lane} after {self.seen.get(row.lane, 0)}")
            self.seen[row.lane] = row.seq
            entry = entry_of(row)
            if entry.action == "hold.held" and not entry.part:
                self.placed.append(entry.subject)

    def run(self) -> None:
        while not self.over.is_set():
            self.poll()
        before = -1
        while len(self.placed) != before:
            before = len(self.placed)
            self.poll()


def write(engine: PostgresEngine, seed: int) -> list[str]:
    """Our own batches; which holds were placed."""
    chance, placed = random.Random(seed), list[str]()
    for _ in range(ROUNDS):
        # who waits for a caller's pool must have no other: the callers wait for one another
        pools = (
            chance.sample(POOLS[CALLERS:], chance.randint(1, 3)) if chance.random() < 0.7 else [chance.choice(POOLS)]
        )
        outcome = done(engine, place(*pools))
        assert outcome.hold is not None
        assert outcome.position is not None
        placed.append(outcome.hold.id)
    return placed


def call(engine: PostgresEngine, url: str, seed: int, met: threading.Barrier) -> list[str]:
    """Transactions of an application, committed after others have begun and written theirs, some taken back."""
    chance, placed = random.Random(seed), list[str]()
    own = POOLS[seed % len(POOLS)]  # each its own pool: who waits for another inside a barrier would wait for ever
    with closing(psycopg.connect(url)) as tx:
        for number in range(ROUNDS // 3):
            made = engine.apply_in(tx, groups(place(own), place(own))).outcomes
            met.wait(PATIENCE)
            if chance.random() < 0.2:
                tx.rollback()
                continue
            tx.commit()
            placed += [each.hold.id for (each,) in made if isinstance(each, Done) and each.hold is not None]
            assert number < ROUNDS
    return placed


def play(open_engine: Open, url: str) -> tuple[Follower, list[str]]:
    """Everybody at once; the follower, and what was placed."""
    engines = [open_engine() for _ in range(3)]
    for each in POOLS:
        done(engines[0], create(each, 10**6))
    follower, met = Follower(open_engine()), threading.Barrier(CALLERS)
    calls: list[Callable[[], list[str]]] = [
        *(lambda n=n: write(engines[n % 3], n) for n in range(WRITERS)),
        *(lambda n=n: call(engines[n % 3], url, n, met) for n in range(CALLERS)),
    ]
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(follower.run)
        try:
            placed = engine_calls.together(*calls)
        finally:
            follower.over.set()
        following.result(PATIENCE)
    return follower, [each for some in placed for each in some]


def test_a_follower_misses_nothing(open_engine: Open, postgres_url: str) -> None:
    follower, placed = play(open_engine, postgres_url)
    assert follower.gaps == []
    assert sorted(follower.placed) == sorted(placed)
    engine_calls.sound(follower.engine, postgres_url)


def test_nothing_stalls_behind_an_open_transaction(open_engine: Open, postgres_url: str) -> None:
    """Other pools of the same lane are written and followed; what the caller did follows once it has committed, in order."""
    engine = open_engine()
    first, second = pool_in(0), pool_in(0, 1)
    for each in (first, second):
        done(engine, create(each))
    follower = Follower(engine)
    with caller(postgres_url) as tx:
        (theirs,) = engine.apply_in(tx, groups(place(first))).outcomes[0]
        ours = [done(engine, place(second)).hold for _ in range(3)]
        follower.poll()
        assert follower.placed == [each.id for each in ours if each is not None]
        tx.commit()
    assert isinstance(theirs, Done)
    assert theirs.hold is not None
    after = done(engine, confirm(theirs.hold.id))
    assert after.position is not None
    assert after.position.seq == follower.seen[0] + 2  # behind what it rests on
    follower.poll()
    assert follower.placed[-1] == theirs.hold.id
    assert follower.gaps == []
    engine_calls.sound(engine, postgres_url)


def test_canary_numbers_from_a_sequence_are_missed(postgres_url: str) -> None:
    """The other way of doing it: who is late with a lower number is never seen by a follower of `id > last`."""
    with closing(psycopg.connect(postgres_url)) as one, closing(psycopg.connect(postgres_url)) as other:
        one.execute("create table entries (id bigint generated always as identity, who text)")
        one.commit()
        one.execute("insert into entries (who) values ('slow')")
        other.execute("insert into entries (who) values ('quick')")
        other.commit()
        ((last,),) = engine_calls.ask(postgres_url, "select max(id) from entries")
        one.commit()
        assert engine_calls.ask(postgres_url, "select who from entries where id > %s", last) == []


def test_canary_numbers_taken_before_the_lock_collide(
    open_engine: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches of one lane look at the head first and write it afterwards: the second has the first's numbers."""
    engine_calls.alter(
        monkeypatch,
        "write_journal",
        lambda text: text.replace(
            "set seq = h.seq + t.own", "set seq = (select o.seq from holdkit.heads o where o.lane = h.lane) + t.own"
        ),
    )
    engine, first, second = open_engine(guarded=False), pool_in(0), pool_in(0, 1)
    for each in (first, second):
        done(engine, create(each))
    collided: list[str] = []
    transactions = engine._transactions
    real = transactions._refused

    def refused(wanted: object, failed: object, *rest: object) -> object:
        collided.append(str(failed))
        return real(wanted, failed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(transactions, "_refused", refused)
    with ThreadPoolExecutor(1) as thread, caller(postgres_url) as tx:
        tx.execute("update holdkit.heads set seq = seq + 1 where lane = 0")
        tx.execute("insert into holdkit.journal select 0, h.seq, '', 'x', '{}', 0 from holdkit.heads h where lane = 0")
        waiting = thread.submit(engine.apply, groups(place(second)))
        engine_calls.await_waiter(postgres_url)
        tx.commit()
        waiting.result(PATIENCE)
    assert any("journal_pkey" in each for each in collided)


def test_a_retry_is_told_where_its_entry_is(engine: PostgresEngine) -> None:
    commands: list[AnyCommand] = [
        ChangeLimits(changes={"retention": 5}, op="limits"),
        PutRecord(kind="note", id="a", body="1", op="record"),
        CreatePool(id=POOLS[0], total=3, op="pool"),
    ]
    for command in commands:
        first, again = (done(engine, command) for _ in range(2))
        assert again.replayed
        assert first.position is not None
        assert first.position == again.position
