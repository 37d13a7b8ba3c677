"""Lock queues: calls that need something which another transaction has locked wait here, apart from all other calls.

Theory of operation
-------------------

A batch of the main queue never waits for a lock: the engine skips the calls that would have to wait, and names what is locked.
Each skipped call moves to the lock queue of that name. A lock queue is a second group commit whose batches do wait. While
its first batch waits for the lock, further calls queue up behind it; they are added to that batch once it has the lock, where
the engine can do that, or form the next one. A call that names a locked pool joins its lock queue at once, without the detour.
If two calls in a row have found the pool locked, the next ones wait at once even if no other call does (`busy_locks`).

*Invariants*

 1. A lock queue exists exactly while a call is in it. There are at most `MAX_QUEUES`; calls for other locks wait until one of
    them ends, for the lock timeout at most.
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
from ..engines.port import Engine
from ..errors import EngineError, HoldkitError, Overloaded
from .batch_worker import BatchWorker
from .batches import Feed, SkippedLocked, TaskCall, ThreadCall, fail
from .busy_locks import BusyLocks
from .fair_queue import FairQueue
from .leader_queue import CLOSED, LeaderQueue, run_to_end
from .workers import AsyncSignal, Signal

MAX_QUEUES: Final = 16
"""Locks that may be waited for at once."""
MAX_ROUNDS: Final = 3
"""How often one call is skipped before it is turned away."""


def still_locked(lock: str) -> Overloaded:
    """Return the error of a call that has waited several times."""
    return Overloaded(f"{lock} is locked by another transaction, still: try again a little later", retry_after=1)


def no_queue_left(lock: str) -> Overloaded:
    """Return the error of a call for which there was no lock queue."""
    return Overloaded(f"{lock} is locked by another transaction, and so is much else: try again a little later")


class BlockedBound:
    """Bounds the commands that are blocked, and lowers the bound of the main queue by their number."""

    def __init__(self, main: FairQueue) -> None:
        self._main, self._whole = main, main.bound
        self._half = max(1, main.bound // 2)

    def check(self, blocked: int, size: int) -> None:
        """Turn away a call that does not fit. One that is larger than the bound is admitted when no other is blocked."""
        if blocked and blocked + size > self._half:
            raise Overloaded(f"{blocked} commands are waiting for locks already: try again a little later")

    def update(self, blocked: int) -> None:
        """Lower the bound of the main queue by the commands that are blocked now."""
        self._main.bound = max(0, self._whole - blocked)


class _Blocked:
    """A thread whose call is in a lock queue, or waits for one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock: str | None = None
        """The lock of the queue that it is in; None: it waits for a queue."""
        self.woken = threading.Lock()
        """Held while it waits for a lock queue."""
        self.gone = False


class LockQueues:
    """The main queue of threads, and the lock queues beside it."""

    def __init__(self, engine: Engine, committed: Signal, feed: Feed) -> None:
        self.main = LeaderQueue(engine, committed, feed)
        self._engine, self._committed, self._feed = engine, committed, feed
        self._bound = BlockedBound(self.main.queue)
        self.busy = BusyLocks()
        self._lock = threading.Lock()
        self.open: dict[str, LeaderQueue] = {}
        """By the name of the lock."""
        self._blocked: set[_Blocked] = set()
        self._closed = False
        self._closing = threading.Lock()
        """Held by `close` until the last call has left."""

    def wait(self, lock: str, group: Group, minted: bool, until: float) -> list[Reply]:
        """Wait for the locks, and return the outcomes."""
        for _ in range(MAX_ROUNDS):
            blocked = _Blocked(len(group.commands))
            try:
                return self._wait(blocked, lock, group, minted, until)
            except SkippedLocked as skipped:
                lock = skipped.lock
            finally:  # has left already, unless an interrupt struck before `_depart` began
                if not blocked.gone:
                    run_to_end(self._depart, blocked)
        raise still_locked(lock)

    def _wait(self, blocked: _Blocked, lock: str, group: Group, minted: bool, until: float) -> list[Reply]:
        try:
            return self._enter(blocked, lock, until).write(ThreadCall(group, minted, until))
        finally:
            run_to_end(self._depart, blocked)

    def _enter(self, blocked: _Blocked, lock: str, until: float) -> LeaderQueue:
        """Return the queue of this lock; wait for another one to end, if no more may be opened."""
        with self._lock:
            self._bound.check(self._size(), blocked.size)
            queue = self._admit(blocked, lock)
        latest = min(until, time.monotonic() + self._engine.limits.lock_timeout / SECOND)
        while queue is None:
            if not blocked.woken.acquire(timeout=max(0, latest - time.monotonic())):
                raise no_queue_left(lock)
            with self._lock:
                queue = self._admit(blocked, lock)
        return queue

    def _admit(self, blocked: _Blocked, lock: str) -> LeaderQueue | None:
        if self._closed:
            raise EngineError(CLOSED)
        queue = self.open.get(lock)
        if queue is None and len(self.open) < MAX_QUEUES:
            counts = self.main.runner.counts
            queue = LeaderQueue(self._engine, self._committed, self._feed, wait_for_locks=True, counts=counts)
            self.open[lock] = queue
        if queue is None:
            blocked.woken.acquire(blocking=False)
        else:
            blocked.lock = lock
        self._blocked.add(blocked)
        self._bound.update(self._size())
        return queue

    def _depart(self, blocked: _Blocked) -> None:
        """Remove a thread that leaves. May be run twice."""
        with self._lock:
            self._blocked.discard(blocked)
            used = {other.lock for other in self._blocked}
            for lock in self.open.keys() - used:
                self.open.pop(lock, None)
            self._bound.update(self._size())
            self._wake()
            blocked.gone = True

    def _wake(self) -> None:
        """Wake the threads that wait for a lock queue, and `close`, because one may have become free."""
        for blocked in self._waiting:
            if blocked.woken.locked():
                blocked.woken.release()
        if self._closed and not self._blocked and self._closing.locked():
            self._closing.release()

    @property
    def _waiting(self) -> list[_Blocked]:
        """The threads that wait for a lock queue."""
        return [blocked for blocked in tuple(self._blocked) if blocked.lock is None]

    def _size(self) -> int:
        """Return how many commands are blocked."""
        return sum([blocked.size for blocked in self._blocked])

    def close(self, seconds: float) -> None:
        """Refuse further calls; wait for those inside, this long at most."""
        self._closing.acquire()
        with self._lock:
            self._closed = True
            self._wake()
        self._closing.acquire(timeout=seconds)


class AsyncLockQueues:
    """The main queue of tasks, and the lock queues beside it."""

    def __init__(self, engine: Engine, committed: AsyncSignal, feed: Feed) -> None:
        self.main = BatchWorker(engine, committed, feed, self)
        self._engine, self._committed, self._feed = engine, committed, feed
        self._bound = BlockedBound(self.main.queue)
        self.busy = BusyLocks()
        self._seconds = engine.limits.lock_timeout / SECOND
        self._loop = asyncio.get_running_loop()
        self.open: dict[str, BatchWorker] = {}
        """By the name of the lock."""
        self._waiting: dict[TaskCall, tuple[str, asyncio.TimerHandle]] = {}
        """Calls that wait for a lock queue: the lock, and the timer that ends the waiting."""
        self.empty = asyncio.Event()
        self.empty.set()

    def skipped(self, call: TaskCall, lock: str) -> None:
        """Let a call wait that the engine has skipped: nothing of it was done."""
        if not call.rounds:  # in the main queue, by a try without waiting
            self.busy.found_taken(lock, call.group)
        self.enter(call, lock)

    def enter(self, call: TaskCall, lock: str) -> None:
        """Let a call wait for a lock."""
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
            queue = BatchWorker(self._engine, self._committed, self._feed, self, lock, counts=self.main.runner.counts)
            self.open[lock] = queue
        queue.add(call)
        return True

    def emptied(self, lock: str) -> None:
        """Remove an empty lock queue, and admit calls that wait for one."""
        self.open.pop(lock).end_thread()
        for call, (lock, timer) in tuple(self._waiting.items()):
            if self._admit(call, lock):
                timer.cancel()
                del self._waiting[call]
        self.update()

    def withdraw(self, call: TaskCall) -> bool:
        """Take out a call that waits for a lock queue; says whether it was there."""
        if call not in self._waiting:
            return False
        _, timer = self._waiting.pop(call)
        timer.cancel()
        self.update()
        return True

    def _give_up(self, call: TaskCall) -> None:
        lock, _ = self._waiting.pop(call)
        _answer(call, no_queue_left(lock))
        self.update()

    def _size(self) -> int:
        """Return how many commands are blocked."""
        queued = sum([queue.size for queue in self.open.values()])
        return queued + sum([call.size for call in self._waiting])

    def update(self) -> None:
        """Tell the main queue its bound, and `close` whether all calls have left."""
        self._bound.update(self._size())
        if self.open or self._waiting:
            self.empty.clear()
        else:
            self.empty.set()

    def end_threads(self) -> None:
        """End the threads of all lock queues, because the loop was closed, and with it everything that waited there."""
        for queue in self.open.values():
            queue.end_thread()


def _answer(call: TaskCall, error: HoldkitError) -> None:
    fail([call], error)
    call.wake()
