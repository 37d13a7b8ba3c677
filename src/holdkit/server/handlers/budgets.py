"""Budgets as the server knows them: an application in Python writes its allowances down in code, callers over HTTP have them
written down here, once, as a record of their tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ...core.commands import PutRecord
from ...core.model import Slot
from ...core.reading import FindRecord, ListRecords
from ...core.validation import text
from ...faces._async.budgets import AsyncBudgets
from ...faces._async.kernel import AsyncKernel
from ...faces.allowances import Allowance
from ..answers import PoolNow, at, hold_now, pool_fields
from ..bodies import BudgetConfirm, BudgetConsume, BudgetHold, BudgetResize, ClientQuery, PageQuery
from ..problems import Problem
from ..request import REPLAYED, Answer, Request, answer
from .calls import frame
from .holds import hold_tag
from .pools import pool_tag

KIND: Final = "~budget"
MAX_NAME: Final = 64


class AllowanceWish(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """So much per window, for each client."""

    total: int
    per: Annotated[str, Meta(description="second, minute, hour, day, week, month, year, or a length such as 90s")]
    zone: str | None = None


class BudgetSet(Struct, kw_only=True, forbid_unknown_fields=True):
    """Budgets that are held together, each with one to eight allowances."""

    budgets: Annotated[dict[str, list[AllowanceWish]], Meta(min_length=1, max_length=32)]


_set: Final = msgspec.json.Decoder(BudgetSet)


def budgets_of(kernel: AsyncKernel, name: str, wish: BudgetSet) -> AsyncBudgets:
    """The face behind a set; `InvalidRequest` if its allowances cannot be."""
    allowances = {
        budget: tuple(Allowance(one.total, per=one.per, zone=one.zone) for one in listed)
        for budget, listed in wish.budgets.items()
    }
    return kernel.budgets(text(name, "name", MAX_NAME), **allowances)


async def store_set(kernel: AsyncKernel, tenant: str, name: str, wish: BudgetSet, actor: str) -> None:
    """Write a set down, checked. Windows that run keep the totals they were born with."""
    budgets_of(kernel, name, wish)
    body = msgspec.json.encode(wish).decode()
    command = PutRecord(tenant=tenant, kind=KIND, id=name, body=body, actor=actor)
    await kernel.executor.execute(command, faces=True)


async def find_set(kernel: AsyncKernel, tenant: str, name: str) -> BudgetSet:
    """A set, or 404."""
    query = FindRecord((tenant, KIND, text(name, "name", MAX_NAME)))
    row = await kernel.executor.read(query) or await kernel.executor.read(
        query, durable=True
    )  # that it is missing is an answer
    if row is None:
        raise Problem(404, "budget_not_found", "there is no set of budgets of this name: PUT one first")
    return _set.decode(row.body)


async def list_sets(kernel: AsyncKernel, tenant: str, after: str, limit: int) -> list[tuple[str, BudgetSet]]:
    """Sets in order of name."""
    rows = await kernel.executor.read(ListRecords(tenant, KIND, after, limit))
    return [(row.id, _set.decode(row.body)) for row in rows]


class BudgetAnswer(Struct):
    """A set of budgets."""

    name: str
    budgets: dict[str, list[AllowanceWish]]
    server_time: datetime


class BudgetPage(Struct):
    """Sets of budgets in order of name."""

    items: list[BudgetAnswer]
    next: str | None
    server_time: datetime


class UsageAnswer(Struct):
    """How a client stands in one window."""

    budget: str
    per: str
    opens_slot: Slot
    opens: datetime
    closes_slot: Slot
    closes: datetime
    total: int
    held: int
    consumed: int
    available: int


class UsagePage(Struct):
    """How a client stands."""

    items: list[UsageAnswer]
    server_time: datetime


async def _opened(request: Request) -> AsyncBudgets:
    name = request.names[0]
    wish = await find_set(request.kernel, request.caller.tenant, name)
    return budgets_of(request.kernel, name, wish)


async def put_budget(request: Request) -> Answer:
    """Write a set down, or change it for windows to come."""
    wish: BudgetSet = request.body
    caller = request.caller
    await store_set(caller.kernel, caller.tenant, request.names[0], wish, caller.actor)
    return answer(BudgetAnswer(request.names[0], wish.budgets, request.now()))


async def show_budget(request: Request) -> Answer:
    """One set."""
    wish = await find_set(request.kernel, request.caller.tenant, request.names[0])
    return answer(BudgetAnswer(request.names[0], wish.budgets, request.now()))


async def list_budgets(request: Request) -> Answer:
    """All sets."""
    query: PageQuery = request.query
    found = await list_sets(request.kernel, request.caller.tenant, query.after, query.limit)
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
