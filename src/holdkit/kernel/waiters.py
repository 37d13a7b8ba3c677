"""All that differs between the colours: how a caller waits, how a batch is led, how background work runs.

Sync: the caller that finds no leader leads, and carries everyone queued behind it; it wakes its followers before it passes
the lead. Async: one pump, started by `call_soon`, runs batches on a one-thread executor, so that all waiting tasks ride
together. The two never share a queue. Nothing here knows what a command means.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..core.commands import Group
from ..core.outcomes import Outcome
from ..core.reading import Query
from ..engines.port import Engine
from ..errors import EngineError, Overloaded
from .batches import Submission, run_batch, take_batch

T = TypeVar("T")


class Turnstile:
    """What both queues share: the bound, and the refusal after close or fork."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._queue: deque[Submission] = deque()
        self._queued = 0
        self._pid = os.getpid()
        self._closed = False

    def _admit(self, group: Group) -> Submission:
        self.check()
        size = len(group.commands)
        if self._queued + size > self.engine.limits.max_queue:
            raise Overloaded(f"{self._queued} commands are waiting already (max_queue): try again a little later")
        self._queued += size
        submission = self._submission(group)
        self._queue.append(submission)
        return submission

    def _submission(self, group: Group) -> Submission:
        return Submission(group)

    def _take(self) -> list[Submission]:
        batch = take_batch(self._queue)
        for submission in batch:
            self._queued -= len(submission.group.commands)
        return batch

    def _withdraw(self, submission: Submission) -> bool:
        """Take a submission back out of the queue, if it is there still."""
        try:
            self._queue.remove(submission)
        except ValueError:
            return False
        self._queued -= len(submission.group.commands)
        return True

    def check(self) -> None:
        """Refuse after close, and in a forked child."""
        if self._closed:
            raise EngineError("this kernel is closed: connect again")
        if os.getpid() != self._pid:
            raise EngineError("this kernel was opened before a fork: connect anew in the child process")


class _Follower(Submission):
    __slots__ = ("appointed", "woken")

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.woken = threading.Lock()
        self.woken.acquire()
        self.appointed = False


class Submitter(Turnstile):
    """Group commit for threads."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._lock = threading.Lock()
        self._led = False
        self.committed = Signal()

    def _submission(self, group: Group) -> Submission:
        return _Follower(group)

    def submit(self, group: Group, undo: Callable[[list[Outcome]], Group | None] | None = None) -> list[Outcome]:
        """Queue the group, lead or follow, and return its outcomes. (A thread is never cancelled: `undo` is for tasks.)"""
        del undo
        with self._lock:
            submission = self._admit(group)
            assert isinstance(submission, _Follower)
            lead = not self._led
            self._led = True
        if not lead:
            try:
                submission.woken.acquire()
            except BaseException:
                self._desert(submission)
                raise
            if not submission.appointed:
                return submission.result()
        self._lead()
        return submission.result()

    def _lead(self) -> None:
        """Run one batch, wake its followers, pass the lead."""
        batch: list[Submission] = []
        try:
            with self._lock:
                batch = self._take()
            if run_batch(self.engine, batch):
                self.committed.notify()
        finally:
            for submission in batch[1:]:  # the first is the leader itself
                assert isinstance(submission, _Follower)
                submission.woken.release()
            self._pass_lead()

    def _pass_lead(self) -> None:
        with self._lock:
            heir = self._queue[0] if self._queue else None
            self._led = heir is not None
            if isinstance(heir, _Follower):
                heir.appointed = True
                heir.woken.release()

    def _desert(self, submission: _Follower) -> None:
        """An interrupted follower leaves; if it had just been appointed, someone else must lead."""
        with self._lock:
            self._withdraw(submission)
            appointed = submission.appointed
        if appointed:
            self._pass_lead()

    def apply_in(self, tx: Any, group: Group | None) -> list[Outcome]:
        """Skip the queue: the caller's own connection, in the caller's own transaction."""
        self.check()
        outcomes = self.engine.apply_in(tx, [] if group is None else [group]).outcomes
        self.committed.notify()
        return outcomes[0] if outcomes else []

    def read(self, query: Query[T]) -> T:
        """Ask the engine."""
        self.check()
        return self.engine.read(query)

    def call(self, work: Callable[[], T]) -> T:
        """Run blocking work."""
        self.check()
        return work()

    def close(self) -> None:
        """Refuse what comes, finish what runs, close the engine."""
        if self._closed:
            return
        self._closed = True
        self.committed.close()
        self.engine.close()


class AsyncSubmitter(Turnstile):
    """Group commit for tasks of one event loop."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="holdkit-writer")
        self._reader = ThreadPoolExecutor(2, thread_name_prefix="holdkit-reader")
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.committed = AsyncSignal()

    def _submission(self, group: Group) -> Submission:
        return _Awaited(group, self._loop.create_future())

    async def submit(self, group: Group, undo: Callable[[list[Outcome]], Group | None] | None = None) -> list[Outcome]:
        """Queue the group and wait for its batch. Cancelled while queued: removed. In flight: it runs on, and `undo` says
        what takes back a grant that nobody received."""
        submission = self._admit(group)
        assert isinstance(submission, _Awaited)
        if not self._pumping:
            self._pumping = True
            self._idle.clear()
            self._loop.call_soon(self._pump)
        try:
            await submission.settled
        except asyncio.CancelledError:
            if not self._withdraw(submission) and undo is not None:
                submission.undo = undo
                if submission.outcomes is not None:  # settled in the same turn of the loop
                    self._take_back(submission)
            raise
        return submission.result()

    def _pump(self) -> None:
        if not self._queue:
            self._pumping = False
            self._idle.set()
            return
        batch = self._take()
        self._writer.submit(self._run, batch)

    def _run(self, batch: list[Submission]) -> None:
        wrote = False
        try:
            wrote = run_batch(self.engine, batch)
        finally:
            self._loop.call_soon_threadsafe(self._settle, batch, wrote)

    def _settle(self, batch: list[Submission], wrote: bool) -> None:
        for submission in batch:
            assert isinstance(submission, _Awaited)
            if not submission.settled.done():
                submission.settled.set_result(None)
            elif submission.undo is not None:
                self._take_back(submission)
        if wrote:
            self.committed.notify()
        self._loop.call_soon(self._pump)  # after the woken tasks have had their turn to queue again

    def _take_back(self, submission: _Awaited) -> None:
        assert submission.undo is not None
        group = None if submission.outcomes is None else submission.undo(submission.outcomes)
        if group is not None:
            self._queued += len(group.commands)
            self._queue.append(_Awaited(group, self._loop.create_future()))
            if not self._pumping:
                self._pumping = True
                self._idle.clear()
                self._loop.call_soon(self._pump)

    async def apply_in(self, tx: Any, group: Group | None) -> list[Outcome]:
        """Skip the queue: the caller's own connection belongs to this thread, so it runs right here."""
        self.check()
        outcomes = self.engine.apply_in(tx, [] if group is None else [group]).outcomes
        self.committed.notify()
        return outcomes[0] if outcomes else []

    async def read(self, query: Query[T]) -> T:
        """Ask the engine, off the loop."""
        self.check()
        return await self._loop.run_in_executor(self._reader, self.engine.read, query)

    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking work, off the loop."""
        self.check()
        return await self._loop.run_in_executor(self._reader, work)

    async def aclose(self) -> None:
        """Refuse what comes, finish what runs, close the engine."""
        if self._closed:
            return
        self._closed = True
        self.committed.close()
        await self._idle.wait()
        self._writer.shutdown()
        self._reader.shutdown()
        self.engine.close()


class _Awaited(Submission):
    __slots__ = ("settled", "undo")

    def __init__(self, group: Group, settled: asyncio.Future[None]) -> None:
        super().__init__(group)
        self.settled = settled
        self.undo: Callable[[list[Outcome]], Group | None] | None = None


class Signal:
    """Something happened, for threads: a count that only grows, and a way to wait for it to move."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self._waiting = 0
        self._condition = threading.Condition()

    def notify(self) -> None:
        """Count one more, and wake whoever waits."""
        self.count += 1
        if self._waiting:
            with self._condition:
                self._condition.notify_all()

    def close(self) -> None:
        """Wake everybody for good."""
        self.closed = True
        with self._condition:
            self._condition.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """Return when the count is no longer `seen`, on close, or after so many seconds."""
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait_for(lambda: self.closed or self.count != seen, seconds)
            finally:
                self._waiting -= 1
        return self.count


class AsyncSignal:
    """Something happened, for tasks. Notified on the loop's own thread."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Count one more, and wake whoever waits."""
        self.count += 1
        self._event.set()

    def close(self) -> None:
        """Wake everybody for good."""
        self.closed = True
        self._event.set()

    async def wait(self, seen: int, seconds: float) -> int:
        """Return when the count is no longer `seen`, on close, or after so many seconds."""
        if self.count == seen and not self.closed:
            self._event.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass
        return self.count


class Worker:
    """Background work on a daemon thread."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the work is over (its own thread does not wait for itself)."""
        if self._thread is not threading.current_thread():
            self._thread.join()


class AsyncWorker:
    """Background work as a task."""

    def __init__(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        async def run() -> None:
            await work()

        self._task = asyncio.get_running_loop().create_task(run(), name=name)

    async def join(self) -> None:
        """Wait until the work is over (its own task does not wait for itself)."""
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])


async def call_listener(callback: Callable[[Any], Any], entry: Any) -> None:
    """Call a listener that may be a plain function or a coroutine function."""
    result = callback(entry)
    if isinstance(result, Awaitable):
        await result
