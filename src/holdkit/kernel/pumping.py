"""Group commit for tasks: one pump, started by `call_soon`, runs batches on one thread, so that all waiting tasks ride
together, at one thread hop per batch.

Cancelled while queued: removed, and certainly not applied. Cancelled in flight: it runs on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ..core.commands import Group
from ..core.outcomes import Outcome
from ..core.reading import Query
from ..core.validation import invalid
from ..engines.port import Engine
from ..errors import EngineError
from .batches import Submission, unsettled
from .turnstile import Turnstile, Undo
from .workers import GRACE, AsyncSignal, AsyncWorker

T = TypeVar("T")


class _Awaited(Submission):
    __slots__ = ("undo", "waiter")

    waiter: asyncio.Future[None]
    undo: Undo | None


class AsyncSubmitter(Turnstile):
    """Group commit for tasks of one event loop."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._writer = threading.Thread(target=_work, args=(self._batches,), name="holdkit-writer", daemon=True)
        self._writer.start()
        self._dismiss_writer = weakref.finalize(self, self._batches.put, None)  # also if nobody ever closes
        self._reader = ThreadPoolExecutor(2, thread_name_prefix="holdkit-reader")
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.committed = AsyncSignal()
        self.crew: set[AsyncWorker] = set()
        self._joined: weakref.WeakKeyDictionary[asyncio.Task[Any], Any] = weakref.WeakKeyDictionary()

    def check(self) -> None:
        """Refuse after close, in a forked child, and in another event loop."""
        super().check()
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this kernel belongs to another event loop: connect_async in each")

    async def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, stays: bool = False
    ) -> list[Outcome]:
        """Queue the group and wait for its batch. Cancelled while queued: removed (unless it `stays`). In flight: it runs
        on, and `undo` takes back a grant that nobody received."""
        self.check()
        self._check_joined()
        submission = _Awaited(group, minted)
        submission.waiter, submission.undo = self._loop.create_future(), None
        self._enqueue(submission)
        self._start()
        try:
            await submission.waiter
        except asyncio.CancelledError:
            if not stays and not self._withdraw(submission) and undo is not None:
                submission.undo = undo
                if submission.outcomes is not None:  # settled in the same turn of the loop
                    self._take_back(submission)
            raise
        return submission.result()

    def _start(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._idle.clear()
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        batch: list[Any] = []
        self._take(batch)
        if batch:
            self._batches.put(lambda: self._run(batch))
        else:
            self._pumping = False
            self._idle.set()

    def _run(self, batch: list[_Awaited]) -> None:
        wrote = True
        try:
            wrote = self._runner.run(batch)
        finally:
            with suppress(RuntimeError):  # the loop was closed under us: nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, batch, wrote)

    def _settle(self, batch: list[_Awaited], wrote: bool) -> None:
        again = unsettled(batch)
        self._queue.extendleft(reversed(again))
        self._queued += sum([submission.size for submission in again])
        for submission in batch:
            if submission in again:
                continue
            if not submission.waiter.done():
                submission.waiter.set_result(None)
            elif submission.undo is not None:
                self._take_back(submission)
        if wrote:
            self.committed.notify()
        self._loop.call_soon(self._pump)  # after the woken tasks have had their turn to queue again

    def _take_back(self, submission: _Awaited) -> None:
        assert submission.undo is not None
        group = None if submission.outcomes is None else submission.undo(submission.outcomes)
        if group is not None:  # never refused for want of room: it frees what it names
            taking = _Awaited(group)
            taking.waiter, taking.undo = self._loop.create_future(), None
            self._queue.append(taking)
            self._queued += taking.size
            self._start()

    async def apply_in(self, tx: Any, group: Group | None) -> list[Outcome]:
        """Skip the queue: the caller's own connection belongs to this thread, so it runs right here."""
        self.check()
        outcomes = self.engine.apply_in(tx, [] if group is None else [group]).outcomes
        task = asyncio.current_task()
        if task is not None:
            self._joined[task] = tx
        self.committed.notify()
        return outcomes[0] if outcomes else []

    def _check_joined(self) -> None:
        """A task that waited behind its own open transaction would wait for itself."""
        task = asyncio.current_task() if self._joined else None
        tx = self._joined.get(task) if task is not None else None
        if getattr(tx, "in_transaction", False):
            raise invalid(
                "tx", "tx_open_here", "this task has a transaction open with tx=: pass it here too, or commit first"
            )

    async def read(self, query: Query[T]) -> T:
        """Ask the engine, off the loop."""
        self.check()
        return await self._loop.run_in_executor(self._reader, self.engine.read, query)

    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking work, off the loop."""
        self.check()
        return await self._loop.run_in_executor(self._reader, work)

    async def aclose(self) -> None:
        """Refuse what comes, finish what is queued, end the crew, close the engine. If cancelled, call it again."""
        self._closed = True
        if os.getpid() != self._pid or not self._dismiss_writer.alive:
            return
        self.committed.close()
        if not self._loop.is_closed():
            await self._idle.wait()
            for worker in tuple(self.crew):
                await worker.end(GRACE)
            ended = asyncio.Event()
            self._batches.put(lambda: self._shut(ended))
            await ended.wait()
        else:  # the loop was closed under us, and everything that waited there is gone
            self._shut(None)
        self._dismiss_writer()
        self._writer.join(GRACE)

    def _shut(self, ended: asyncio.Event | None) -> None:
        try:
            self._reader.shutdown()
            self.engine.close()
        finally:
            if ended is not None:
                self._loop.call_soon_threadsafe(ended.set)


def _work(batches: SimpleQueue[Callable[[], None] | None]) -> None:
    """The writer's thread. It knows the queue and nothing else, so that a forgotten kernel can be collected."""
    while (run := batches.get()) is not None:
        with suppress(BaseException):  # whoever was sent is told; the thread must live for those who come
            run()
        del run
