"""`hk.items`: single things, each available, held or confirmed. One hold takes several of them, all or none.

Each item is a pool of one unit, created by `add` and never removed by a sweep. Legs are always in the same order, so
that of two overlapping sets exactly one wins and no deadlock is possible. Items that have a place in a section are
seats: see `seats`. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ...core.codec import same_owner
from ...core.commands import (
    AnyCommand,
    ConfirmHold,
    Consume,
    CreatePool,
    Group,
    ReleaseHold,
    ReturnToPool,
    ReturnUnits,
    Ttl,
)
from ...core.keyed import ITEMS
from ...core.ladders.finding import missing
from ...core.model import Leg, Pool, StoredHold
from ...core.outcomes import Reason, Receipt, Refusal
from ...core.reading import FindHold, FindHolds, FindPools, ListPools
from ...core.validation import check, invalid, text, whole
from ...core.values import MAX_TOKEN
from ...errors import HoldNotFound, HoldRetired, Overloaded, PartOfHold, PoolNotFound, Refused
from ...kernel._async.executor import AsyncExecutor
from ...kernel.answers import in_own_words, refusal_of, settled
from ...kernel.arguments import Call, CallFields, CallWithoutReason, Legs, check_reason
from ...kernel.context import one_call
from ...kernel.prepare import guarded, op_within
from ...kernel.results import Hold, Page, hold_of
from ..keys import (
    MAX_ITEM,
    Item,
    item_legs,
    item_name,
    item_of,
    item_pool,
    listed,
    op_of_attempt,
    part_of_hold,
    standing_for,
)
from .seats import ATTEMPTS
from .taking import AsyncItemTaking


class _Named(Struct, frozen=True):
    """The hold that has these items."""

    legs: Legs
    id: str
    token: str
    standing: str
    """The id that stands for the items in the fingerprint of the operation: a retry is the same operation, whatever hold has the
    items by then."""
    refusal: Refused | None = None
    """Why no hold has exactly these items, or none any more."""


@one_call
class AsyncItems:
    """The items of one tenant."""

    def __init__(self, executor: AsyncExecutor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant
        self._taking = AsyncItemTaking(executor, call_fields, tenant)

    async def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are."""
        legs = item_legs(ids)
        limit = self._executor.limits.max_batch
        if len(legs) > limit:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {limit} are added at once")
        fields = self._call_fields(call)
        without_op = {**fields, "op": None}
        first, *others = [
            CreatePool(id=leg.pool, total=1, exist_ok=True, label=item_name(leg.pool), **(without_op if at else fields))
            for at, leg in enumerate(legs)
        ]
        original = Consume(legs=legs, **fields)  # the operation id stands for all of them; the first command has it
        checked = await self._executor.check(first, *others, faces=True)
        mint = self._executor.mint
        ready = (mint.prepare(first, original), *map(mint.prepare, others))
        group = Group(ready, atomic=True, checked=checked)
        settled(await self._executor.submit(group, call.get("tx")))

    async def hold(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these items or none. Raises `ItemsTaken`, which names those that others have. With `ttl=None` they are
        held until the hold is confirmed or released.

        With a `token` of your own the call can be repeated: while its hold on exactly these items is held, the same token gets
        that hold, not extended."""
        legs = item_legs(ids)
        most = self._executor.limits.max_legs
        if len(legs) > most:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {most} are held together")
        return await self._taking.take(self._taking.command(legs, ttl, token, metadata, call), call.get("tx"))

    async def confirm(self, ids: Iterable[str], *, token: str, entity: str | None = None, **call: Unpack[Call]) -> Hold:
        """Confirm the hold that has exactly these items, for a caller that knows only these and the token. Raises `PartOfHold`
        if the hold has anything else."""
        named = await self._resolve(ids, token, call)
        command = ConfirmHold(id=named.id, token=named.token, entity=entity, **self._call_fields(call))
        return await self._end(command, named, call)

    async def release(self, ids: Iterable[str], *, token: str, **call: Unpack[Call]) -> Hold:
        """Release the hold that has exactly these items; takes what `confirm` takes."""
        named = await self._resolve(ids, token, call)
        return await self._end(ReleaseHold(id=named.id, token=named.token, **self._call_fields(call)), named, call)

    async def get(self, ids: Iterable[str], *, token: str | None = None, tx: Any = None) -> list[Item]:
        """Return these items in the order given, each with the hold that has it. With `token=`, each says whether it is
        `yours`: held or confirmed by a hold of this token."""
        names = [item_name(item_pool(item)) for item in listed(ids)]
        if len(names) > 10_000:
            raise invalid("items", "items_too_many", f"{len(names)} items, at most 10000 are read at once")
        token = None if token is None else text(token, "token", MAX_TOKEN)
        keys = tuple((self._tenant, item_pool(name)) for name in names)
        pools = await self._executor.read(FindPools(keys), tx)
        items = [item_of(name, pool) for name, pool in zip(names, pools, strict=True)]
        if token is None:
            return items
        holds = tuple({(self._tenant, item.hold): None for item in items if item.hold is not None})
        rows = await self._executor.read(FindHolds(holds), tx) if holds else []
        yours = {row.id for row in rows if row is not None and same_owner(token, row.owner_hash)}
        return [replace(item, yours=item.hold in yours) for item in items]

    async def free(self, ids: Iterable[str], *, reason: str, **call: Unpack[CallWithoutReason]) -> None:
        """Make confirmed items available again, all of these or none: for sales that were cancelled. Needs no token, and is
        journaled as forced. Raises `QuantityExceedsConsumed` if an item is not confirmed, and `PartOfHold` if its hold has
        anything but items: return that hold's units instead."""
        check_reason(reason)
        around: Call = {**call, "reason": reason}
        legs, fields, tx = item_legs(ids), self._call_fields(around), call.get("tx")
        plan: list[AnyCommand] = []
        for attempt in range(ATTEMPTS):
            before, plan = plan, await self._plan_to_free(legs, fields, tx)
            group = self._freeing(legs, plan, fields, op_of_attempt(fields["op"], attempt))
            outcomes = await self._executor.submit(group, tx)
            try:
                return settled(outcomes)
            except Refused as refusal:
                if plan == before:  # its hold was not retired after we read it: the refusal is right
                    raise in_own_words(refusal, legs) from None
        raise Overloaded(
            "other callers changed some of these items at each attempt; this call did nothing: retry later"
        )

    # Freeing

    async def _plan_to_free(self, legs: Legs, fields: dict[str, Any], tx: Any) -> list[AnyCommand]:
        """Return one command per item. Raise `PartOfHold` for an item of a hold that has anything but items."""
        keys = tuple((self._tenant, leg.pool) for leg in legs)
        pools = await self._executor.read(FindPools(keys), tx)
        if await self._combined_with(pools, tx) is not None:  # a refusal is an answer: what it rests on is read durably
            pools = await self._executor.read(FindPools(keys), tx, durable=True)
            combined = await self._combined_with(pools, tx, durable=True)
            if combined is not None and combined.holder is not None:
                raise part_of_hold(item_name(combined.id), combined.holder)
        return [_command_to_free(leg.pool, pool, fields) for leg, pool in zip(legs, pools, strict=True)]

    async def _combined_with(self, pools: list[Pool | None], tx: Any, *, durable: bool = False) -> Pool | None:
        """Return the first confirmed item whose hold has anything but items."""
        holders = {
            pool.holder: pool for pool in pools if pool is not None and pool.holder is not None and pool.consumed
        }
        keys = tuple((self._tenant, holder) for holder in holders)
        rows = await self._executor.read(FindHolds(keys), tx, durable=durable) if keys else []
        return next((holders[row.id] for row in rows if row is not None and not _has_only_items(row)), None)

    def _freeing(self, legs: tuple[Leg, ...], plan: list[AnyCommand], fields: dict[str, Any], key: str | None) -> Group:
        """Return the commands as a group. The operation id of each stands for its item, whichever command makes it available."""
        commands: list[AnyCommand] = []
        for at, (leg, command) in enumerate(zip(legs, plan, strict=True)):
            command = replace(command, op=op_within(key, at, None))
            check(command, self._executor.limits, faces=True)
            original = ReturnToPool(id=leg.pool, quantity=1, **{**fields, "op": command.op})
            commands.append(self._executor.mint.prepare(command, original))
        return guarded(tuple(commands), True, key)

    # Ending

    async def _end(self, command: ReleaseHold | ConfirmHold, named: _Named, call: Call) -> Hold:
        original, tx = replace(command, id=named.standing), call.get("tx")
        try:
            receipt = await self._executor.execute(command, tx, original=original)
        except (HoldNotFound, HoldRetired):
            if named.refusal is not None:
                raise named.refusal from None
            raise
        if receipt.replayed:
            await self._refuse_later_life(receipt, command, named, tx)
        return hold_of(receipt, named.token)

    async def _refuse_later_life(
        self, receipt: Receipt, command: ReleaseHold | ConfirmHold, named: _Named, tx: Any
    ) -> None:
        """Raise `OperationConflict` if the recorded answer is about an earlier hold of this token, which has taken one of these
        items again since: the request is about that later hold, and was not carried out."""
        assert receipt.hold is not None
        keys = tuple((self._tenant, leg.pool) for leg in named.legs)
        pools = await self._executor.read(FindPools(keys), tx, durable=True)
        holders = {pool.holder for pool in pools if pool is not None and pool.holder is not None}
        later = tuple((self._tenant, holder) for holder in holders if holder != receipt.hold.id)
        rows = await self._executor.read(FindHolds(later), tx, durable=True) if later else []
        if any(row is not None and same_owner(named.token, row.owner_hash) for row in rows):
            raise refusal_of(Refusal(Reason.OPERATION_CONFLICT, command.op or ""))

    async def _resolve(self, ids: Iterable[str], token: str, call: Call) -> _Named:
        legs = item_legs(ids)
        standing = standing_for(legs)
        text(token, "token", MAX_TOKEN)
        try:
            return _Named(legs, await self._hold_with(legs, call.get("tx")), token, standing)
        except Refused as refusal:
            if call.get("op") is None:
                raise
            return _Named(legs, standing, token, standing, refusal)  # an earlier attempt may have ended the hold

    async def _hold_with(self, legs: Legs, tx: Any) -> str:
        """Return the hold that has, or had last, exactly these items. A refusal is an answer, so what it rests on is read again,
        durably."""
        try:
            return await self._find_hold_with(legs, tx)
        except Refused:
            return await self._find_hold_with(legs, tx, durable=True)

    async def _find_hold_with(self, legs: Legs, tx: Any, *, durable: bool = False) -> str:
        keys = tuple((self._tenant, leg.pool) for leg in legs)
        pools = await self._executor.read(FindPools(keys), tx, durable=durable)
        holders: dict[str, str] = {}
        for leg, pool in zip(legs, pools, strict=True):
            if pool is None:
                raise _no_item(item_name(leg.pool))
            if pool.holder is None:
                raise refusal_of(Refusal(Reason.HOLD_NOT_FOUND, item_name(leg.pool)))
            holders.setdefault(pool.holder, item_name(leg.pool))
        id, item = next(iter(holders.items()))
        row = await self._executor.read(FindHold((self._tenant, id)), tx, durable=durable)
        if row is None:
            raise refusal_of(missing(id, self._executor.limits, self._executor.now()))
        if len(holders) > 1 or {leg.pool for leg in row.legs} != {leg.pool for leg in legs}:
            raise PartOfHold(
                f"{item!r} belongs to hold {id}, which has not exactly these items: name all of them, or the hold",
                subject=item,
                hold=id,
            )
        return id

    async def list(self, prefix: str = "", *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Item]:
        """Return the items whose ids begin with `prefix`, in order of id."""
        whole(limit, "limit", 1, 1_000)
        begin = "" if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        start = item_pool(after) if after else ""
        pools = await self._executor.read(ListPools(self._tenant, ITEMS + begin, start, limit + 1), tx)
        items = [item_of(item_name(pool.id), pool) for pool in pools[:limit]]
        return Page(items, next=items[-1].id if len(pools) > limit else None)


def _has_only_items(row: StoredHold) -> bool:
    return all(leg.pool.startswith(ITEMS) for leg in row.legs)


def _command_to_free(pool_id: str, pool: Pool | None, fields: dict[str, Any]) -> AnyCommand:
    """Return the command that makes a confirmed item available: by its hold or, if that was retired, by its pool. (An item that
    is not confirmed is refused there.)"""
    without_op = {**fields, "op": None}
    if pool is None or pool.holder is None or not pool.consumed or pool.loose:
        return ReturnToPool(id=pool_id, quantity=1, force=True, **without_op)
    return ReturnUnits(id=pool.holder, quantity={pool_id: 1}, force=True, **without_op)


def _no_item(item: str) -> PoolNotFound:
    return PoolNotFound(f"there is no item {item!r}: add it first", subject=item)
