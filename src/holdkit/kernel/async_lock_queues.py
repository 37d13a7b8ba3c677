"""Waiting rooms for tasks: what `rooms` says, with a pump and a thread per room. A submission moves on by itself, whether
or not somebody still waits for it."""

from __future__ import annotations

import asyncio

from ..core.commands import Group
from ..core.model import SECOND
from ..errors import HoldkitError, Overloaded
from .batch_worker import Awaited, BatchWorker
from .lock_queues import LOCK_QUEUES, ROUNDS, Bound, known, no_queue_left, still_locked
from .queued_calls import Submission, fail


class AsyncLockQueue(BatchWorker):
    """One room for tasks, with a thread of its own."""

    def __init__(self, main: BatchWorker, rooms: AsyncLockQueues, what: str) -> None:
        super().__init__(main.engine, main.committed, wait_for_locks=True)
        self._main, self._lock_queues, self.what = main, rooms, what

    def waiting(self) -> int:
        """Commands in here, queued or in flight."""
        return self._queued + sum([submission.size for submission in self._flight])

    def withdraw(self, submission: Submission) -> bool:
        """Take a submission back out of the queue, if it is there still."""
        found = super().withdraw(submission)
        self._lock_queues.measure()
        return found

    def take_back(self, submission: Awaited) -> None:
        """Through the main queue, as everything."""
        self._main.take_back(submission)

    def _settle(self, batch: list[Awaited], wrote: bool) -> None:
        super()._settle(batch, wrote)
        self._lock_queues.measure()

    def _pass_on(self, submission: Awaited, what: str) -> None:
        self._lock_queues.enter(submission, what)

    def _rest(self) -> None:
        self._lock_queues.shut(self)


class AsyncLockQueues:
    """Rooms for tasks. All of it happens on the loop's own thread."""

    def __init__(self, main: BatchWorker) -> None:
        self._main, self._bound = main, Bound(main)
        self._seconds = main.engine.limits.lock_timeout / SECOND
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, AsyncLockQueue] = {}
        self._standing: dict[Awaited, tuple[str, asyncio.TimerHandle]] = {}
        self.empty = asyncio.Event()
        self.empty.set()

    def known(self, group: Group) -> str | None:
        """Where it would be sent, if there is such a room already."""
        return known(self._open, group) if self._open else None

    def enter(self, submission: Awaited, what: str) -> None:
        """Let it wait for what is locked. Nothing of it was done so far."""
        if submission.waiter.done() and not submission.shielded:
            return
        submission.error, submission.sent = None, False
        submission.rounds += 1
        try:
            if submission.rounds > ROUNDS:
                raise still_locked(what)
            self._bound.check(self._waiting(), submission.size)
        except Overloaded as refusal:
            _answer(submission, refusal)
        else:
            if not self._seat(submission, what):
                timer = self._loop.call_later(self._seconds, self._give_up, submission)
                self._standing[submission] = (what, timer)
                submission.line = self
        self.measure()

    def _seat(self, submission: Awaited, what: str) -> bool:
        room = self._open.get(what)
        if room is None:
            if len(self._open) == LOCK_QUEUES:
                return False
            room = self._open[what] = AsyncLockQueue(self._main, self, what)
        room.add(submission)
        return True

    def shut(self, room: AsyncLockQueue) -> None:
        """A room is empty: it goes, and somebody who waits for one may have it."""
        del self._open[room.what]
        room.dismiss()
        for submission, (what, timer) in tuple(self._standing.items()):
            if self._seat(submission, what):
                timer.cancel()
                del self._standing[submission]
        self.measure()

    def withdraw(self, submission: Awaited) -> bool:
        """Take back one that waits for a room."""
        found = self._standing.pop(submission, None)
        if found is not None:
            found[1].cancel()
            self.measure()
        return found is not None

    def _give_up(self, submission: Awaited) -> None:
        what, _ = self._standing.pop(submission)
        _answer(submission, no_queue_left(what))
        self.measure()

    def _waiting(self) -> int:
        inside = sum([room.waiting() for room in self._open.values()])
        return inside + sum([submission.size for submission in self._standing])

    def measure(self) -> None:
        """Tell the main queue how much room is left, and whoever closes whether all have gone."""
        self._bound.tell(self._waiting())
        if self._open or self._standing:
            self.empty.clear()
        else:
            self.empty.set()

    def dismiss(self) -> None:
        """The loop is closed, and everybody who waited there is gone: so do the threads."""
        for room in self._open.values():
            room.dismiss()


def _answer(submission: Awaited, error: HoldkitError) -> None:
    fail([submission], error)
    submission.wake()
