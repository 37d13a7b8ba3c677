"""Sagas: list, show, and end by hand. The steps of a saga are code of the application, and do not run here."""

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
from .calls import call_fields


class SagasQuery(Struct, forbid_unknown_fields=True):
    """The sagas to list; `stuck` selects those that need an operator."""

    phase: str | None = None
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


class SagaAnswer(Struct, kw_only=True):
    """A saga: its phase, its lease and its last error."""

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
    resolved: Annotated[str | None, Meta(description="the reason an operator gave for ending it")]
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
    """A saga as a document."""
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
    """List all sagas, those in one phase, or stuck ones."""
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
        raise Problem(
            404, "saga_not_found", "there is no saga with this id, or it ended longer ago than the retention period"
        )
    return answer(saga_answer(saga, request.now()))


async def resolve_saga(request: Request) -> Answer:
    """End a saga by hand, after an operator has checked whether its effect took place."""
    body: ResolveSaga = request.body
    fields = call_fields(request, body)
    op = fields.pop("op")
    with context(**fields):
        saga = await request.kernel.sagas.resolve(request.names[0], body.how, reason=body.reason, op=op)
    return answer(saga_answer(saga, request.now()))
