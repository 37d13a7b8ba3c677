"""All that differs between the colours, under names that differ by their prefix alone. The two never share a queue."""

from __future__ import annotations

import asyncio
import contextvars
import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from ..core.commands import Group
from ..core.model import Key
from ..core.outcomes import Outcome
from ..core.reading import Query
from ..core.validation import invalid
from ..engines.deadlines import run_until, too_late, until
from ..engines.port import Engine, Insider
from ..errors import EngineError, HoldkitError
from .async_group_commit import LoopBatches
from .async_lock_queues import AsyncLockQueues
from .batch_worker import Awaited, Overdue
from .bounded_queue import BoundedQueue, Undo
from .leader_queue import LeaderQueue
from .lock_queues import LockQueues
from .own_transaction import refuse_inside
from .queued_calls import under_way
from .workers import GRACE, AsyncSignal, AsyncWorker, Signal, Worker

__all__ = ["AsyncGroupCommit", "GroupCommit", "Undo"]

T = TypeVar("T")

LENT = 4
"""Threads on which tasks' jobs run that have a transaction lent to them."""


class GroupCommit(LeaderQueue, BoundedQueue):
    """Group commit for threads, and all else that a kernel asks of its engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, Signal())
        self.workers: set[Worker] = set()
        self._lock_queues = LockQueues(self)

    def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Outcome]:
        """Straight to the room of what is locked, if there is one; else through the queue."""
        del undo, shielded  # a thread is never cancelled
        refuse_inside(self.engine)
        return run_until(self.deadline(), self._submit, group, minted)

    def _submit(self, group: Group, minted: bool) -> list[Outcome]:
        what = self._lock_queues.known(group)
        if what is None:
            return super().submit(group, minted=minted)
        self.check()
        return self._lock_queues.wait(what, group, minted)

    def _wait_for(self, what: str, group: Group, minted: bool) -> list[Outcome]:
        return self._lock_queues.wait(what, group, minted)

    def apply_in(self, tx: Any, group: Group | None, lock: Sequence[Key] = ()) -> list[Outcome]:
        """Skip the queue: the caller's own connection, in the caller's own transaction."""
        self.check()
        outcomes = self.engine.apply_in(tx, [] if group is None else [group], lock).outcomes
        self.committed.notify()
        return outcomes[0] if outcomes else []

    def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that has a transaction of the engine's own lent to it (`own_transaction`)."""
        self.check()
        result = run_until(self.deadline(), job, self.engine)
        self.committed.notify()
        return result

    def listen(self) -> None:
        """From now on be woken by other processes too, where they tell."""
        self.engine.listen(self.committed.notify)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Ask inside the caller's own transaction."""
        self.check()
        assert isinstance(self.engine, Insider), "an engine that can be joined can be asked there too"
        return self.engine.read_in(tx, query)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Ask the engine."""
        self.check()
        return run_until(self.deadline(), partial(self.engine.read, query, durable=durable))

    def call(self, work: Callable[[], T]) -> T:
        """Run blocking work that takes as long as it takes."""
        self.check()
        return run_until(None, work)

    def close(self) -> None:
        """Refuse what comes, finish what runs, end the crew, close the engine."""
        if self._closed:
            return
        if os.getpid() != self._pid:  # the parent's connections are not ours to close
            self._closed = True
            return
        self.committed.close()  # first: who is refused because we are closed can see that we are
        self._closed = True
        with self._lock:
            busy = self._leader is not None
        if busy:
            self._idle.wait(GRACE)
        self._lock_queues.close(GRACE)
        for worker in tuple(self.workers):
            worker.end(GRACE)
        self.engine.close()


class AsyncGroupCommit(LoopBatches, BoundedQueue):
    """Group commit for tasks of one event loop, and all else that a kernel asks of its engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, AsyncSignal())
        self._reader = ThreadPoolExecutor(2, thread_name_prefix="holdkit-reader")
        self._lender = ThreadPoolExecutor(LENT, thread_name_prefix="holdkit-lender")
        self.workers: set[AsyncWorker] = set()
        self._lock_queues = AsyncLockQueues(self)
        self._overdue = Overdue()
        self._joined: weakref.WeakKeyDictionary[asyncio.Task[Any], Callable[[], bool]] = weakref.WeakKeyDictionary()

    def check(self) -> None:
        """Refuse after close, in a forked child, and in another event loop."""
        super().check()
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this kernel belongs to another event loop: connect_async in each")

    async def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Outcome]:
        """Queue the group and wait for its batch. Cancelled while queued: removed (unless it `shielded`). In flight: it runs
        on, and `undo` takes back a grant that nobody received."""
        self.check()
        refuse_inside(self.engine)
        self._check_joined()
        submission = Awaited(group, minted, self._loop.create_future(), shielded)
        submission.until = self.deadline()
        what = self._lock_queues.known(group)
        if what is None:
            self.add(submission)
        else:
            self._lock_queues.enter(submission, what)
        self._overdue.add(submission)
        try:
            await submission.waiter
        except asyncio.CancelledError:
            if not shielded and not submission.line.withdraw(submission) and undo is not None:
                submission.undo = undo
                if submission.outcomes is not None:  # settled in the same turn of the loop
                    self.take_back(submission)
            raise
        finally:
            self._overdue.discard(submission)
        if submission.outcomes is None and (submission.error is None or submission.skipped_locked):
            raise self._late(submission)
        return submission.result()

    def _late(self, submission: Awaited) -> HoldkitError:
        """Its time is up. Queued, or left out of a batch: nothing was done. Else it goes on, and is not known; one that stays has all
        the time it needs from now on."""
        if submission.shielded:
            submission.until = inf
            return under_way()
        if submission.skipped_locked:
            return too_late()
        return too_late() if submission.line.withdraw(submission) and not submission.sent else under_way()

    def _pass_on(self, submission: Awaited, what: str) -> None:
        self._lock_queues.enter(submission, what)

    async def apply_in(self, tx: Any, group: Group | None, lock: Sequence[Key] = ()) -> list[Outcome]:
        """Skip the queue: the caller's own connection belongs to this loop, so it runs right here."""
        self.check()
        applied = await self.engine.apply_in_async(tx, [] if group is None else [group], lock)
        task = asyncio.current_task()
        if task is not None and applied.still_open is not None:
            self._joined[task] = applied.still_open
        self.committed.notify()
        return applied.outcomes[0] if applied.outcomes else []

    async def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that has a transaction of the engine's own lent to it, off the loop, in the caller's context. Cancelled
        while it waits for a thread: not begun. Later: it runs on."""
        self.check()
        self._check_joined()
        with until(self.deadline()):
            run = contextvars.copy_context().run
        result = await self._loop.run_in_executor(self._lender, run, job, self.engine)
        self.committed.notify()
        return result

    def _check_joined(self) -> None:
        """A task that waited behind its own open transaction would wait for itself."""
        task = asyncio.current_task() if self._joined else None
        still_open = self._joined.get(task) if task is not None else None
        if still_open is not None and still_open():
            raise invalid(
                "tx", "tx_open_here", "this task has a transaction open with tx=: pass it here too, or commit first"
            )

    def listen(self) -> None:
        """From now on be woken by other processes too, where they tell."""

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed under us
                self._loop.call_soon_threadsafe(self.committed.notify)

        self.engine.listen(wake)

    async def read_in(self, tx: Any, query: Query[T]) -> T:
        """Ask inside the caller's own transaction, which belongs to this loop."""
        self.check()
        assert isinstance(self.engine, Insider), "an engine that can be joined can be asked there too"
        return await self.engine.read_in_async(tx, query)

    async def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Ask the engine, off the loop."""
        self.check()
        with until(self.deadline()):
            run = contextvars.copy_context().run
        return await self._loop.run_in_executor(self._reader, run, partial(self.engine.read, query, durable=durable))

    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking work that takes as long as it takes, off the loop."""
        self.check()
        return await self._loop.run_in_executor(self._reader, work)

    async def aclose(self) -> None:
        """Refuse what comes, finish what is queued, end the crew, close the engine. If cancelled, call it again."""
        self._closed = True
        if os.getpid() != self._pid or not self._dismiss_writer.alive:
            return
        self.committed.close()
        if not self._loop.is_closed():
            while self._pumping or not self._lock_queues.empty.is_set():  # what is taken back comes from a room to us
                await self._idle.wait()
                await self._lock_queues.empty.wait()
            for worker in tuple(self.workers):
                await worker.end(GRACE)
            ended = asyncio.Event()
            self._batches.put(lambda: self._shut(ended))
            await ended.wait()
        else:  # the loop was closed under us, and everything that waited there is gone
            self._lock_queues.dismiss()
            self._shut(None)
        self._dismiss_writer()
        self._writer.join(GRACE)

    def _shut(self, ended: asyncio.Event | None) -> None:
        try:
            self._reader.shutdown()
            self._lender.shutdown()
            self.engine.close()
        finally:
            if ended is not None:
                self._loop.call_soon_threadsafe(ended.set)
