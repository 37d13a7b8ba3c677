"""`hk.items`: single things, each available, held or spent. One hold takes several of them, all or none.

Each item is a pool of one unit, created by `add` and never removed by a sweep. Legs are always in the same order, so
that of two overlapping sets exactly one wins and no deadlock is possible. Decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Unpack
from uuid import UUID

from msgspec.structs import replace

from ...core.codec import canonical_json
from ...core.commands import (
    AnyCommand,
    ConfirmHold,
    Consume,
    CreatePool,
    Group,
    PlaceHold,
    ReleaseHold,
    ReturnToPool,
    ReturnUnits,
    Ttl,
)
from ...core.ladders.finding import missing
from ...core.model import HeldLeg, Leg, Pool
from ...core.reading import FindHold, FindPools, ListPools
from ...core.validation import check, invalid, text, whole
from ...core.values import MAX_OP
from ...errors import InsufficientCapacity, ItemsTaken, Overloaded, PoolNotFound, Refused
from ...kernel._async.executor import AsyncExecutor
from ...kernel.answers import hold_of, in_own_words, refusal_of, settled
from ...kernel.context import Call, CallFields, one_call
from ...kernel.normalise import Legs, reference, span
from ...kernel.prepare import guarded, op_within
from ...kernel.results import Hold
from ..keys import ITEMS, MAX_ITEM, Item, best_of, item_legs, item_name, item_of, item_pool
from .claims import part_of_hold

NO_ITEMS: Final = "~nothing"
"""A pool that never exists: it is asked for if there is nothing to choose, so that the refusal is recorded like any
other."""
ATTEMPTS: Final = 20
"""How often the best available items are searched again because others took some of them first."""


@one_call
class AsyncItems:
    """The items of one tenant."""

    def __init__(self, executor: AsyncExecutor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant

    async def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are."""
        legs = item_legs(ids)
        limit = self._executor.limits.max_batch
        if len(legs) > limit:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {limit} are added at once")
        fields = self._call_fields(call)
        rest = {**fields, "op": None}
        first, *others = [
            CreatePool(id=leg.pool, total=1, exist_ok=True, label=item_name(leg.pool), **(rest if at else fields))
            for at, leg in enumerate(legs)
        ]
        original = Consume(legs=legs, **fields)  # the operation id stands for all of them; the first command has it
        checked = await self._executor.check(first, *others, faces=True)
        mint = self._executor.mint
        ready = (mint.prepare(first, original), *map(mint.prepare, others))
        group = Group(ready, atomic=True, checked=checked)
        settled(await self._executor.submit(group, call.get("tx")))

    async def reopen(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Make spent items available again, all of these or none: for sales that were cancelled. Needs a reason, not
        the token, and is journaled as forced. Raises `QuantityExceedsConsumed` if an item is not spent."""
        legs, fields, tx = item_legs(ids), self._call_fields(call), call.get("tx")
        plan: list[AnyCommand] = []
        for attempt in range(ATTEMPTS):
            pools = await self._executor.read(FindPools(tuple((self._tenant, leg.pool) for leg in legs)), tx)
            before, plan = plan, [_reopening(leg.pool, pool, fields) for leg, pool in zip(legs, pools, strict=True)]
            group = self._reopened(legs, plan, fields, _op_of(fields["op"], attempt))
            outcomes = await self._executor.submit(group, tx)
            try:
                return settled(outcomes)
            except Refused as refusal:
                if plan == before:  # its hold was not retired after we read it: the refusal is right
                    raise in_own_words(refusal, legs) from None
        raise Overloaded(
            "other callers changed some of these items at each attempt; this call did nothing: retry later"
        )

    def _reopened(
        self, legs: tuple[Leg, ...], plan: list[AnyCommand], fields: dict[str, Any], key: str | None
    ) -> Group:
        """One command per item. Its operation id stands for the item, whichever command makes it available."""
        commands: list[AnyCommand] = []
        for at, (leg, command) in enumerate(zip(legs, plan, strict=True)):
            command = replace(command, op=op_within(key, at, None))
            check(command, self._executor.limits, faces=True)
            original = ReturnToPool(id=leg.pool, quantity=1, **{**fields, "op": command.op})
            commands.append(self._executor.mint.prepare(command, original))
        return guarded(tuple(commands), True, key)

    def legs(self, ids: Iterable[str]) -> Legs:
        """Items as legs: for a hold that has other legs too, or for a command of `apply`, which returns a refusal as
        a value."""
        return item_legs(ids)

    async def reserve(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None = None,
        owner: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these or none: `ItemsTaken` names those that others have. Without a ttl they are held until
        they are released or finalized."""
        legs = item_legs(ids)
        most = self._executor.limits.max_legs
        if len(legs) > most:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {most} are held together")
        return await self._take(self._placing(legs, ttl, owner, metadata, call), call.get("tx"))

    def _placing(
        self, legs: tuple[Leg, ...], ttl: Ttl | None, owner: str | None, metadata: dict[str, Any] | None, call: Call
    ) -> PlaceHold:
        slots = None if ttl is None else span(ttl)
        return PlaceHold(legs=legs, ttl_slots=slots, owner=owner, metadata=metadata, **self._call_fields(call))

    async def _take(self, command: PlaceHold, tx: Any, original: PlaceHold | None = None) -> Hold:
        try:
            return hold_of(await self._executor.execute(command, tx, faces=True, original=original), command.owner)
        except InsufficientCapacity as refusal:
            raise _items_taken(refusal) from None
        except PoolNotFound as refusal:
            item = item_name(refusal.subject)
            raise PoolNotFound(
                f"there is no item {item!r}: add it first", subject=item, replayed=refusal.replayed
            ) from None

    async def release(self, hold: Hold | str | UUID, *, owner: str | None = None, **call: Unpack[Call]) -> Hold:
        """Every item of the hold becomes available. Takes the hold, its ticket, or its id with `owner=`."""
        id, token = await self._resolve(hold, owner, call.get("tx"))
        return hold_of(
            await self._executor.execute(ReleaseHold(id=id, owner=token, **self._call_fields(call)), call.get("tx")),
            token,
        )

    async def finalize(
        self, hold: Hold | str | UUID, *, owner: str | None = None, entity: str | None = None, **call: Unpack[Call]
    ) -> Hold:
        """Every item of the hold is spent, for good."""
        id, token = await self._resolve(hold, owner, call.get("tx"))
        command = ConfirmHold(id=id, owner=token, entity=entity, **self._call_fields(call))
        return hold_of(await self._executor.execute(command, call.get("tx")), token)

    async def states(self, ids: Iterable[str], *, tx: Any = None) -> list[Item]:
        """The state of each of these, and the hold that has it, in the order given."""
        return await self._states(_names(ids), tx)

    async def _states(self, names: list[str], tx: Any, *, durable: bool = False) -> list[Item]:
        keys = tuple((self._tenant, item_pool(name)) for name in names)
        pools = await self._executor.read(FindPools(keys), tx, durable=durable)
        return [item_of(name, pool) for name, pool in zip(names, pools, strict=True)]

    async def listed(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[Item]:
        """Items whose ids begin with `prefix`, in order of id; for the next page pass the last id as `after`."""
        whole(limit, "limit", 1, 1_000)
        begin = "" if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        start = item_pool(after) if after != "" else ""
        pools = await self._executor.read(ListPools(self._tenant, ITEMS + begin, start, limit), tx)
        return [item_of(item_name(pool.id), pool) for pool in pools]

    async def best_available(
        self,
        count: int,
        *,
        within: Iterable[str] | None = None,
        prefix: str | None = None,
        adjacent: bool = True,
        ttl: Ttl | None = None,
        owner: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the first `count` items that are available side by side (or, with `adjacent=False`, anywhere): of the
        list `within`, in its order, or of up to 1,000 that begin with `prefix`, in order of id. `ItemsTaken` if
        there are not enough. If others take some of them first, it searches again, each time among more choices, so
        that many callers do not all want the same items."""
        whole(count, "count", 1, self._executor.limits.max_legs)
        if (within is None) == (prefix is None):
            raise invalid("within", "within_required", "give a list of item ids as within=, or a prefix of them")
        names = None if within is None else _names(within, "within")
        if names is not None and len(set(names)) < len(names):
            raise invalid("within", "item_twice", "names an item twice")
        start = None if names is not None else prefix if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        if type(adjacent) is not bool:
            raise invalid("adjacent", "adjacent_not_bool", "must be True or False")
        command = self._placing((), ttl, owner, metadata, call)
        asked = canonical_json([count, names, start, adjacent])
        original = replace(command, legs=(Leg(f"{NO_ITEMS}/{asked}"),))
        durable = False
        for attempt in range(ATTEMPTS):
            candidates = await self._candidates(names, start, call.get("tx"), durable=durable)
            choices = best_of(candidates, count, adjacent=adjacent, most=2**attempt)
            if not choices and command.op is None:
                if not durable:  # that there are too few is an answer, and must be durable
                    durable = True
                    continue
                raise _too_few(candidates, count, adjacent=adjacent)
            legs = item_legs(choices[self._executor.mint.draw(len(choices))]) if choices else (Leg(NO_ITEMS),)
            attempt_command = replace(command, legs=legs, op=_op_of(command.op, attempt))
            try:
                return await self._take(attempt_command, call.get("tx"), original)
            except ItemsTaken:
                continue
            except PoolNotFound as refusal:
                raise _too_few(candidates, count, adjacent=adjacent, replayed=refusal.replayed) from None
        raise Overloaded(
            "other callers took some of the chosen items at each attempt; this call did nothing: retry later"
        )

    # Helpers

    async def _candidates(self, names: list[str] | None, start: str | None, tx: Any, *, durable: bool) -> list[Item]:
        if names is not None:
            return await self._states(names, tx, durable=durable)
        pools = await self._executor.read(ListPools(self._tenant, f"{ITEMS}{start}", limit=1_000), tx, durable=durable)
        return [item_of(item_name(pool.id), pool) for pool in pools]

    async def _resolve(self, hold: Hold | str | UUID, owner: str | None, tx: Any) -> tuple[str, str | None]:
        """Hold id and token; `PartOfHold` if the hold has legs that are not items."""
        id, token = reference(hold, owner)
        legs: tuple[HeldLeg, ...] | None
        if isinstance(hold, Hold):
            legs = hold.legs
        else:
            legs = await self._legs(id, tx)
            if not _only_items(legs):  # a refusal is an answer: what it rests on is read durably
                legs = await self._legs(id, tx, durable=True)
        if legs is None:
            raise refusal_of(missing(id, self._executor.limits, self._executor.now()))
        if not _only_items(legs):
            raise part_of_hold(id, id)
        return id, token

    async def _legs(self, id: str, tx: Any, *, durable: bool = False) -> tuple[HeldLeg, ...] | None:
        row = await self._executor.read(FindHold((self._tenant, id)), tx, durable=durable)
        return None if row is None else row.legs


def _only_items(legs: tuple[HeldLeg, ...] | None) -> bool:
    return legs is not None and all(leg.pool.startswith(ITEMS) for leg in legs)


def _reopening(pool_id: str, pool: Pool | None, fields: dict[str, Any]) -> AnyCommand:
    """How a spent item becomes available: by the hold that has spent it or, if that was retired, by its pool. (An
    item that is not spent is refused there.)"""
    rest = {**fields, "op": None}
    if pool is None or pool.holder is None or not pool.consumed or pool.loose:
        return ReturnToPool(id=pool_id, quantity=1, force=True, **rest)
    return ReturnUnits(id=pool.holder, quantity={pool_id: 1}, force=True, **rest)


def _names(ids: Iterable[str], field: str = "items") -> list[str]:
    if isinstance(ids, str):
        raise invalid(field, f"{field}_malformed", "must be a list of item ids")
    try:
        names = [item_name(item_pool(item)) for item in ids]
    except TypeError:
        raise invalid(field, f"{field}_malformed", "must be a list of item ids") from None
    if len(names) > 10_000:
        raise invalid(field, f"{field}_too_many", f"{len(names)} items, at most 10000 are read at once")
    return names


def _op_of(op: str | None, attempt: int) -> str | None:
    """The operation id of each attempt, since its refusal is recorded too: a retry makes the same attempts, with the
    same results."""
    if op is None or not attempt:
        return op
    text(op, "op", MAX_OP)
    return f"~best/{attempt}/{hashlib.blake2b(op.encode(), digest_size=16).hexdigest()}"


def _too_few(candidates: list[Item], count: int, *, adjacent: bool, replayed: bool = False) -> ItemsTaken:
    taken = tuple(item.id for item in candidates if item.state != "available")
    side = " side by side" if adjacent else ""
    return ItemsTaken(
        f"there are not {count} items available{side}", replayed=replayed, taken=taken, holders={}, subject=""
    )


def _items_taken(refusal: InsufficientCapacity) -> ItemsTaken:
    """The refusal in terms of items."""
    holders = {item_name(short.pool): short.holder for short in refusal.shortfalls}
    shown = ", ".join(map(repr, list(holders)[:5])) + (f" and {len(holders) - 5} more" if len(holders) > 5 else "")
    return ItemsTaken(f"others have {shown}", replayed=refusal.replayed, taken=tuple(holders), holders=holders,
                      subject=next(iter(holders)))  # fmt: skip
