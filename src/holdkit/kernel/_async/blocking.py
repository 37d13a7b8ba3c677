"""Blocking calls: `hold(..., wait=...)` and `lease(..., wait=...)` wait in line until they have their units.

Theory of operation. The call places one hold that may wait: it is held at once if the units are free and the line is empty, else it
joins the line, behind all others, whatever process, thread or task they are in. From then on the hold is the call's place in line,
and ends unless the call keeps it alive:

 1. A place stands for `PLACE`. The call renews it every `RENEWAL` seconds, while it is blocked. If its process dies, the place ends
    after `PLACE` at the latest.
 2. An offer stands for `OFFER`. The call accepts it by extending the hold to its ttl. If its process is dead, the next in line is
    served after `OFFER`.
 3. When its time is over, the call leaves the line; unless units were offered by then, which it takes. The engine decides that in one
    transaction, and answers with the refusal. It is recorded under the operation id that placed the hold, so that a retry gets it
    again. Before that, a retry with the same operation id finds the hold of the first attempt, and waits for it.
 4. A call that is cancelled or interrupted releases its hold before it raises, whether it waits or was offered units.
 5. A place that was lost, because this process was suspended or the store was away for longer than it stands, is taken anew at the
    end of the line, while there is time. A call with an operation id or a hold id of its own cannot do that, and is refused.

Durations are measured on this machine's monotonic clock; when a place or an offer ends is the store's to decide. While the store fails,
the call keeps waiting: only a refusal, the end of its time, or the end of its kernel ends it.
"""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

from msgspec.structs import replace

from ...core.commands import ExtendHold, LeaveLine, PlaceHold, ReleaseHold, Ttl
from ...core.model import SECOND, Slot, State, StoredHold
from ...core.outcomes import Receipt
from ...core.validation import invalid
from ...engines.clocks import steady
from ...engines.deadlines import at_most
from ...errors import (
    AlreadyConfirmed,
    AlreadyReleased,
    EngineError,
    HoldExpired,
    HoldkitError,
    LifetimeExceeded,
    OutcomeUnknown,
    Overloaded,
    Refused,
)
from ..answers import refusal_of, undo_grant
from ..arguments import span
from ..group_commit import LEAVING
from ..leader_queue import CLOSED
from ..results import Hold, hold_of
from ..workers import AsyncSignal
from .executor import AsyncExecutorPort

PLACE: Slot = 60 * SECOND
"""How long a place in line stands without a renewal."""
RENEWAL = 20.0
"""Seconds between two renewals: one may fail."""
OFFER: Slot = 10 * SECOND
"""How long an offer stands in which the call is to accept it."""
PAUSE = 1.0
"""Seconds before a renewal that failed is tried again."""
SHORTLY = 0.1
"""Seconds before an offer is accepted again after a failure."""
FAILURES = (EngineError, Overloaded, OutcomeUnknown)


class AsyncLineWaiter(Protocol):
    """Tells a blocked call what becomes of its hold."""

    async def wait(self, seconds: float) -> StoredHold | None:
        """Return the hold when it waits no longer, or after this time; None if the hold no longer exists."""

    def wake(self) -> None:
        """End its wait; from any thread."""

    async def leave(self) -> None:
        """Stop watching: the call is blocked no longer."""


class WaitGivenUp(HoldkitError):
    """Another thread or task stopped the waiting call; it holds nothing."""


def waiting_time(wait: Ttl | None, call: Any) -> float:
    """Return the seconds that a call may wait; 0: not at all."""
    if wait is None:
        return 0.0
    slots = span(wait, "wait")
    if type(slots) is not int or slots < 0:
        raise invalid(
            "wait", "wait_malformed", "must be seconds, a timedelta, or text such as '90s', '5m', '2h', not below 0"
        )
    if slots and call.get("tx") is not None:
        raise invalid(
            "wait", "wait_in_transaction", "a call with tx= cannot wait: nobody could release units meanwhile"
        )
    return slots / SECOND


class AsyncBlockingCall:
    """One call that waits in line for its hold."""

    def __init__(self, executor: AsyncExecutorPort, command: PlaceHold, seconds: float) -> None:
        ttl, limits = command.ttl_slots, executor.limits
        offer = OFFER if type(ttl) is not int or ttl < 1 else min(OFFER, ttl)
        self._place = max(1, min(PLACE, limits.max_ttl, limits.max_lifetime))
        self._every = min(RENEWAL, self._place / SECOND / 3)
        offer = max(1, min(offer, limits.max_lifetime))
        self._executor, self._command = executor, replace(command, wait_slots=self._place, offer_slots=offer)
        self._until = steady() + seconds
        self._token: str | None = None
        self._standing: StoredHold | None = None
        """The hold, while it is in line or offered: to be released if the call is cancelled."""
        self._replayed = False
        """An earlier attempt of the same operation has placed the hold."""
        self._waiter: AsyncLineWaiter | None = None
        self._given_up = False
        self._pause = AsyncSignal()
        """Never notified."""
        self.granted = 0.0
        """When the command was sent that has granted the units for the ttl, by `steady`."""

    def give_up(self) -> None:
        """Let the call end with `WaitGivenUp`, and release its hold. From any thread."""
        self._given_up = True
        if self._waiter is not None:
            self._waiter.wake()

    async def result(self) -> Hold:
        """Wait and return the hold with its units, or raise the refusal."""
        while True:
            hold = await self._attempt()
            if hold is not None:
                return hold

    async def _attempt(self) -> Hold | None:
        """Place the hold, and wait; None: its place was lost, and another one may be taken."""
        self.granted = steady()
        done = await self._executor.execute(self._command, undo=undo_grant)
        row = done.hold
        assert row is not None
        self._token = self._command.token if done.token is None else done.token
        if row.number is None:
            return hold_of(done, self._token, self._command.legs)
        self._standing, self._replayed = row, done.replayed
        try:
            return await self._stand(row)
        except GeneratorExit:  # async-only
            raise  # nothing runs this call any more: its place ends by itself  # async-only
        except BaseException:
            await self._abandon()
            raise

    async def _stand(self, row: StoredHold) -> Hold | None:
        if self._replayed:
            found = await self._executor.find_hold(row.key)
            row = row if found is None else found
        waiter = self._waiter = await self._executor.watch_line(row)
        renew_at = steady() + self._every
        seen: StoredHold | None = row
        try:
            while True:
                if self._executor.closed:
                    raise EngineError(CLOSED)
                if self._given_up:
                    raise WaitGivenUp("the lease was told to stop waiting")
                now = steady()
                if seen is None or seen.state is State.EXPIRED:
                    return await self._lost()
                if seen.state is State.HELD:
                    return await self._accept(seen)
                if seen.state is not State.WAITING:  # by another attempt of this operation, or by force
                    return await self._leave()
                if now >= self._until:
                    return await self._leave()
                if now >= renew_at:
                    seen, renew_at = await self._renew(seen)
                    continue
                seen = await waiter.wait(min(self._until, renew_at) - now)
        finally:
            await waiter.leave()

    async def _renew(self, seen: StoredHold) -> tuple[StoredHold | None, float]:
        """Keep the place; returns the hold, and when to renew again."""
        try:
            done = await self._extend(self._place if seen.state is State.WAITING else self._ttl())
        except LifetimeExceeded:
            return seen, inf  # its place ends with the longest life that a hold may have
        except Refused:
            return await self._executor.find_hold(seen.key), steady() + PAUSE
        except FAILURES:
            return seen, steady() + PAUSE
        return done.hold, steady() + self._every

    async def _accept(self, offered: StoredHold) -> Hold | None:
        """Extend a hold that was offered its units to the call's ttl."""
        give_up = steady() + OFFER / SECOND
        until: Slot | None = None
        while True:
            self.granted = steady()
            try:
                done = await self._extend(self._ttl(), until)
            except LifetimeExceeded as refused:
                if until is not None:
                    raise
                until = offered.began + span(
                    refused.max_lifetime
                )  # the ttl begins after the grant, and would end too late
                continue
            except HoldExpired:
                return await self._lost()
            except (AlreadyConfirmed, AlreadyReleased):
                return await self._leave()
            except FAILURES:
                if self._executor.closed or steady() >= give_up:
                    raise
                await self._pause.wait(0, SHORTLY)
                continue
            self._standing = None
            return hold_of(done, self._token, self._command.legs)

    async def _lost(self) -> Hold | None:
        """Return None to take a new place, because the place or the offer has expired; leave the line if the call cannot do that."""
        command = self._command
        if command.op is None and command.id is None and steady() < self._until:
            self._standing = None
            return None
        return await self._leave()

    async def _leave(self) -> Hold | None:
        """Leave the line and raise the refusal; if units have been offered by now, accept them. If the hold was confirmed or released
        after that, return it as it is."""
        standing = self._standing
        assert standing is not None
        command = LeaveLine(id=standing.id, token=self._token, placed_op=self._command.op, **self._fields())
        try:
            done = await self._executor.execute(command)
        except Refused:
            self._standing = None
            raise
        if done.refusal is None and done.hold is not None and done.hold.state is State.HELD:
            return await self._accept(done.hold)
        self._standing = None
        if done.refusal is not None:
            raise refusal_of(done.refusal)
        return hold_of(replace(done, replayed=self._replayed), self._token, self._command.legs)

    async def _extend(self, ttl: Slot, until: Slot | None = None) -> Receipt:
        assert self._standing is not None
        by_ttl = ttl if until is None else None
        command = ExtendHold(id=self._standing.id, token=self._token, ttl_slots=by_ttl, until=until, **self._fields())
        return await self._executor.execute(command)

    async def _abandon(self) -> None:
        """Release the hold of a cancelled call, which could not accept an offer."""
        if self._standing is None:
            return
        command = ReleaseHold(id=self._standing.id, token=self._token, reason="cancelled", **self._fields())
        self._standing = None
        try:
            with at_most(LEAVING):
                await self._executor.execute(command, shielded=True)
        except HoldkitError:
            pass  # its place, or its offer, ends by itself

    def _ttl(self) -> Slot:
        assert self._command.ttl_slots is not None
        return self._command.ttl_slots

    def _fields(self) -> dict[str, Any]:
        command = self._command
        return {"tenant": command.tenant, "actor": command.actor, "correlation_id": command.correlation_id}
