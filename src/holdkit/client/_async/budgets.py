"""`remote.budgets(name)`: hold the estimate, confirm the actual, of a set that is written down on the server."""

from __future__ import annotations

from typing import Any, Unpack
from uuid import UUID

from ...core.commands import Overage, Ttl
from ...core.validation import text
from ...faces.allowances import Allowance, Spent, Usage
from ...kernel._async.calls import Call
from ...kernel.spelling import amounts_of, reference
from ...kernel.surface import Hold
from ..addresses import path_of
from ..clock import ServerClock
from ..face_wire import allowance_json, read_usages, usage_from
from ..wire import seconds
from .calling import AsyncCalling
from .transport import AsyncTransport


class AsyncRemoteBudgets(AsyncCalling):
    """A set of budgets, per client. What is held of several is held of all, or of none."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock, name: str) -> None:
        super().__init__(transport, clock)
        self.name = text(name, "name", 64)

    async def define(self, **budgets: Allowance | tuple[Allowance, ...]) -> None:
        """Write the set down, or change it for windows to come; windows that run keep their totals. Needs an admin's key."""
        listed = {
            budget: [allowance_json(one) for one in (given if isinstance(given, tuple | list) else (given,))]
            for budget, given in budgets.items()
        }
        await self._transport.ask("PUT", path_of("budgets", self.name), {"budgets": listed})

    async def hold(
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
        body = {"client": client, "estimate": amounts_of(estimate), "ttl": seconds(ttl), "owner": owner,
                "entity": entity, "metadata": metadata}  # fmt: skip
        return await self._change(path_of("budgets", self.name, "hold"), body, call, owner)

    async def consume(
        self,
        client: str,
        actual: Spent,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step, for what costs a known amount. Refused like `hold`."""
        body = {"client": client, "actual": amounts_of(actual), "entity": entity, "metadata": metadata}
        return await self._change(path_of("budgets", self.name, "consume"), body, call, None)

    async def confirm(
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
        """Say what it came to; None is the estimate, 0 of everything a release. `uncovered` of the answer is by budget."""
        id, token = reference(hold, owner)
        body = {"hold": id, "actual": amounts_of(actual), "owner": token, "entity": entity,
                "keep_rest": keep_rest or None, "overage": overage}  # fmt: skip
        return await self._change(path_of("budgets", self.name, "confirm"), body, call, token)

    def uncovered(self, hold: Hold) -> dict[str, int]:
        """What a confirm could not cover, by budget."""
        return hold.uncovered

    async def remaining(self, client: str) -> dict[str, int]:
        """What the client could hold now, by budget."""
        left: dict[str, int] = {}
        for usage in await self.usage(client):
            left[usage.budget] = min(usage.available, left.get(usage.budget, usage.available))
        return left

    async def usage(self, client: str) -> list[Usage]:
        """How the client stands in each window that runs, in order of budget."""
        answer = await self._get(path_of("budgets", self.name, "usage"), client=client)
        return [usage_from(wire) for wire in read_usages(answer.content).items]
