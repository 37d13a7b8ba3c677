"""`hk.items`: single things, each available, held or spent. One hold takes several of them, all or none.

Each item is a pool of one unit, created by `add` and never removed by a sweep. Legs are always in the same order, so
that of two overlapping sets exactly one wins and no deadlock is possible. Items that have a place in a section are
seats: see `seats`. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, Unpack
from uuid import UUID

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
from ...core.ladders.finding import missing
from ...core.model import HeldLeg, Leg, Pool
from ...core.outcomes import Reason, Refusal
from ...core.reading import FindHold, FindHolds, FindPools, ListPools
from ...core.validation import check, invalid, text, whole
from ...core.values import MAX_TOKEN
from ...errors import HoldNotFound, HoldRetired, Overloaded, PartOfHold, PoolNotFound, Refused
from ...kernel.answers import hold_of, in_own_words, refusal_of, settled
from ...kernel.context import Call, one_call
from ...kernel.normalise import Legs, reference
from ...kernel.prepare import guarded, op_within
from ...kernel.results import Hold
from ..keys import ITEMS, MAX_ITEM, Item, item_legs, item_name, item_of, item_pool, op_of_attempt, standing_for
from ..seating import Seat
from .claims import part_of_hold
from .seats import ATTEMPTS, AsyncSeats

Ended: TypeAlias = "Hold | str | UUID | Iterable[str]"
"""The hold that is to end: itself, its ticket, its id; or the ids of all of its items."""


class _Named(Struct, frozen=True):
    """A hold, by its id and token."""

    id: str
    token: str | None
    standing: str | None = None
    """If it was named by its items: the id that stands for them in the fingerprint of the operation. A retry is the same operation,
    whoever has the items by then."""
    refusal: Refused | None = None
    """Why no hold has exactly these items, or none any more."""


@one_call
class AsyncItems(AsyncSeats):
    """The items of one tenant."""

    async def add(self, items: Iterable[str] | Iterable[Seat], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are.

        With `Seat` objects, up to 10,000 of them, items that are missing are created first, then the map of each section is
        changed, all or none: a seat that is in it already gets this place instead, whoever holds it. After a failure add them
        again: what is done stays.
        """
        given = _listed(items)
        if any(isinstance(item, Seat) for item in given):
            await self._add_seats(given, call)
        else:
            await self._add_items(item_legs(given), call)

    async def _add_items(self, legs: Legs, call: Call) -> None:
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
            group = self._reopened(legs, plan, fields, op_of_attempt(fields["op"], attempt))
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

    async def reserve(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None = None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these or none: `ItemsTaken` names those that others have. Without a ttl they are held until
        they are released or finalized.

        With a `token` of your own the call can be repeated: while its hold on exactly these items is held, the same
        owner gets that hold, not extended."""
        legs = item_legs(ids)
        most = self._executor.limits.max_legs
        if len(legs) > most:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {most} are held together")
        return await self._take(self._placing(legs, ttl, token, metadata, call), call.get("tx"))

    async def release(self, hold: Ended, *, token: str | None = None, **call: Unpack[Call]) -> Hold:
        """Every item of the hold becomes available. Takes the hold, its ticket, or, with `token=`, its id or the ids of all
        of its items."""
        named = await self._resolve(hold, token, call)
        return await self._end(ReleaseHold(id=named.id, token=named.token, **self._call_fields(call)), named, call)

    async def finalize(
        self, hold: Ended, *, token: str | None = None, entity: str | None = None, **call: Unpack[Call]
    ) -> Hold:
        """Every item of the hold is spent, for good. Takes what `release` takes."""
        named = await self._resolve(hold, token, call)
        command = ConfirmHold(id=named.id, token=named.token, entity=entity, **self._call_fields(call))
        return await self._end(command, named, call)

    async def states(self, ids: Iterable[str], *, token: str | None = None, tx: Any = None) -> list[Item]:
        """The state of each of these, and the hold that has it, in the order given. With `token=`, each says whether it is
        `yours`: held or spent by a hold of this owner."""
        names = _names(ids)
        token = None if token is None else text(token, "token", MAX_TOKEN)
        keys = tuple((self._tenant, item_pool(name)) for name in names)
        pools = await self._executor.read(FindPools(keys), tx)
        found = [item_of(name, pool) for name, pool in zip(names, pools, strict=True)]
        if token is None:
            return found
        holds = tuple({(self._tenant, item.hold): None for item in found if item.hold is not None})
        rows = await self._executor.read(FindHolds(holds), tx) if holds else []
        yours = {row.id for row in rows if row is not None and same_owner(token, row.owner_hash)}
        return [replace(item, yours=item.hold in yours) for item in found]

    async def listed(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[Item]:
        """Items whose ids begin with `prefix`, in order of id; for the next page pass the last id as `after`."""
        whole(limit, "limit", 1, 1_000)
        begin = "" if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        start = item_pool(after) if after != "" else ""
        pools = await self._executor.read(ListPools(self._tenant, ITEMS + begin, start, limit), tx)
        return [item_of(item_name(pool.id), pool) for pool in pools]

    # Helpers

    async def _end(self, command: ReleaseHold | ConfirmHold, named: _Named, call: Call) -> Hold:
        original = None if named.standing is None else replace(command, id=named.standing)
        try:
            done = await self._executor.execute(command, call.get("tx"), original=original)
        except (HoldNotFound, HoldRetired):
            if named.refusal is not None:
                raise named.refusal from None
            raise
        return hold_of(done, named.token)

    async def _resolve(self, hold: Ended, token: str | None, call: Call) -> _Named:
        """The hold that is meant; `PartOfHold` if it has legs that are not items."""
        tx = call.get("tx")
        if isinstance(hold, Iterable) and not isinstance(hold, str):
            legs_named = item_legs(hold)
            standing = standing_for(legs_named)
            try:
                return _Named(await self._hold_with(legs_named, tx), token, standing)
            except Refused as refusal:
                if call.get("op") is None:
                    raise
                return _Named(standing, token, standing, refusal)  # an earlier attempt may have ended the hold
        id, token = reference(hold, token)
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
        return _Named(id, token)

    async def _hold_with(self, legs: Legs, tx: Any) -> str:
        """The hold that has, or had last, exactly these items. A refusal is an answer, so what it rests on is read again,
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
                raise _no_item(leg.label or "")
            if pool.holder is None:
                raise refusal_of(Refusal(Reason.HOLD_NOT_FOUND, leg.label or ""))
            holders.setdefault(pool.holder, leg.label or "")
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


def _no_item(item: str) -> PoolNotFound:
    return PoolNotFound(f"there is no item {item!r}: add it first", subject=item)


def _listed(items: Any) -> list[Any]:
    if isinstance(items, str):
        raise invalid("items", "items_malformed", "must be a list of item ids")
    try:
        return list(items)
    except TypeError:
        raise invalid("items", "items_malformed", "must be a list of item ids") from None


def _names(ids: Iterable[str]) -> list[str]:
    names = [item_name(item_pool(item)) for item in _listed(ids)]
    if len(names) > 10_000:
        raise invalid("items", "items_too_many", f"{len(names)} items, at most 10000 are read at once")
    return names
