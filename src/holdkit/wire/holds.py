"""Holds. An owner token is only in the answer that creates it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct

from ..core.commands import Overage
from ..core.model import Slot, State, StoredHold
from ..kernel.results import Hold
from .fields import (
    Amounts,
    Body,
    Force,
    Limit,
    Moment,
    PoolId,
    PositionText,
    Quantity,
    ShowPosition,
    Span,
    Tenant,
    Time,
    Token,
    Total,
    at,
)

_EMPTY: Final = Raw(b"{}")


class LegBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A leg: units of a pool, or a claim's key, or an item."""

    pool: PoolId | None = None
    quantity: Quantity = 1
    create_with_total: Annotated[
        Total | None, Meta(description="create the pool if it does not exist; scope admin only")
    ] = None
    key: Annotated[str | None, Meta(description="type:value, as in POST /v1/claims; not in a batch")] = None
    item: Annotated[str | None, Meta(description="as in POST /v1/items; not in a batch")] = None


class Taking(Body, kw_only=True):
    """What to take: one pool with a quantity, or legs, all or none."""

    pool: PoolId | None = None
    quantity: Quantity | None = None
    legs: list[LegBody] | None = None
    id: Annotated[str | None, Meta(description="your own 128-bit id; by default one is generated")] = None
    owner: Token = None
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class NewHold(Taking, kw_only=True):
    """Hold until a deadline."""

    ttl: Span | None = None
    deadline: Moment | None = None


class NewConsume(Taking, kw_only=True):
    """Hold and confirm in one step."""


class Confirming(Body, kw_only=True):
    """How much of a hold to confirm, and for what."""

    owner: Token = None
    entity: str | None = None
    quantity: Amounts = None
    keep_rest: bool = False
    overage: Overage = "reject"


class Confirm(Confirming, kw_only=True):
    """Make held units consumed."""

    force: Force = False


class Release(Body, kw_only=True):
    """Make held units available."""

    owner: Token = None
    quantity: Amounts = None
    force: Force = False


class Extend(Body, kw_only=True):
    """Move the deadline to a later time."""

    owner: Token = None
    by: Annotated[Span | None, Meta(description="added to the current deadline")] = None
    ttl: Annotated[Span | None, Meta(description="counted from now")] = None
    until: Moment | None = None
    force: Force = False


class Expire(Body, kw_only=True):
    """Record that the deadline has passed."""


class Return(Body, kw_only=True):
    """Make consumed units available again."""

    owner: Token = None
    quantity: Amounts = None
    force: Force = False


class HoldsQuery(Struct, forbid_unknown_fields=True):
    """The holds to list."""

    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: Limit = 100


class LegAnswer(Struct):
    """One leg of a hold."""

    pool: str
    quantity: int
    held: int
    confirmed: int
    returned: int


class HoldAnswer(Struct, kw_only=True, omit_defaults=True):
    """A hold, without its owner token."""

    id: str
    state: State
    legs: list[LegAnswer]
    deadline: Slot | None
    deadline_at: Time | None
    fence: int
    entity: str | None
    held_slot: Slot | None
    """None while it waits in line."""
    held_at: Time | None
    ended_slot: Slot | None
    ended_at: Time | None
    reason: str | None
    actor: str | None
    correlation_id: str | None
    metadata: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    version: int
    tenant: Tenant = None


class HoldNow(HoldAnswer, kw_only=True):
    """One hold, and the result of the call."""

    position: PositionText | None = None
    uncovered: dict[str, int] | None = None
    owner: str | None = None
    ticket: str | None = None
    replayed: bool = False
    server_time: Time


class HoldPage(Struct):
    """Holds in order of id; `next` is the `after` of the next page."""

    items: list[HoldAnswer]
    next: str | None
    server_time: Time


def hold_answer(row: StoredHold, *, with_tenant: bool = False) -> HoldAnswer:
    """A hold as a document."""
    return HoldAnswer(
        id=row.id,
        state=row.state,
        legs=[LegAnswer(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned) for leg in row.legs],
        deadline=row.deadline,
        deadline_at=None if row.deadline is None else at(row.deadline),
        fence=row.fence,
        entity=row.entity,
        held_slot=row.held_at,
        held_at=None if row.held_at is None else at(row.held_at),
        ended_slot=row.ended_at,
        ended_at=None if row.ended_at is None else at(row.ended_at),
        reason=row.reason,
        actor=row.actor,
        correlation_id=row.correlation_id,
        metadata=_EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        version=row.version,
        tenant=row.tenant if with_tenant else None,
    )


def hold_now(hold: Hold, now: datetime, show: ShowPosition, *, secret: bool, with_tenant: bool = False) -> HoldNow:
    """A hold that a call just changed; with `secret`, including its token. Written out, because a batch makes up to a thousand
    of them."""
    row, position = hold.row, hold.position
    return HoldNow(
        id=row.id,
        state=row.state,
        legs=[LegAnswer(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned) for leg in row.legs],
        deadline=row.deadline,
        deadline_at=None if row.deadline is None else at(row.deadline),
        fence=row.fence,
        entity=row.entity,
        held_slot=row.held_at,
        held_at=None if row.held_at is None else at(row.held_at),
        ended_slot=row.ended_at,
        ended_at=None if row.ended_at is None else at(row.ended_at),
        reason=row.reason,
        actor=row.actor,
        correlation_id=row.correlation_id,
        metadata=_EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        version=row.version,
        tenant=row.tenant if with_tenant else None,
        position=None if position is None else show(position),
        uncovered=hold.uncovered or None,
        owner=hold.owner if secret else None,
        ticket=hold.ticket if secret else None,
        replayed=hold.replayed,
        server_time=now,
    )
