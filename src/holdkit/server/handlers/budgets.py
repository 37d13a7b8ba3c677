"""Budgets over HTTP. A Python application defines its allowances in code; over HTTP they are stored once, as a record of the
tenant, under the name of a set."""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.commands import PutRecord
from ...core.pages import Page
from ...core.reading import FindRecord, ListRecords
from ...core.validation import text
from ...faces._async.budgets import AsyncBudgets
from ...faces._async.kernel import AsyncKernel
from ...faces.allowances import Allowance
from ...wire.budgets import (
    BudgetAnswer,
    BudgetConfirm,
    BudgetConsume,
    BudgetHold,
    BudgetPage,
    BudgetResize,
    BudgetSet,
    ClientQuery,
    UsageAnswer,
    UsagePage,
)
from ...wire.fields import PageQuery, at
from ...wire.holds import hold_now
from ...wire.pools import pool_now
from ..problems import Problem
from ..request import REPLAYED, Answer, Request, answer
from .calls import call_fields
from .holds import hold_tag
from .pools import pool_tag

KIND: Final = "~budget"
MAX_NAME: Final = 64


_set: Final = msgspec.json.Decoder(BudgetSet)


def budgets_of(kernel: AsyncKernel, name: str, budgets: BudgetSet) -> AsyncBudgets:
    """The budgets face of a set; raises `InvalidRequest` if an allowance is invalid."""
    allowances = {
        budget: tuple(Allowance(one.total, per=one.per, zone=one.zone) for one in listed)
        for budget, listed in budgets.budgets.items()
    }
    return kernel.budgets(text(name, "name", MAX_NAME), **allowances)


async def store_set(kernel: AsyncKernel, tenant: str, name: str, budgets: BudgetSet, actor: str) -> None:
    """Check and store a set. Current windows keep their totals."""
    budgets_of(kernel, name, budgets)
    body = msgspec.json.encode(budgets).decode()
    command = PutRecord(tenant=tenant, kind=KIND, id=name, body=body, actor=actor)
    await kernel.executor.execute(command, faces=True)


async def find_set(kernel: AsyncKernel, tenant: str, name: str) -> BudgetSet:
    """A set; 404 if there is none."""
    query = FindRecord((tenant, KIND, text(name, "name", MAX_NAME)))
    row = await kernel.executor.read(query) or await kernel.executor.read(
        query, durable=True
    )  # the caller relies on the answer that it is missing
    if row is None:
        raise Problem(404, "budget_not_found", "there is no set of budgets with this name: PUT one first")
    return _set.decode(row.body)


async def list_sets(kernel: AsyncKernel, tenant: str, after: str, limit: int) -> Page[tuple[str, BudgetSet]]:
    """Sets in order of name."""
    rows = await kernel.executor.read(ListRecords(tenant, KIND, after, limit, kernel.executor.page_bytes))
    return Page([(row.id, _set.decode(row.body)) for row in rows], more=rows.more, size=rows.size)


async def _opened(request: Request) -> AsyncBudgets:
    name = request.names[0]
    body = await find_set(request.kernel, request.caller.tenant, name)
    return budgets_of(request.kernel, name, body)


async def put_budget(request: Request) -> Answer:
    """Store a set, or change it for future windows."""
    body: BudgetSet = request.body
    caller = request.caller
    await store_set(caller.kernel, caller.tenant, request.names[0], body, request.actor(None))
    return answer(BudgetAnswer(request.names[0], body.budgets, request.now()))


async def show_budget(request: Request) -> Answer:
    """One set."""
    body = await find_set(request.kernel, request.caller.tenant, request.names[0])
    return answer(BudgetAnswer(request.names[0], body.budgets, request.now()))


async def list_budgets(request: Request) -> Answer:
    """All sets."""
    query: PageQuery = request.query
    found = await list_sets(request.kernel, request.caller.tenant, query.after, query.limit)
    now = request.now()
    after = found[-1][0] if found.more else None
    return await request.running.large_answers.page(
        request,
        found.size,
        lambda: BudgetPage([BudgetAnswer(name, body.budgets, now) for name, body in found], after, now),
    )


async def hold_budget(request: Request) -> Answer:
    """Hold an estimate, in all named budgets or in none."""
    body: BudgetHold = request.body
    budgets = await _opened(request)
    hold = await budgets.hold(
        body.client,
        body.estimate,
        ttl=body.ttl,
        owner=body.owner,
        entity=body.entity,
        metadata=body.metadata,
        **call_fields(request, body),
    )
    shown = hold_now(hold, request.now(), request.caller.show, secret=True)
    return answer(shown, 201, _headers(hold.replayed, hold_tag(hold)))


async def consume_budget(request: Request) -> Answer:
    """Hold and confirm in one step."""
    body: BudgetConsume = request.body
    budgets = await _opened(request)
    hold = await budgets.consume(
        body.client, body.actual, entity=body.entity, metadata=body.metadata, **call_fields(request, body)
    )
    shown = hold_now(hold, request.now(), request.caller.show, secret=True)
    return answer(shown, 201, _headers(hold.replayed, hold_tag(hold)))


async def confirm_budget(request: Request) -> Answer:
    """Report the actual amount; `uncovered` names budgets, not pools."""
    body: BudgetConfirm = request.body
    budgets = await _opened(request)
    hold = await budgets.confirm(
        body.hold,
        body.actual,
        owner=body.owner,
        entity=body.entity,
        keep_rest=body.keep_rest,
        overage=body.overage,
        **call_fields(request, body),
    )
    shown = hold_now(hold, request.now(), request.caller.show, secret=False)
    shown.uncovered = budgets.uncovered(hold) or shown.uncovered
    return answer(shown, 200, _headers(hold.replayed, hold_tag(hold)))


async def resize_budget(request: Request) -> Answer:
    """Change the total of the current window; future windows get the total of the set."""
    body: BudgetResize = request.body
    budgets = await _opened(request)
    pool = await budgets.resize(body.client, body.budget, body.total, per=body.per, **call_fields(request, body))
    shown = pool_now(pool, request.now())
    return answer(shown, 200, _headers(pool.replayed, pool_tag(pool)))


async def show_usage(request: Request) -> Answer:
    """The usage of a client in each current window."""
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
