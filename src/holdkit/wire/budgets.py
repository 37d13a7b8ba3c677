"""Budgets: the sets that a tenant has stored, and their usage."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from ..core.commands import Overage
from ..faces.allowances import Usage
from ..kernel.one_line import summary
from .fields import Body, Span, Time, Token, Total, at

Spent: TypeAlias = Annotated[
    int | dict[str, int], Meta(description="an amount if there is one budget, otherwise amounts by budget")
]


class BudgetHold(Body, kw_only=True):
    """Hold an estimate."""

    client: str
    estimate: Spent
    ttl: Span
    token: Token = None
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class BudgetConsume(Body, kw_only=True):
    """Spend a known amount."""

    client: str
    actual: Spent
    entity: str | None = None
    metadata: dict[str, Any] | None = None


class BudgetConfirm(Body, kw_only=True):
    """Report the actual amount of an estimate."""

    hold: str
    actual: Annotated[int | dict[str, int] | None, Meta(description="null: as estimated; 0: release the estimate")] = (
        None
    )
    token: Token = None
    entity: str | None = None
    keep_rest: bool = False
    overage: Overage = "up_to_available"


class BudgetResize(Body, kw_only=True):
    """Change the total of the current window."""

    client: str
    budget: str
    total: Total
    per: Annotated[str | None, Meta(description="which allowance, if the budget has several: day, 3600s")] = None


class ClientQuery(Struct, forbid_unknown_fields=True):
    """The client whose windows to read."""

    client: str = ""


class AllowanceBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The total per window, for each client."""

    total: int
    per: Annotated[str, Meta(description="second, minute, hour, day, week, month, year, or a length such as 90s")]
    zone: str | None = None


class BudgetSet(Struct, kw_only=True, forbid_unknown_fields=True):
    """Budgets that are held together, each with one to eight allowances."""

    budgets: Annotated[dict[str, list[AllowanceBody]], Meta(min_length=1, max_length=32)]


class BudgetAnswer(Struct):
    """A set of budgets."""

    name: str
    budgets: dict[str, list[AllowanceBody]]
    server_time: Time

    __repr__ = summary


class BudgetPage(Struct):
    """Sets of budgets in order of name."""

    items: list[BudgetAnswer]
    next: str | None
    server_time: Time


class UsageAnswer(Struct):
    """The usage of a client in one window."""

    budget: str
    per: str
    opens: Time
    closes: Time
    total: int
    held: int
    consumed: int
    available: int


class UsagePage(Struct):
    """The usage of a client."""

    items: list[UsageAnswer]
    server_time: Time


def usage_answer(usage: Usage) -> UsageAnswer:
    """Return the usage of a window as a document."""
    return UsageAnswer(
        usage.budget,
        usage.per,
        at(usage.opens),
        at(usage.closes),
        usage.total,
        usage.held,
        usage.consumed,
        usage.available,
    )
