"""Allowances: how much each client may use per window; and the pools behind them.

The window of a command follows from the slot at which it is decided, so the caller has not asked for it: `Meter.leg` names the window,
and its `asked` does not. Decides nothing, reads no clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ..core.commands import Ttl
from ..core.face_legs import FaceLeg
from ..core.model import MAX_QUANTITY, SECOND, Leg, Slot
from ..core.values import MAX_ID, invalid, text, whole
from ..kernel.one_line import line, shortened
from .windows import Period, Window, Zone, period_of

Total: TypeAlias = int | Callable[[str], int]
"""How much there is: a number, or a function of the client."""

Spent: TypeAlias = int | Mapping[str, int]
"""Amounts by budget; a number will do if there is one budget."""

MAX_NAME: Final = 64
_MAX_PART: Final = 128


class Allowance(Struct, frozen=True, repr_omit_defaults=True):
    """A limit per window for each client: ``Allowance(100, per="minute")``, ``Allowance(plan_of, per="day", zone="Asia/Tokyo")``.

    `total` is a number, or a function of the client; `per` is a length ("second", "minute", "hour", "90s", a
    timedelta) or a unit of the calendar in `zone` ("day", "week", "month", "year"; UTC by default).
    """

    total: Total
    per: Ttl
    zone: Zone | None = None

    def __post_init__(self) -> None:
        if not callable(self.total):
            whole(self.total, "total", 0, MAX_QUANTITY)
        self.period  # noqa: B018  (a malformed period is refused here, where it is written)

    @property
    def period(self) -> Period:
        """How its windows follow one another."""
        return period_of(self.per, self.zone)


class Meter(Struct, frozen=True):
    """One allowance in use: says which pool it has for a client at a slot."""

    prefix: str
    """Face and name: `~rates/api`."""
    budget: str
    """The budget it counts for; empty if there is only one."""
    total: Total
    period: Period

    def pool(self, client: str, window: Window) -> str:
        """Return the id of a client's pool for a window."""
        return f"{self.pools(client)}@{window.opens // SECOND}"

    def pools(self, client: str) -> str:
        """Return the beginning of the ids of all windows of a client, up to their first second."""
        between = f"{part(self.budget)}/" if self.budget else ""
        return f"{self.prefix}/{part(client)}/{between}{self.period.name}"

    def counts(self, pool: str) -> bool:
        """Return whether a pool belongs to this budget, whatever its client and window."""
        parts = pool.split("/")
        return len(parts) == 5 and "/".join(parts[:2]) == self.prefix and parts[3] == part(self.budget)

    def leg(self, client: str, quantity: int, slot: Slot) -> FaceLeg:
        """Return an amount of the window that a slot lies in."""
        window = self.period.window(slot)
        return FaceLeg(
            self.pool(client, window),
            quantity,
            create_with_total=self.total_for(client),
            opens=max(0, window.opens),
            closes=max(1, window.closes),  # a clock that says 1969 is wrong: the core refuses the window
            asked=Leg(self.pools(client), quantity),  # whenever it is decided, and whatever the total is then
        )

    def total_for(self, client: str) -> int:
        """Return how much a client has per window."""
        return whole(self.total(client) if callable(self.total) else self.total, "total", 0, MAX_QUANTITY)


class Usage(Struct, frozen=True):
    """What a client has used of the current window."""

    budget: str
    """The budget; empty for a rate."""
    per: str
    opens: datetime
    """When the window begins."""
    closes: datetime
    """When it ends."""
    total: int
    held: int
    consumed: int

    @property
    def available(self) -> int:
        """What is left."""
        return max(0, self.total - self.held - self.consumed)

    def __repr__(self) -> str:
        counters = f"total={self.total} held={self.held} consumed={self.consumed} available={self.available}"
        return line("Usage", shortened(self.budget, 24), f"per {self.per}", counters)


def meters_of(face: str, name: Any, budgets: Mapping[str, Any]) -> tuple[Meter, ...]:
    """Return the meters of a face, in order of budget; a budget has one allowance, or several with different windows."""
    prefix = f"~{face}/{part(text(name, 'name', MAX_NAME))}"
    meters: list[Meter] = []
    for budget in sorted(budgets):
        given = budgets[budget]
        if face == "budgets":
            text(budget, "budget", MAX_NAME)
        allowances = (given,) if isinstance(given, Allowance) else given
        if not isinstance(allowances, tuple | list) or not 0 < len(allowances) <= 8:
            raise invalid(
                budget or "allowances",
                "allowance_required",
                "must have one to eight allowances, each with a total and a period",
            )
        for allowance in allowances:
            if not isinstance(allowance, Allowance):
                raise invalid(
                    budget or "allowances",
                    "allowance_malformed",
                    f"must be an Allowance, not {type(allowance).__name__}",
                )
            meters.append(Meter(prefix, budget, allowance.total, allowance.period))
    if len({(meter.budget, meter.period.name) for meter in meters}) < len(meters):
        raise invalid("per", "per_twice", "two allowances of the same budget have the same window")
    if not meters:
        raise invalid("budgets", "budgets_required", 'name at least one: tokens=Allowance(1_000_000, per="day")')
    return tuple(meters)


def amounts_by(given: Any, field: str, least: int, budgets: Sequence[str]) -> dict[str, int]:
    """Check amounts by budget, and return them; a number will do if there is one budget."""
    if not isinstance(given, Mapping):
        if len(budgets) > 1:
            names = ", ".join(budgets)
            raise invalid(field, f"{field}_ambiguous", f"there are several budgets: name amounts by {names}")
        given = dict.fromkeys(budgets, given)
    amounts = dict(given)
    for budget, amount in amounts.items():
        if budget not in budgets:
            raise invalid(field, "budget_unknown", f"must name {', '.join(budgets)} only")
        whole(amount, field, least, MAX_QUANTITY)
    if not amounts:
        raise invalid(field, f"{field}_required", "must name an amount for at least one budget")
    return amounts


def client_of(value: Any) -> str:
    """Check the client whose window it is, any text, and return it."""
    return text(value, "client", MAX_ID)


def part(value: str) -> str:
    """Return a name as one part of a pool id: escapes separators, hashes long names. No two names give the same part."""
    escaped = value.translate(_ESCAPES)
    if len(escaped) <= _MAX_PART:
        return escaped
    return "#" + hashlib.blake2b(value.encode(), digest_size=16).hexdigest()


_ESCAPES: Final = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%/@#"})
