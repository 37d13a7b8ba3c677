"""Calendars: rooms by nights, or by times of day. A range is one hold over its cells, all or none.

Each room and cell is a pool, created by the first hold on it and removed by a sweep once it is over. A cell that is
over can no longer be held: `window_closed`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Unpack

from msgspec.structs import replace

from ...core.commands import Consume, PlaceHold, ResizePool, Ttl
from ...core.model import MAX_QUANTITY, Pool, Slot
from ...core.values import invalid, whole
from ...kernel._async.executor import AsyncExecutorPort
from ...kernel.arguments import Call, CallFields, Legs, span
from ...kernel.one_line import line
from ...kernel.results import Hold, hold_of
from ...kernel.times import moment
from ..grid import Availability, Cell, Grid, Wanted


class AsyncCalendar:
    """Rooms of several kinds, each with a capacity per night or per stretch of time."""

    def __init__(self, executor: AsyncExecutorPort, call_fields: CallFields, tenant: str, grid: Grid) -> None:
        self._executor, self._call_fields, self._tenant, self._grid = executor, call_fields, tenant, grid

    def __repr__(self) -> str:
        return line(type(self).__name__, self._grid.name)

    async def hold(
        self,
        what: Wanted,
        begin: date | datetime,
        end: date | datetime,
        *,
        ttl: Ttl | None = None,
        deadline: Slot | datetime | None = None,
        token: str | None = None,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold a room (or several: ``{"double": 2, "suite": 1}``) from `begin` until `end`, which is not part of it.

        Raises `InsufficientCapacity` naming every room and night that fell short, `WindowClosed` for a night that is over.
        """
        if ttl is None and deadline is None:
            raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
        command = PlaceHold(
            legs=(),
            ttl_slots=None if ttl is None else span(ttl),
            deadline=None if deadline is None else moment(deadline),
            token=token,
            entity=entity,
            metadata=metadata,
            **self._call_fields(call),
        )
        return await self._place_hold(command, what, begin, end, call, token)

    async def consume(
        self,
        what: Wanted,
        begin: date | datetime,
        end: date | datetime,
        *,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold and confirm in one step."""
        command = Consume(legs=(), entity=entity, metadata=metadata, **self._call_fields(call))
        return await self._place_hold(command, what, begin, end, call, None)

    async def _place_hold(
        self,
        command: PlaceHold | Consume,
        what: Wanted,
        begin: date | datetime,
        end: date | datetime,
        call: Call,
        token: str | None,
    ) -> Hold:
        command = replace(command, legs=self._grid.legs(what, begin, end, self._executor.limits.max_legs))
        return hold_of(await self._executor.execute(command, call.get("tx"), faces=True), token)

    def legs(self, what: Wanted, begin: date | datetime, end: date | datetime) -> Legs:
        """Return a range as legs: for a hold that has other legs too, and as the `quantity` of `hk.release` and
        `hk.return_units` when a stay is shortened.

        The operation id of a hold stands for the rooms and nights, so a retry is the same operation even if the
        number of rooms has changed.
        """
        return Legs(self._grid.legs(what, begin, end, self._executor.limits.max_legs))

    async def available(self, room: str, begin: date | datetime, end: date | datetime) -> Availability:
        """Return how many are available in each night of a range; `minimum` is how many are for the whole range. Nights that are over
        have none."""
        prefix, cells = self._range(room, begin, end)
        found = await self._pools(prefix, cells)
        now = await self._executor.clock()
        return Availability(tuple(self._grid.free(room, cell, found.get(prefix + cell.key), now) for cell in cells))

    async def resize(
        self, room: str, total: int, begin: date | datetime, end: date | datetime, **call: Unpack[Call]
    ) -> int:
        """Give a room another number in those nights of a range that were held before, all or none, and return how many nights were
        changed. Raises `BelowInUse`.

        The other nights get the calendar's number when they are first held.
        """
        whole(total, "total", 0, MAX_QUANTITY)
        if call.get("op") is not None:
            raise invalid("op", "op_unsupported", "is not needed here: a total that is set twice is the same total")
        prefix, cells = self._range(room, begin, end)
        tx, fields = call.get("tx"), self._call_fields(call)
        found = await self._pools(prefix, cells, tx)
        if not found:  # that there is nothing to do is an answer, and must be durable
            found = await self._pools(prefix, cells, tx, durable=True)
        commands = tuple(
            ResizePool(id=prefix + cell.key, total=total, **fields) for cell in cells if prefix + cell.key in found
        )
        if commands:
            await self._executor.execute_all(commands, tx)
        return len(commands)

    def _range(self, room: str, begin: date | datetime, end: date | datetime) -> tuple[str, list[Cell]]:
        return self._grid.prefix(room), self._grid.cut.cells(begin, end, self._executor.limits.max_legs)

    async def _pools(self, prefix: str, cells: list[Cell], tx: Any = None, *, durable: bool = False) -> dict[str, Pool]:
        """Return the pools of a range that exist, by id."""
        keys = [(self._tenant, prefix + cell.key) for cell in cells]
        pools = await self._executor.find_pools(keys, tx, durable=durable)
        return {pool.id: pool for pool in pools if pool is not None}
