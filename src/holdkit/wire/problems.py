"""Refusals and errors (RFC 9457), and the facts behind a refusal."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ..core.model import Slot
from ..core.outcomes import Shortfall
from .fields import Time

Effect: TypeAlias = Annotated[
    Literal["none", "unknown"],
    Meta(description="none: this attempt did nothing; unknown: retry with the same Idempotency-Key to find out"),
]


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts behind a refusal. What does not apply is left out."""

    subject: Annotated[str, Meta(description="what the refusal is about: the id of a pool, hold, key or record")] = ""
    in_use: int | UnsetType | None = UNSET
    now: Slot | UnsetType | None = UNSET
    now_at: Time | UnsetType | None = UNSET
    max_lifetime: Annotated[float | UnsetType | None, Meta(description="in seconds")] = UNSET
    ended_slot: Slot | UnsetType | None = UNSET
    ended_at: Time | UnsetType | None = UNSET
    deadline: Slot | UnsetType | None = UNSET
    deadline_at: Time | UnsetType | None = UNSET
    left: int | UnsetType | None = UNSET
    version: int | UnsetType | None = UNSET
    waiting: Annotated[int | UnsetType | None, Meta(description="how many wait in the line")] = UNSET
    number: Annotated[int | UnsetType | None, Meta(description="the hold's number in the line")] = UNSET
    claim: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    remaining: Annotated[float | UnsetType | None, Meta(description="seconds until the deadline")] = UNSET
    taken: tuple[str, ...] | UnsetType = UNSET
    holders: Annotated[dict[str, str | None] | UnsetType, Meta(description="the hold that has each item")] = UNSET
    hold: str | UnsetType = UNSET
    requested: int | UnsetType = UNSET
    loose: int | UnsetType = UNSET
    consumed: int | UnsetType = UNSET
    shortfalls: tuple[Shortfall, ...] | UnsetType = UNSET
    available: int | UnsetType = UNSET
    total: int | UnsetType = UNSET
    used: Annotated[int | UnsetType, Meta(description="by the account, or of a quota by the tenant")] = UNSET
    limit: Annotated[int | UnsetType, Meta(description="the most that one account may have of the pool")] = UNSET
    budgets: tuple[str, ...] | UnsetType = UNSET
    retry_after: Annotated[float | UnsetType | None, Meta(description="seconds to wait before a retry")] = UNSET
    field: Annotated[str | None, Meta(description="of an invalid request: the field")] = None
    code: Annotated[str | None, Meta(description="of an invalid request: a stable word for what is wrong")] = None


class ProblemAnswer(Facts, frozen=True, kw_only=True):
    """The answer to a request that did not succeed."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="for people; the text may change")]
    reason: Annotated[str, Meta(description="a stable word for programs")]
    effect: Effect
    request_id: Annotated[str, Meta(description="identifies the request in the server's log")]
    server_time: Time
    transient: Annotated[bool, Meta(description="of a refusal: whether the same request may succeed later")] = False
    replayed: Annotated[bool, Meta(description="whether this is the recorded answer of an earlier request")] = False
    allow: Annotated[str | UnsetType, Meta(description="the methods that the path supports")] = UNSET
    what: Annotated[str | UnsetType, Meta(description="of a full quota: what there is too much of")] = UNSET
    allowed: int | UnsetType = UNSET
