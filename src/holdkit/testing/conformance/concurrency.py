"""Checks with threads: exactly as many holds are granted as there are units, and readers see whole batches or
nothing.

No sleeps, and no luck is needed to pass: a correct engine passes in every interleaving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Barrier, Event, Thread

from ...core.commands import Group, Sweep
from ...core.entries import Action
from ...core.model import Leg
from ...core.outcomes import Done, Reason, Refusal
from ...core.reading import FindEnds, JournalRow, ListPools, ReadJournal
from .harness import Harness, hold_id, placing, require, require_equal
from .histories import Recorder, check_history

THREADS = 6
EACH = 12


def together(*work: Callable[[], None]) -> None:
    """Run these at the same time; raise the first error of any."""
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


def admits_exactly(harness: Harness) -> None:
    """Many racing for few units: exactly as many are granted as there are, and every refusal was true."""
    room = THREADS * EACH // 2 + 1
    harness.pools(a=room)
    recorder = Recorder(harness.engine)

    def racer(thread: int) -> Callable[[], None]:
        def race() -> None:
            for number in range(EACH):
                recorder.ask(placing(1 + thread * EACH + number))

        return race

    together(*(racer(thread) for thread in range(THREADS)))
    outcomes = [answer.outcome for answer in recorder.answers]
    require_equal(sum(isinstance(outcome, Done) for outcome in outcomes), room, f"grants out of {room} units")
    others = {outcome.reason for outcome in outcomes if isinstance(outcome, Refusal)}
    require_equal(others, {Reason.INSUFFICIENT_CAPACITY}, "reasons of the others")
    require_equal(harness.pool().held, room, "units held")
    harness.verify()
    if recorder.linear:
        check_history(harness.numbered_journal(), recorder.answers, recorder.reads)


def swept_once(harness: Harness) -> None:
    """Any number of sweepers at once: each due hold is expired and journaled once."""
    harness.pools(a=60, b=60)
    harness.apply(Group(tuple(placing(number, [Leg("a"), Leg("b")], ttl=10) for number in range(60))))
    harness.at(10)
    expired: list[int] = []

    def sweeper() -> None:
        while True:
            outcome = harness.done(Sweep(limit=7))
            expired.append(outcome.expired)
            if not outcome.more:
                return

    together(*([sweeper] * THREADS))
    require_equal(sum(expired), 60, "holds that the sweepers say they expired")
    subjects = [entry.subject for entry in harness.journal() if entry.action is Action.HOLD_EXPIRED and not entry.part]
    require_equal(sorted(subjects), [hold_id(number) for number in range(60)], "holds expired, once each")
    require_equal((harness.pool("a").held, harness.pool("b").held), (0, 0), "units held")
    harness.verify()


def readers_see_whole_batches(harness: Harness) -> None:
    """A reader sees all of a batch or nothing of it, never a failed batch, and never an entry without those before
    it."""
    harness.pools(a=500, b=500)
    finished = Event()

    def write() -> None:
        try:
            for number in range(1, 80, 2):
                poison = placing(900, metadata={"poison": object()})
                harness.apply(Group((placing(number, "a"),)), Group((placing(number + 1, "b"),)))
                with suppress(Exception):
                    harness.engine.apply([Group((placing(800, "a", 7),)), Group((placing(801, "b", 7), poison))])
        finally:
            finished.set()

    def watch() -> None:
        last: dict[int, int] = {}
        seen: dict[int, int] = {}
        while not finished.is_set() or seen != last:
            held = [pool.held for pool in harness.engine.read(ListPools(""))]
            require(held[0] == held[1], f"a reader saw half of a batch: {held[0]} held in a, {held[1]} in b")
            require(held[0] < 100, f"a reader saw a batch that failed: {held[0]} held in a")
            last = {end.lane: end.seq for end in harness.engine.read(FindEnds())}
            page = harness.engine.read(ReadJournal(None, dict(seen), limit=50))
            follow(seen, page)
            missed = {lane: end for lane, end in last.items() if seen.get(lane, 0) < end}
            require(not missed or len(page) == 50, f"the ends are {missed}, but a follower after them saw only {seen}")

    together(write, watch, watch)
    harness.verify()


def follow(seen: dict[int, int], page: Sequence[JournalRow]) -> None:
    """A follower reads the next page: in each lane a number is one more than the last."""
    for row in page:
        before = seen.get(row.lane, 0)
        require(row.seq == before + 1, f"a follower saw entry {row.seq} after {before} in lane {row.lane}")
        seen[row.lane] = row.seq


CHECKS = (admits_exactly, swept_once, readers_see_whole_batches)
