"""A block that spends: the estimate is held while it runs, and what it really came to is confirmed at its end."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from ...core.commands import Overage, PlaceHold
from ...errors import AlreadyConfirmed, AlreadyReleased, HoldkitError
from ...kernel._async.blocks import AsyncBlock
from ...kernel._async.calls import Call
from ...kernel.answers import hold_of, undo_grant
from ...kernel.results import Hold
from .accounts import AsyncAccountsPort


class AsyncSpending(AsyncBlock):
    """``with budgets.holding(…) as spending``: the body sets `actual`; afterwards `uncovered` says what no budget had left."""

    def __init__(
        self,
        accounts: AsyncAccountsPort,
        command: PlaceHold,
        client: str,
        estimate: dict[str, int],
        entity: str | None,
        overage: Overage,
    ) -> None:
        super().__init__(accounts.executor, command)
        self._accounts, self._client, self._estimate = accounts, client, estimate
        self._entity, self._overage = entity, overage
        self._actual: dict[str, int] | None = None
        self._ended: Hold | None = None

    @property
    def actual(self) -> dict[str, int] | None:
        """What it came to, by budget; None until it is said. A number will do where there is one budget."""
        return None if self._actual is None else dict(self._actual)

    @actual.setter
    def actual(self, spent: int | Mapping[str, int]) -> None:
        self._actual = self._accounts.amounts(spent, "actual", 0, self._estimate)

    @property
    def uncovered(self) -> dict[str, int]:
        """What was spent beyond the estimate and is covered by no budget, by budget; told at the end of the block."""
        return {} if self._ended is None else self._accounts.uncovered(self._ended)

    async def __aenter__(self) -> Self:
        self._begin()
        done = await self._accounts.place(self._command, self._client, self._estimate, None, undo_grant)
        self._hold = hold_of(done, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._confirm()
            return
        try:
            if self._actual is None:
                await self._release(kind)
            else:
                await self._confirm()  # it was spent, whatever happened since
        except HoldkitError as failed:
            if not isinstance(failed, AlreadyConfirmed | AlreadyReleased):
                error.add_note(f"the hold {self.hold.id} could not be ended ({failed}); its deadline will do it")

    async def _confirm(self) -> None:
        command = self._command
        call: Call = {"correlation_id": command.correlation_id, "reason": command.reason, "actor": command.actor}
        try:
            self._ended = await self._accounts.settle(
                self.hold.id,
                self.hold.owner,
                self._actual,
                call,
                entity=self._entity,
                overage=self._overage,
                shielded=True,
            )
        except AlreadyConfirmed:
            return  # the body did it itself
        except AlreadyReleased:
            if self.hold.replayed or await self._forced():
                raise  # not by this body: what it did is not covered by any units
