"""Budgets over HTTP: the sets that are stored, and their verbs."""

from __future__ import annotations

from ...faces._async.budgets import AsyncBudget
from ...kernel.arguments import present
from ...wire.budgets import (
    BudgetAnswer,
    BudgetConfirm,
    BudgetConsume,
    BudgetHold,
    BudgetPage,
    BudgetResize,
    BudgetSet,
    ClientQuery,
    Spent,
    UsagePage,
    usage_answer,
)
from ...wire.fields import PageQuery
from .._async.budget_sets import AsyncBudgetSets
from ..request import Answer, Request, answer
from .holds import answer_hold
from .pools import answer_pool


def _sets(request: Request) -> AsyncBudgetSets:
    return AsyncBudgetSets(request.kernel, request.caller.tenant)


async def _opened(request: Request, spent: Spent | None = None) -> AsyncBudget:
    """Open the set that the path names. Charge a token for each further leg that these amounts take: the body does not show them."""
    sets, name = _sets(request), request.names[0]
    stored = await sets.find(name)
    if spent is not None:
        budgets = spent if isinstance(spent, dict) else stored.budgets
        request.work.charge_legs(sum([len(stored.budgets.get(budget, ())) for budget in budgets]) - 1)
    return sets.face(name, stored)


async def put_budget(request: Request) -> Answer:
    """Store a set, or change it for future windows."""
    body: BudgetSet = request.body
    await AsyncBudgetSets(request.caller.kernel, request.caller.tenant).store(
        request.names[0], body, request.actor(None)
    )
    return answer(BudgetAnswer(request.names[0], body.budgets, request.now()))


async def show_budget(request: Request) -> Answer:
    """Answer with one set."""
    body = await _sets(request).find(request.names[0])
    return answer(BudgetAnswer(request.names[0], body.budgets, request.now()))


async def list_budgets(request: Request) -> Answer:
    """Answer with all sets."""
    query: PageQuery = request.query
    found = await _sets(request).listed(query.after, query.limit)
    now = request.now()
    after = found[-1][0] if found.more else None
    return await request.running.large_answers.page(
        request,
        found.size,
        lambda: BudgetPage([BudgetAnswer(name, body.budgets, now) for name, body in found], after, now),
    )


async def budget_hold(request: Request) -> Answer:
    """Hold an estimate, in all named budgets or in none."""
    body: BudgetHold = request.body
    budgets = await _opened(request, body.estimate)
    hold = await budgets.hold(
        body.client,
        body.estimate,
        ttl=body.ttl,
        token=body.token,
        entity=body.entity,
        metadata=body.metadata,
        **request.call_fields(body),
    )
    return answer_hold(request, hold)


async def budget_consume(request: Request) -> Answer:
    """Hold and confirm in one step."""
    body: BudgetConsume = request.body
    budgets = await _opened(request, body.actual)
    hold = await budgets.consume(
        body.client, body.actual, entity=body.entity, metadata=body.metadata, **request.call_fields(body)
    )
    return answer_hold(request, hold)


async def budget_confirm(request: Request) -> Answer:
    """Report the actual amount; `uncovered` names budgets, not pools."""
    body: BudgetConfirm = request.body
    budgets = await _opened(request)
    hold = await budgets.confirm(
        present(body.hold, body.token),
        body.actual,
        entity=body.entity,
        keep_rest=body.keep_rest,
        overage=body.overage,
        **request.call_fields(body),
    )
    return answer_hold(request, hold)


async def budget_resize(request: Request) -> Answer:
    """Change the total of the current window; future windows get the total of the set."""
    body: BudgetResize = request.body
    budgets = await _opened(request)
    pool = await budgets.resize(body.client, body.budget, body.total, per=body.per, **request.call_fields(body))
    return answer_pool(request, pool)


async def budget_usage(request: Request) -> Answer:
    """Answer with the usage of a client in each current window."""
    query: ClientQuery = request.query
    budgets = await _opened(request)
    found = [usage_answer(usage) for usage in await budgets.usage(query.client)]
    return answer(UsagePage(found, request.now()))
