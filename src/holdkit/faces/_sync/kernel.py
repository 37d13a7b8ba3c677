# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
"""The kernel that users hold: holds on pools, and every face."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ...core.commands import Ttl
from ...kernel._sync.kernel import Holds
from ..allowances import Allowance, meters_of
from ..grid import Capacity, Closed, grid_of
from ..resource_keys import Key, Window
from ..resources import Resource
from ..windows import Zone
from .admin import Admin
from .budget_sets import BudgetSet
from .budgets import Budget
from .calendar import Calendar
from .claims import Claims
from .items import Items
from .resources import ResourceKernel
from .sagas import Sagas
from .seats import Seats
from .windows import Rate, Windows


class Kernel(Holds):
    """A connection to one engine, for one tenant; safe to share among everything that runs in this process."""

    @property
    def admin(self) -> Admin:
        """What an operator does: change pools, pass tokens and limits with a reason, verify, archive, erase, find."""
        return Admin(self, self._executor, self._tenant)

    @cached_property
    def sagas(self) -> Sagas:
        """Work in several steps that always ends: reserve, validate, finalize."""
        return Sagas(self._executor, self._tenant)

    @cached_property
    def claims(self) -> Claims:
        """Keys that only one holder can have: an email address, a user name."""
        return Claims(self._executor, self._call_fields, self._tenant)

    @cached_property
    def items(self) -> Items:
        """Single things, each available, held or confirmed: vouchers, postings."""
        return Items(self._executor, self._call_fields, self._tenant)

    @cached_property
    def seats(self) -> Seats:
        """Items with a place in a section; it holds the best free ones."""
        return Seats(self._executor, self._call_fields, self._tenant)

    def rate(self, name: str, *allowances: Allowance) -> Rate:
        """Limit what each client uses per window: ``hk.rate("api", Allowance(10, per="second"), Allowance(100, per="minute"))``."""
        meters = meters_of("rates", name, {"": allowances})
        return Rate(Windows(self._executor, self._call_fields, self._tenant, meters))

    def budget(self, name: str, /, **amounts: Allowance | tuple[Allowance, ...]) -> Budget:
        """Hold several budgets together: ``hk.budget("llm", tokens=Allowance(1_000_000, per="day"))``. A budget may have several
        allowances, with different windows."""
        meters = meters_of("budgets", name, amounts)
        return Budget(BudgetSet(self._executor, self._call_fields, self._tenant, meters))

    def calendar(
        self,
        name: str,
        rooms: Mapping[str, Capacity],
        *,
        zone: Zone = "UTC",
        every: Ttl | None = None,
        closed: Closed = (),
    ) -> Calendar:
        """Hold rooms by nights: ``hk.calendar("inn", {"double": 10, "suite": 2}, zone="Europe/Lisbon")``; with ``every="30m"``, by times
        of day. A night is over when its date ends in the zone."""
        return Calendar(self._executor, self._call_fields, self._tenant, grid_of(name, rooms, zone, every, closed))

    def resource(self, resource: Resource[Key, Window]) -> ResourceKernel[Key, Window]:
        """Return the kernel of one resource, whose capacity the application answers."""
        return ResourceKernel(self, self._executor, self._placing, self._call_fields, resource)
