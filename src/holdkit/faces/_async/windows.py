"""Rates, and what they share with budgets: a command counts in the window in which it is decided.

The face chooses the window by the engine's clock; the core checks it at the slot of the decision. If the window has
closed by then, the refusal `window_closed` names that slot, and the face chooses again from there. A client's clock
is never trusted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, Unpack

from msgspec.structs import replace

from ...core.commands import Consume, PlaceHold, ResizePool
from ...core.face_legs import FaceLeg
from ...core.model import MAX_QUANTITY, SECOND
from ...core.outcomes import Receipt
from ...core.values import whole
from ...errors import InsufficientCapacity, Overloaded, WindowClosed
from ...kernel._async.executor import AsyncExecutorPort
from ...kernel.answers import pool_of
from ...kernel.arguments import Call, CallFields, Legs
from ...kernel.batches import Undo
from ...kernel.one_line import line
from ...kernel.pool import Pool
from ...kernel.results import Hold, hold_of
from ...kernel.times import datetime_of, moment
from ..allowances import Meter, Usage, client_of

ATTEMPTS: Final = 8
"""How often a window is chosen: a second choice fails only if that window ends in the same instant."""

Granting: TypeAlias = PlaceHold | Consume


class AsyncWindows:
    """Meters over the pools of the current windows."""

    def __init__(
        self, executor: AsyncExecutorPort, call_fields: CallFields, tenant: str, meters: tuple[Meter, ...]
    ) -> None:
        self.executor, self.call_fields, self.tenant, self.meters = executor, call_fields, tenant, meters

    @property
    def name(self) -> str:
        """The name of the rate or of the set of budgets."""
        return self.meters[0].prefix.partition("/")[2]

    async def usage(self, client: str) -> list[Usage]:
        """Return what a client has used of each current window; a window that was not used yet is shown as it would begin."""
        now = await self.executor.clock()
        windows = [meter.period.window(now) for meter in self.meters]
        ids = [meter.pool(client, window) for meter, window in zip(self.meters, windows, strict=True)]
        pools = await self.executor.find_pools([(self.tenant, id) for id in ids])
        found: list[Usage] = []
        for meter, window, pool in zip(self.meters, windows, pools, strict=True):
            total, held, consumed = (
                (meter.total_for(client), 0, 0) if pool is None else (pool.total, pool.held, pool.consumed)
            )
            opens, closes = datetime_of(window.opens), datetime_of(window.closes)
            found.append(Usage(meter.budget, meter.period.name, opens, closes, total, held, consumed))
        return found

    async def take(
        self, command: Granting, client: str, amounts: dict[str, int], tx: Any, undo: Undo | None = None
    ) -> Receipt:
        """Decide the command on the current windows; the amount of a budget is taken from each of its windows."""
        asked = self._asked(amounts)
        slot = await self.executor.clock()
        for left in reversed(range(ATTEMPTS)):
            legs = tuple(meter.leg(client, amount, slot) for meter, amount in asked)
            try:
                return await self.executor.execute(replace(command, legs=legs), tx, faces=True, undo=undo)
            except WindowClosed as closed:
                slot = moment(closed.now)
                if not left:
                    raise Overloaded(
                        f"after {ATTEMPTS} attempts: windows end faster than they can be found"
                    ) from closed
            except InsufficientCapacity as refused:
                self._add_retry_advice(refused, asked, legs)
                raise
        raise AssertionError("the last try returns or raises")

    async def legs(self, client: str, amounts: dict[str, int]) -> Legs:
        """Return the amounts as legs on the current windows, to be combined with others. The operation id stands for the amounts asked
        for."""
        slot = await self.executor.clock()
        return Legs(meter.leg(client, amount, slot) for meter, amount in self._asked(amounts))

    def _asked(self, amounts: dict[str, int]) -> list[tuple[Meter, int]]:
        """Return each window with its amount; all windows of a budget have the budget's amount."""
        return [(meter, amounts[meter.budget]) for meter in self.meters if meter.budget in amounts]

    def _add_retry_advice(
        self, refused: InsufficientCapacity, asked: list[tuple[Meter, int]], legs: Iterable[FaceLeg]
    ) -> None:
        """Add to a refusal which budgets fell short, and when the last of their windows ends. (A recorded refusal of
        an earlier window has nothing to wait for.)"""
        short = {shortfall.pool for shortfall in refused.shortfalls}
        now = self.executor.now()
        left = [(leg.closes or 0) - max(now, leg.opens or 0) for leg in legs if leg.pool in short]
        budgets = {meter.budget for meter, _ in asked if any(map(meter.counts, short))}
        refused.retry_after = max([0, *left]) / SECOND
        refused.budgets = tuple(sorted(budgets - {""}))

    async def resize_window(self, meter: Meter, client: str, total: int, call: Call) -> Pool:
        """Give the current window another total; try again if that window was over when it was decided."""
        whole(total, "total", 0, MAX_QUANTITY)
        original = ResizePool(id=meter.pools(client), total=total, **self.call_fields(call))
        command, slot = original, await self.executor.clock()
        for left in reversed(range(ATTEMPTS)):
            window = meter.period.window(slot)
            done = await self.executor.execute(
                replace(command, id=meter.pool(client, window)), call.get("tx"), faces=True, original=original
            )
            if not left or done.replayed or window.opens <= done.slot < window.closes:
                pool = pool_of(done)
                assert pool is not None
                return pool
            command, slot = (
                replace(command, op=None),
                done.slot,
            )  # the operation has begun: it may touch a second window
        raise AssertionError("the last try returns or raises")


class AsyncRate:
    """Fixed windows per client. Several allowances ("10 a second and 100 a minute") are taken together or not at
    all."""

    def __init__(self, windows: AsyncWindows) -> None:
        self._windows = windows

    def __repr__(self) -> str:
        return line(type(self).__name__, self._windows.name)

    async def consume(
        self,
        client: str,
        quantity: int = 1,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Count a quantity against the client's current windows. Raises `InsufficientCapacity`, with `retry_after`:
        the seconds until the window that fell short ends. `return_units` gives back what was taken."""
        client = client_of(client)
        whole(quantity, "quantity", 1, MAX_QUANTITY)
        command = Consume(legs=(), entity=entity, metadata=metadata, **self._windows.call_fields(call))
        return hold_of(await self._windows.take(command, client, {"": quantity}, call.get("tx")), None)

    async def remaining(self, client: str) -> int:
        """Return how many the client could take now."""
        return min([usage.available for usage in await self.usage(client)])

    async def usage(self, client: str) -> list[Usage]:
        """Return what the client has used of each current window, in the order of the allowances."""
        return await self._windows.usage(client_of(client))
