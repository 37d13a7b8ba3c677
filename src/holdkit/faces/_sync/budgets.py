# Generated from ../_async/budgets.py by tools/gen_sync.py: do not edit.
"""Budgets: hold the estimate, confirm the actual. Several budgets, each with its own windows, in one hold.

A hold belongs to the windows in which it was decided, and so does what is confirmed of it, however late.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from ...core.commands import Consume, Overage, PlaceHold, Ttl
from ...core.values import invalid
from ...errors import AlreadyConfirmed, AlreadyReleased, HoldkitError
from ...kernel._sync.blocks import Block
from ...kernel.answers import undo_grant
from ...kernel.arguments import Call, Legs, presented, span
from ...kernel.one_line import line
from ...kernel.pool import Pool
from ...kernel.results import Hold, hold_of, receipt_of, requested_legs
from ..allowances import Spent, Usage, client_of
from .budget_sets import BudgetSetPort


class Budget:
    """A set of budgets, per client. A hold takes from all its budgets or from none."""

    def __init__(self, budget_set: BudgetSetPort) -> None:
        self._budget_set = budget_set

    def __repr__(self) -> str:
        return line(type(self).__name__, self._budget_set.name)

    def hold(
        self,
        client: str,
        estimate: Spent,
        *,
        ttl: Ttl,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold an estimate until the deadline. Raises `InsufficientCapacity`, with the `budgets` that fell short and
        `retry_after`: the seconds until their windows end, at the latest."""
        command = self._placing(ttl, token, entity, metadata, call)
        amounts = self._budget_set.amounts(estimate, "estimate", 1)
        return hold_of(self._budget_set.take(command, client_of(client), amounts, call.get("tx")), token)

    def _placing(
        self, ttl: Ttl, token: str | None, entity: str | None, metadata: dict[str, Any] | None, call: Call
    ) -> PlaceHold:
        fields = self._budget_set.call_fields(call)
        return PlaceHold(legs=(), ttl_slots=span(ttl), token=token, entity=entity, metadata=metadata, **fields)

    def consume(
        self,
        client: str,
        actual: Spent,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step, for something of known cost. Refused like `hold`."""
        command = Consume(legs=(), entity=entity, metadata=metadata, **self._budget_set.call_fields(call))
        amounts = self._budget_set.amounts(actual, "actual", 1)
        return hold_of(self._budget_set.take(command, client_of(client), amounts, call.get("tx")), None)

    def legs(self, client: str, amounts: Spent) -> Legs:
        """Return amounts of the current windows as legs: for a hold that has other legs too, for a command of
        `apply`, and as the `quantity` of `hk.release` and `hk.return_units` while these windows last. If they are
        decided in a later window they are refused as `window_closed`: get new ones."""
        return self._budget_set.legs(client_of(client), self._budget_set.amounts(amounts, "amounts", 1))

    def confirm(
        self,
        hold: Hold | str,
        actual: Spent | None = None,
        *,
        entity: str | None = None,
        keep_rest: bool = False,
        overage: Overage = "up_to_available",
        **call: Unpack[Call],
    ) -> Hold:
        """Confirm what was actually spent; None means the estimate, 0 of every budget releases. The rest of the
        estimate becomes free.

        A budget that is not named is confirmed as estimated. With `keep_rest` it stays held, as does the rest of
        those that are named. `overage` says what covers more than the estimate: `up_to_available` takes what is
        left, and `uncovered` of the answer says by budget what nothing covered (of a budget with several windows, the
        largest shortfall); `if_available` takes all of it or raises
        `InsufficientCapacity`; `reject` takes nothing.
        """
        id, token = presented(hold, "confirm")
        answer = self._budget_set.settle(id, token, actual, call, entity=entity, keep_rest=keep_rest, overage=overage)
        return Hold(answer.raw, answer.token, receipt_of(answer), requested_legs(hold))

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
    ) -> BudgetHolding:
        """Hold the estimate for a block and, at its end, confirm what the body has set: ``spending.actual = 812``.

        If the body sets nothing, confirm the estimate. If it raises, confirm what it has set, or release all if it has set nothing.
        """
        if call.get("tx") is not None:
            raise invalid(
                "tx", "tx_unsupported", "a block spans several transactions: use hold() and confirm() with tx="
            )
        command = self._placing(ttl, None, None, metadata, call)
        amounts = self._budget_set.amounts(estimate, "estimate", 1)
        return BudgetHolding(self._budget_set, command, client_of(client), amounts, entity, overage)

    def remaining(self, client: str) -> dict[str, int]:
        """Return what the client could hold now, by budget."""
        left: dict[str, int] = {}
        for usage in self.usage(client):
            left[usage.budget] = min(usage.available, left.get(usage.budget, usage.available))
        return left

    def usage(self, client: str) -> list[Usage]:
        """Return what the client has used of each current window, in order of budget."""
        return self._budget_set.usage(client_of(client))

    def resize(self, client: str, budget: str, total: int, *, per: str | None = None, **call: Unpack[Call]) -> Pool:
        """Give the current window another total. Raises `BelowInUse`, and `PoolNotFound` if the window has not been used yet.

        Later windows begin with the total of their allowance: change that too if the new total is meant to last.
        """
        return self._budget_set.resize(client_of(client), budget, total, per, call)


class BudgetHolding(Block):
    """``with budgets.holding(…) as spending``: the body sets `actual`; afterwards `uncovered` is what no budget
    could cover."""

    def __init__(
        self,
        budget_set: BudgetSetPort,
        command: PlaceHold,
        client: str,
        estimate: dict[str, int],
        entity: str | None,
        overage: Overage,
    ) -> None:
        super().__init__(budget_set.executor, command)
        self._budget_set, self._client, self._estimate = budget_set, client, estimate
        self._entity, self._overage = entity, overage
        self._actual: dict[str, int] | None = None
        self._ended: Hold | None = None

    @property
    def actual(self) -> dict[str, int] | None:
        """What was spent, by budget; None until it is set. A number will do if there is one budget."""
        return None if self._actual is None else dict(self._actual)

    @actual.setter
    def actual(self, spent: int | Mapping[str, int]) -> None:
        self._actual = self._budget_set.amounts(spent, "actual", 0, self._estimate)

    @property
    def uncovered(self) -> dict[str, int]:
        """What was spent beyond the estimate and no budget could cover, by budget; known at the end of the block."""
        return {} if self._ended is None else self._ended.uncovered

    def __enter__(self) -> Self:
        self._begin()
        done = self._budget_set.take(self._command, self._client, self._estimate, None, undo_grant)
        self._hold = hold_of(done, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._confirm()
            return
        try:
            if self._actual is None:
                self._release(kind)
            else:
                self._confirm()  # it was spent, whatever happened since
        except HoldkitError as failed:
            if not isinstance(failed, AlreadyConfirmed | AlreadyReleased):
                error.add_note(f"the hold {self.hold.id} could not be ended ({failed}); it expires at its deadline")

    def _confirm(self) -> None:
        command = self._command
        call: Call = {"correlation_id": command.correlation_id, "reason": command.reason, "actor": command.actor}
        try:
            self._ended = self._budget_set.settle(
                self.hold.id,
                self.hold.token,
                self._actual,
                call,
                entity=self._entity,
                overage=self._overage,
                shielded=True,
            )
        except AlreadyConfirmed:
            return  # the body did it itself
        except AlreadyReleased:
            if self.hold.replayed or self._forced():
                raise  # not by this body: what it did is not covered by any units
