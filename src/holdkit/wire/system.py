"""The system itself: sweeps, limits, jobs, verification, the overview."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct

from ..core.audit_rows import Difference
from ..core.erasure import By, Erased
from .fields import Body, Span, Time


class SweepBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of a sweep."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


class ChangeLimitsBody(Body, kw_only=True):
    """New values for limits that are stored with the data."""

    limits: Annotated[
        dict[str, Span | None], Meta(description="new values by name; intervals in seconds, or as text such as 90d")
    ]
    if_version: int | None = None


class EraseBody(Body, kw_only=True):
    """Whose data is erased."""

    by: Annotated[By, Meta(description="what the value is: an entity, an account, a claim (type:value) or an actor")]
    value: str
    tenant: Annotated[str, Meta(description="whose data; empty: that of the default tenant")] = ""
    dry_run: Annotated[bool, Meta(description="only count what would be replaced; needs no reason")] = False


class ErasedAnswer(Struct):
    """What an erasure has replaced, or would replace."""

    found: Annotated[bool, Meta(description="whether anything names the value")]
    erased: Erased
    server_time: Time


class SweepAnswer(Struct):
    """The result of a sweep of all tenants."""

    expired: int
    holds: Annotated[list[str], Meta(description="the holds that it expired, in order of (deadline, id)")]
    tenants: Annotated[list[str], Meta(description="the tenant of each of them")]
    more: bool
    server_time: Time


class LimitsAnswer(Struct):
    """The limits that are stored with the data; intervals in seconds."""

    limits: dict[str, float | int | None]
    version: int
    server_time: Time


class VerifyAnswer(Struct):
    """Whether every row matches the journal, and every sealed run its seal."""

    ok: bool
    differences: list[str]
    found: Annotated[list[Difference], Meta(description="the same differences, with their parts as fields")]
    server_time: Time
    sealed: Annotated[
        dict[str, int], Meta(description="by lane: the last entry that a seal covers; empty if nothing is sealed")
    ] = {}


T = TypeVar("T")

JobState: TypeAlias = Literal["running", "stopping", "done", "failed", "cancelled"]


class JobProblem(Struct):
    """Why a job failed."""

    reason: str
    detail: str


class Job(Struct, Generic[T], kw_only=True):
    """A long task that a request started."""

    id: str
    kind: Annotated[str, Meta(description="what it does, such as verify")]
    state: JobState
    done: Annotated[int, Meta(description="steps done so far")]
    total: Annotated[int, Meta(description="steps in all, as far as is known; 0 before the first step")]
    began_at: Time
    ended_at: Time | None
    result: Annotated[T | None, Meta(description="of a job that is done: the document that its kind names")]
    problem: Annotated[JobProblem | None, Meta(description="of a job that failed")]
    server_time: Time


class JobAnswer(Job[Raw], kw_only=True):
    """A job of any kind."""


class VerifyJob(Job[VerifyAnswer], kw_only=True):
    """A job that verifies the journal."""


class EraseJob(Job[ErasedAnswer], kw_only=True):
    """A job that erases a person's data."""


class JobPage(Struct):
    """The jobs of your tenant on this server, the latest first; without their results."""

    items: list[JobAnswer]
    server_time: Time
