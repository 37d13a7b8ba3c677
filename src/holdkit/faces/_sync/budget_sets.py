# Generated from ../_async/budget_sets.py by tools/gen_sync.py: do not edit.
"""Budget sets: amounts by budget become amounts by pool, and a hold is confirmed with what was actually spent.

It is what `Budget` works on. The client has another implementation, for sets that are defined on a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from ...core.commands import ConfirmHold, Overage
from ...core.model import HeldLeg
from ...core.outcomes import Receipt
from ...core.values import invalid
from ...kernel._sync.executor import ExecutorPort
from ...kernel.arguments import Call, Legs
from ...kernel.batches import Undo
from ...kernel.pool import Pool
from ...kernel.results import Hold, hold_of
from ..allowances import Spent, Usage, amounts_by
from .windows import Granting, Windows


class BudgetSetPort(Protocol):
    """What `Budget` needs of a budget set, in this process or on a server."""

    @property
    def executor(self) -> ExecutorPort:
        """Where blocks end their holds."""

    @property
    def name(self) -> str:
        """The name of the set."""

    def call_fields(self, call: Call, /) -> dict[str, Any]:
        """Return the fields that every command has."""

    def amounts(self, given: Any, field: str, least: int, held: Mapping[str, int] | None = None) -> dict[str, int]:
        """Check amounts by budget, and return them."""

    def take(
        self, command: Granting, client: str, amounts: dict[str, int], tx: Any, undo: Undo | None = None
    ) -> Receipt:
        """Take the amounts from the current windows."""

    def legs(self, client: str, amounts: dict[str, int]) -> Legs:
        """Return the amounts as legs on the current windows."""

    def settle(
        self,
        id: str,
        token: str | None,
        actual: Spent | None,
        call: Call,
        *,
        entity: str | None = None,
        keep_rest: bool = False,
        overage: Overage = "up_to_available",
        shielded: bool = False,
    ) -> Hold:
        """Confirm what was actually spent."""

    def usage(self, client: str) -> list[Usage]:
        """Return what a client has used of each current window."""

    def resize(self, client: str, budget: str, total: int, per: str | None, call: Call) -> Pool:
        """Give the current window of a budget another total."""


class BudgetSet(Windows):
    """The budgets of one set, for every client."""

    def settle(
        self,
        id: str,
        token: str | None,
        actual: Spent | None,
        call: Call,
        *,
        entity: str | None = None,
        keep_rest: bool = False,
        overage: Overage = "up_to_available",
        shielded: bool = False,
    ) -> Hold:
        """Confirm what was actually spent; release if that is nothing.

        The operation id stands for what the caller wrote, so a retry is the same operation whatever has happened to
        the hold since. The read before the command gives only the pools of the hold, which never change; how much is
        held there is seen by the decision, so what another caller has confirmed meanwhile is not counted twice.
        """
        named = None if actual is None else self.amounts(actual, "actual", 0)
        original = ConfirmHold(
            id=id,
            token=token,
            entity=entity,
            quantity=named,
            keep_rest=keep_rest,
            overage=overage,
            **self.call_fields(call),
        )
        command = original
        if named is not None:
            amounts = self._by_pool(named, self._legs(id, call.get("tx")), keep_rest)
            # if no hold was found its pools are unknown: if there is one by now, it must not be confirmed as held
            command = replace(original, quantity=amounts or named, others_as_held=True, late_overage=True)
        receipt = self.executor.execute(command, call.get("tx"), faces=True, original=original, shielded=shielded)
        if receipt.uncovered:
            receipt = replace(receipt, uncovered=self._by_budget(receipt.uncovered))
        return hold_of(receipt, token)

    def resize(self, client: str, budget: str, total: int, per: str | None, call: Call) -> Pool:
        """Give the current window another total, that of the one allowance that is meant."""
        meters = [meter for meter in self.meters if meter.budget == budget and per in (None, meter.period.name)]
        if len(meters) != 1:
            known = ", ".join(f"{meter.budget} per {meter.period.name}" for meter in self.meters)
            raise invalid("budget", "budget_unknown", f"must name one of {known}")
        return self.resize_window(meters[0], client, total, call)

    def _by_budget(self, uncovered: Mapping[str, int]) -> dict[str, int]:
        """Return what a confirm could not cover, by budget; of a budget with several windows, the largest shortfall."""
        largest: dict[str, int] = {}
        for pool, amount in uncovered.items():
            budget = self._budget_of(pool)
            largest[budget] = max(amount, largest.get(budget, 0))
        return largest

    def amounts(self, given: Any, field: str, least: int, held: Mapping[str, int] | None = None) -> dict[str, int]:
        """Check amounts by budget, and return them: of the budgets that are `held`, else of all."""
        budgets = {meter.budget: None for meter in self.meters} if held is None else held
        return amounts_by(given, field, least, list(budgets))

    def _legs(self, id: str, tx: Any) -> tuple[HeldLeg, ...]:
        """Return the legs of a hold as they are now, also in the caller's transaction; none if there is no such hold, which the core will
        refuse."""
        row = self.executor.find_hold((self.tenant, id), tx)
        return () if row is None else row.legs

    def _by_pool(self, named: dict[str, int], legs: tuple[HeldLeg, ...], keep_rest: bool) -> dict[str, int]:
        """Turn amounts by budget into amounts by pool. A budget that is not named stays held, or is left to the decision."""
        amounts: dict[str, int] = {}
        held_budgets: set[str] = set()
        for leg in legs:
            budget = self._budget_of(leg.pool)
            held_budgets.add(budget)
            if keep_rest or budget in named:
                amounts[leg.pool] = named.get(budget, 0)
        for budget in named:
            if legs and budget not in held_budgets:
                raise invalid(
                    "actual", "leg_unknown", f"nothing of {budget!r} is held: estimate it when you place the hold"
                )
        return amounts

    def _budget_of(self, pool: str) -> str:
        """Return the budget of this set that a pool counts for; empty if there is none."""
        return next((meter.budget for meter in self.meters if meter.counts(pool)), "")
