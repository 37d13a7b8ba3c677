"""Group commit for tasks: calls are queued on the event loop, and a worker thread runs one batch after the other.

Theory of operation
-------------------

All state belongs to the event loop's thread; only `_run` and the batch it is given are used by the worker thread, one batch at a
time. The first call that is queued schedules `_next_batch` with `call_soon`, so that all tasks that are ready have queued
their calls before the batch is taken. The thread runs the batch and sends it back with `call_soon_threadsafe`; `_settle` wakes
the tasks, and takes the next batch after these had their turn to queue again. One batch costs one change of threads.

Callers behind a network need a moment longer: they get their answers one after the other, and their next calls come the same way.
The first of these would be a batch of its own while all the others wait for it, so that batches of one and of all the others
alternate. Therefore a batch that is less than half as large as the last one first waits for a few turns of the loop.

*States of a call*: queued (in `queue`, from where it can be withdrawn) → in a batch → settled. A skipped call goes on to a lock
queue (`_pass_on`). A task that is cancelled while its call is queued withdraws it: certainly nothing was done. If the call is in
a batch, it is written all the same; what it granted is taken back by `undo`, because nobody received it. A shielded call is
never withdrawn.

*Where it may break.* Nobody interrupts the worker thread from outside, so an exception that leaves the runner is a bug. If
nothing of the batch was sent, all its calls fail; it would fail again for ever. If part of it was sent, the outcome of that part
is unknown and the rest is queued again, which comes to an end. A loop that is closed while a batch runs loses its tasks; the
thread ends when the kernel is closed or collected, because it knows nothing of the kernel but the queue of batches.
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
from ..engines.port import Applied, Engine
from ..errors import OutcomeUnknown
from .batches import BatchRunner, Feed
from .fair_queue import FairQueue
from .queued_calls import INTERRUPTED, QueuedCall, SkippedLocked, Undo, broken, fail, unsettled
from .workers import AsyncSignal

TICK: Final = 0.1
"""Seconds between two checks for calls whose deadline has passed."""


TURNS: Final = 16
"""Turns of the loop that a small batch waits for more calls, if the last one was large: well under a millisecond where nobody
else has anything to do."""


class Withdrawable(Protocol):
    """Where a call waits."""

    def withdraw(self, call: Any, /) -> bool:
        """Take the call back; says whether it was there."""
        ...


class TaskCall(QueuedCall):
    """A call that a task waits for."""

    __slots__ = ("answered", "queue", "rounds", "shielded", "undo")

    queue: Withdrawable
    """Where it was queued last."""
    answered: asyncio.Future[None]
    """Done when there is an answer, or when its deadline has passed."""

    def __init__(
        self, group: Group, minted: bool, answered: asyncio.Future[None], shielded: bool, until: float = inf
    ) -> None:
        QueuedCall.__init__(self, group, minted, until)
        self.answered, self.shielded = answered, shielded
        """Shielded: it is done even if nobody waits for it any more."""
        self.undo: Undo | None = None
        self.rounds = 0
        """How often it had to wait for a lock."""

    def wake(self) -> None:
        """Wake the task."""
        if not self.answered.done():
            self.answered.set_result(None)


class BatchWorker:
    """One queue of tasks, and the thread that runs its batches."""

    def __init__(self, engine: Engine, committed: AsyncSignal, feed: Feed, *, wait_for_locks: bool = False) -> None:
        super().__init__()
        self.engine, self.committed, self.feed = engine, committed, feed
        self.queue = FairQueue(engine.limits.max_queue)
        self._runner = BatchRunner(engine, feed, wait_for_locks=wait_for_locks)
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._batches,), name="holdkit-writer", daemon=True)
        self._thread.start()
        self.end_thread = weakref.finalize(self, self._batches.put, None)  # called also if nobody ever closes
        """Lets the thread end after the batch that it runs."""
        self._batch: Sequence[TaskCall] = ()
        """The batch that is being written."""
        self._running = False
        """Whether a batch is being written, or about to be taken."""
        self._last_size = self._turns = 0
        """Commands of the last batch; turns of the loop that the next one has waited for more."""
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, call: TaskCall) -> None:
        """Queue a call; raises `Overloaded` if there is no room."""
        self.queue.add(call)
        call.queue = self
        self._start()

    def withdraw(self, call: QueuedCall) -> bool:
        """Take a call out of the queue; says whether it was there."""
        return self.queue.withdraw(call)

    def _start(self) -> None:
        if not self._running:
            self._running = True
            self._idle.clear()
            self._loop.call_soon(self._next_batch)

    def _next_batch(self) -> None:
        if self._turns < TURNS and 0 < 2 * self.queue.commands < self._last_size:
            self._turns += 1
            self._loop.call_soon(self._next_batch)
            return
        self._turns = 0
        self._last_size = self.queue.commands or self._last_size
        if batch := self._take():
            self._launch(batch)
        else:
            self._running = False
            self._idle.set()
            self._emptied()

    def _take(self) -> list[TaskCall]:
        batch: list[TaskCall] = []
        self.queue.take(batch)
        return batch

    def _launch(self, batch: list[TaskCall]) -> None:
        self._batch = batch
        self._batches.put(lambda: self._run(batch))

    def _emptied(self) -> None:
        """Called when the queue is empty and no batch runs."""

    def _run(self, batch: list[TaskCall], failed: Exception | None = None, applied: Applied | None = None) -> None:
        """On the worker thread. A batch that was `applied` or has `failed` on the loop is settled here."""
        wrote = True
        try:
            with until(latest(batch)):
                wrote = self._runner.run(batch, failed) if applied is None else self._runner.accept(batch, applied)
        except BaseException as error:  # noqa: BLE001 - a bug: nobody interrupts this thread from outside
            give_up(batch, error)
        finally:
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, batch, wrote)

    def _settle(self, batch: list[TaskCall], wrote: bool) -> None:
        self.queue.charge(batch)
        again = unsettled(batch)
        if again:
            fail([call for call in again if call.sent], OutcomeUnknown(INTERRUPTED))
            again = unsettled(again)
            self._queue_again(again)
        self._batch = ()
        self._answer([call for call in batch if call not in again] if again else batch, wrote)
        self._loop.call_soon(self._next_batch)  # after the tasks that were woken had their turn to queue again

    def _queue_again(self, calls: Sequence[TaskCall]) -> None:
        """Nothing of these calls was done so far: queue them again, as far as somebody waits for them or they are shielded."""
        self.queue.put_back([call for call in calls if call.shielded or not call.answered.done()])

    def _answer(self, batch: Sequence[TaskCall], wrote: bool) -> None:
        """Wake the tasks whose calls are settled; pass on those that were skipped."""
        for call in batch:
            answered = call.answered
            try:
                if call.error is not None and isinstance(call.error, SkippedLocked):
                    self._pass_on(call, call.error.lock)
                elif not answered.done():
                    answered.set_result(None)
                elif call.undo is not None:
                    self.take_back(call)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks must be woken
                self._report(call, error)
        if wrote:
            self.committed.notify()

    def _report(self, call: TaskCall, error: Exception) -> None:
        """A call could neither be passed on nor taken back, which is a bug: tell its task, or else the loop's handler."""
        if call.answered.done():
            self._loop.call_exception_handler({"message": "holdkit: a grant was not taken back", "exception": error})
        else:
            fail([call], broken(error))
            call.wake()

    def _pass_on(self, call: TaskCall, lock: str) -> None:
        """The engine skipped a call: let it wait for the lock elsewhere."""
        raise NotImplementedError

    def take_back(self, call: TaskCall) -> None:
        """Undo what a call granted, because nobody received it. That is never refused because the queue is full: it frees units."""
        assert call.undo is not None
        undo, call.undo = call.undo, None
        group = None if call.outcomes is None else undo(call.outcomes)
        if group is not None:
            taking_back = TaskCall(group, False, self._loop.create_future(), shielded=True)
            taking_back.queue = self
            self.queue.append(taking_back)
            self._start()


def latest(batch: Sequence[TaskCall]) -> float:
    """The deadline of a batch: that of the call that may wait longest. Tasks with an earlier one stop waiting by themselves."""
    return max([call.until for call in batch])


def give_up(batch: Sequence[TaskCall], error: BaseException) -> None:
    """Fail a batch that a bug has stopped before any of it was sent."""
    if not any(call.sent or call.settled for call in batch):
        fail(batch, broken(error))


class DeadlineTimer:
    """Wakes tasks whose deadline has passed: one timer for all of them, which runs only while a task waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[TaskCall, None] = {}
        """In the order in which they began to wait."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: TaskCall) -> None:
        """Its task waits from now on."""
        self._waiting[call] = None
        if self._timer is None:
            self._timer = self._loop.call_later(TICK, self._check)

    def discard(self, call: TaskCall) -> None:
        """Its task waits no longer."""
        self._waiting.pop(call, None)

    def _check(self) -> None:
        now = time.monotonic()
        for call in self._waiting:
            if call.until <= now:
                call.wake()
        self._timer = self._loop.call_later(TICK, self._check) if self._waiting else None


def _work(batches: SimpleQueue[Callable[[], None] | None]) -> None:
    """The worker thread. It knows this queue and nothing else, so that a kernel that nobody uses any more can be collected."""
    while (run := batches.get()) is not None:
        with suppress(
            BaseException
        ):  # the calls of a batch that was sent are settled; the thread must live for the next
            run()
        del run
