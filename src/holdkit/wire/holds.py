"""Holds. A token is only in the answer that creates it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Raw, Struct

from ..core.codec import ticket
from ..core.commands import Overage
from ..core.keyed import leg_name
from ..core.model import MAX_SLOT, SECOND, Slot, State, StoredHold
from ..kernel.results import Hold, named_keys, receipt_of, requested_legs
from .fields import (
    Account,
    Amounts,
    Body,
    Force,
    Limit,
    Moment,
    MomentText,
    PassLimits,
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
NO_LABELS: Final[Mapping[str, str | None]] = {}


class LegBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A leg: units of a pool, or a claim, or an item."""

    pool: PoolId | None = None
    quantity: Quantity = 1
    create_with_total: Annotated[Total | None, Meta(description="create a missing pool; scope admin only")] = None
    claim: Annotated[str | None, Meta(description="a key, as type:value")] = None
    item: Annotated[str | None, Meta(description="an item's id")] = None


class Placing(Body, kw_only=True):
    """The hold to place."""

    id: Annotated[str | None, Meta(description="your own 128-bit id; by default one is generated")] = None
    token: Token = None
    entity: str | None = None
    metadata: dict[str, Any] | None = None
    account: Account = None
    force: PassLimits = False


class Taking(Placing, kw_only=True):
    """What to take: one pool with a quantity, or legs, all or none."""

    pool: PoolId | None = None
    quantity: Quantity | None = None
    legs: list[LegBody] | None = None


class NewHold(Taking, kw_only=True):
    """Hold until a deadline."""

    ttl: Span | None = None
    deadline: Moment | None = None


class NewHoldInLine(NewHold, kw_only=True):
    """Hold until a deadline, or wait in line."""

    wait: Annotated[
        Span | None,
        Meta(description="if it does not fit: join the one pool's line for this long; extend the hold to wait longer"),
    ] = None
    offer_ttl: Annotated[Span | None, Meta(description="with wait: how long the offer stands; extend it in time")] = (
        None
    )


class Leave(Body, kw_only=True):
    """Stop waiting in line."""

    token: Token = None
    placed_op: Annotated[
        str | None, Meta(description="the retry key that placed the hold: it is answered with the refusal from now on")
    ] = None


class NewConsume(Taking, kw_only=True):
    """Hold and confirm in one step."""


class Join(Placing, kw_only=True):
    """Wait in the line of a pool until units are offered."""

    quantity: Quantity = 1
    ttl: Annotated[Span, Meta(description="how long to wait: seconds, or text such as 90s, 5m, 2h")]
    offer_ttl: Annotated[Span, Meta(description="how long the offer stands; confirm or extend the hold within it")]


class Confirming(Body, kw_only=True):
    """How much of a hold to confirm, and for what."""

    token: Token = None
    entity: str | None = None
    quantity: Amounts = None
    keep_rest: bool = False
    overage: Overage = "reject"


class Confirm(Confirming, kw_only=True):
    """Make held units consumed."""

    force: Force = False


class Release(Body, kw_only=True):
    """Make held units available."""

    token: Token = None
    quantity: Amounts = None
    force: Force = False


class Extend(Body, kw_only=True):
    """Move the deadline to a later time."""

    token: Token = None
    by: Annotated[Span | None, Meta(description="added to the current deadline")] = None
    ttl: Annotated[Span | None, Meta(description="counted from now")] = None
    until: Moment | None = None
    force: Force = False


class Expire(Body, kw_only=True):
    """Record that the deadline has passed."""


class Return(Release, kw_only=True):
    """Make consumed units available again."""


class Reassign(Body, kw_only=True):
    """Move a held hold to another account."""

    token: Token = None
    account: Account
    force: Force = False


class HoldsQuery(Struct, forbid_unknown_fields=True):
    """The holds to list."""

    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    actor: str | None = None
    account: str | None = None
    placed_from: MomentText | None = None
    placed_to: Annotated[MomentText | None, Meta(description="the first moment that is too late")] = None
    order: Literal["oldest", "newest"] = "oldest"
    after: Annotated[str, Meta(description="`next` of the page before this one, or the id of a hold")] = ""
    before: Annotated[
        str, Meta(description="the same, for the page in front of it; `next` then leads to the pages before that one")
    ] = ""
    limit: Limit = 100


class LineQuery(Struct, forbid_unknown_fields=True):
    """The part of a line to read."""

    after: Annotated[int, Meta(ge=0, le=MAX_SLOT, description="`next` of the page before: a number in the line")] = 0
    limit: Limit = 100


class LegAnswer(Struct, omit_defaults=True):
    """One leg of a hold."""

    pool: str
    name: Annotated[
        str,
        Meta(
            description="what the pool is called: its id, an item's id, `inn/double/2027-07-03` of a calendar; of a claim `type:value` "
            "where the request named the key, and where holds are read or listed, else the claim's id"
        ),
    ]
    quantity: int
    held: int
    confirmed: int
    returned: int


class HoldAnswer(Struct, kw_only=True, omit_defaults=True):
    """A hold, without its token."""

    id: str
    state: State
    legs: list[LegAnswer]
    deadline: Time | None
    fence: int
    entity: str | None
    held_at: Annotated[Time | None, Meta(description="null while it waits in line")]
    ended_at: Time | None
    reason: str | None
    actor: str | None
    correlation_id: str | None
    metadata: Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
    version: int
    account: Account = None
    joined_at: Annotated[Time | None, Meta(description="of a hold that waited in line: when it joined")] = None
    number: Annotated[int | None, Meta(description="its number in that line")] = None
    offer_ttl: Annotated[float | None, Meta(description="seconds for which the offer stands, or stood")] = None
    tenant: Tenant = None


class HoldNow(HoldAnswer, kw_only=True):
    """One hold, and the result of the call."""

    position: PositionText | None = None
    uncovered: dict[str, int] | None = None
    token: str | None = None
    ticket: str | None = None
    replayed: bool = False
    server_time: Time


class PlaceAnswer(Struct, kw_only=True):
    """A place in line."""

    hold: str
    state: Annotated[State, Meta(description="waiting; or what became of the hold")]
    place: Annotated[
        int | None,
        Meta(description="1 is next; exact to 1,000, and 1001 for whoever is farther behind; null if it does not wait"),
    ]
    deadline: Annotated[Time | None, Meta(description="while it waits, when that ends")]
    server_time: Time


class HoldPage(Struct):
    """Holds in order of id, from either end. `next` is the `after` of the next page (of a page with `before`: the `before` of the
    page in front of it), None at the end. A request looks at a bounded number of holds, so a page may be empty and still have a `next`."""

    items: list[HoldAnswer]
    next: str | None
    server_time: Time


class LinePage(Struct):
    """Who waits in a line, in order: the first is next. `next` is the `after` of the next page."""

    items: list[HoldAnswer]
    next: int | None
    server_time: Time


def hold_answer(
    row: StoredHold, *, with_tenant: bool = False, labels: Mapping[str, str | None] = NO_LABELS
) -> HoldAnswer:
    """Return a hold as a document. `labels` are the keys of claims, by pool."""
    return HoldAnswer(
        id=row.id,
        state=row.state,
        legs=_legs(row, labels),
        deadline=at(row.deadline),
        fence=row.fence,
        entity=row.entity,
        held_at=at(row.held_at),
        ended_at=at(row.ended_at),
        reason=row.reason,
        actor=row.actor,
        correlation_id=row.correlation_id,
        metadata=_EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        version=row.version,
        account=row.account,
        joined_at=at(row.joined_at),
        number=row.number,
        offer_ttl=None if row.offer_ttl is None else row.offer_ttl / SECOND,
        tenant=row.tenant if with_tenant else None,
    )


def _legs(row: StoredHold, labels: Mapping[str, str | None]) -> list[LegAnswer]:
    named = labels.get
    return [
        LegAnswer(leg.pool, leg_name(leg.pool, named(leg.pool)), leg.quantity, leg.held, leg.confirmed, leg.returned)
        for leg in row.legs
    ]


def hold_now(
    hold: Hold,
    now: Slot,
    show: ShowPosition,
    *,
    secret: bool,
    with_tenant: bool = False,
    labels: Mapping[str, str | None] = NO_LABELS,
) -> HoldNow:
    """Return the document of a hold that a call just changed; with `secret`, including its token.

    `now` is the engine's clock; `server_time` is not before the times of the hold. `labels` are the keys of claims that the call did not
    name. Written out, because a batch makes up to a thousand of them.
    """
    row, done, token = hold.raw, receipt_of(hold), hold.token
    if named := named_keys(requested_legs(hold)):
        labels = {**named, **labels}
    position = None if done is None else done.position
    return HoldNow(
        id=row.id,
        state=row.state,
        legs=_legs(row, labels),
        deadline=at(row.deadline),
        fence=row.fence,
        entity=row.entity,
        held_at=at(row.held_at),
        ended_at=at(row.ended_at),
        reason=row.reason,
        actor=row.actor,
        correlation_id=row.correlation_id,
        metadata=_EMPTY if row.metadata is None else Raw(row.metadata.encode()),
        version=row.version,
        account=row.account,
        joined_at=at(row.joined_at),
        server_time=at(max(now, row.held_at or now, row.joined_at or now)),
        number=row.number,
        offer_ttl=None if row.offer_ttl is None else row.offer_ttl / SECOND,
        tenant=row.tenant if with_tenant else None,
        position=None if position is None else show(position),
        uncovered=(None if done is None else done.uncovered) or None,
        token=token if secret else None,
        ticket=ticket(row.id, token) if secret and token is not None else None,
        replayed=done is not None and done.replayed,
    )


def place_answer(row: StoredHold, place: int | None, now: Time) -> PlaceAnswer:
    """Return a hold's place in line as a document."""
    return PlaceAnswer(
        hold=row.id,
        state=row.state,
        place=place,
        deadline=at(row.deadline),
        server_time=now,
    )
