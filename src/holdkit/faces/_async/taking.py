"""Take items, by their ids or as the best seats of a section, and explain refusals in terms of items."""

from __future__ import annotations

from typing import Any

from ...core.codec import same_owner
from ...core.commands import PlaceHold, Ttl
from ...core.model import Leg, State, StoredHold
from ...core.outcomes import Receipt
from ...core.reading import FindHold
from ...errors import InsufficientCapacity, ItemsTaken, PoolNotFound
from ...kernel._async.executor import AsyncExecutor
from ...kernel.answers import capacity_of
from ...kernel.arguments import Call, CallFields, span
from ...kernel.results import Hold, hold_of
from ..keys import item_name


class AsyncItemTaking:
    """Places holds on items of one tenant."""

    def __init__(self, executor: AsyncExecutor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant

    def command(
        self, legs: tuple[Leg, ...], ttl: Ttl | None, token: str | None, metadata: dict[str, Any] | None, call: Call
    ) -> PlaceHold:
        """Return the command that takes these legs."""
        slots = None if ttl is None else span(ttl)
        return PlaceHold(legs=legs, ttl_slots=slots, token=token, metadata=metadata, **self._call_fields(call))

    async def take(self, command: PlaceHold, tx: Any, original: PlaceHold | None = None) -> Hold:
        """Execute the command. Without `original`, the same token gets its hold on exactly these items again."""
        try:
            return hold_of(await self._executor.execute(command, tx, faces=True, original=original), command.token)
        except InsufficientCapacity as refusal:
            same = None if original is not None else await self._same_hold(refusal, command, tx)
            if same is not None:
                return same
            raise _items_taken(refusal) from None
        except PoolNotFound as refusal:
            item = item_name(refusal.subject)
            raise PoolNotFound(
                f"there is no item {item!r}: add it first", subject=item, replayed=refusal.replayed
            ) from None

    async def _same_hold(self, refusal: InsufficientCapacity, command: PlaceHold, tx: Any) -> Hold | None:
        """Return the live hold of this token on exactly these items, if that is what is in the way."""
        holders = {short.holder for short in refusal.shortfalls}
        holder = holders.pop()
        if command.token is None or holders or holder is None or len(refusal.shortfalls) != len(command.legs):
            return None
        row = await self._executor.read(FindHold((self._tenant, holder)), tx, durable=True)
        if row is None or row.state is not State.HELD or not same_owner(command.token, row.owner_hash):
            return None
        if {leg.pool for leg in row.legs} != {leg.pool for leg in command.legs}:
            return None
        return repeated(row, command, command.token, self._executor, tx)


def repeated(row: StoredHold, command: PlaceHold, token: str, executor: AsyncExecutor, tx: Any) -> Hold:
    """Return a hold that the caller has already, as the answer of a repeated call."""
    durability = None if tx is not None else executor.durability
    return hold_of(Receipt(row.began, row, token=token, replayed=True, durability=durability), token, command.legs)


def _items_taken(refusal: InsufficientCapacity) -> ItemsTaken:
    """Return the refusal in terms of items."""
    holders = {item_name(short.pool): short.holder for short in refusal.shortfalls}
    names = ", ".join(map(repr, list(holders)[:5])) + (f" and {len(holders) - 5} more" if len(holders) > 5 else "")
    return ItemsTaken(f"not available: {names}", replayed=refusal.replayed, taken=tuple(holders), holders=holders,
                      subject=next(iter(holders)), **capacity_of(refusal))  # fmt: skip
