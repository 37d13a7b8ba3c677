"""`remote.budget(name)`: the kernel's budgets, over a set that is defined on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.commands import Overage, PlaceHold
from ...core.outcomes import Receipt
from ...core.validation import invalid, text
from ...faces._async.budgets import AsyncBudget
from ...faces._async.windows import Granting
from ...faces.allowances import Allowance, Spent, Usage, amounts_by
from ...kernel.arguments import Call, Legs
from ...kernel.batches import Undo
from ...kernel.pool import Pool
from ...kernel.results import Hold, hold_of
from ...wire.budgets import BudgetAnswer, BudgetConfirm, UsagePage
from ..answers import ServerClock, allowance_body, pool_in, usage_from
from ..requests import USE_THE_BUDGET, path_of, verb_json
from .executor import AsyncRemoteExecutor
from .transport import AsyncRemoteCalls, AsyncTransport, no_transaction

ONLY = ""
"""Stands for the only budget of a set, if a number was given: the server knows which budget that is."""


class AsyncRemoteBudgetSet(AsyncRemoteCalls):
    """The budgets of one set, for every client. Each call is one request."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock, executor: AsyncRemoteExecutor, name: str) -> None:
        super().__init__(transport, clock)
        self.executor, self.name = executor, text(name, "name", 64)

    def call_fields(self, call: Call) -> dict[str, Any]:
        """Return the fields that every command has."""
        return self._call_fields(call)

    def amounts(self, given: Any, field: str, least: int, held: Mapping[str, int] | None = None) -> dict[str, int]:
        """Check amounts by budget, except what only the server can check, and return them."""
        budgets = [ONLY] if held is None else list(held)
        if isinstance(given, Mapping) and budgets == [ONLY]:
            budgets = list(given)
        return amounts_by(given, field, least, budgets)

    async def take(
        self, command: Granting, client: str, amounts: dict[str, int], tx: Any, undo: Undo | None = None
    ) -> Receipt:
        """Take the amounts from the current windows."""
        no_transaction(tx)
        verb, field = ("hold", "estimate") if isinstance(command, PlaceHold) else ("consume", "actual")
        body = verb_json(command) | {"client": client, field: _spent(amounts)}
        del body["legs"]
        return await self.executor.send(path_of(f"budget_{verb}", self.name), body, command.op, undo)

    async def legs(self, client: str, amounts: dict[str, int]) -> Legs:  # noqa: ARG002  (as `AsyncBudgetSetPort` has it)
        """Refuse: only the server knows the windows of the set and their totals."""
        raise invalid("legs", "not_remote", f"the windows of this set are the server's: {USE_THE_BUDGET}")

    async def settle(
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
        """Confirm what was actually spent; `uncovered` of the answer is by budget."""
        spent = None if actual is None else _spent(self.amounts(actual, "actual", 0))
        fields = BudgetConfirm(
            hold=id,
            actual=spent,
            token=token,
            entity=entity,
            keep_rest=keep_rest,
            overage=overage,
            **self._request_fields(call),
        )
        return hold_of(
            await self.executor.send(path_of("budget_confirm", self.name), fields, call.get("op"), shielded=shielded),
            token,
        )

    async def usage(self, client: str) -> list[Usage]:
        """Return what a client has used of each current window."""
        page: UsagePage = await self._do("budget_usage", self.name, client=client)
        return [usage_from(document) for document in page.items]

    async def resize(self, client: str, budget: str, total: int, per: str | None, call: Call) -> Pool:
        """Give the current window another total."""
        asked: dict[str, Any] = {"client": client, "budget": budget, "total": total, "per": per}
        return pool_in(await self._ask("budget_resize", self.name, call=call, **asked))

    async def define(self, budgets: Mapping[str, Allowance | tuple[Allowance, ...]]) -> None:
        """Define the set."""
        listed = {
            budget: [allowance_body(one) for one in (given if isinstance(given, tuple | list) else (given,))]
            for budget, given in budgets.items()
        }
        await self._ask("put_budget", self.name, budgets=listed)

    async def definition(self) -> BudgetAnswer:
        """Return the set as it is defined."""
        return await self._do("show_budget", self.name)


class AsyncRemoteBudget(AsyncBudget):
    """A set of budgets that is defined on the server."""

    def __init__(self, budget_set: AsyncRemoteBudgetSet) -> None:
        super().__init__(budget_set)
        self._remote_set = budget_set

    async def define(self, **budgets: Allowance | tuple[Allowance, ...]) -> None:
        """Define the set, or change it for later windows; current windows keep their totals. Needs an admin key."""
        await self._remote_set.define(budgets)

    async def definition(self) -> BudgetAnswer:
        """Return the set as it is defined on the server."""
        return await self._remote_set.definition()


def _spent(amounts: dict[str, int]) -> int | dict[str, int]:
    return amounts[ONLY] if [*amounts] == [ONLY] else amounts
