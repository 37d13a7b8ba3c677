"""Group commit for the tasks of one event loop, and everything else that tasks ask of an engine.

Batches are run by a worker thread (`batch_worker`), or, where the engine can apply a batch without blocking, on the event loop
itself (`LoopBatches`). While the server writes one such batch, the tasks of the batch before get their answers; so the callers
form two halves that take turns. A batch that the engine cannot apply on the loop, or that fails there, goes to the thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from ..core.commands import Group
from ..core.model import Key
from ..core.outcomes import Reply
from ..core.reading import Query
from ..core.validation import invalid
from ..engines.deadlines import too_late, until
from ..engines.port import Applied, AsyncApply, Channels, Engine, NeedsThread
from ..errors import EngineError, HoldkitError
from .batch_worker import BatchWorker, DeadlineTimer, TaskCall, give_up, latest
from .batches import Feed
from .context import inside_any, refuse_inside
from .fair_queue import MAX_COMMANDS
from .group_commit import MainQueue
from .lock_queues import AsyncLockQueues
from .queued_calls import Undo, late_in_batch, unsettled
from .workers import GRACE, AsyncSignal, AsyncWorker

T = TypeVar("T")

SPLIT: Final = 128
"""With so many commands queued, a batch takes half of them and leaves the rest to the next; fewer are not worth two
transactions."""
MOST: Final = 256
"""Commands that are decided on the loop in one go: a larger batch would keep other tasks waiting, and goes to the thread."""
PATIENCE: Final = 0.005
"""Seconds that an answer waits at most for the next batch to be sent."""
LENT: Final = 4
"""Threads for jobs that use a transaction of the engine's own."""


class LoopBatches(BatchWorker):
    """A batch worker that applies batches on the event loop, where the engine can."""

    def __init__(self, engine: Engine, committed: AsyncSignal, feed: Feed, *, wait_for_locks: bool = False) -> None:
        super().__init__(engine, committed, feed, wait_for_locks=wait_for_locks)
        self._on_loop: AsyncApply | None = None if wait_for_locks else engine.capabilities.async_apply
        self._unanswered: list[tuple[Sequence[TaskCall], bool]] = []
        """Batches that were written, and whose tasks have not been woken yet."""
        self._task: asyncio.Task[None] | None = None

    def _take(self) -> list[TaskCall]:
        """Take the next batch; of many calls half, so that the other half is sent while these are answered."""
        batch: list[TaskCall] = []
        most = MAX_COMMANDS
        if self._on_loop is not None and not self._unanswered and self.queue.commands >= SPLIT:
            most = (self.queue.commands + 1) // 2
        self.queue.take(batch, most)
        return batch

    def _launch(self, batch: list[TaskCall]) -> None:
        if self._on_loop is None or sum([call.size for call in batch]) > MOST:
            self._give_answers()
            super()._launch(batch)
            return
        self._batch = batch
        self._task = self._loop.create_task(self._run_on_loop(self._on_loop, batch), name="holdkit-batch")
        self._task.add_done_callback(lambda task: self._check_begun(task, batch))

    async def _run_on_loop(self, engine: AsyncApply, batch: list[TaskCall]) -> None:
        failed: Exception | None = None
        try:
            with until(latest(batch)):
                applied = await engine.apply_async(self._runner.begin(batch), self._give_answers)
            if applied.failed:  # what these come to is asked on the thread, because that may block
                self._give_answers()
                self._batches.put(lambda: self._run(batch, applied=applied))
                return
            wrote = self._runner.accept(batch, applied)
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
            self._complete(batch, wrote)
            return
        self._give_answers()
        self._batches.put(lambda: self._run(batch, failed))

    def _check_begun(self, task: asyncio.Task[None], batch: list[TaskCall]) -> None:
        """A task that was cancelled before its first step has done nothing with its batch: queue it again."""
        if task.cancelled() and self._batch is batch:
            self._settle(batch, False)

    def _complete(self, batch: Sequence[TaskCall], wrote: bool) -> None:
        """Launch the next batch first, if enough calls are queued for one, and give the answers while it is written."""
        self._batch = ()
        self.queue.charge(batch)
        if put_off := unsettled(batch):
            self._queue_again(put_off)
            batch = [call for call in batch if call.settled]
        self._unanswered.append((batch, wrote))
        following = self._take() if self.queue.commands * 4 >= len(batch) else []
        if following:
            self._launch(following)
            self._loop.call_later(PATIENCE, self._give_answers)
        else:
            self._give_answers()
            self._loop.call_soon(self._next_batch)

    def _give_answers(self) -> None:
        written, self._unanswered = self._unanswered, []
        for batch, wrote in written:
            self._answer(batch, wrote)


class AsyncGroupCommit(LoopBatches, MainQueue):
    """Group commit for tasks, and everything else that a kernel asks of its engine."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        super().__init__(engine, AsyncSignal(), self._feed_soon)
        self._feed = feed
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="holdkit-reader")
        self._showing = ThreadPoolExecutor(2, thread_name_prefix="holdkit-showing")
        """For durable reads of what followers show: other reads do not wait behind them for a standby."""
        self._lenders = ThreadPoolExecutor(LENT, thread_name_prefix="holdkit-lender")
        self.workers: set[AsyncWorker] = set()
        self._lock_queues = AsyncLockQueues(self)
        self._deadlines = DeadlineTimer()
        self._open_transactions: weakref.WeakKeyDictionary[asyncio.Task[Any], Callable[[], bool]] = (
            weakref.WeakKeyDictionary()
        )
        """Tasks that have called with `tx=`, and whether that transaction is still open."""
        self._had_transactions = False

    def check(self) -> None:
        """Refuse after close, in a forked child, and in another event loop."""
        MainQueue.check(self)
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this kernel belongs to another event loop: connect_async in each")

    async def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Reply]:
        """Have the group written, in a batch with those of other callers. If the task is cancelled, a queued call is removed,
        unless it is `shielded`; one in a batch is written, and `undo` takes back what it granted."""
        self.check()
        if inside_any() is not None:
            refuse_inside(self.engine)
        if self._had_transactions:
            self._check_no_open_transaction()
        call = TaskCall(group, minted, self._loop.create_future(), shielded, self.deadline())
        queues, busy = self._lock_queues, self._lock_queues.busy
        lock = busy.queue_for(queues.open, group) if queues.open else busy.wait_at_once(group) if busy else None
        if lock is None:
            self.add(call)
        else:
            queues.enter(call, lock)
        self._deadlines.add(call)
        try:
            await call.answered
        except asyncio.CancelledError:
            if not shielded and not call.queue.withdraw(call) and undo is not None:
                call.undo = undo
                if call.outcomes is not None:  # settled in the same turn of the loop
                    self.take_back(call)
            raise
        finally:
            self._deadlines.discard(call)
        if call.outcomes is None and (call.error is None or call.skipped):
            raise self._late(call)
        if busy and not call.rounds:
            busy.found_free(group)
        return call.outcomes if call.outcomes is not None else call.result()

    def _late(self, call: TaskCall) -> HoldkitError:
        """The error of a call whose deadline has passed. If it was queued or skipped, nothing was done. Else it goes on, and its
        outcome is unknown; a shielded one has no deadline from now on."""
        if call.shielded:
            call.until = inf
            return late_in_batch()
        if call.skipped:
            return too_late()
        return too_late() if call.queue.withdraw(call) and not call.sent else late_in_batch()

    def _pass_on(self, call: TaskCall, lock: str) -> None:
        self._lock_queues.busy.found_taken(lock, call.group)
        self._lock_queues.enter(call, lock)

    async def apply_in(self, tx: Any, group: Group | None, lock: Sequence[Key] = ()) -> list[Reply]:
        """Skip the queue: the caller's own connection belongs to this loop, so the call is written right here."""
        self.check()
        applied = await self.engine.apply_in_async(tx, [] if group is None else [group], lock)
        task = asyncio.current_task()
        if task is not None and applied.still_open is not None:
            self._open_transactions[task] = applied.still_open
            self._had_transactions = True
        if applied.unfed:
            self._feed(applied)
        self.committed.notify()
        replies = applied.replies(None)
        return replies[0] if replies else []

    async def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that uses a transaction of the engine's own, on a thread, in the caller's context. If the task is cancelled
        while the job waits for a thread, it does not begin; later, it runs on."""
        self.check()
        self._check_no_open_transaction()
        with until(self.deadline()):
            run = contextvars.copy_context().run
        result = await self._loop.run_in_executor(self._lenders, run, job, self.engine)
        self.committed.notify()
        return result

    def _check_no_open_transaction(self) -> None:
        """A task that waited behind its own open transaction would wait for itself."""
        task = asyncio.current_task()
        still_open = self._open_transactions.get(task) if task is not None else None
        if still_open is not None and still_open():
            raise invalid(
                "tx", "tx_open_here", "this task has a transaction open with tx=: pass it here too, or commit first"
            )

    def _feed_soon(self, applied: Applied) -> None:
        """On any thread: `feed` is called on the loop's."""
        if applied.unfed or applied.served:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._feed, applied)

    def listen(self) -> None:
        """From now on be woken by the commits of other processes too, where the engine can tell."""

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self.committed.notify)

        self.engine.listen(wake)

    def listen_on(self, channels: Channels, channel: str, wake: Callable[[], None]) -> None:
        """From now on call `wake` on the loop's thread when a process notifies this channel."""

        def wake_soon() -> None:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(wake)

        channels.listen_on(channel, wake_soon)

    async def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask the engine, on a thread; or ask inside the caller's own transaction, which belongs to this loop."""
        self.check()
        if tx is not None:
            return await self.engine.read_in_async(tx, query)
        with until(self.deadline()):
            run = contextvars.copy_context().run
        threads = self._showing if durable and query.shown else self._readers
        return await self._loop.run_in_executor(threads, run, partial(self.engine.read, query, durable=durable))

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work that has no deadline, on a thread of its own: it may take longer than reads can wait."""
        self.check()
        thread = ThreadPoolExecutor(1, thread_name_prefix="holdkit-blocking")
        try:
            return await self._loop.run_in_executor(thread, work)
        finally:
            thread.shutdown(wait=False)

    async def close(self) -> None:
        """Refuse further calls, finish those that are queued, end the workers, close the engine. If cancelled, call it again."""
        self._closed = True
        if self.in_child or not self.end_thread.alive:
            return
        self.committed.close()
        if not self._loop.is_closed():
            while (
                self._running or not self._lock_queues.empty.is_set()
            ):  # a lock queue may queue an undo in the main queue
                await self._idle.wait()
                await self._lock_queues.empty.wait()
            for worker in tuple(self.workers):
                await worker.end(GRACE)
            ended = asyncio.Event()
            self._batches.put(lambda: self._shut(ended))
            await ended.wait()
        else:  # and with the loop everything that waited there is gone
            self._lock_queues.end_threads()
            self._shut(None)
        self.end_thread()
        self._thread.join(GRACE)

    def _shut(self, ended: asyncio.Event | None) -> None:
        try:
            self._readers.shutdown()
            self._lenders.shutdown()
            self.engine.close()  # ends what waits for a standby
            self._showing.shutdown()
        finally:
            if ended is not None:
                self._loop.call_soon_threadsafe(ended.set)
