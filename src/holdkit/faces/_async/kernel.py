"""The kernel that users hold: holds on pools, and every face."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ...core.commands import Ttl
from ...kernel._async.kernel import AsyncHolds
from ..allowances import Allowance, meters_of
from ..grid import Capacity, Closed, grid_of
from ..resource_keys import Key, Window
from ..resources import Resource
from ..windows import Zone
from .admin import AsyncAdmin
from .budget_sets import AsyncBudgetSet
from .budgets import AsyncBudget
from .calendar import AsyncCalendar
from .claims import AsyncClaims
from .items import AsyncItems
from .resources import AsyncResourceKernel
from .sagas import AsyncSagas
from .seats import AsyncSeats
from .windows import AsyncRate, AsyncWindows


class AsyncKernel(AsyncHolds):
    """A connection to one engine, for one tenant; safe to share among everything that runs in this process."""

    @property
    def admin(self) -> AsyncAdmin:
        """What an operator does: change pools, pass tokens and limits with a reason, verify, archive, erase, find."""
        return AsyncAdmin(self, self._executor, self._tenant)

    @cached_property
    def sagas(self) -> AsyncSagas:
        """Work in several steps that always ends: reserve, validate, finalize."""
        return AsyncSagas(self._executor, self._tenant)

    @cached_property
    def claims(self) -> AsyncClaims:
        """Keys that only one holder can have: an email address, a user name."""
        return AsyncClaims(self._executor, self._call_fields, self._tenant)

    @cached_property
    def items(self) -> AsyncItems:
        """Single things, each available, held or confirmed: vouchers, postings."""
        return AsyncItems(self._executor, self._call_fields, self._tenant)

    @cached_property
    def seats(self) -> AsyncSeats:
        """Items with a place in a section; it holds the best free ones."""
        return AsyncSeats(self._executor, self._call_fields, self._tenant)

    def rate(self, name: str, *allowances: Allowance) -> AsyncRate:
        """Limit what each client uses per window: ``hk.rate("api", Allowance(10, per="second"), Allowance(100, per="minute"))``."""
        meters = meters_of("rates", name, {"": allowances})
        return AsyncRate(AsyncWindows(self._executor, self._call_fields, self._tenant, meters))

    def budget(self, name: str, /, **amounts: Allowance | tuple[Allowance, ...]) -> AsyncBudget:
        """Hold several budgets together: ``hk.budget("llm", tokens=Allowance(1_000_000, per="day"))``. A budget may have several
        allowances, with different windows."""
        meters = meters_of("budgets", name, amounts)
        return AsyncBudget(AsyncBudgetSet(self._executor, self._call_fields, self._tenant, meters))

    def calendar(
        self,
        name: str,
        rooms: Mapping[str, Capacity],
        *,
        zone: Zone = "UTC",
        every: Ttl | None = None,
        closed: Closed = (),
    ) -> AsyncCalendar:
        """Hold rooms by nights: ``hk.calendar("inn", {"double": 10, "suite": 2}, zone="Europe/Lisbon")``; with ``every="30m"``, by times
        of day. A night is over when its date ends in the zone."""
        return AsyncCalendar(self._executor, self._call_fields, self._tenant, grid_of(name, rooms, zone, every, closed))

    def resource(self, resource: Resource[Key, Window]) -> AsyncResourceKernel[Key, Window]:
        """Return the kernel of one resource, whose capacity the application answers."""
        return AsyncResourceKernel(self, self._executor, self._placing, self._call_fields, resource)
