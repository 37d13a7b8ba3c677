"""Claims: unique keys. A token is only in the answer that creates it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..core.model import Slot, State
from ..faces.claim import Claim
from .fields import Body, Force, Limit, Span, Tenant, Time, Token, at


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


class ClaimPage(Struct):
    """Claims."""

    items: list[ClaimAnswer]
    next: str | None
    server_time: Time


def claim_answer(claim: Claim, now: datetime, *, secret: bool = False, with_tenant: bool = False) -> ClaimAnswer:
    """A claim as a document."""
    return ClaimAnswer(
        id=claim.id,
        key=claim.key,
        type=claim.type,
        value=claim.value,
        state=claim.state,
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
        tenant=claim.tenant if with_tenant else None,
        token=claim.token if secret else None,
        ticket=claim.ticket if secret else None,
        replayed=claim.replayed,
        server_time=now,
    )
