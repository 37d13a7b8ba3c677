"""Sagas as they are shown: where each is, who drives it until when, what went wrong last. From here they are looked at, and
ended by hand; their steps are code of the application."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...core.model import Slot
from ...faces.saga_records import SagaRecord
from ...kernel.context import context
from ..answers import at
from ..bodies import Body, Limit
from ..problems import Problem
from ..request import Answer, Request, answer
from .calls import frame


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


async def list_sagas(request: Request) -> Answer:
    """All, those in one phase, or those that are stuck."""
    query: SagasQuery = request.query
    sagas, now = request.kernel.sagas, request.now()
    if query.stuck:
        found = await sagas.stuck(query.older_than, limit=query.limit)
        return answer(SagaPage([saga_answer(one, now) for one in found], None, now))
    found = await sagas.list(phase=query.phase, after=query.after, limit=query.limit)
    after = found[-1].id if len(found) == query.limit else None
    return answer(SagaPage([saga_answer(one, now) for one in found], after, now))


async def show_saga(request: Request) -> Answer:
    """One saga."""
    saga = await request.kernel.sagas.get(request.names[0])
    if saga is None:
        raise Problem(404, "saga_not_found", "there is no saga of this id, or it ended longer ago than the retention")
    return answer(saga_answer(saga, request.now()))


async def resolve_saga(request: Request) -> Answer:
    """For an admin who has looked: nobody else can know whether the effect has happened."""
    body: ResolveSaga = request.body
    said = frame(request, body)
    op = said.pop("op")
    with context(**said):
        saga = await request.kernel.sagas.resolve(request.names[0], body.how, reason=body.reason, op=op)
    return answer(saga_answer(saga, request.now()))
