# Generated from ../_async/verbs.py by tools/gen_sync.py: do not edit.
"""The verbs of the API: each builds one command. `what` is a pool id with a quantity, a mapping of pool to quantity, or a list
of legs. A hold that ends is given as a `Hold` or its ticket.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from ...core.commands import (
    ConfirmHold,
    Consume,
    ExtendHold,
    JoinLine,
    Overage,
    PlaceHold,
    ReassignHold,
    ReleaseHold,
    ReturnUnits,
    Sweep,
    Ttl,
)
from ...core.model import Leg, Slot
from ..answers import report_of
from ..arguments import Call, Part, What, amounts_of, call_fields, context_of, hold_id, legs_of, presented, span
from ..reports import SweepReport
from ..results import Hold, hold_of, requested_legs
from ..times import moment
from .blocking import BlockingCall, waiting_time
from .pool_verbs import PoolVerbs


class Verbs(PoolVerbs):
    """Everything that changes something, over an executor in this process or behind a server."""

    def hold(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        wait: Ttl | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Take every leg until the deadline, or nothing at all. Raises `InsufficientCapacity` naming every shortfall, and
        `LineAhead` if others wait in line for one of the pools.

        `account` names the account that the units count for: pools with a limit per account require it, and every pool counts by
        it. (`hk.admin.hold` passes these limits.)

        `wait` is how long the call may block, given like a ttl, until the units are free: it waits in the pool's line, which is
        fair to all processes, threads and tasks. The refusal comes when that time is over. Only for one pool, and with a ttl, which
        begins with the grant."""
        seconds = 0.0 if wait is None else waiting_time(wait, call)
        command = self._placing(
            what, quantity, call, ttl=ttl, deadline=deadline, id=id, token=token, entity=entity, metadata=metadata,
            account=account,
        )  # fmt: skip
        if seconds:
            return BlockingCall(self._executor, command, seconds).result()
        return hold_of(self._executor.execute(command, call.get("tx")), token, command.legs)

    def _placing(
        self,
        what: What,
        quantity: int | None,
        call: Call,
        *,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
    ) -> PlaceHold:
        said = context_of(call)
        return PlaceHold(
            legs=legs_of(what, quantity),
            ttl_slots=None if ttl is None else span(ttl),
            deadline=None if deadline is None else moment(deadline),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            account=account,
            tenant=self._tenant,
            op=call.get("op"),
            actor=said.actor,
            correlation_id=said.correlation_id,
            reason=said.reason,
        )

    def join(
        self,
        pool: str,
        quantity: int = 1,
        *,
        ttl: Ttl,
        offer_ttl: Ttl,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Wait in the pool's line, for `ttl` at most, and return at once: the hold is `waiting` and has no units yet. When they are
        offered it becomes `held`, for `offer_ttl`: confirm it in that time. If the line is empty and the units are free, it is
        `held` already.

        `extend` moves the end of waiting, `release` leaves the line, `place` returns the position. Raises `LineFull`, and
        `InsufficientCapacity` if the pool never has that many units. `account` works as in `hold`."""
        command = JoinLine(
            legs=(Leg(pool, quantity),),
            ttl_slots=span(ttl),
            offer_slots=span(offer_ttl, "offer_ttl"),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            account=account,
            **call_fields(call, self._tenant),
        )
        return hold_of(self._executor.execute(command, call.get("tx")), token, command.legs)

    def consume(
        self,
        what: What,
        quantity: int | None = None,
        *,
        id: str | UUID | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step: for a payment that came too late, and for whatever needs no second step. `account`
        works as in `hold`."""
        said = context_of(call)
        command = Consume(
            legs=legs_of(what, quantity),
            id=None if id is None else hold_id(id),
            token=token,
            entity=entity,
            metadata=metadata,
            account=account,
            tenant=self._tenant,
            op=call.get("op"),
            actor=said.actor,
            correlation_id=said.correlation_id,
            reason=said.reason,
        )
        return hold_of(self._executor.execute(command, call.get("tx")), token, command.legs)

    def confirm(
        self,
        hold: Hold | str,
        *,
        entity: str | None = None,
        quantity: Part = None,
        keep_rest: bool = False,
        overage: Overage = "reject",
        **call: Unpack[Call],
    ) -> Hold:
        """Consume held units. If less than is held is confirmed, release the rest, or keep it with `keep_rest=True`."""
        id, token = _presented(hold, "confirm")
        said = context_of(call)
        command = ConfirmHold(
            id=id,
            token=token,
            entity=entity,
            quantity=amounts_of(quantity),
            keep_rest=keep_rest,
            overage=overage,
            tenant=self._tenant,
            op=call.get("op"),
            actor=said.actor,
            correlation_id=said.correlation_id,
            reason=said.reason,
        )
        return hold_of(self._executor.execute(command, call.get("tx")), token, requested_legs(hold))

    def release(
        self,
        hold: Hold | str,
        *,
        quantity: Part = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Make held units available; a hold that waits leaves its line."""
        id, token = _presented(hold, "release")
        said = context_of(call)
        command = ReleaseHold(
            id=id,
            token=token,
            quantity=amounts_of(quantity),
            tenant=self._tenant,
            op=call.get("op"),
            actor=said.actor,
            correlation_id=said.correlation_id,
            reason=said.reason,
        )
        return hold_of(self._executor.execute(command, call.get("tx")), token, requested_legs(hold))

    def extend(
        self,
        hold: Hold | str,
        *,
        by: Ttl | None = None,
        ttl: Ttl | None = None,
        until: Slot | datetime | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Move the deadline: `by` counts from the present one, `ttl` from now, `until` is absolute. Never shortens. For a hold that waits,
        move the end of waiting."""
        id, token = _presented(hold, "extend")
        said = context_of(call)
        command = ExtendHold(
            id=id,
            token=token,
            by_slots=None if by is None else span(by, "by"),
            ttl_slots=None if ttl is None else span(ttl),
            until=None if until is None else moment(until, "until"),
            tenant=self._tenant,
            op=call.get("op"),
            actor=said.actor,
            correlation_id=said.correlation_id,
            reason=said.reason,
        )
        return hold_of(self._executor.execute(command, call.get("tx")), token, requested_legs(hold))

    def reassign(self, hold: Hold | str, *, account: str | None, **call: Unpack[Call]) -> Hold:
        """Move a held hold to another account, or with None to none: all that it counts for. Raises `AccountLimit` if the account would
        have more of a pool than one may, and `AccountRequired` for None where a pool has a limit."""
        id, token = _presented(hold, "reassign")
        command = ReassignHold(id=id, token=token, account=account, **call_fields(call, self._tenant))
        return hold_of(self._executor.execute(command, call.get("tx")), token, requested_legs(hold))

    def return_units(
        self,
        hold: Hold | str,
        *,
        quantity: Part = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Make consumed units available again: an order cancelled after it was paid."""
        id, token = _presented(hold, "return_units")
        command = ReturnUnits(id=id, token=token, quantity=amounts_of(quantity), **call_fields(call, self._tenant))
        return hold_of(self._executor.execute(command, call.get("tx")), token, requested_legs(hold))

    def sweep(self, limit: int = 500) -> SweepReport:
        """Return the due legs of up to `limit` holds of all tenants, earliest deadline first, and prune a little.

        It works for all tenants; the report of a kernel that is bound to one names only holds of that tenant."""
        return report_of(self._executor.execute(Sweep(limit=limit, **call_fields({}, self._tenant))))


def _presented(hold: Hold | str, verb: str) -> tuple[Any, str | None]:
    """Return id and token of the hold that a verb ends. First the usual case, which `presented` finds out last."""
    if type(hold) is Hold:
        return hold.raw.id, hold.token
    return presented(hold, verb)
