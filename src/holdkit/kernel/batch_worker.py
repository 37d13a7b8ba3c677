"""Group commit for tasks: a pump, started by `call_soon`, runs batches on one thread, so that all waiting tasks ride
together, at one thread hop per batch.

Cancelled while queued: removed, and certainly not applied. Cancelled in flight: it runs on.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import SimpleQueue
from typing import Any, Final, Protocol

from ..core.commands import Group
from ..engines.deadlines import until
from ..engines.port import Engine
from ..errors import OutcomeUnknown
from .bounded_queue import Queue, Undo
from .queued_calls import INTERRUPTED, SkippedLocked, Submission, broken, fail, unsettled
from .workers import AsyncSignal

TICK: Final = 0.1
"""Seconds between two looks at who has waited for too long."""


class Place(Protocol):
    """Where a submission can be taken back from."""

    def withdraw(self, submission: Any, /) -> bool:
        """Take it back, if it is there still."""
        ...


class Awaited(Submission):
    """A submission that a task waits for."""

    __slots__ = ("line", "rounds", "shielded", "undo", "waiter")

    line: Place
    """Where it is queued, if it is."""
    rounds: int
    """How often it had to wait for something."""
    shielded: bool
    """It is to be done even if nobody waits for it any more."""
    waiter: asyncio.Future[None]
    undo: Undo | None

    def __init__(self, group: Group, minted: bool, waiter: asyncio.Future[None], shielded: bool) -> None:
        super().__init__(group, minted)
        self.waiter, self.shielded = waiter, shielded
        self.undo = None
        self.rounds = 0

    def wake(self) -> None:
        """Tell the task that there is an answer."""
        if not self.waiter.done():
            self.waiter.set_result(None)


class BatchWorker(Queue):
    """One queue of tasks, and the thread that runs its batches."""

    def __init__(self, engine: Engine, committed: AsyncSignal, *, wait_for_locks: bool = False) -> None:
        super().__init__(engine, wait_for_locks=wait_for_locks)
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._writer = threading.Thread(target=_work, args=(self._batches,), name="holdkit-writer", daemon=True)
        self._writer.start()
        self._dismiss_writer = weakref.finalize(self, self._batches.put, None)  # also if nobody ever closes
        self._flight: Sequence[Awaited] = ()
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.committed = committed

    def add(self, submission: Awaited) -> None:
        """Queue a submission; `Overloaded` if there is no room."""
        self._enqueue(submission)
        submission.line = self
        self._start()

    def _start(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._idle.clear()
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        batch: list[Any] = []
        self._take(batch)
        if batch:
            self._launch(batch)
        else:
            self._pumping = False
            self._idle.set()
            self._rest()

    def _launch(self, batch: list[Awaited]) -> None:
        self._flight = batch
        self._batches.put(lambda: self._run(batch))

    def _rest(self) -> None:
        """Nobody is here any more."""

    def _run(self, batch: list[Awaited], failed: Exception | None = None) -> None:
        wrote = True
        try:
            with until(latest(batch)):
                wrote = self._runner.run(batch, failed)
        except BaseException as error:  # noqa: BLE001 - a bug: nobody interrupts this thread from outside
            give_up(batch, error)
        finally:
            with suppress(RuntimeError):  # the loop was closed under us: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, batch, wrote)

    def _settle(self, batch: list[Awaited], wrote: bool) -> None:
        again = unsettled(batch)
        if again:
            fail([submission for submission in again if submission.sent], OutcomeUnknown(INTERRUPTED))
            again = unsettled(again)
        self._queue.extendleft(reversed(again))
        self._queued += sum([submission.size for submission in again])
        self._flight = ()
        self._answer([submission for submission in batch if submission not in again] if again else batch, wrote)
        self._loop.call_soon(self._pump)  # after the woken tasks have had their turn to queue again

    def _answer(self, batch: Sequence[Awaited], wrote: bool) -> None:
        """Everybody hears what became of it."""
        for submission in batch:
            try:
                if isinstance(submission.error, SkippedLocked):
                    self._pass_on(submission, submission.error.what)
                elif not submission.waiter.done():
                    submission.waiter.set_result(None)
                elif submission.undo is not None:
                    self.take_back(submission)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are told, and the pump goes on
                self._report(submission, error)
        if wrote:
            self.committed.notify()

    def _report(self, submission: Awaited, error: Exception) -> None:
        """It could neither wait elsewhere nor be taken back: a bug, which whoever waits is told, else the loop's handler."""
        if submission.waiter.done():
            self._loop.call_exception_handler({"message": "holdkit: a grant was not taken back", "exception": error})
        else:
            fail([submission], broken(error))
            submission.wake()

    def _pass_on(self, submission: Awaited, what: str) -> None:
        """The engine would have had to wait for something: it waits elsewhere."""
        raise NotImplementedError

    def take_back(self, submission: Awaited) -> None:
        """Nobody received what was granted."""
        assert submission.undo is not None
        undo, submission.undo = submission.undo, None
        group = None if submission.outcomes is None else undo(submission.outcomes)
        if group is not None:  # never refused for want of room: it frees what it names
            taking = Awaited(group, False, self._loop.create_future(), True)
            taking.line, taking.until = self, inf  # part of nobody's call, whoever runs this
            self._queue.append(taking)
            self._queued += taking.size
            self._start()

    def dismiss(self) -> None:
        """The thread ends after the batch it runs."""
        self._dismiss_writer()


def latest(batch: Sequence[Awaited]) -> float:
    """Until when somebody waits for a batch. Whoever has less time leaves by himself."""
    return max([submission.until for submission in batch])


def give_up(batch: Sequence[Awaited], error: BaseException) -> None:
    """Something broke before any of a batch was sent: it would break again, for ever, so everybody is told. (If part of it was
    sent, the rest is tried again: that comes to an end.)"""
    if not any(submission.sent or submission.settled for submission in batch):
        fail(batch, broken(error))


class Overdue:
    """Wakes tasks whose calls have taken as long as they may: one timer for all of them, while anybody waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[Awaited] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, submission: Awaited) -> None:
        """It waits from now on."""
        self._waiting.add(submission)
        if self._timer is None:
            self._timer = self._loop.call_later(TICK, self._look)

    def discard(self, submission: Awaited) -> None:
        """It has been answered, or was cancelled."""
        self._waiting.discard(submission)

    def _look(self) -> None:
        now = time.monotonic()
        for submission in self._waiting:
            if submission.until <= now:
                submission.wake()
        self._timer = self._loop.call_later(TICK, self._look) if self._waiting else None


def _work(batches: SimpleQueue[Callable[[], None] | None]) -> None:
    """The writer's thread. It knows the queue and nothing else, so that a forgotten kernel can be collected."""
    while (run := batches.get()) is not None:
        with suppress(BaseException):  # whoever was sent is told; the thread must live for those who come
            run()
        del run
