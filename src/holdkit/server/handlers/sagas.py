"""Sagas: list, show, and end by hand. The steps of a saga are code of the application, and do not run here."""

from __future__ import annotations

from ...kernel.context import context
from ...wire.problems import Problem
from ...wire.sagas import (
    ResolveSaga,
    RetrySaga,
    SagaHistory,
    SagaHistoryQuery,
    SagaPage,
    SagasQuery,
    saga_answer,
    saga_event_answer,
)
from ..request import Answer, Request, answer


async def list_sagas(request: Request) -> Answer:
    """List all sagas, those in one phase, or stuck ones."""
    query: SagasQuery = request.query
    sagas, now = request.kernel.sagas, request.now()
    if query.stuck:
        found = await sagas.stuck(query.older_than, limit=query.limit)
    else:
        found = await sagas.list(phase=query.phase, after=query.after or None, limit=query.limit)
    return await request.running.large_answers.page(
        request, found.size, lambda: SagaPage([saga_answer(one, now) for one in found], found.next, now)
    )


async def show_saga(request: Request) -> Answer:
    """Answer with one saga."""
    saga = await request.kernel.sagas.get(request.names[0])
    if saga is None:
        raise _not_found()
    return answer(saga_answer(saga, request.now()))


def _not_found() -> Problem:
    detail = "there is no saga with this id, or it ended longer ago than the retention period"
    return Problem(404, "saga_not_found", detail)


async def saga_history(request: Request) -> Answer:
    """Answer with the history of a saga."""
    query: SagaHistoryQuery = request.query
    events, now = await request.kernel.sagas.history(request.names[0], limit=query.limit), request.now()
    if not events:
        raise _not_found()
    return answer(SagaHistory([saga_event_answer(event) for event in events], events.more, now))


async def retry_saga(request: Request) -> Answer:
    """Let a parked saga run again: in a process that has its code."""
    body: RetrySaga = request.body
    fields = request.call_fields(body)
    op = fields.pop("op")
    with context(**fields):
        saga = await request.kernel.sagas.retry(request.names[0], reason=body.reason, op=op)
    return answer(saga_answer(saga, request.now()))


async def resolve_saga(request: Request) -> Answer:
    """End a saga by hand, after an operator has checked whether its effect took place."""
    body: ResolveSaga = request.body
    fields = request.call_fields(body)
    op = fields.pop("op")
    with context(**fields):
        saga = await request.kernel.sagas.resolve(request.names[0], body.how, reason=body.reason, op=op)
    return answer(saga_answer(saga, request.now()))
