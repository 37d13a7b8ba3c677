"""Budgets as the server knows them: an application in Python writes its allowances down in code, callers over HTTP have them
written down here, once, as a record of their tenant."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ..core.commands import PutRecord
from ..core.reading import FindRecord, ListRecords
from ..core.validation import text
from ..faces._async.budgets import AsyncBudgets
from ..faces._async.kernel import AsyncKernel
from ..faces.allowances import Allowance
from .problems import Problem

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


def opened(kernel: AsyncKernel, name: str, wish: BudgetSet) -> AsyncBudgets:
    """The face behind a set; `InvalidRequest` if its allowances cannot be."""
    allowances = {
        budget: tuple(Allowance(one.total, per=one.per, zone=one.zone) for one in listed)
        for budget, listed in wish.budgets.items()
    }
    return kernel.budgets(text(name, "name", MAX_NAME), **allowances)


async def keep(kernel: AsyncKernel, tenant: str, name: str, wish: BudgetSet, actor: str) -> None:
    """Write a set down, checked. Windows that run keep the totals they were born with."""
    opened(kernel, name, wish)
    body = msgspec.json.encode(wish).decode()
    command = PutRecord(tenant=tenant, kind=KIND, id=name, body=body, actor=actor)
    await kernel.executor.execute(command, faces=True)


async def find(kernel: AsyncKernel, tenant: str, name: str) -> BudgetSet:
    """A set, or 404."""
    query = FindRecord((tenant, KIND, text(name, "name", MAX_NAME)))
    row = await kernel.executor.read(query) or await kernel.executor.read(
        query, durable=True
    )  # that it is missing is an answer
    if row is None:
        raise Problem(404, "budget_not_found", "there is no set of budgets of this name: PUT one first")
    return _set.decode(row.body)


async def listed(kernel: AsyncKernel, tenant: str, after: str, limit: int) -> list[tuple[str, BudgetSet]]:
    """Sets in order of name."""
    rows = await kernel.executor.read(ListRecords(tenant, KIND, after, limit))
    return [(row.id, _set.decode(row.body)) for row in rows]
