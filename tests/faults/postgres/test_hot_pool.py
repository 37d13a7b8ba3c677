"""R14 and B18: one hot pool, many workers, serialization failures and deadlocks at any statement: oversold 0, none hungry."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

import pytest
from msgspec import Struct

import holdkit
from holdkit.core.entries import Action
from holdkit.core.outcomes import Done, Reason
from holdkit.core.reading import ReadJournal, entry_of
from holdkit.engines.postgres import PostgresEngine
from holdkit.engines.postgres.failures import StatementFailed
from tests.engines.commands import create
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import done, one, place
from tests.support.races import race
from tests.support.threads import PATIENCE

HOT = "seats"
PROCESSES, THREADS, EACH = 4, 2, 15
_start: Barrier


class TrialCounts(Struct):
    """What one worker was told."""

    granted: list[str]
    fences: list[int]
    refused: int
    injected: int


class Chaos:
    """Fails one statement in so many, once the engine is open."""

    def __init__(self, seed: int, one_in: int) -> None:
        self.chance, self.one_in, self.on, self.count = random.Random(seed), one_in, False, 0

    def __call__(self, name: str) -> None:
        if self.on and self.chance.randrange(self.one_in) == 0:
            self.count += 1
            state = self.chance.choice(["40001", "40P01"])
            raise StatementFailed(name, state, "injected")


def take(url: str, seed: int, attempts: int, one_in: int = 25) -> TrialCounts:
    """Hold one seat after another; some by an operation id, asked twice."""
    chaos, trials = Chaos(seed, one_in), TrialCounts([], [], 0, 0)
    engine = PostgresEngine(url, on_statement=chaos)
    chaos.on = True
    for number in range(attempts):
        command = place(HOT, id=f"{seed:012x}{number:016x}0000", op=f"{seed}-{number}" if number % 3 == 0 else None)
        outcome = one(engine, command)
        if isinstance(outcome, Done):
            assert outcome.hold is not None
            trials.granted.append(outcome.hold.id)
            trials.fences.append(outcome.hold.fence)
        else:
            assert engine_calls.reason(outcome) is Reason.INSUFFICIENT_CAPACITY
            trials.refused += 1
        if command.op is not None:
            again = one(engine, command)
            assert again.replayed  # type: ignore[union-attr]
            assert isinstance(again, Done) == isinstance(outcome, Done)
    trials.injected = chaos.count
    chaos.on = False
    engine.close()
    return trials


def line_up(start: Barrier) -> None:
    global _start  # noqa: PLW0603  (a barrier can only be inherited, never sent)
    _start = start


def take_together(url: str, seed: int) -> list[TrialCounts]:
    """In a process of its own: several threads, each with an engine of its own."""
    _start.wait(PATIENCE)
    return engine_calls.together(*(lambda n=n: take(url, 100 * seed + n, EACH) for n in range(1, THREADS + 1)))


def agree(url: str, tallies: list[TrialCounts], capacity: int) -> None:
    """What was told is what is stored and journaled, and no more than there was."""
    granted = [each for trials in tallies for each in trials.granted]
    tries = len(granted) + sum(trials.refused for trials in tallies)
    assert len(granted) == len(set(granted)) == min(capacity, tries)
    assert sorted(fence for trials in tallies for fence in trials.fences) == list(range(1, len(granted) + 1))
    with closing(PostgresEngine(url)) as engine:
        entries = [entry_of(row) for row in engine.read(ReadJournal(None, limit=10_000))]
        placed = [each.subject for each in entries if each.action is Action.HOLD_HELD and not each.part]
        assert sorted(placed) == sorted(granted)
        assert engine_calls.pool(engine, HOT).held == len(granted)
        engine_calls.sound(engine, url)


def prepare(url: str, capacity: int) -> None:
    engine = PostgresEngine(url)
    done(engine, create(HOT, capacity))
    engine.close()


@pytest.mark.parametrize("capacity", [1, 3, 100])
def test_threads_under_injected_failures(capacity: int, postgres_url: str) -> None:
    prepare(postgres_url, capacity)
    tallies = engine_calls.together(*(lambda n=n: take(postgres_url, n, EACH) for n in range(1, 7)))
    assert sum(trials.injected for trials in tallies) > 20
    agree(postgres_url, tallies, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [30])
def test_processes_under_injected_failures(capacity: int, postgres_url: str) -> None:
    prepare(postgres_url, capacity)
    spawn = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, spawn, initializer=line_up, initargs=(spawn.Barrier(PROCESSES),)) as pool:
        running = [pool.submit(take_together, postgres_url, seed) for seed in range(1, PROCESSES + 1)]
        tallies = [trials for each in running for trials in each.result(PATIENCE)]
    assert sum(trials.injected for trials in tallies) > 20
    agree(postgres_url, tallies, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 3])
def test_b18_processes_admit_exactly_what_there_is(capacity: int, postgres_url: str) -> None:
    """Through the kernel, as an application would."""
    prepare(postgres_url, capacity)
    granted = [each for some in race(postgres_url, "sync", PROCESSES, 20, 5) for each in some]
    assert len(granted) == len(set(granted)) == capacity
    with holdkit.connect(postgres_url) as hk:
        assert hk.pool(HOT).available == 0
        assert hk.admin.verify().ok


def between_look_and_write(url: str, what: Callable[[], object]) -> PostgresEngine:
    """An engine in whose first hold something happens after it has looked and before it writes."""
    left = [what]

    def interrupt(name: str) -> None:
        if name == "place_holds" and left:
            left.pop()()

    return PostgresEngine(url, on_statement=interrupt)


def test_canary_without_locks_and_counts_one_seat_is_sold_twice(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(postgres_url, 1)
    for name in ("lock_pools",):
        engine_calls.alter(
            monkeypatch, name, lambda text: text.replace("for no key update of p", "").replace("skip locked", "")
        )
    engine_calls.trust_counts(monkeypatch)
    rival = PostgresEngine(postgres_url)
    engine = between_look_and_write(postgres_url, lambda: done(rival, place(HOT)))
    done(engine, place(HOT))
    assert engine_calls.violations(postgres_url)
    with pytest.raises(AssertionError):
        agree(postgres_url, [TrialCounts(["one", "other"], [1, 1], 0, 0)], 1)
    rival.close()
    engine.close()


def test_without_locks_the_counts_alone_save_the_seat(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second lock on the door."""
    prepare(postgres_url, 1)
    engine_calls.alter(
        monkeypatch, "lock_pools", lambda text: text.replace("for no key update of p", "").replace("skip locked", "")
    )
    rival = PostgresEngine(postgres_url)
    engine = between_look_and_write(postgres_url, lambda: done(rival, place(HOT)))
    assert engine_calls.reason(one(engine, place(HOT))) is Reason.INSUFFICIENT_CAPACITY
    engine_calls.sound(engine, postgres_url)
    rival.close()
    engine.close()
