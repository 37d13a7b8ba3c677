"""Sagas: to look at, and to end by hand where nothing else can."""

from __future__ import annotations

from ...kernel.context import context
from ..problems import Problem
from ..request import Answer, Request, answer
from ..saga_answers import ResolveSaga, SagaPage, SagasQuery, saga_answer
from .shared import frame


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
