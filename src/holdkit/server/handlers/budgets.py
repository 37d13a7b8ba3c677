"""Budgets: hold the estimate, confirm the actual; per client and window."""

from __future__ import annotations

from ...faces._async.budgets import AsyncBudgets
from .. import budgeting
from ..answers import PoolNow, at, hold_now, pool_fields
from ..bodies import BudgetConfirm, BudgetConsume, BudgetHold, BudgetResize
from ..budget_answers import BudgetAnswer, BudgetPage, UsageAnswer, UsagePage
from ..budgeting import BudgetSet
from ..queries import ClientQuery, PageQuery
from ..request import REPLAYED, Answer, Request, answer
from .holds import hold_tag
from .pools import pool_tag
from .shared import frame


async def _opened(request: Request) -> AsyncBudgets:
    name = request.names[0]
    wish = await budgeting.find(request.kernel, request.caller.tenant, name)
    return budgeting.opened(request.kernel, name, wish)


async def put_budget(request: Request) -> Answer:
    """Write a set down, or change it for windows to come."""
    wish: BudgetSet = request.body
    caller = request.caller
    await budgeting.keep(caller.kernel, caller.tenant, request.names[0], wish, caller.actor)
    return answer(BudgetAnswer(request.names[0], wish.budgets, request.now()))


async def show_budget(request: Request) -> Answer:
    """One set."""
    wish = await budgeting.find(request.kernel, request.caller.tenant, request.names[0])
    return answer(BudgetAnswer(request.names[0], wish.budgets, request.now()))


async def list_budgets(request: Request) -> Answer:
    """All sets."""
    query: PageQuery = request.query
    found = await budgeting.listed(request.kernel, request.caller.tenant, query.after, query.limit)
    now = request.now()
    after = found[-1][0] if len(found) == query.limit else None
    return answer(BudgetPage([BudgetAnswer(name, wish.budgets, now) for name, wish in found], after, now))


async def hold_budget(request: Request) -> Answer:
    """Hold an estimate, of all budgets named or of none."""
    body: BudgetHold = request.body
    budgets = await _opened(request)
    hold = await budgets.hold(
        body.client,
        body.estimate,
        ttl=body.ttl,
        owner=body.owner,
        entity=body.entity,
        metadata=body.metadata,
        **frame(request, body),
    )
    shown = hold_now(hold, request.now(), secret=True)
    return answer(shown, 201, _headers(hold.replayed, hold_tag(hold)))


async def consume_budget(request: Request) -> Answer:
    """Hold and confirm in one step."""
    body: BudgetConsume = request.body
    budgets = await _opened(request)
    hold = await budgets.consume(
        body.client, body.actual, entity=body.entity, metadata=body.metadata, **frame(request, body)
    )
    shown = hold_now(hold, request.now(), secret=True)
    return answer(shown, 201, _headers(hold.replayed, hold_tag(hold)))


async def confirm_budget(request: Request) -> Answer:
    """Say what it came to; `uncovered` names budgets, not pools."""
    body: BudgetConfirm = request.body
    budgets = await _opened(request)
    hold = await budgets.confirm(
        body.hold,
        body.actual,
        owner=body.owner,
        entity=body.entity,
        keep_rest=body.keep_rest,
        overage=body.overage,
        **frame(request, body),
    )
    shown = hold_now(hold, request.now(), secret=False)
    shown.uncovered = budgets.uncovered(hold) or shown.uncovered
    return answer(shown, 200, _headers(hold.replayed, hold_tag(hold)))


async def resize_budget(request: Request) -> Answer:
    """The window that runs; those to come are given what the set says then."""
    body: BudgetResize = request.body
    budgets = await _opened(request)
    pool = await budgets.resize(body.client, body.budget, body.total, per=body.per, **frame(request, body))
    shown = PoolNow(**pool_fields(pool), server_time=request.now())
    return answer(shown, 200, _headers(pool.replayed, pool_tag(pool)))


async def show_usage(request: Request) -> Answer:
    """How a client stands in each window that runs."""
    query: ClientQuery = request.query
    budgets = await _opened(request)
    found = [
        UsageAnswer(
            one.budget,
            one.per,
            one.opens_slot,
            at(one.opens_slot),
            one.closes_slot,
            at(one.closes_slot),
            one.total,
            one.held,
            one.consumed,
            one.available,
        )
        for one in await budgets.usage(query.client)
    ]
    return answer(UsagePage(found, request.now()))


def _headers(replayed: bool, tag: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"etag", tag), REPLAYED) if replayed else ((b"etag", tag),)
