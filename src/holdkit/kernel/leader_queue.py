"""Group commit for threads: one of the callers leads, and writes the calls of everybody who is queued behind it.

Theory of operation
-------------------

A thread that finds no leader becomes the leader. Every other thread queues its call and waits for a lock of its own, `woken`.
The leader takes the queued calls into its batch, sends the batch to the engine and settles every call in it. Then it wakes
its followers and passes the lead to a call that was queued meanwhile. So a batch has one call while the kernel is idle and
hundreds under load. The leader wakes its followers before it passes the lead, so that their next calls can be part of the next
batch; in the other order batches alternate between one call and all the others.

*Gathering.* Threads that call in a loop would still form two halves that take turns: while one is being written, the other queues.
A batch costs the store nearly the same whether it has four calls or eight, so a leader waits a moment until the callers of the last
batch have queued again; the last of them ends the wait. It waits at most `GATHER_SHARE` of the time that the last batch took,
counted from its end. It does not wait if that batch was brief, or if no caller is expected. If most of those callers do not come,
the next `BATCHES_NOT_GATHERED` batches do not wait. Gathering changes only which calls share a batch.

Tenants take turns in the queue (`fair_queue`), which decides which calls a leader takes and which tenant's call leads next.

*States of a call.* It moves down this list, or from "taken" back to "queued":

    queued     in `queue`; its thread waits for `woken`
    taken      in the leader's batch and not in `queue`; its thread waits for `woken`
    leading    `_leader` is the call; its thread works
    settled    it has outcomes or an error
    gone       its thread has left: with an answer as leader, or without one because it was interrupted or late

*Invariants*, at every moment at which `_lock` is free and no interrupt is being handled:

 1. At most one call leads. Only its thread takes calls from the queue and sends batches to the engine.
 2. While a call is queued, some call leads. So every waiting thread will be woken.
 3. A call that is neither settled nor gone is leading, queued or in the leader's batch: in one of them.
 4. `woken` is released when its call is settled or leads, and only then. (To release it again later does no harm: a thread
    waits for it once.)
 5. Calls that were sent and have no answer stand at the head of the queue. The next leader asks the engine what became of
    them before it sends anything else.

*Calls that are put off.* The engine does nothing of a call for which its transaction has no room. A follower is queued again at the
head. A leader keeps the lead and runs the next batch, which begins with its own call; before that it wakes the followers that have
an answer. Each batch makes progress, so this comes to an end; a leader whose deadline passes leaves before.

*Interrupts.* Ctrl-C or a job's time limit can raise an exception in a thread at any bytecode, inside `finally` blocks too.

  - In a thread that waits: `_depart` takes its call out of the queue and marks it as gone. If a leader has taken it already,
    it is written with the batch, but no leader will queue it again.
  - In a leader: `_depart` wakes the followers that are settled and queues the others again, at the head (3, 5), then passes
    the lead (2). Calls that the leader had sent are asked about by the next leader, the others are sent by it.
  - In `_depart` itself: `run_to_end` runs its steps again. Each may be run twice. `_dismiss` wakes only threads whose lock is
    still held, queues only calls that are not in the queue, and, once it has marked the leader as gone, does nothing:
    from then on these calls may be in the batch of another leader. Until then no other thread takes them, because the lead has
    not been passed. `_pass_lead`, run again, finds another leader in its place and only makes sure that this one is awake.
  - In the first bytecodes of a `finally` block, before `_depart` has begun: `write` has a second `finally` around the first,
    which finds the call still leading or unsettled, and departs again.

*Deadlines.* A thread whose deadline passes while its call is queued withdraws it: certainly nothing was done. If the call is in
a batch, its outcome is unknown. A leader cannot leave; the engine ends the batch at the leader's deadline. Therefore a leader
takes only calls whose deadline is about as early as its own, or earlier.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final

from ..core.commands import Group
from ..core.outcomes import Reply
from ..engines.deadlines import too_late
from ..engines.port import Engine
from ..errors import EngineError
from .batches import BatchCounts, BatchRunner, Feed, ThreadCall, late_in_batch, unsettled
from .fair_queue import FairQueue
from .workers import Signal

CLOSED: Final = "this kernel is closed: connect again"
SLACK_SECONDS: Final = 1.0
"""By how much the deadline of a call in a batch may be later than its leader's."""
MAX_CANDIDATES: Final = 32
"""Calls at the head of the queue that are considered for the next leader."""
GATHER_SHARE: Final = 0.5
"""The share of the time that the last batch took for which the next one waits for the same callers."""
BRIEF_SECONDS: Final = 0.0002
"""After a batch that took less, no leader waits for callers: waking a thread would take as long."""
BATCHES_NOT_GATHERED: Final = 15
"""Batches that do not wait after most callers did not come."""
MAX_INTERRUPTS: Final = 100
"""How often a step is run again because an interrupt struck it."""


class LeaderQueue:
    """One queue of threads. With `wait_for_locks` its batches wait for rows that other transactions have locked; calls that come
    meanwhile are added to a batch that waits, if the engine can do that."""

    def __init__(
        self,
        engine: Engine,
        committed: Signal,
        feed: Feed,
        *,
        wait_for_locks: bool = False,
        counts: BatchCounts | None = None,
    ) -> None:
        self.queue = FairQueue(engine.limits.max_queue)
        self.runner = BatchRunner(engine, feed, counts or BatchCounts(), wait_for_locks=wait_for_locks)
        self._committed = committed
        self._wait_for_locks = wait_for_locks
        self._lock = threading.Lock()
        self._leader: ThreadCall | None = None
        self._closed = False
        self._idle = threading.Event()
        """Set, once the queue is closed, when no call leads."""
        self._gathering: threading.Lock | None = None
        """While a leader waits for others to queue: held until `_wanted` commands are queued."""
        self._wanted = 0
        self._present = 0
        """Commands that were in the last batch, or queued when it ended."""
        self._gather_until = 0.0
        """Until when the next leader waits for their callers, by `time.monotonic`."""
        self._not_gathered = 0
        """Batches that do not wait, because most callers did not come when the last leader waited."""

    def write(self, call: ThreadCall) -> list[Reply]:
        """Have a call written, in this thread's batch or in another's; raise `SkippedLocked` if it has to wait for a lock."""
        batch: list[ThreadCall] = []
        try:
            self._lead_or_follow(call, batch)
        finally:  # has been done already, unless an interrupt struck before `_depart` began
            if self._leader is call or (call.outcomes is None and call.error is None):
                run_to_end(self._depart, call, batch)
        return call.outcomes if call.outcomes is not None else call.result()

    def close(self, seconds: float) -> None:
        """Refuse further calls, and wait for the leader and its followers, at most this long."""
        self._closed = True
        with self._lock:
            is_led = self._leader is not None
        if is_led:
            self._idle.wait(seconds)

    def _lead_or_follow(self, call: ThreadCall, batch: list[ThreadCall]) -> None:
        try:
            woken = self._enqueue_or_lead(call)
            if woken is not None and not woken.acquire(timeout=_seconds_left(call)):
                self._check_late(call, woken)
            if self._leader is call:
                if call.until <= time.monotonic():
                    raise late_in_batch() if call.sent else too_late()
                self._gather(call)
                self._lead(call, batch)
        finally:
            if self._leader is call or (call.outcomes is None and call.error is None):
                run_to_end(self._depart, call, batch)

    def _enqueue_or_lead(self, call: ThreadCall) -> threading.Lock | None:
        """Take the lead if no call has it; else queue, and return the lock to wait for."""
        with self._lock:
            if self._closed:
                raise EngineError(CLOSED)
            if self._leader is None:  # then no call is queued either
                self._leader = call
                return None
            call.woken = woken = threading.Lock()
            woken.acquire()
            self.queue.add(call)
            if self._gathering is not None and self.queue.commands >= self._wanted:
                self._gathering.release()
                self._gathering = None
            return woken

    def _check_late(self, call: ThreadCall, woken: threading.Lock) -> None:
        """Raise, because the deadline has passed, unless the call was woken at the last moment.

        It is withdrawn first, so that no leader can take it after its caller has read that nothing was done.
        """
        with self._lock:
            if not woken.locked():
                return
            was_queued = self.queue.withdraw(call)
        raise too_late() if was_queued and not call.sent else late_in_batch()

    def _gather(self, call: ThreadCall) -> None:
        """Wait a moment until the callers of the last batch have queued again."""
        wanted = self._present - call.size
        if wanted <= self.queue.commands or call.sent:
            return
        if self._not_gathered:
            self._not_gathered -= 1
            return
        seconds = min(self._gather_until, call.until) - time.monotonic()
        if seconds <= 0:
            return
        gathering = threading.Lock()
        gathering.acquire()
        with self._lock:
            missing = wanted - self.queue.commands
            if missing <= 0:
                return
            self._wanted, self._gathering = wanted, gathering
        if not gathering.acquire(timeout=seconds):
            with self._lock:
                self._gathering = None
                if 2 * (wanted - self.queue.commands) > missing:
                    self._not_gathered = BATCHES_NOT_GATHERED

    def _lead(self, call: ThreadCall, batch: list[ThreadCall]) -> None:
        """Run batches until this call is settled: one, unless the engine puts off the call."""
        self._run_batch(call, batch)
        while not call.sent and not call.settled:
            self._begin_anew(batch)
            if call.until <= time.monotonic():
                raise too_late()
            self._run_batch(call, batch)

    def _begin_anew(self, batch: list[ThreadCall]) -> None:
        """Wake the followers that have an answer; queue those again that the engine has put off together with the leader's call."""
        with self._lock:
            self.queue.charge(batch)
            self._queue_again(unsettled(batch[1:]))
        for follower in batch[1:]:
            if follower.settled:
                _wake(follower)
        del batch[:]

    def _run_batch(self, call: ThreadCall, batch: list[ThreadCall]) -> None:
        """Run one batch: this call, and all that are queued."""
        batch.append(call)
        if self.queue.commands:
            with self._lock:
                self.queue.spend(call)
                self.queue.take(batch, latest=call.until + SLACK_SECONDS)
        wrote, began = True, time.monotonic()
        try:
            wrote = self._send(batch, call.until)
        finally:
            if wrote:
                self._committed.notify()
        self._expect_callers(batch, began)

    def _expect_callers(self, batch: list[ThreadCall], began: float) -> None:
        """Note how long to gather calls after a batch: its callers may be back in a moment."""
        now = time.monotonic()
        self._present = self.queue.commands + sum([call.size for call in batch])
        self._gather_until = now + GATHER_SHARE * (now - began) if now - began > BRIEF_SECONDS else 0.0

    def _send(self, batch: list[ThreadCall], until: float) -> bool:
        """Have the batch applied; return whether anything may have been written."""
        if not batch[0].sent:
            take_late = partial(self._take_late, batch) if self._wait_for_locks else None
            return self.runner.run(batch, until, take_late=take_late)
        self.runner.ask_about([call for call in batch if call.sent], until)  # sent by a leader that was interrupted
        unsent = [call for call in batch if not call.sent]
        return self.runner.run(unsent, until) if unsent else True

    def _take_late(self, batch: list[Any], fits: Callable[[Group], bool]) -> list[Any]:
        """Add the calls that have come meanwhile and fit to a batch that waits for a lock; return those."""
        size = len(batch)
        with self._lock:
            self.queue.take(batch, fits=fits, latest=batch[0].until + SLACK_SECONDS)
        return batch[size:]

    def _depart(self, call: ThreadCall, batch: list[ThreadCall]) -> None:
        if self.queue.commands:
            with self._lock:
                self.queue.charge(batch)
        if not call.gone and (len(batch) > 1 or call.outcomes is None):
            self._dismiss(call, batch)
        self._pass_lead(call)

    def _dismiss(self, call: ThreadCall, batch: list[ThreadCall]) -> None:
        """Wake the followers that have an answer; queue the others again."""
        unanswered = unsettled(batch)
        for follower in batch:
            if follower not in unanswered:
                _wake(follower)
        if unanswered or not call.settled:
            with self._lock:
                self.queue.withdraw(call)
                self._queue_again([follower for follower in unanswered if follower is not call])
                call.gone = True

    def _queue_again(self, calls: list[ThreadCall]) -> None:
        """Queue calls again at the head, unless they are there already or their thread has left."""
        queued = {*self.queue}
        self.queue.put_back([call for call in calls if not call.gone and call not in queued])

    def _pass_lead(self, call: ThreadCall) -> None:
        """Make another call the leader, and wake its thread. If none is queued, the next call that comes will lead."""
        with self._lock:
            if self._leader is call:
                self._leader = self._next_leader() if self.queue else None
            leader = self._leader
            if leader is not None:
                self.queue.withdraw(leader)
                _wake(leader)
                return
            self.queue.commands = 0  # whatever an interrupt did to the count
            if self._closed:
                self._idle.set()

    def _next_leader(self) -> ThreadCall:
        """Return the first call of the tenant that has the turn, or another one near the head if its deadline is later.

        A batch ends at its leader's deadline: with an early one, the outcomes of the followers would be unknown sooner than necessary.
        """
        calls = self.queue.turn()
        head: ThreadCall = calls[0]
        if head.sent:
            return head
        candidates: list[ThreadCall] = [*islice(calls, MAX_CANDIDATES)]
        late_enough = max([call.until for call in candidates]) - SLACK_SECONDS
        return next((call for call in candidates if call.until >= late_enough and not call.sent), head)


def _wake(call: ThreadCall) -> None:
    if call.woken is not None and call.woken.locked():
        call.woken.release()


def _seconds_left(call: ThreadCall) -> float:
    """Return the time until its deadline, as `Lock.acquire` wants it."""
    return -1 if call.until == inf else max(0.0, min(call.until - time.monotonic(), threading.TIMEOUT_MAX))


def run_to_end(step: Callable[..., None], *args: Any) -> None:
    """Run a step to its end, however often an interrupt strikes it, and raise the last interrupt afterwards.

    The step may be run twice. If it were left undone, other threads would wait for ever.
    """
    interrupt: BaseException | None = None
    for _ in range(MAX_INTERRUPTS):
        try:
            step(*args)
            break
        except BaseException as error:  # noqa: BLE001 - raised below, after the work is done
            interrupt = error
    if interrupt is not None:
        raise interrupt
