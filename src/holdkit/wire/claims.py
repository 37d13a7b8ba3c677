"""Claims: unique keys. A token is only in the answer that creates it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..core.model import Slot, State
from ..faces.claim import Claim
from ..kernel.results import Hold
from .fields import Body, Force, Limit, Span, Tenant, Time, Token, at
from .holds import HoldNow


class NewClaim(Body, kw_only=True):
    """Reserve a unique key."""

    type: str
    value: str
    ttl: Span
    token: Annotated[
        Token, Meta(description="your own token: while the claim is held, the same owner gets the same claim")
    ] = None
    metadata: dict[str, Any] | None = None


class ConfirmClaim(Body, kw_only=True):
    """Give the key to an entity permanently."""

    entity: str
    token: Token = None


class EndClaim(Body, kw_only=True):
    """Release a key."""

    token: Token = None


class ForgetClaim(EndClaim, kw_only=True):
    """Free a confirmed key."""

    force: Force = False


class ExtendClaim(Body, kw_only=True):
    """Move the deadline to a later time."""

    token: Token = None
    by: Span | None = None
    ttl: Span | None = None


class ClaimsQuery(Struct, forbid_unknown_fields=True):
    """The claims to list: by `key`, by `type` and `value`, or by `entity`; by default all."""

    key: str | None = None
    type: str | None = None
    value: str | None = None
    entity: str | None = None
    active_only: bool = False
    after: str = ""
    limit: Limit = 100


class ClaimAnswer(Struct, kw_only=True, omit_defaults=True):
    """A claim: the current one of its key, or the last one."""

    id: str
    key: str
    type: str
    value: str
    state: State
    hold: str | None
    deadline: Slot | None
    deadline_at: Time | None
    entity: str | None
    held_slot: Slot | None
    held_at: Time | None
    ended_slot: Slot | None
    ended_at: Time | None
    correlation_id: str | None
    fence: int
    version: int
    combined: Annotated[bool, Meta(description="whether its hold has other legs too")]
    tenant: Tenant = None
    token: str | None = None
    ticket: str | None = None
    replayed: bool = False
    server_time: Time


class NewClaimAnswer(ClaimAnswer, kw_only=True, omit_defaults=True):
    """A claim that was just held, with its hold as `POST /v1/holds` answers it."""

    granted: HoldNow


class ClaimPage(Struct):
    """Claims."""

    items: list[ClaimAnswer]
    next: str | None
    server_time: Time


def claim_answer(claim: Claim, now: datetime, *, replayed: bool = False, with_tenant: bool = False) -> ClaimAnswer:
    """Return a claim as a document."""
    return ClaimAnswer(
        **_fields(claim), replayed=replayed, tenant=claim.tenant if with_tenant else None, server_time=now
    )


def new_claim_answer(claim: Claim, hold: Hold, now: datetime, granted: HoldNow) -> NewClaimAnswer:
    """Return a claim that was just held as a document, with its token."""
    return NewClaimAnswer(
        **_fields(claim), replayed=hold.replayed, token=hold.token, ticket=hold.ticket, server_time=now, granted=granted
    )


def _fields(claim: Claim) -> dict[str, Any]:
    row = claim.raw.hold
    deadline, held_at, ended_at = (None, None, None) if row is None else (row.deadline, row.held_at, row.ended_at)
    return {
        "id": claim.id,
        "key": claim.key,
        "type": claim.type,
        "value": claim.value,
        "state": claim.state,
        "hold": claim.hold,
        "deadline": deadline,
        "deadline_at": None if deadline is None else at(deadline),
        "entity": claim.entity,
        "held_slot": held_at,
        "held_at": None if held_at is None else at(held_at),
        "ended_slot": ended_at,
        "ended_at": None if ended_at is None else at(ended_at),
        "correlation_id": None if row is None else row.correlation_id,
        "fence": claim.fence,
        "version": claim.raw.pool.version if row is None else row.version,
        "combined": claim.combined,
    }
