"""What callers get of budgets: one struct per answer."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ..core.model import Slot
from .budgeting import AllowanceWish


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
