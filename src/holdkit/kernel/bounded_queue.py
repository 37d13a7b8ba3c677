"""The turnstile: what the queues of sync and async share, which is the bound, and the refusal after close or fork."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from math import inf
from threading import TIMEOUT_MAX
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ..core.commands import Group
from ..core.model import SECOND
from ..core.outcomes import Outcome
from ..engines import deadlines
from ..engines.clocks import lag_of
from ..engines.durability import IN_MEMORY, Durability
from ..engines.port import Engine
from ..errors import EngineError, Overloaded
from .batches import Runner
from .context import current
from .follower_state import Shown
from .queued_calls import MAX_COMMANDS, Submission, take_batch

CLOSED: Final = "this kernel is closed: connect again"

Undo: TypeAlias = Callable[[list[Outcome]], Group | None]
"""Says what takes back a grant that nobody received."""


class Stats(Struct, frozen=True):
    """What the group commit has done; without batches that waited for somebody else's lock."""

    batches: int
    commands: int
    largest: int
    """Commands of the largest batch."""
    sizes: tuple[int, ...] = ()
    """Batches by size: of one command, of up to 3, 7, 15 and so on; the last are all that are larger."""
    waiting: int = 0
    """Commands that are queued now."""
    durability: Durability = IN_MEMORY
    """What a done answer survives, as the store told it not long before the last call."""
    clock_lag: float = 0.0
    """Seconds by which the database's clock, which decides, is ahead of this machine's; 0 where they are the same."""


class Queue:
    """One queue of submissions, bounded, whose batches go through one runner."""

    def __init__(self, engine: Engine, *, wait_for_locks: bool = False) -> None:
        self.engine = engine
        self._runner = Runner(engine, wait_for_locks=wait_for_locks)
        self._queue: deque[Any] = deque()
        self._queued = 0
        self._closed = False
        self.bound = engine.limits.max_queue
        """Commands that may wait here."""

    def _enqueue(self, submission: Submission) -> None:
        size = submission.size
        if self._queued and self._queued + size > self.bound:
            raise Overloaded(f"{self._queued} commands are waiting already (max_queue): try again a little later")
        self._queue.append(submission)
        self._queued += size

    def _take(
        self,
        batch: list[Any],
        most: int = MAX_COMMANDS,
        fits: Callable[[Group], bool] | None = None,
        latest: float = inf,
    ) -> None:
        """Move into the batch what is queued, as far as it goes, and count it out."""
        before = len(batch)
        try:
            take_batch(self._queue, batch, most, fits, latest)
        finally:
            self._queued -= sum([submission.size for submission in batch[before:]])

    def withdraw(self, submission: Submission) -> bool:
        """Take a submission back out of the queue, if it is there still."""
        try:
            self._queue.remove(submission)
        except ValueError:
            return False
        self._queued -= submission.size
        return True

    def check(self) -> None:
        """Refuse what must not come in."""


class BoundedQueue(Queue):
    """The queue everybody comes to first."""

    def __init__(self, engine: Engine, *, wait_for_locks: bool = False) -> None:
        super().__init__(engine, wait_for_locks=wait_for_locks)
        self._pid = os.getpid()
        self.shown = Shown()
        """What named followers were shown here."""

    @property
    def stats(self) -> Stats:
        """What the group commit has done since it was opened."""
        runner = self._runner
        durability, lag = self.engine.durability, lag_of(self.engine.clock)
        sizes = tuple(runner.sizes)
        return Stats(runner.batches, runner.commands, runner.largest, sizes, self._queued, durability, lag)

    def deadline(self) -> float:
        """Until when a call that begins now may take, by `time.monotonic`: as the context says, else the kernel; and no longer than
        a call that it is part of."""
        seconds = current().timeout
        if seconds is None:
            seconds = min(self.engine.limits.call_timeout / SECOND, TIMEOUT_MAX)
        moment, around = time.monotonic() + seconds, deadlines.current()
        return moment if around is None else min(around, moment)

    def check(self) -> None:
        """Refuse after close, and in a forked child."""
        if os.getpid() != self._pid:
            raise EngineError("this kernel was opened before a fork: connect anew in the child process")
        if self._closed:
            raise EngineError(CLOSED)
