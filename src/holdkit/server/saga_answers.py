"""Sagas as they are shown: where each is, who drives it until when, what went wrong last. From here they are looked at, and
ended by hand; their steps are code of the application."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..core.model import Slot
from ..faces.saga_records import SagaRecord
from .answers import at
from .bodies import Body, Limit


class SagasQuery(Struct, forbid_unknown_fields=True):
    """Which sagas; `stuck` are those that somebody should look at."""

    phase: str | None = None
    stuck: bool = False
    older_than: Annotated[str, Meta(description="with stuck: how long in one phase is too long")] = "5m"
    after: str = ""
    limit: Limit = 100


class ResolveSaga(Body, kw_only=True):
    """End a saga by hand, for good."""

    how: Annotated[
        Literal["done", "cancelled"], Meta(description="done: what it holds is confirmed; cancelled: it is released")
    ]
    reason: Annotated[str, Meta(description="kept with the saga, and in the journal")]


class SagaAnswer(Struct, kw_only=True):
    """A saga: where it is, and what went wrong last."""

    id: str
    name: str
    phase: str
    attempt: int
    epoch: int
    failures: int
    hold: str | None
    error: Any
    intent: Any
    result: Any
    resolved: Annotated[str | None, Meta(description="why an operator has ended it")]
    begun_slot: Slot
    begun_at: datetime
    since_slot: Slot
    since: datetime
    leased_until_slot: Slot
    leased_until: datetime | None
    server_time: datetime


class SagaPage(Struct):
    """Sagas in order of id."""

    items: list[SagaAnswer]
    next: str | None
    server_time: datetime


def saga_answer(saga: SagaRecord, now: datetime) -> SagaAnswer:
    """What is shown of a saga."""
    return SagaAnswer(
        id=saga.id,
        name=saga.name,
        phase=str(saga.phase),
        attempt=saga.attempt,
        epoch=saga.epoch,
        failures=saga.failures,
        hold=saga.hold,
        error=saga.error,
        intent=saga.intent,
        result=saga.result,
        resolved=saga.resolved,
        begun_slot=saga.begun_slot,
        begun_at=at(saga.begun_slot),
        since_slot=saga.since_slot,
        since=at(saga.since_slot),
        leased_until_slot=saga.leased_until_slot,
        leased_until=at(saga.leased_until_slot) if saga.leased_until_slot else None,
        server_time=now,
    )
