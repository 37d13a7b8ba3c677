"""Checks under threads: exactly as many are admitted as there is room for, and readers see whole batches or nothing.

No sleeps and no luck needed to pass: an engine that keeps its promises passes in every interleaving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from threading import Barrier, Event, Thread

from ...core.commands import Group, Sweep
from ...core.entries import Action
from ...core.model import Leg
from ...core.outcomes import Done, Reason, Refusal
from ...core.reading import FindEnd, ListPools, ReadJournal
from .histories import Recorder, check_history
from .rig import Rig, demand, equal, hold_id, placing

THREADS = 6
EACH = 12


def together(*work: Callable[[], None]) -> None:
    """Run these at once; the first error of any is raised."""
    errors: list[BaseException] = []
    start = Barrier(len(work))

    def run(job: Callable[[], None]) -> None:
        try:
            start.wait()
            job()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            errors.append(error)

    threads = [Thread(target=run, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def admits_exactly(rig: Rig) -> None:
    """Many racing for few units: exactly as many are granted as there are, and every refusal was true."""
    room = THREADS * EACH // 2 + 1
    rig.pools(a=room)
    recorder = Recorder(rig.engine)

    def racer(thread: int) -> Callable[[], None]:
        def race() -> None:
            for number in range(EACH):
                recorder.ask(placing(1 + thread * EACH + number))

        return race

    together(*(racer(thread) for thread in range(THREADS)))
    outcomes = [answer.outcome for answer in recorder.answers]
    equal(sum(isinstance(outcome, Done) for outcome in outcomes), room, f"grants out of {room} units")
    others = {outcome.reason for outcome in outcomes if isinstance(outcome, Refusal)}
    equal(others, {Reason.INSUFFICIENT_CAPACITY}, "reasons of the others")
    equal(rig.pool().held, room, "units held")
    rig.sound()
    check_history(rig.journal(), recorder.answers, recorder.looks)


def swept_once(rig: Rig) -> None:
    """Any number of sweepers at once: each due hold is expired and journaled once."""
    rig.pools(a=60, b=60)
    rig.apply(Group(tuple(placing(number, [Leg("a"), Leg("b")], ttl=10) for number in range(60))))
    rig.at(10)
    expired: list[int] = []

    def sweeper() -> None:
        while True:
            outcome = rig.done(Sweep(limit=7))
            expired.append(outcome.expired)
            if not outcome.more:
                return

    together(*([sweeper] * THREADS))
    equal(sum(expired), 60, "holds that the sweepers say they expired")
    subjects = [entry.subject for entry in rig.journal() if entry.action is Action.HOLD_EXPIRED]
    equal(sorted(subjects), [hold_id(number) for number in range(60)], "holds expired, once each")
    equal((rig.pool("a").held, rig.pool("b").held), (0, 0), "units held")
    rig.sound()


def readers_see_whole_batches(rig: Rig) -> None:
    """A reader sees all of a batch or nothing of it, never a batch that failed, and never an entry before its like."""
    rig.pools(a=500, b=500)
    finished = Event()

    def write() -> None:
        try:
            for number in range(1, 80, 2):
                poison = placing(900, metadata={"poison": object()})
                rig.apply(Group((placing(number, "a"),)), Group((placing(number + 1, "b"),)))
                with suppress(Exception):
                    rig.engine.apply([Group((placing(800, "a", 7),)), Group((placing(801, "b", 7), poison))])
        finally:
            finished.set()

    def watch() -> None:
        last, seen = 0, [0]
        while not finished.is_set() or seen[-1] < last:
            held = [pool.held for pool in rig.engine.read(ListPools(""))]
            demand(held[0] == held[1], f"a reader saw half of a batch: {held[0]} held in a, {held[1]} in b")
            demand(held[0] < 100, f"a reader saw a batch that failed: {held[0]} held in a")
            last = rig.engine.read(FindEnd()).seq
            page = [row.seq for row in rig.engine.read(ReadJournal(None, after=seen[-1], limit=50))]
            follow(seen, page)
            demand(
                seen[-1] >= last or len(page) == 50, f"the end is {last}, but a follower after it saw only {seen[-1]}"
            )

    together(write, watch, watch)
    rig.sound()


def follow(seen: list[int], page: Sequence[int]) -> None:
    """A follower goes on by a page: each number is one more than the last."""
    for before, after in pairwise([seen[-1], *page]):
        demand(after == before + 1, f"a follower saw entry {after} after {before}")
    seen.extend(page)


CHECKS = (admits_exactly, swept_once, readers_see_whole_batches)
