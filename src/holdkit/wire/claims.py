"""Claims: unique keys. What takes a key is a hold: its document has the token."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from ..core.model import State
from ..faces.claim import Claim
from .fields import Body, Limit, Span, Tenant, Time, Token, at


class NewClaim(Body, kw_only=True):
    """Hold a unique key."""

    type: str
    value: str
    ttl: Span
    token: Annotated[
        Token, Meta(description="your own token: while the key is held, the same token gets the same hold")
    ] = None
    metadata: dict[str, Any] | None = None


class FreeClaim(Body, kw_only=True):
    """Free a confirmed key, by its name. It is recorded as forced."""

    type: str
    value: str
    reason: str


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
    deadline: Time | None
    entity: str | None
    held_at: Time | None
    ended_at: Time | None
    correlation_id: str | None
    fence: int
    version: int
    combined: Annotated[bool, Meta(description="whether its hold has other legs too")]
    tenant: Tenant = None
    replayed: bool = False
    server_time: Time


class ClaimPage(Struct):
    """Claims."""

    items: list[ClaimAnswer]
    next: str | None
    server_time: Time


def claim_answer(claim: Claim, now: Time, *, replayed: bool = False, with_tenant: bool = False) -> ClaimAnswer:
    """Return a claim as a document."""
    row = claim.raw.hold
    return ClaimAnswer(
        id=claim.id,
        key=claim.key,
        type=claim.type,
        value=claim.value,
        state=claim.state,
        hold=claim.hold,
        deadline=None if row is None else at(row.deadline),
        entity=claim.entity,
        held_at=None if row is None else at(row.held_at),
        ended_at=None if row is None else at(row.ended_at),
        correlation_id=None if row is None else row.correlation_id,
        fence=claim.fence,
        version=claim.raw.pool.version if row is None else row.version,
        combined=claim.combined,
        replayed=replayed,
        tenant=claim.tenant if with_tenant else None,
        server_time=now,
    )
