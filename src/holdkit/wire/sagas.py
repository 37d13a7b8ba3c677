"""Sagas: their phase, and ending one by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from ..faces.saga_records import SagaError, SagaEvent, SagaRecord
from ..faces.saga_steps import Phase
from .fields import Body, Limit, Time, at


class SagasQuery(Struct, forbid_unknown_fields=True):
    """The sagas to list; `stuck` selects those that need an operator."""

    phase: Phase | None = None
    stuck: bool = False
    older_than: Annotated[str, Meta(description="with stuck: the minimum time in one phase")] = "5m"
    after: str = ""
    limit: Limit = 100


class ResolveSaga(Body, kw_only=True):
    """End a saga by hand."""

    how: Annotated[
        Literal["done", "cancelled"], Meta(description="done: its hold is confirmed; cancelled: its hold is released")
    ]
    reason: Annotated[str, Meta(description="recorded with the saga and in the journal")]


class RetrySaga(Body, kw_only=True):
    """Let a parked saga run again."""

    reason: Annotated[str, Meta(description="recorded in the journal")]


class SagaHistoryQuery(Struct, forbid_unknown_fields=True):
    """How much of the history of a saga to read."""

    limit: Limit = 1_000


class SagaEventAnswer(Struct, kw_only=True):
    """What one journal entry says of a saga."""

    at: Time
    phase: Phase
    attempt: int
    failures: int
    hold: str | None
    error: SagaError | None
    resolved: str | None
    actor: str | None
    client_id: Annotated[str | None, Meta(description="the id of the API key that asked")]
    reason: str | None
    op: str | None


class SagaHistory(Struct):
    """What happened to a saga, in order. Renewals of its lease are left out."""

    items: list[SagaEventAnswer]
    more: Annotated[bool, Meta(description="whether there is more than this")]
    server_time: Time


class SagaAnswer(Struct, kw_only=True):
    """A saga: its phase, its lease and its last error."""

    id: str
    name: str
    phase: Phase
    attempt: int
    epoch: int
    failures: int
    hold: str | None
    error: SagaError | None
    intent: Any
    result: Any
    resolved: Annotated[str | None, Meta(description="the reason an operator gave for ending it")]
    begun_at: Time
    since: Time
    leased_until: Time | None
    server_time: Time


class SagaPage(Struct):
    """Sagas in order of id."""

    items: list[SagaAnswer]
    next: str | None
    server_time: Time


def saga_answer(saga: SagaRecord, now: Time) -> SagaAnswer:
    """Return a saga as a document."""
    return SagaAnswer(
        id=saga.id,
        name=saga.name,
        phase=saga.phase,
        attempt=saga.attempt,
        epoch=saga.epoch,
        failures=saga.failures,
        hold=saga.hold,
        error=saga.error,
        intent=saga.intent,
        result=saga.result,
        resolved=saga.resolved,
        begun_at=at(saga.begun_at),
        since=at(saga.since),
        leased_until=at(saga.leased_until),
        server_time=now,
    )


def saga_event_answer(event: SagaEvent) -> SagaEventAnswer:
    """Return an event of a saga as a document."""
    return SagaEventAnswer(**{**asdict(event), "at": at(event.at)})
