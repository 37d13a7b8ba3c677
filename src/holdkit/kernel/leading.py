"""Group commit for threads: the caller that finds no leader leads, and carries everyone queued behind it. It wakes its
followers before it passes the lead (else batches alternate between 1 and n).

Nobody is left waiting, whatever strikes the leader: what it had sent is in doubt, and asked about by whoever waits for it;
what it had not is queued again.
"""

from __future__ import annotations

import threading

from ..core.commands import Group
from ..core.outcomes import Outcome
from ..engines.port import Engine
from ..errors import EngineError, OutcomeUnknown
from .submissions import INTERRUPTED, Doubtful, LeftOut, Submission, unsettled
from .turnstile import CLOSED, Queue, Undo
from .unknowns import ask_again
from .workers import Signal


class _Caller(Submission):
    __slots__ = ("woken",)

    woken: threading.Lock | None
    """Held until there is an answer, or the lead to take over. Who leads from the start has none."""


class Line(Queue):
    """One queue of threads. At most one caller leads; it alone talks to the engine."""

    def __init__(self, engine: Engine, committed: Signal, *, patient: bool = False) -> None:
        super().__init__(engine, patient=patient)
        self._lock = threading.Lock()
        self._leader: _Caller | None = None
        self._idle = threading.Event()
        self.committed = committed

    def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, stays: bool = False
    ) -> list[Outcome]:
        """Lead or follow, and return the outcomes. (A thread is never cancelled: `undo` and `stays` are for tasks.)"""
        del undo, stays
        self.check()  # before the lock: in a forked child nobody would ever let go of it
        caller = _Caller(group, minted)
        batch: list[_Caller] = []
        try:
            self._ride(caller, batch)
        finally:  # done already, unless an interrupt struck the first hand-over at its very beginning
            if self._leader is caller or not caller.settled:
                self._leave(caller, batch)
        if caller.outcomes is not None:
            return caller.outcomes
        if isinstance(caller.error, LeftOut):
            return self._wait_for(caller.error.what, group, minted)
        if isinstance(caller.error, Doubtful):
            return self._ask(caller)
        return caller.result()

    def _wait_for(self, what: str, group: Group, minted: bool) -> list[Outcome]:
        """The engine would have had to wait for something. In here, whoever has to wait longer is told so."""
        del group, minted
        raise LeftOut(what)

    def _ask(self, caller: _Caller) -> list[Outcome]:
        """What became of a submission whose leader was interrupted, if it has a retry key. No need to queue: nobody else can
        have written what is asked for."""
        try:
            found = ask_again(self.engine, caller.group, minted=caller.minted, patient=self._runner.patient)
        except Exception as error:
            raise OutcomeUnknown(INTERRUPTED) from error  # it does not settle the first attempt
        if found is None:
            raise OutcomeUnknown(INTERRUPTED)
        return found

    def _ride(self, caller: _Caller, batch: list[_Caller]) -> None:
        try:
            woken = self._come_in(caller)
            if woken is not None:
                woken.acquire()
            if self._leader is caller:
                self._lead(caller, batch)
        finally:
            if self._leader is caller or not caller.settled:
                self._leave(caller, batch)

    def _come_in(self, caller: _Caller) -> threading.Lock | None:
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
                self._take(batch)
        wrote = True
        try:
            wrote = self._runner.run(batch)
        finally:
            if wrote:
                self.committed.notify()

    def _leave(self, caller: _Caller, batch: list[_Caller]) -> None:
        """Wake those who rode along, then pass the lead. An interrupt (Ctrl-C, a job's time limit) may strike in here
        too: each step can be taken twice, so they are taken until they are done; others must not wait for ever."""
        struck: BaseException | None = None
        for _ in range(100):
            try:
                if len(batch) > 1 or not caller.settled:
                    self._dismiss(caller, batch)
                self._pass_lead(caller)
                break
            except BaseException as interrupt:  # noqa: BLE001 - raised below, after the work is done
                struck = interrupt
        if struck is not None:
            raise struck

    def _dismiss(self, caller: _Caller, batch: list[_Caller]) -> None:
        """Wake the followers. Whoever was not even sent, because the leader was interrupted, goes back to the head."""
        sent, again = unsettled(batch)
        for follower in sent:
            follower.error = Doubtful()
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

    def _pass_lead(self, caller: _Caller) -> None:
        """The first in the queue leads next; with nobody there, whoever comes next does."""
        with self._lock:
            if self._leader is caller:
                self._leader = self._queue[0] if self._queue else None
            heir = self._leader
            if heir is None:
                if self._closed:
                    self._idle.set()
                self._queued = 0
                return
            self.withdraw(heir)
            if heir.woken is not None and heir.woken.locked():
                heir.woken.release()
