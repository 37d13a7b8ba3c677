"""Group commit for threads, and everything else that threads ask of an engine.

`GroupCommit` and `AsyncGroupCommit` have the same methods, so that the code in `_async/` can be translated: all that differs
between threads and tasks is behind these two. They never share a queue. `leader_queue` explains how batches are formed for threads,
`batch_worker` for tasks; `OpenEngine` is what both group commits have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from threading import TIMEOUT_MAX
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Struct

from ..core.commands import Group, PlaceHold, ReleaseHold
from ..core.model import SECOND, Key
from ..core.outcomes import Reply
from ..core.reading import Query
from ..engines import deadlines
from ..engines.clocks import lag_of
from ..engines.deadlines import at_most, run_until
from ..engines.durability import IN_MEMORY, Durability
from ..engines.lock_times import LockTimes
from ..engines.port import Applied, Channels, Engine, GuardStats
from ..errors import EngineError, HoldkitError
from .arguments import current
from .batches import BatchRunner, Feed, SkippedLocked, ThreadCall, Undo
from .context import inside_any, refuse_inside
from .fair_queue import FairQueue
from .leader_queue import CLOSED
from .lock_queues import LockQueues
from .one_line import line
from .results import replies_of
from .workers import GRACE, Signal, Worker

T = TypeVar("T")

LEAVING: Final = 5.0
"""Seconds that a cancelled or interrupted call takes at most to leave its line."""

FORKED: Final = "this kernel was opened before a fork: connect anew in the child process"
NO_GUARDS: Final = GuardStats()


class Stats(Struct, frozen=True):
    """The counts of the group commit, including batches that waited for another transaction's lock."""

    batches: int
    commands: int
    largest: int
    """Commands of the largest batch."""
    sizes: tuple[int, ...] = ()
    """Batches by size: of one command, of up to 3, 7, 15 and so on; the last number counts all that are larger."""
    waiting: int = 0
    """Commands that are queued now."""
    durability: Durability = IN_MEMORY
    """What a done answer survives, as the store reported it not long before the last call."""
    clock_lag: float = 0.0
    """Seconds by which the database's clock, which decides, is ahead of this machine's; 0 where they are the same."""
    lock_times: LockTimes = LockTimes()
    """How long transactions had pools locked, those that waited for locks included; on PostgreSQL, where others wait for them."""
    guards: GuardStats = NO_GUARDS
    """What guarded batches have done; only PostgreSQL has them."""
    generation: str = ""
    """An opaque word for this generation of the journal, which a promotion, a restore or an import changes."""

    def __repr__(self) -> str:
        return line(
            "Stats", f"batches={self.batches} commands={self.commands} waiting={self.waiting}", self.durability.level
        )


class OpenEngine:
    """An engine that a kernel has opened: refuses calls after close and after a fork, sets their deadline, and counts them."""

    forks: ClassVar[int] = 0
    """How often this process and those before it were forked, since the program was started."""

    def __init__(self, engine: Engine, runner: BatchRunner, queue: FairQueue) -> None:
        self.engine = engine
        self._runner, self._queue = runner, queue
        self._closed = False
        self._opened_after = OpenEngine.forks

    @property
    def stats(self) -> Stats:
        """What the group commit has done since it was opened."""
        counts = self._runner.counts
        timer, guards = self.engine.capabilities.lock_times, self.engine.capabilities.guards
        return Stats(
            batches=counts.batches,
            commands=counts.commands,
            largest=counts.largest,
            sizes=tuple(counts.sizes),
            waiting=self._queue.commands,
            durability=self.engine.durability,
            clock_lag=lag_of(self.engine.clock),
            lock_times=LockTimes() if timer is None else timer.times,
            guards=NO_GUARDS if guards is None else guards.guard_stats,
        )

    def deadline(self) -> float:
        """Return the deadline of a call that begins now, by `time.monotonic`.

        The context says how long the call may take, else the kernel's limit does. It is never later than the deadline of a call which
        this one is part of.
        """
        seconds = current().timeout
        if seconds is None:
            seconds = self.engine.stored.in_force.call_timeout / SECOND
            if seconds > TIMEOUT_MAX:
                seconds = TIMEOUT_MAX
        return min(time.monotonic() + seconds, deadlines.current())

    def check(self) -> None:
        """Refuse after close, and in a forked child."""
        if OpenEngine.forks != self._opened_after:
            raise EngineError(FORKED)
        if self._closed:
            raise EngineError(CLOSED)

    @property
    def in_child(self) -> bool:
        """Whether the process was forked since this was opened."""
        return OpenEngine.forks != self._opened_after


def _count_fork() -> None:
    """Count a fork, in the child. (So that no call has to ask the system for its process id.)"""
    OpenEngine.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class GroupCommit(OpenEngine):
    """Group commit for threads, and everything else that a kernel asks of its engine."""

    def __init__(self, engine: Engine, feed: Feed) -> None:
        self.committed = Signal()
        """Notified after every commit."""
        self._feed = feed
        self.workers: set[Worker] = set()
        self._lock_queues = LockQueues(engine, self.committed, feed)
        self.main = self._lock_queues.main
        """The queue of all calls that wait for no lock."""
        super().__init__(engine, self.main.runner, self.main.queue)

    def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Reply]:
        """Have the group written, in a batch with those of other callers; if it needs something that is locked, by a lock queue."""
        del undo, shielded  # for tasks: a thread is never cancelled
        self.check()  # before any lock: in a forked child no thread would release it
        if inside_any() is not None:
            refuse_inside(self.engine)
        until = self.deadline()
        try:
            queues, busy = self._lock_queues, self._lock_queues.busy
            lock = (
                busy.queue_for(queues.open, group)
                if queues.open
                else busy.wait_at_once(group)
                if busy.at_once
                else None
            )
            if lock is None:
                try:
                    replies = self.main.write(ThreadCall(group, minted, until))
                except SkippedLocked as skipped:
                    lock = skipped.lock
                    busy.found_taken(lock, group)
                else:
                    if busy.at_once:
                        busy.found_free(group)
                    return replies
            return queues.wait(lock, group, minted, until)
        except HoldkitError:
            raise
        except BaseException:
            self._leave_line(group)
            raise

    def _leave_line(self, group: Group) -> None:
        """Release the place of an interrupted call, if it has joined a line.

        The call would not accept an offer, and others would wait behind it until its place expires.
        """
        command = group.commands[0]
        if isinstance(command, PlaceHold) and command.wait_slots is not None:
            assert command.id is not None
            release = ReleaseHold(id=command.id, tenant=command.tenant, token=command.token, reason="cancelled")
            with suppress(HoldkitError), at_most(LEAVING):
                self.submit(Group((release,)))

    def apply_in(self, tx: Any, group: Group | None, lock: Sequence[Key] = ()) -> list[Reply]:
        """Skip the queue: write on the caller's own connection, in the caller's own transaction."""
        self.check()
        applied = self.engine.apply_in(tx, [] if group is None else [group], lock)
        self.applied_in(applied)
        replies = replies_of(applied, None)
        return replies[0] if replies else []

    def applied_in(self, applied: Applied) -> None:
        """Feed lines and notify, after a call was written in the caller's own transaction.

        Its writes are visible once that is committed; the notified workers look again until then.
        """
        if applied.unfed:
            self._feed(applied)
        self.committed.notify()

    def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that uses a transaction of the engine's own (`own_transaction`)."""
        self.check()
        result = run_until(self.deadline(), job, self.engine)
        self.committed.notify()
        return result

    def listen(self) -> None:
        """Wake followers on the commits of other processes too, where the engine can tell."""
        self.engine.listen(self.committed.notify)

    def listen_on(self, channels: Channels, channel: str, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a process notifies this channel."""
        channels.listen_on(channel, wake)

    def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask the engine, or ask inside the caller's own transaction."""
        self.check()
        if tx is None:
            return run_until(self.deadline(), partial(self.engine.read, query, durable=durable))
        return self.engine.read_in(tx, query)

    def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work that has no deadline."""
        self.check()
        return run_until(inf, work)

    def close(self) -> None:
        """Refuse further calls, finish those that run, end the workers, close the engine."""
        if self._closed:
            return
        if self.in_child:  # the parent's connections are not ours to close
            self._closed = True
            return
        self.committed.close()  # first: a call that is refused because of it finds the kernel closed
        self._closed = True
        self.main.close(GRACE)
        self._lock_queues.close(GRACE)
        for worker in tuple(self.workers):
            worker.end(GRACE)
        self.engine.close()
