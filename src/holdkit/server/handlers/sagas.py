"""Sagas: list, show, and end by hand. The steps of a saga are code of the application, and do not run here."""

from __future__ import annotations

from ...kernel.context import context
from ...wire.sagas import ResolveSaga, SagaPage, SagasQuery, saga_answer
from ..problems import Problem
from ..request import Answer, Request, answer
from .calls import call_fields


async def list_sagas(request: Request) -> Answer:
    """List all sagas, those in one phase, or stuck ones."""
    query: SagasQuery = request.query
    sagas, now = request.kernel.sagas, request.now()
    if query.stuck:
        found = await sagas.stuck(query.older_than, limit=query.limit)
    else:
        found = await sagas.list(phase=query.phase, after=query.after, limit=query.limit)
    after = found[-1].id if found.more and not query.stuck else None
    return await request.running.large_answers.page(
        request, found.size, lambda: SagaPage([saga_answer(one, now) for one in found], after, now)
    )


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
