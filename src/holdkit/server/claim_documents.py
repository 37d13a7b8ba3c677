"""Claims and items as they travel: what callers send of them, and what they are shown. No token but where it is minted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ..core.model import Slot
from ..faces.claim import Claim
from .answers import at
from .bodies import Body, Limit, Span, Token

ItemIds: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=1_000)]


class NewClaim(Body, kw_only=True):
    """Reserve a key that only one can have."""

    type: str
    value: str
    ttl: Span
    owner: Annotated[
        Token, Meta(description="of your own: while the claim is alive, the same owner gets the same one")
    ] = None
    metadata: dict[str, Any] | None = None


class ConfirmClaim(Body, kw_only=True):
    """The key belongs to the entity from now on."""

    entity: str
    owner: Token = None


class EndClaim(Body, kw_only=True):
    """Let a key go."""

    owner: Token = None


class ForgetClaim(EndClaim, kw_only=True):
    """Free a confirmed key."""

    force: Annotated[bool, Meta(description="without the token; needs a reason and an admin key")] = False


class ExtendClaim(Body, kw_only=True):
    """A later deadline."""

    owner: Token = None
    by: Span | None = None
    ttl: Span | None = None


class ClaimsQuery(Struct, forbid_unknown_fields=True):
    """Which key: by `key`, by `type` and `value`, or by `entity`; all without any."""

    key: str | None = None
    type: str | None = None
    value: str | None = None
    entity: str | None = None
    active_only: bool = False
    after: str = ""
    limit: Limit = 100


class ItemsQuery(Struct, forbid_unknown_fields=True):
    """Which items."""

    prefix: str = ""
    after: str = ""
    limit: Limit = 100


class AddItems(Body, kw_only=True):
    """Make items."""

    ids: ItemIds


class ReopenItems(Body, kw_only=True):
    """Spent items are available again."""

    ids: ItemIds


class ReserveItems(Body, kw_only=True):
    """Take every one, or none."""

    ids: ItemIds
    ttl: Span | None = None
    owner: Token = None
    metadata: dict[str, Any] | None = None


class BestItems(Body, kw_only=True):
    """Take the first so many that are free: of a list, or of those that begin alike."""

    count: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 1_000})]
    within: Annotated[list[str], Meta(max_length=1_000)] | None = None
    prefix: str | None = None
    adjacent: Annotated[bool, Meta(description="side by side; else anywhere")] = True
    ttl: Span | None = None
    owner: Token = None
    metadata: dict[str, Any] | None = None


class EndItems(Body, kw_only=True):
    """End the hold that has them."""

    hold: str
    owner: Token = None
    entity: str | None = None


class LookAtItems(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which items to look at: in a body, for a thousand ids are too long for an address."""

    ids: ItemIds


class ClaimAnswer(Struct, kw_only=True, omit_defaults=True):
    """A key in its present or last life."""

    id: str
    key: str
    type: str
    value: str
    state: str
    hold: str | None
    deadline: Slot | None
    deadline_at: datetime | None
    entity: str | None
    held_slot: Slot | None
    held_at: datetime | None
    ended_slot: Slot | None
    ended_at: datetime | None
    correlation_id: str | None
    fence: int
    version: int
    combined: bool
    owner: str | None = None
    ticket: str | None = None
    replayed: bool = False
    server_time: datetime


class ClaimPage(Struct):
    """Keys."""

    items: list[ClaimAnswer]
    next: str | None
    server_time: datetime


class ItemAnswer(Struct):
    """One item, and which hold has it."""

    id: str
    state: Literal["available", "held", "spent", "missing"]
    hold: str | None


class ItemPage(Struct):
    """Items in order of id; `next` is the `after` of the next page."""

    items: list[ItemAnswer]
    next: str | None
    server_time: datetime


class ItemList(Struct):
    """Items in the order asked."""

    items: list[ItemAnswer]
    server_time: datetime


def claim_answer(claim: Claim, now: datetime, *, secret: bool = False) -> ClaimAnswer:
    """What is shown of a claim."""
    return ClaimAnswer(
        id=claim.id,
        key=claim.key,
        type=claim.type,
        value=claim.value,
        state=claim.state.value,
        hold=claim.hold_id,
        deadline=claim.deadline,
        deadline_at=None if claim.deadline is None else at(claim.deadline),
        entity=claim.entity,
        held_slot=claim.held_slot,
        held_at=None if claim.held_slot is None else at(claim.held_slot),
        ended_slot=claim.ended_slot,
        ended_at=None if claim.ended_slot is None else at(claim.ended_slot),
        correlation_id=claim.correlation_id,
        fence=claim.fence,
        version=claim.version,
        combined=claim.combined,
        owner=claim.owner if secret else None,
        ticket=claim.ticket if secret else None,
        replayed=claim.replayed,
        server_time=now,
    )
