"""Group commit for the tasks of one event loop, and everything else that tasks ask of an engine.

Batches are formed and run by `batch_worker`.
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
from ..engines.port import Applied, Channels, Engine
from ..errors import EngineError, HoldkitError
from .batch_worker import DeadlineTimer
from .batches import Feed, TaskCall, Undo, late_in_batch
from .context import inside_any, refuse_inside
from .group_commit import OpenEngine
from .lock_queues import AsyncLockQueues
from .results import replies_of
from .workers import GRACE, AsyncSignal, AsyncWorker

T = TypeVar("T")

MAX_LENDERS: Final = 4
"""Threads for jobs that use a transaction of the engine's own."""


class AsyncGroupCommit(OpenEngine):
    """Group commit for tasks, and everything else that a kernel asks of its engine."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        self.committed = AsyncSignal()
        """Notified after every commit."""
        self._feed = feed
        self.workers: set[AsyncWorker] = set()
        self._loop = asyncio.get_running_loop()
        self._lock_queues = AsyncLockQueues(engine, self.committed, self._feed_soon)
        self.main = self._lock_queues.main
        """The queue of all calls that wait for no lock, and its thread."""
        super().__init__(engine, self.main.runner, self.main.queue)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="holdkit-reader")
        self._showing = ThreadPoolExecutor(2, thread_name_prefix="holdkit-showing")
        """For the durable reads of followers: other reads do not wait behind them for a standby."""
        self._lenders = ThreadPoolExecutor(MAX_LENDERS, thread_name_prefix="holdkit-lender")
        self._deadlines = DeadlineTimer()
        self._open_transactions: weakref.WeakKeyDictionary[asyncio.Task[Any], Callable[[], bool]] = (
            weakref.WeakKeyDictionary()
        )
        """Tasks that have called with `tx=`, and whether that transaction is still open."""
        self._had_transactions = False

    def check(self) -> None:
        """Refuse after close, in a forked child, and in another event loop."""
        super().check()
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this kernel belongs to another event loop: connect_async in each")

    async def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Reply]:
        """Have the group written, in a batch with those of other callers.

        If the task is cancelled, a queued call is removed, unless it is `shielded`; one in a batch is written, and `undo` takes back
        what it granted.
        """
        self.check()
        if inside_any() is not None:
            refuse_inside(self.engine)
        if self._had_transactions:
            self._check_no_open_transaction()
        call = TaskCall(group, minted, self._loop.create_future(), shielded, self.deadline())
        queues, busy = self._lock_queues, self._lock_queues.busy
        lock = busy.queue_for(queues.open, group) if queues.open else busy.wait_at_once(group) if busy.at_once else None
        if lock is None:
            self.main.add(call)
        else:
            queues.enter(call, lock)
        self._deadlines.add(call)
        try:
            await call.answered
        except asyncio.CancelledError:
            if not shielded and not call.queue.withdraw(call) and undo is not None:
                call.undo = undo
                if call.outcomes is not None:  # settled in the same turn of the loop
                    self.main.take_back(call)
            raise
        finally:
            del self._deadlines.waiting[call]
        if call.outcomes is None and (call.error is None or call.skipped):
            raise self._late(call)
        if busy.at_once and not call.rounds:
            busy.found_free(group)
        return call.outcomes if call.outcomes is not None else call.result()

    def _late(self, call: TaskCall) -> HoldkitError:
        """Return the error of a call whose deadline has passed.

        If it was queued or skipped, nothing was done. Else it continues, and its outcome is unknown; a shielded one has no deadline
        from now on.
        """
        if call.shielded:
            call.until = inf
            return late_in_batch()
        if call.skipped:
            return too_late()
        return too_late() if call.queue.withdraw(call) and not call.sent else late_in_batch()

    async def apply_in(self, tx: Any, group: Group | None, lock: Sequence[Key] = ()) -> list[Reply]:
        """Skip the queue: the caller's own connection belongs to this loop, so the call is written right here."""
        self.check()
        applied = await self.engine.apply_in_async(tx, [] if group is None else [group], lock)
        task = asyncio.current_task(self._loop)
        if task is not None and applied.still_open is not None:
            self._open_transactions[task] = applied.still_open
            self._had_transactions = True
        if applied.unfed:
            self._feed(applied)
        self.committed.notify()
        replies = replies_of(applied, None)
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
        """Refuse a task that has an open transaction of its own: it would wait for itself."""
        task = asyncio.current_task(self._loop)
        still_open = self._open_transactions.get(task) if task is not None else None
        if still_open is not None and still_open():
            raise invalid(
                "tx", "tx_open_here", "this task has a transaction open with tx=: pass it here too, or commit first"
            )

    def _call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop's thread, unless the loop was closed. From any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def _feed_soon(self, applied: Applied) -> None:
        """Call `feed` on the loop's thread. From any thread."""
        if applied.unfed or applied.served:
            self._call_soon(self._feed, applied)

    def listen(self) -> None:
        """Wake followers on the commits of other processes too, where the engine can tell."""
        self.engine.listen(partial(self._call_soon, self.committed.notify))

    def listen_on(self, channels: Channels, channel: str, wake: Callable[[], None]) -> None:
        """Call `wake` on the loop's thread whenever a process notifies this channel."""
        channels.listen_on(channel, partial(self._call_soon, wake))

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
        if self.in_child or not self.main.end_thread.alive:
            return
        self.committed.close()
        if not self._loop.is_closed():
            while not (self.main.idle.is_set() and self._lock_queues.empty.is_set()):
                await self.main.idle.wait()
                await self._lock_queues.empty.wait()  # where a call may queue an undo in the main queue
            for worker in tuple(self.workers):
                await worker.end(GRACE)
            ended = asyncio.Event()
            self.main.run_on_thread(lambda: self._shut(ended))
            await ended.wait()
        else:  # and everything that waited on the loop is gone
            self._lock_queues.end_threads()
            self._shut(None)
        self.main.end(GRACE)

    def _shut(self, ended: asyncio.Event | None) -> None:
        try:
            self._readers.shutdown()
            self._lenders.shutdown()
            self.engine.close()  # ends what waits for a standby
            self._showing.shutdown()
        finally:
            if ended is not None:
                self._loop.call_soon_threadsafe(ended.set)
