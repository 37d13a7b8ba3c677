"""Lock queues: calls that need something which another transaction has locked wait here, apart from all other calls.

Theory of operation
-------------------

A batch of the main queue never waits for a lock: the engine skips the calls that would have to wait, and names what is locked.
Each skipped call goes on to the lock queue of that name. A lock queue is a second group commit whose batches do wait. While
its first batch waits for the lock, further calls queue up behind it; they are added to that batch once it has the lock, where
the engine can do that, or form the next one. A call that names a locked pool goes to its lock queue at once, without the detour.
Where that was so lately, it waits at once even if nobody else does (`busy_locks`).

*Invariants*

 1. A lock queue exists exactly while a call is in it. There are at most `MAX_QUEUES`; calls for other locks wait until one of
    them is free, for the lock timeout at most.
 2. Blocked calls, those in lock queues and those that wait for one, hold at most half of the main queue's bound, and the main
    queue's bound is smaller by their size: a locked pool must not turn away the callers of other pools.
 3. Nothing of a skipped call was done. It may be skipped `MAX_ROUNDS` times, each time for another lock, then it is turned away.

*Threads* (`LockQueues`). The caller's own thread waits, in a `LeaderQueue`. An interrupt can strike it anywhere. `_depart` runs
until it is done (`run_to_end`): it removes the call wherever it is, so it can be repeated, and `wait` has a second `finally` for
an interrupt that strikes before `_depart` begins. All waiting is for plain locks: an interrupt can leave a condition locked.

*Tasks* (`AsyncLockQueues`). Everything happens on the event loop's thread. Each lock queue is a `BatchWorker` with a thread of
its own, so that a blocked batch blocks no other. A call moves on by itself, whether or not its task still waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

from ..core.commands import Group
from ..core.model import SECOND
from ..core.outcomes import Reply
from ..errors import EngineError, HoldkitError, Overloaded
from .batch_worker import BatchWorker, TaskCall
from .busy_locks import BusyLocks
from .fair_queue import FairQueue
from .leader_queue import CLOSED, LeaderQueue, run_to_end
from .queued_calls import QueuedCall, SkippedLocked, fail

MAX_QUEUES: Final = 16
"""Locks that may be waited for at once."""
MAX_ROUNDS: Final = 3
"""How often one call is skipped before it is turned away."""


def still_locked(lock: str) -> Overloaded:
    """The error of a call that has waited several times."""
    return Overloaded(f"{lock} is locked by another transaction, still: try again a little later", retry_after=1)


def no_queue_left(lock: str) -> Overloaded:
    """The error of a call that has not even found a lock queue."""
    return Overloaded(f"{lock} is locked by another transaction, and so is much else: try again a little later")


class BlockedBound:
    """How many commands may be blocked; the main queue takes as many fewer."""

    def __init__(self, main: FairQueue) -> None:
        self._main, self._whole = main, main.bound
        self._half = max(1, main.bound // 2)

    def check(self, blocked: int, size: int) -> None:
        """Turn away a call that does not fit. One that is larger than the bound is admitted when no other is blocked."""
        if blocked and blocked + size > self._half:
            raise Overloaded(f"{blocked} commands are waiting for locks already: try again a little later")

    def update(self, blocked: int) -> None:
        """So many commands are blocked now."""
        self._main.bound = max(0, self._whole - blocked)


class _Blocked:
    """A thread whose call is in a lock queue, or waits for one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.woken = threading.Lock()
        """Held while it waits for a lock queue."""
        self.gone = False


class LockQueue(LeaderQueue):
    """The threads that wait for one lock."""

    def __init__(self, main: LeaderQueue) -> None:
        super().__init__(main.engine, main.committed, main.feed, wait_for_locks=True)
        self.blocked: set[_Blocked] = set()


class LockQueues:
    """The lock queues of threads."""

    def __init__(self, main: LeaderQueue) -> None:
        self._main, self._bound = main, BlockedBound(main.queue)
        self.busy = BusyLocks()
        self._lock = threading.Lock()
        self.open: dict[str, LockQueue] = {}
        """By the name of the lock."""
        self._waiting: set[_Blocked] = set()
        """Those that wait for a lock queue."""
        self._closed = False
        self._closing = threading.Lock()
        """Held by `close` until the last call has left."""

    def wait(self, lock: str, group: Group, minted: bool, until: float) -> list[Reply]:
        """Wait for what is locked, and return the outcomes."""
        for _ in range(MAX_ROUNDS):
            blocked = _Blocked(len(group.commands))
            try:
                return self._wait(blocked, lock, group, minted, until)
            except SkippedLocked as skipped:
                lock = skipped.lock
            finally:  # has left already, unless an interrupt struck before `_depart` began
                if not blocked.gone:
                    self._depart(blocked)
        raise still_locked(lock)

    def _wait(self, blocked: _Blocked, lock: str, group: Group, minted: bool, until: float) -> list[Reply]:
        try:
            return self._enter(blocked, lock, until).write(group, minted, until)
        finally:
            self._depart(blocked)

    def _enter(self, blocked: _Blocked, lock: str, until: float) -> LockQueue:
        """Wait for a lock queue, if there is none for this lock and no more may be opened."""
        with self._lock:
            self._bound.check(self._size(), blocked.size)
            queue = self._admit(blocked, lock)
        latest = min(until, time.monotonic() + self._main.engine.limits.lock_timeout / SECOND)
        while queue is None:
            if not blocked.woken.acquire(timeout=max(0, latest - time.monotonic())):
                raise no_queue_left(lock)
            with self._lock:
                queue = self._admit(blocked, lock)
        return queue

    def _admit(self, blocked: _Blocked, lock: str) -> LockQueue | None:
        if self._closed:
            raise EngineError(CLOSED)
        queue = self.open.get(lock)
        if queue is None and len(self.open) < MAX_QUEUES:
            queue = self.open[lock] = LockQueue(self._main)
        if queue is None:
            self._waiting.add(blocked)
            blocked.woken.acquire(blocking=False)
        else:
            queue.blocked.add(blocked)
            self._waiting.discard(blocked)
        self._bound.update(self._size())
        return queue

    def _depart(self, blocked: _Blocked) -> None:
        run_to_end(self._withdraw, blocked)

    def _withdraw(self, blocked: _Blocked) -> None:
        with self._lock:
            self._waiting.discard(blocked)
            for lock, queue in tuple(self.open.items()):
                queue.blocked.discard(blocked)
                if not queue.blocked:
                    self.open.pop(lock, None)
            self._bound.update(self._size())
            self._wake()
            blocked.gone = True

    def _wake(self) -> None:
        """Something may have become free: threads that wait for a lock queue look again, and so does `close`."""
        for blocked in self._waiting:
            if blocked.woken.locked():
                blocked.woken.release()
        if self._closed and not self.open and not self._waiting and self._closing.locked():
            self._closing.release()

    def _size(self) -> int:
        """Commands that are blocked."""
        everywhere = [self._waiting, *(queue.blocked for queue in self.open.values())]
        return sum([blocked.size for some in everywhere for blocked in some])

    def close(self, seconds: float) -> None:
        """Refuse further calls; wait for those inside, so many seconds at most."""
        self._closing.acquire()
        with self._lock:
            self._closed = True
            self._wake()
        self._closing.acquire(timeout=seconds)


class AsyncLockQueue(BatchWorker):
    """The tasks that wait for one lock, and a thread."""

    def __init__(self, main: BatchWorker, queues: AsyncLockQueues, lock: str) -> None:
        super().__init__(main.engine, main.committed, main.feed, wait_for_locks=True)
        self._main, self._queues, self.lock = main, queues, lock

    def size(self) -> int:
        """Commands in here, queued or in a batch."""
        return self.queue.commands + sum([call.size for call in self._batch])

    def withdraw(self, call: QueuedCall) -> bool:
        """Take a call out of the queue; says whether it was there."""
        found = super().withdraw(call)
        self._queues.update()
        return found

    def take_back(self, call: TaskCall) -> None:
        """Through the main queue, like all that is new."""
        self._main.take_back(call)

    def _settle(self, batch: list[TaskCall], wrote: bool) -> None:
        super()._settle(batch, wrote)
        self._queues.update()

    def _pass_on(self, call: TaskCall, lock: str) -> None:
        self._queues.enter(call, lock)

    def _emptied(self) -> None:
        self._queues.shut(self)


class AsyncLockQueues:
    """The lock queues of tasks."""

    def __init__(self, main: BatchWorker) -> None:
        self._main, self._bound = main, BlockedBound(main.queue)
        self.busy = BusyLocks()
        self._seconds = main.engine.limits.lock_timeout / SECOND
        self._loop = asyncio.get_running_loop()
        self.open: dict[str, AsyncLockQueue] = {}
        """By the name of the lock."""
        self._waiting: dict[TaskCall, tuple[str, asyncio.TimerHandle]] = {}
        """Calls that wait for a lock queue: the lock, and the timer that ends the waiting."""
        self.empty = asyncio.Event()
        self.empty.set()

    def enter(self, call: TaskCall, lock: str) -> None:
        """Let a call wait for what is locked. Nothing of it was done so far."""
        if call.answered.done() and not call.shielded:
            return
        call.error, call.sent = None, False
        call.rounds += 1
        try:
            if call.rounds > MAX_ROUNDS:
                raise still_locked(lock)
            self._bound.check(self._size(), call.size)
        except Overloaded as refusal:
            _answer(call, refusal)
        else:
            if not self._admit(call, lock):
                timer = self._loop.call_later(self._seconds, self._give_up, call)
                self._waiting[call] = (lock, timer)
                call.queue = self
        self.update()

    def _admit(self, call: TaskCall, lock: str) -> bool:
        queue = self.open.get(lock)
        if queue is None:
            if len(self.open) == MAX_QUEUES:
                return False
            queue = self.open[lock] = AsyncLockQueue(self._main, self, lock)
        queue.add(call)
        return True

    def shut(self, queue: AsyncLockQueue) -> None:
        """A lock queue is empty: remove it, and admit calls that wait for one."""
        del self.open[queue.lock]
        queue.end_thread()
        for call, (lock, timer) in tuple(self._waiting.items()):
            if self._admit(call, lock):
                timer.cancel()
                del self._waiting[call]
        self.update()

    def withdraw(self, call: TaskCall) -> bool:
        """Take back a call that waits for a lock queue; says whether it was there."""
        found = self._waiting.pop(call, None)
        if found is not None:
            found[1].cancel()
            self.update()
        return found is not None

    def _give_up(self, call: TaskCall) -> None:
        lock, _ = self._waiting.pop(call)
        _answer(call, no_queue_left(lock))
        self.update()

    def _size(self) -> int:
        """Commands that are blocked."""
        inside = sum([queue.size() for queue in self.open.values()])
        return inside + sum([call.size for call in self._waiting])

    def update(self) -> None:
        """Tell the main queue its bound, and `close` whether all calls have left."""
        self._bound.update(self._size())
        if self.open or self._waiting:
            self.empty.clear()
        else:
            self.empty.set()

    def end_threads(self) -> None:
        """The loop was closed, and with it everything that waited there."""
        for queue in self.open.values():
            queue.end_thread()


def _answer(call: TaskCall, error: HoldkitError) -> None:
    fail([call], error)
    call.wake()
