"""Group commit for threads: the caller that finds no leader leads, and carries everyone queued behind it. It wakes its
followers before it passes the lead (else batches alternate between 1 and n).

Nobody is left waiting, whatever strikes the leader: all that it leaves without an answer is queued again, at the head. What
it had sent is asked about by whoever leads next; what it had not is sent.

A call has a deadline. Whoever is still queued then leaves, with nothing done; whoever rides in a batch leaves, and does not know. A
leader cannot leave: the engine ends its batch for it. So a leader takes along only those who have about as much time, or less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Any, Final

from ..core.commands import Group
from ..core.outcomes import Outcome
from ..engines.deadlines import too_late
from ..engines.port import Engine
from ..errors import EngineError
from .bounded_queue import CLOSED, Queue, Undo
from .queued_calls import SkippedLocked, Submission, under_way, unsettled
from .workers import Signal

SLACK: Final = 1.0
"""Seconds that those in a batch may have longer than its leader."""
NEAR: Final = 32
"""So many at the head of the queue are looked at for the next leader."""


class _Caller(Submission):
    __slots__ = ("dismissed", "woken")

    dismissed: bool
    """Whoever rode along has been woken or queued again: others may be at work on them by now."""
    woken: threading.Lock | None
    """Held until there is an answer, or the lead to take over. Who leads from the start has none."""


class LeaderQueue(Queue):
    """One queue of threads. At most one caller leads; it alone talks to the engine."""

    def __init__(self, engine: Engine, committed: Signal, *, wait_for_locks: bool = False) -> None:
        super().__init__(engine, wait_for_locks=wait_for_locks)
        self._lock = threading.Lock()
        self._leader: _Caller | None = None
        self._idle = threading.Event()
        self.committed = committed

    def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Outcome]:
        """Lead or follow, and return the outcomes. (A thread is never cancelled: `undo` and `shielded` are for tasks.)"""
        del undo, shielded
        self.check()  # before the lock: in a forked child nobody would ever let go of it
        caller = _Caller(group, minted)
        caller.dismissed = False
        batch: list[_Caller] = []
        try:
            self._lead_or_follow(caller, batch)
        finally:  # done already, unless an interrupt struck the first hand-over at its very beginning
            if self._leader is caller or not caller.settled:
                self._leave(caller, batch)
        if caller.outcomes is not None:
            return caller.outcomes
        if isinstance(caller.error, SkippedLocked):
            return self._wait_for(caller.error.what, group, minted)
        return caller.result()

    def _wait_for(self, what: str, group: Group, minted: bool) -> list[Outcome]:
        """The engine would have had to wait for something. In here, whoever has to wait longer is told so."""
        del group, minted
        raise SkippedLocked(what)

    def _lead_or_follow(self, caller: _Caller, batch: list[_Caller]) -> None:
        try:
            woken = self._enqueue_or_lead(caller)
            if woken is not None and not woken.acquire(timeout=_left(caller)):
                self._check_late(caller, woken)
            if self._leader is caller:
                if caller.until <= time.monotonic():
                    raise under_way() if caller.sent else too_late()
                self._lead(caller, batch)
        finally:
            if self._leader is caller or not caller.settled:
                self._leave(caller, batch)

    def _check_late(self, caller: _Caller, woken: threading.Lock) -> None:
        """Its time is up, unless it was woken at the last moment: raises what that means. Queued, it leaves before it says that
        nothing was done, or a leader could take it along meanwhile; in a batch, it goes on without anybody who waits for it."""
        with self._lock:
            if not woken.locked():
                return
            queued = self.withdraw(caller)
        raise too_late() if queued and not caller.sent else under_way()

    def _enqueue_or_lead(self, caller: _Caller) -> threading.Lock | None:
        """Take the lead, if there is none; else queue, and get the lock to wait for."""
        caller.woken = None
        with self._lock:
            if self._closed:
                raise EngineError(CLOSED)
            if self._leader is None:  # then nobody is queued either
                self._leader = caller
                return None
            caller.woken = woken = threading.Lock()
            woken.acquire()
            self._enqueue(caller)
            return woken

    def _lead(self, caller: _Caller, batch: list[_Caller]) -> None:
        """Run one batch: our own command, and all that are queued."""
        batch.append(caller)
        if self._queue:
            with self._lock:
                self._take(batch, latest=caller.until + SLACK)
        wrote = True
        try:
            if batch[0].sent:  # by one who was interrupted: such come first
                self._runner.ask_about([one for one in batch if one.sent])
                rest = [one for one in batch if not one.sent]
                wrote = self._runner.run(rest) if rest else True
            else:
                wrote = self._run(batch)
        finally:
            if wrote:
                self.committed.notify()

    def _run(self, batch: list[_Caller]) -> bool:
        return self._runner.run(batch)

    def _let_in(self, batch: list[Any], fits: Callable[[Group], bool]) -> list[Any]:
        """Those who have come meanwhile, as far as they fit."""
        before = len(batch)
        with self._lock:
            self._take(batch, fits=fits, latest=batch[0].until + SLACK)
        return batch[before:]

    def _leave(self, caller: _Caller, batch: list[_Caller]) -> None:
        """Wake those who rode along, then pass the lead. An interrupt (Ctrl-C, a job's time limit) may strike in here
        too: each step can be taken twice, so they are taken until they are done; others must not wait for ever."""
        interrupted: BaseException | None = None
        for _ in range(100):
            try:
                if not caller.dismissed and (len(batch) > 1 or not caller.settled):
                    self._dismiss(caller, batch)
                self._pass_lead(caller)
                break
            except BaseException as interrupt:  # noqa: BLE001 - raised below, after the work is done
                interrupted = interrupt
        if interrupted is not None:
            raise interrupted

    def _dismiss(self, caller: _Caller, batch: list[_Caller]) -> None:
        """Wake the followers. Whoever has no answer, because the leader was interrupted, goes back to the head."""
        again = unsettled(batch)
        for follower in batch:
            woken = follower.woken
            if woken is not None and woken.locked() and follower not in again:
                woken.release()
        if again or not caller.settled:
            with self._lock:
                caller.woken = None  # gone: nobody puts it back
                self.withdraw(caller)
                for follower in reversed(again):
                    if follower.woken is not None and follower not in self._queue:
                        self._queue.appendleft(follower)
                        self._queued += follower.size
                caller.dismissed = True

    def _pass_lead(self, caller: _Caller) -> None:
        """The first in the queue leads next, as a rule; with nobody there, whoever comes next does."""
        with self._lock:
            if self._leader is caller:
                self._leader = self._next() if self._queue else None
            next_leader = self._leader
            if next_leader is None:
                if self._closed:
                    self._idle.set()
                self._queued = 0
                return
            self.withdraw(next_leader)
            if next_leader.woken is not None and next_leader.woken.locked():
                next_leader.woken.release()

    def _next(self) -> _Caller:
        """The first in the queue, unless others near the head have time for longer: a batch ends with its leader's time, and those
        who ride along should not hear sooner than they must that nothing is known."""
        first: _Caller = self._queue[0]
        if first.sent:
            return first
        near: list[_Caller] = [*islice(self._queue, NEAR)]
        enough = max([caller.until for caller in near]) - SLACK
        return next((caller for caller in near if caller.until >= enough and not caller.sent), first)


def _left(caller: _Caller) -> float:
    """Seconds that it may wait, as locks want it."""
    return -1 if caller.until == inf else max(0.0, min(caller.until - time.monotonic(), threading.TIMEOUT_MAX))
