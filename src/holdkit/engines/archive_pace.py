"""The pace of an archive run: how many entries one transaction takes, and how long the run rests so that others can work.

Theory of operation. A run competes for two locks: the write lock of an SQLite file, and the interpreter's lock, where it is a thread of
the process that places holds. It takes each for a short time, and for a small share of the time:

*Little at a time.* An engine tells how long each transaction kept writers waiting (`blocked`). The next one takes as many entries as fit
into `AIM`, or into twice the shortest transaction so far: where the disk needs longer than `AIM` to sync, writers are used to that. Work
that blocks only the threads of this process is cut into slices (`give_way`).

*A small share.* Behind each transaction, and each slice, the run rests `REST` times as long, if others have written during the last
`QUIET` seconds. A run that is alone does not rest. Where a transaction blocks no writer (PostgreSQL), engines say so, and there is no
rest.

Nothing here is needed for correctness: a run may be ended while it rests.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep, thread_time
from typing import Final

AIM: Final = 0.002
"""Seconds for which one transaction keeps writers waiting."""
SLICE: Final = 0.0005
"""Seconds of processor time in a process whose threads place holds."""
REST: Final = 8
"""Seconds of rest for each second of work: others have eight ninths of the time."""
QUIET: Final = 5.0
"""Seconds without others after which a run is alone."""
FEWEST: Final = 64
"""Entries of a transaction, however long it takes."""


class Pace:
    """The pace of one run. `entries` is how many the next transaction takes."""

    def __init__(
        self,
        most: int,
        fewest: int = FEWEST,
        *,
        clock: Callable[[], float] = monotonic,
        worked: Callable[[], float] = thread_time,
        rest: Callable[[float], None] = sleep,
    ) -> None:
        self._most, self._fewest = most, min(fewest, most)
        self._clock, self._worked, self._rest = clock, worked, rest
        self.entries = self._fewest
        self._shortest: float | None = None
        self._calls: Callable[[], int] | None = None
        self._called = 0
        self._since = worked()
        self._others_until = self._callers_until = clock()

    def watch(self, calls: Callable[[], int]) -> None:
        """Share the interpreter with the threads of this process whose calls are counted here."""
        self._calls, self._called = calls, calls()

    def blocked(self, seconds: float, entries: int = 0, *, others: bool = False) -> None:
        """Report that a transaction of `entries` entries kept writers waiting for `seconds`; `others` says that others wrote since the
        last one, or will have to wait. Adapts the size of the next transaction, and rests."""
        if entries:
            self._adapt(seconds, entries)
        now = self._clock()
        if others:
            self._others_until = now + QUIET
        if seconds > 0 and now < self._others_until:
            self._rest(REST * seconds)
            self._since = self._worked()

    def give_way(self) -> None:
        """Rest if a slice is over and threads of this process place holds. Called between any two entries."""
        calls = self._calls
        if calls is None or (worked := self._worked() - self._since) < SLICE:
            return
        called, now = calls(), self._clock()
        if called != self._called:
            self._called, self._callers_until = called, now + QUIET
        if now < self._callers_until:
            self._rest(REST * worked)
        self._since = self._worked()

    def _adapt(self, seconds: float, entries: int) -> None:
        """Shrink the next transaction by half at most: one long transaction may be another process's fault."""
        self._shortest = seconds if self._shortest is None else min(seconds, self._shortest)
        aim = max(AIM, 2 * self._shortest)
        if entries < self.entries and seconds <= aim:
            return  # the last of a file: it says nothing about more
        fit = self._most if seconds <= 0 else int(min(self._most, entries * aim / seconds))
        self.entries = max(self._fewest, min(max(fit, self.entries // 2), 2 * self.entries, self._most))
