# Generated from ../_async/budgets.py by tools/gen_sync.py: do not edit.
"""Budgets: hold the estimate, confirm the actual. Several budgets, each with its own windows, in one hold.

A hold belongs to the windows in which it was decided, and so does what is confirmed of it, however late that is.
"""

from __future__ import annotations

from typing import Any, Unpack
from uuid import UUID

from ...core.commands import Consume, Overage, PlaceHold, Ttl
from ...core.model import Pool
from ...core.values import invalid
from ...kernel._sync.calls import Call
from ...kernel.answers import hold_of
from ...kernel.normalise import Legs, reference, span
from ...kernel.results import Hold
from ..allowances import Spent, Usage, client_of
from .accounts import AccountsPort
from .spending import Spending


class Budgets:
    """A set of budgets, per client. What is held of several is held of all, or of none."""

    def __init__(self, accounts: AccountsPort) -> None:
        self._accounts = accounts

    def hold(
        self,
        client: str,
        estimate: Spent,
        *,
        ttl: Ttl,
        owner: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold an estimate until the deadline. Raises `InsufficientCapacity`, with `budgets` that fell short and
        `retry_after`: the seconds until their windows are over, at the latest."""
        command = self._placing(ttl, owner, entity, metadata, call)
        amounts = self._accounts.amounts(estimate, "estimate", 1)
        return hold_of(self._accounts.place(command, client_of(client), amounts, call.get("tx")), owner)

    def _placing(
        self, ttl: Ttl, owner: str | None, entity: str | None, metadata: dict[str, Any] | None, call: Call
    ) -> PlaceHold:
        frame = self._accounts.frame(call)
        return PlaceHold(legs=(), ttl_slots=span(ttl), owner=owner, entity=entity, metadata=metadata, **frame)

    def consume(
        self,
        client: str,
        actual: Spent,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step, for what costs a known amount. Refused like `hold`."""
        command = Consume(legs=(), entity=entity, metadata=metadata, **self._accounts.frame(call))
        amounts = self._accounts.amounts(actual, "actual", 1)
        return hold_of(self._accounts.place(command, client_of(client), amounts, call.get("tx")), None)

    def units(self, client: str, amounts: Spent) -> Legs:
        """Amounts of the windows that run now, as legs: of a hold on other things too, or of a command for `apply`, which
        tells a refusal as a value. Decided in a later window they are `window_closed`: ask for new ones."""
        return self._accounts.legs(client_of(client), self._accounts.amounts(amounts, "amounts", 1))

    def confirm(
        self,
        hold: Hold | str | UUID,
        actual: Spent | None = None,
        *,
        owner: str | None = None,
        entity: str | None = None,
        keep_rest: bool = False,
        overage: Overage = "up_to_available",
        **call: Unpack[Call],
    ) -> Hold:
        """Say what it came to; None is the estimate, 0 of everything a release. The rest of the estimate is free again.

        A budget that is not named counts as estimated; with `keep_rest` it stays held, as does the rest of what is named,
        be it all of it.
        More than the estimate is covered by `overage`: `up_to_available` as far as there is any left, and `uncovered` of
        the answer says by budget what was not; `if_available` all of it, or `InsufficientCapacity`; `reject` not at all.
        """
        id, token = reference(hold, owner)
        return self._accounts.settle(id, token, actual, call, entity=entity, keep_rest=keep_rest, overage=overage)

    def holding(
        self,
        client: str,
        estimate: Spent,
        *,
        ttl: Ttl,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        overage: Overage = "up_to_available",
        **call: Unpack[Call],
    ) -> Spending:
        """A block that holds the estimate, and confirms at its end what the body says: ``spending.actual = 812``.

        Nothing said: the estimate is confirmed. An exception: what was said is confirmed, and if nothing was, all is
        released.
        """
        if call.get("tx") is not None:
            raise invalid(
                "tx", "tx_unsupported", "a block spans several transactions: use hold() and confirm() with tx="
            )
        command = self._placing(ttl, None, None, metadata, call)
        amounts = self._accounts.amounts(estimate, "estimate", 1)
        return Spending(self._accounts, command, client_of(client), amounts, entity, overage)

    def uncovered(self, hold: Hold) -> dict[str, int]:
        """What a confirm could not cover, by budget; of one with several windows, where it fell short most."""
        return self._accounts.uncovered(hold)

    def remaining(self, client: str) -> dict[str, int]:
        """What the client could hold now, by budget."""
        left: dict[str, int] = {}
        for usage in self.usage(client):
            left[usage.budget] = min(usage.available, left.get(usage.budget, usage.available))
        return left

    def usage(self, client: str) -> list[Usage]:
        """How the client stands in each window that runs, in order of budget."""
        return self._accounts.usage(client_of(client))

    def resize(self, client: str, budget: str, total: int, *, per: str | None = None, **call: Unpack[Call]) -> Pool:
        """Another total for the window that runs. Raises `BelowInUse`, and `PoolNotFound` if nobody has used it yet.

        Windows to come are given the total that their allowance says then: change that too, if it is meant to last.
        """
        return self._accounts.resize(client_of(client), budget, total, per, call)
