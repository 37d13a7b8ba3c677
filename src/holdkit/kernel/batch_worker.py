"""Group commit for tasks: calls are queued on the event loop, and a worker thread runs one batch after the other.

Theory of operation
-------------------

All state belongs to the event loop's thread; only `_run` and the batch that it gets are used by the worker thread, one batch at a
time. The first call that is queued schedules `_next_batch` with `call_soon`, so that all tasks that are ready have queued
their calls before the batch is taken. The thread runs the batch and sends it back with `call_soon_threadsafe`; `_settle` wakes
the tasks, and takes the next batch after these had their turn to queue again. One batch costs one change of threads.

Callers behind a network need a moment longer: they get their answers one after the other, and their next calls come the same way.
The first of these would be a batch of its own while all the others wait for it, so that batches of one and of all the others
alternate. Therefore a batch that is less than half as large as the last one first waits for a few turns of the loop.

*On the loop.* Where the engine can apply a batch without blocking (`AsyncApply`), a task of the loop applies it. While the server
writes such a batch, the tasks of the batch before get their answers; so the callers form two halves that take turns. A batch that the
engine cannot apply on the loop, that is too large, or that fails there, goes to the thread.

*States of a call*: queued (in `queue`, from where it can be withdrawn) → in a batch → settled. A skipped call moves to a lock
queue (`lock_queues`). A task that is cancelled while its call is queued withdraws it: certainly nothing was done. If the call is in
a batch, it is written all the same; what it granted is taken back by `undo`, because no caller received it. A shielded call is
never withdrawn.

*Where it may break.* No interrupt reaches the worker thread, so an exception that leaves the runner is a bug. If nothing of the batch
was sent, all its calls fail, because it would fail again for ever. If part of it was sent, the outcome of that part is unknown and
the rest is queued again, which comes to an end. A task that applies a batch may be cancelled before its first step: then the
batch is queued again. A loop that is closed while a batch runs loses its tasks; the thread ends when the kernel is closed or collected,
because it knows nothing of the kernel but the queue of batches.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from ..engines.port import Applied, AsyncApply, Engine, NeedsThread
from ..errors import OutcomeUnknown
from .batches import INTERRUPTED, BatchCounts, BatchRunner, Feed, SkippedLocked, TaskCall, broken, fail, unsettled
from .fair_queue import MAX_COMMANDS, FairQueue
from .workers import AsyncSignal

if TYPE_CHECKING:
    from .lock_queues import AsyncLockQueues

MAX_TURNS: Final = 16
"""Turns of the loop that a small batch waits for more calls, if the last one was large: well under a millisecond where no other
task has anything to do."""
SPLIT_BATCH_AT: Final = 128
"""Commands queued at which a batch on the loop takes half of them and leaves the rest to the next; fewer are not worth two
transactions."""
MAX_LOOP_COMMANDS: Final = 256
"""Commands that are decided on the loop in one go: a larger batch would keep other tasks waiting, and goes to the thread."""
TICK_SECONDS: Final = 0.1
"""Between two checks for calls whose deadline has passed."""
ANSWER_DELAY_SECONDS: Final = 0.005
"""How long an answer waits at most for the next batch to be sent."""


class DeadlineTimer:
    """Wakes tasks whose deadline has passed: one timer for all of them, which runs only while a task waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.waiting: dict[TaskCall, None] = {}
        """In the order in which they began to wait. A task takes its call out when it waits no longer."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: TaskCall) -> None:
        """Wake the task of this call when its deadline has passed, if it still waits then."""
        self.waiting[call] = None
        if self._timer is None:
            self._timer = self._loop.call_later(TICK_SECONDS, self._check)

    def _check(self) -> None:
        now = time.monotonic()
        for call in self.waiting:
            if call.until <= now:
                call.wake()
        self._timer = self._loop.call_later(TICK_SECONDS, self._check) if self.waiting else None


class BatchWorker:
    """One queue of tasks, and the thread that runs its batches.

    The main queue's worker has no `lock`. Any other waits for its lock in every batch, and belongs to `lock_queues`.
    """

    def __init__(
        self,
        engine: Engine,
        committed: AsyncSignal,
        feed: Feed,
        lock_queues: AsyncLockQueues,
        lock: str | None = None,
        counts: BatchCounts | None = None,
    ) -> None:
        self.lock = lock
        self.queue = FairQueue(engine.limits.max_queue)
        self.runner = BatchRunner(engine, feed, counts or BatchCounts(), wait_for_locks=lock is not None)
        self._committed, self._lock_queues = committed, lock_queues
        self._on_loop: AsyncApply | None = engine.capabilities.async_apply if lock is None else None
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._batches,), name="holdkit-writer", daemon=True)
        self._thread.start()
        self.end_thread = weakref.finalize(self, self._batches.put, None)  # called also if the kernel is never closed
        """Lets the thread end after the batch that it runs."""
        self._batch: Sequence[TaskCall] = ()
        """The batch that is being written."""
        self._unanswered: list[tuple[Sequence[TaskCall], bool]] = []
        """Batches that were written on the loop, and whose tasks have not been woken yet."""
        self._task: asyncio.Task[None] | None = None
        """The task that applies a batch on the loop."""
        self._is_running = False
        """Whether a batch is being written, or about to be taken."""
        self._last_size = self._turns = 0
        """Commands of the last batch; turns of the loop that the next one has waited for more."""
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def size(self) -> int:
        """Commands in here, queued or in a batch."""
        return self.queue.commands + sum([call.size for call in self._batch])

    def add(self, call: TaskCall) -> None:
        """Queue a call; raise `Overloaded` if there is no room."""
        self.queue.add(call)
        call.queue = self
        self._start()

    def withdraw(self, call: TaskCall) -> bool:
        """Take a call out of the queue; says whether it was there."""
        was_queued = self.queue.withdraw(call)
        self._lock_queues.update()
        return was_queued

    def run_on_thread(self, work: Callable[[], None]) -> None:
        """Run something on the thread, after the batch that it runs."""
        self._batches.put(work)

    def end(self, seconds: float) -> None:
        """End the thread, and wait for its end at most this long."""
        self.end_thread()
        self._thread.join(seconds)

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self.idle.clear()
            self._loop.call_soon(self._next_batch)

    def _next_batch(self) -> None:
        if self._turns < MAX_TURNS and 0 < 2 * self.queue.commands < self._last_size:
            self._turns += 1
            self._loop.call_soon(self._next_batch)
            return
        self._turns = 0
        self._last_size = self.queue.commands or self._last_size
        if batch := self._take():
            self._launch(batch)
        else:
            self._is_running = False
            self.idle.set()
            if self.lock is not None:
                self._lock_queues.emptied(self.lock)

    def _take(self) -> list[TaskCall]:
        """Take the next batch. On the loop it is half of many calls, so that the other half is sent while the first gets its answers."""
        batch: list[TaskCall] = []
        most = MAX_COMMANDS
        if self._on_loop is not None and not self._unanswered and self.queue.commands >= SPLIT_BATCH_AT:
            most = (self.queue.commands + 1) // 2
        self.queue.take(batch, most)
        return batch

    def _launch(self, batch: list[TaskCall]) -> None:
        """Have the batch applied, on the loop or by the thread."""
        self._batch = batch
        if self._on_loop is None or sum([call.size for call in batch]) > MAX_LOOP_COMMANDS:
            self._give_answers()
            self._batches.put(lambda: self._run(batch))
            return
        self._task = self._loop.create_task(self._run_on_loop(self._on_loop, batch), name="holdkit-batch")
        self._task.add_done_callback(lambda task: self._check_begun(task, batch))

    async def _run_on_loop(self, engine: AsyncApply, batch: list[TaskCall]) -> None:
        failed: Exception | None = None
        try:
            until, sent = latest(batch), self._give_answers if self._unanswered else None
            applied = await engine.apply_async(self.runner.begin(batch), sent, until=until)
            if applied.failed:  # what these come to is asked on the thread, because that may block
                self._give_answers()
                self._batches.put(lambda: self._run(batch, applied=applied))
                return
            wrote = self.runner.accept(batch, applied, until)
        except NeedsThread:
            pass
        except Exception as error:  # noqa: BLE001 - the runner knows what each error means
            failed = error
        except BaseException as error:  # the loop is ending
            give_up(batch, error)
            self._give_answers()
            self._settle(batch, True)
            raise
        else:
            self.queue.charge(batch)
            self._complete(batch, wrote=wrote, put_off=bool(applied.put_off))
            return
        self._give_answers()
        self._batches.put(lambda: self._run(batch, failed))

    def _check_begun(self, task: asyncio.Task[None], batch: list[TaskCall]) -> None:
        """Queue the batch of a task again if the task was cancelled before its first step: it has done nothing with it."""
        if task.cancelled() and self._batch is batch:
            self._settle(batch, False)

    def _complete(self, batch: Sequence[TaskCall], *, wrote: bool, put_off: bool) -> None:
        """Launch the next batch first, if enough calls are queued for one, and give the answers while it is written."""
        self._batch = ()
        if put_off:
            self._queue_again(unsettled(batch))
            batch = [call for call in batch if call.settled]
        self._unanswered.append((batch, wrote))
        following = self._take() if self.queue.commands * 4 >= len(batch) else []
        if following:
            self._launch(following)
            self._loop.call_later(ANSWER_DELAY_SECONDS, self._give_answers)
        else:
            self._give_answers()
            self._loop.call_soon(self._next_batch)

    def _give_answers(self) -> None:
        written, self._unanswered = self._unanswered, []
        for batch, wrote in written:
            self._answer(batch, wrote)

    def _run(self, batch: list[TaskCall], failed: Exception | None = None, applied: Applied | None = None) -> None:
        """Execute a batch on the worker thread, or settle one that was `applied` or has `failed` on the loop."""
        wrote = True
        try:
            if applied is None:
                wrote = self.runner.run(batch, latest(batch), failed=failed)
            else:
                wrote = self.runner.accept(batch, applied, latest(batch))
        except BaseException as error:  # noqa: BLE001 - a bug: no interrupt reaches this thread
            give_up(batch, error)
        finally:
            with suppress(RuntimeError):  # the loop was closed: no task waits any more
                self._loop.call_soon_threadsafe(self._settle, batch, wrote)

    def _settle(self, batch: list[TaskCall], wrote: bool) -> None:
        self.queue.charge(batch)
        unanswered = unsettled(batch)
        if unanswered:
            fail([call for call in unanswered if call.sent], OutcomeUnknown(INTERRUPTED))
            unanswered = unsettled(unanswered)
            self._queue_again(unanswered)
        self._batch = ()
        self._answer([call for call in batch if call not in unanswered] if unanswered else batch, wrote)
        if self.lock is not None:
            self._lock_queues.update()
        self._loop.call_soon(self._next_batch)  # after the tasks that were woken had their turn to queue again

    def _queue_again(self, calls: Sequence[TaskCall]) -> None:
        """Queue calls again that have done nothing, if a task waits for them or they are shielded."""
        self.queue.put_back([call for call in calls if call.shielded or not call.answered.done()])

    def _answer(self, batch: Sequence[TaskCall], wrote: bool) -> None:
        """Wake the tasks whose calls are settled; pass on those that were skipped."""
        for call in batch:
            answered = call.answered
            try:
                if call.error is not None and isinstance(call.error, SkippedLocked):
                    self._lock_queues.skipped(call, call.error.lock)
                elif not answered.done():
                    answered.set_result(None)
                elif call.undo is not None:
                    self._lock_queues.main.take_back(call)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks must be woken
                self._report(call, error)
        if wrote:
            self._committed.notify()

    def _report(self, call: TaskCall, error: Exception) -> None:
        """Report a bug that kept a call from waiting for a lock, or from being taken back: to its task, else to the loop's handler."""
        if call.answered.done():
            self._loop.call_exception_handler({"message": "holdkit: a grant was not taken back", "exception": error})
        else:
            fail([call], broken(error))
            call.wake()

    def take_back(self, call: TaskCall) -> None:
        """Undo what a call granted, because no caller received it. It frees units, so it is queued even if there is no room."""
        assert call.undo is not None
        undo, call.undo = call.undo, None
        group = None if call.outcomes is None else undo(call.outcomes)
        if group is not None:
            release = TaskCall(group, False, self._loop.create_future(), shielded=True)
            release.queue = self
            self.queue.append(release)
            self._start()


def latest(batch: Sequence[TaskCall]) -> float:
    """Return the deadline of a batch: that of the call that may wait longest. Tasks with an earlier one stop waiting by themselves."""
    return max([call.until for call in batch])


def give_up(batch: Sequence[TaskCall], error: BaseException) -> None:
    """Fail a batch that a bug has stopped before any of it was sent."""
    if not any(call.sent or call.settled for call in batch):
        fail(batch, broken(error))


def _work(batches: SimpleQueue[Callable[[], None] | None]) -> None:
    """Run the worker thread's jobs. It knows this queue and nothing else, so that a kernel that is no longer used can be collected."""
    while (run := batches.get()) is not None:
        with suppress(
            BaseException
        ):  # the calls of a batch that was sent are settled; the thread must live for the next
            run()
        del run
