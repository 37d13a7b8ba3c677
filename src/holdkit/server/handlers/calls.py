"""Turns the fields that request bodies share into arguments of the kernel: those that every call takes, and legs."""

from __future__ import annotations

from typing import Any

from ...core.model import Leg
from ...core.validation import invalid
from ...faces.keys import claim, items, split_key
from ...wire.fields import Body
from ...wire.holds import LegBody, Placing, Taking
from ...wire.problems import Problem
from ..keys import allows
from ..request import Caller, Request


def call_fields(request: Request, body: Body) -> dict[str, Any]:
    """The arguments that every call of the kernel takes: operation id, actor, correlation id, reason."""
    return {
        "op": request.op,
        "actor": request.actor(body.actor),
        "correlation_id": body.correlation_id,
        "reason": body.reason,
    }


def legs_of(body: Taking, caller: Caller) -> tuple[Leg, ...]:
    """The legs, from a pool and quantity or from a list."""
    if body.legs is None:
        if body.pool is None:
            raise invalid("pool", "pool_required", "give a pool, or legs")
        return (Leg(body.pool, 1 if body.quantity is None else body.quantity),)
    if body.pool is not None or body.quantity is not None:
        raise invalid("legs", "legs_ambiguous", "give either a pool with a quantity, or legs, not both")
    if any(leg.create_with_total is not None for leg in body.legs):
        need_admin(caller, "create_with_total")
    return tuple([leg_of(leg) for leg in body.legs])


def leg_of(leg: LegBody) -> Leg:
    """Return the leg of a request: units of a pool; or a key or an item, whose pool belongs to its face."""
    named = 3 - [leg.pool, leg.claim, leg.item].count(None)
    if named != 1:
        raise invalid(
            "pool",
            "pool_ambiguous" if named else "pool_required",
            "a leg must name exactly one of pool, claim and item",
        )
    if leg.pool is not None:
        return Leg(leg.pool, leg.quantity, leg.create_with_total)
    if (leg.quantity, leg.create_with_total) != (1, None):
        raise invalid("legs", "quantity_unused", "a claim or an item takes no quantity and no total")
    return claim(*split_key(leg.claim)) if leg.claim is not None else items(leg.item or "")[0]


def passing_limits(body: Placing, caller: Caller) -> dict[str, Any]:
    """For whom a hold is, and whether limits per account refuse it: to pass them needs scope admin."""
    if body.force:
        need_admin(caller, "force")
    return {"account": body.account, "force": body.force}


def need_admin(caller: Caller, what: str) -> None:
    """Refuse a caller without scope admin: some fields need more than their route."""
    if not allows(caller.scope, "admin"):
        raise Problem(403, "scope_too_small", f"{what} needs an API key with scope admin")
