# Generated from ../_async/items.py by tools/gen_sync.py: do not edit.
"""`hk.items`: single things, each available, held or spent. One hold takes many of them, all or none.

Each item is a pool of one, made by `add` and never swept away. Legs are taken in one order, so that of two overlapping sets
exactly one wins and nobody deadlocks. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Unpack
from uuid import UUID

from ...core.commands import ConfirmHold, CreatePool, Group, PlaceHold, ReleaseHold, Ttl
from ...core.ladders.finding import missing
from ...core.outcomes import Done, Outcome, Reason, Refusal
from ...core.reading import FindHold, FindPools, ListPools
from ...core.validation import check, invalid, text, whole
from ...errors import InsufficientCapacity, InvalidRequest, ItemsTaken, Overloaded, PoolNotFound
from ...kernel._sync.calls import Call
from ...kernel.answers import hold_of, refusal_of
from ...kernel.spelling import reference, span
from ...kernel.surface import Hold
from ..item import Item, best_of, item_name, item_of
from ..keys import ITEMS, MAX_ITEM, item_legs, item_pool
from .claims import part_of_hold
from .face import Face

ATTEMPTS: Final = 20
"""How often the best available are looked for again because others took some of them first."""


class Items(Face):
    """The items of one tenant."""

    def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Make items, all or none, available; those that are there already stay as they are."""
        legs = item_legs(ids)
        if call.get("op") is not None:
            raise invalid("op", "op_unsupported", "adding twice is adding once: it needs no operation id")
        limit = self._desk.limits.max_batch
        if len(legs) > limit:
            raise invalid("items", "items_too_many", f"{len(legs)} items, at most {limit} are added at once")
        frame = self._frame(call)
        commands = [CreatePool(id=leg.pool, total=1, exist_ok=True, label=item_name(leg.pool), **frame) for leg in legs]
        for command in commands:
            check(command, self._desk.limits, faces=True)
        group = Group(self._desk.mint.prepare_all([*commands]), atomic=True)
        submitter, tx = self._desk.submitter, call.get("tx")
        outcomes = submitter.submit(group) if tx is None else submitter.apply_in(tx, group)
        _settled(outcomes)

    def reserve(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None = None,
        owner: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Take every one of these, or none: `ItemsTaken` names those that others have. Without a ttl they are held until
        they are released or finalized."""
        command = PlaceHold(legs=item_legs(ids), ttl_slots=None if ttl is None else span(ttl), owner=owner,
                            metadata=metadata, **self._frame(call))  # fmt: skip
        try:
            return hold_of(self._desk.do(command, call.get("tx"), faces=True), owner)
        except InsufficientCapacity as refusal:
            raise _taken(refusal) from None
        except PoolNotFound as refusal:
            item = item_name(refusal.subject)
            raise PoolNotFound(
                f"there is no item {item!r}: add it first", subject=item, replayed=refusal.replayed
            ) from None

    def release(self, hold: Hold | str | UUID, *, owner: str | None = None, **call: Unpack[Call]) -> Hold:
        """Every item of the hold is available again. Takes what `reserve` gave, its ticket, or its id with `owner=`."""
        id, token = self._named(hold, owner, call.get("tx"))
        return hold_of(self._desk.do(ReleaseHold(id=id, owner=token, **self._frame(call)), call.get("tx")), token)

    def finalize(
        self, hold: Hold | str | UUID, *, owner: str | None = None, entity: str | None = None, **call: Unpack[Call]
    ) -> Hold:
        """Every item of the hold is spent, for good."""
        id, token = self._named(hold, owner, call.get("tx"))
        command = ConfirmHold(id=id, owner=token, entity=entity, **self._frame(call))
        return hold_of(self._desk.do(command, call.get("tx")), token)

    def states(self, ids: Iterable[str], *, tx: Any = None) -> list[Item]:
        """What each of these is, and which hold has it, in the order asked."""
        names = _names(ids)
        pools = self._read(FindPools(tuple((self._tenant, item_pool(name)) for name in names)), tx)
        return [item_of(name, pool) for name, pool in zip(names, pools, strict=True)]

    def listed(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[Item]:
        """Items whose ids begin with `prefix`, in order of id; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        begin = "" if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        start = item_pool(after) if after != "" else ""
        pools = self._read(ListPools(self._tenant, ITEMS + begin, start, limit), tx)
        return [item_of(item_name(pool.id), pool) for pool in pools]

    def best_available(
        self,
        count: int,
        *,
        within: Iterable[str] | None = None,
        prefix: str | None = None,
        adjacent: bool = True,
        ttl: Ttl | None = None,
        owner: str | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Take the first `count` items that are free and side by side (or, with `adjacent=False`, anywhere): of the list
        `within`, in its order, or of up to 1,000 that begin with `prefix`, in order of id. `ItemsTaken` if there are not
        enough. If others take some of them first, it looks again."""
        whole(count, "count", 1, self._desk.limits.max_legs)
        if (within is None) == (prefix is None):
            raise invalid("within", "within_required", "give a list of item ids as within=, or a prefix of them")
        if call.get("op") is not None:
            raise invalid("op", "op_unsupported", "which items are best may change: choose with states(), then reserve")
        names = None if within is None else _names(within)
        tx = call.get("tx")
        for _ in range(ATTEMPTS):
            looked = self._beginning(prefix, tx) if names is None else self.states(names, tx=tx)
            chosen = best_of(looked, count, adjacent=adjacent)
            if not chosen:
                taken = [item.id for item in looked if item.state != "available"]
                side = " side by side" if adjacent else ""
                raise ItemsTaken(
                    f"there are not {count} items available{side}", taken=tuple(taken), holders={}, subject=""
                )
            try:
                return self.reserve(chosen, ttl=ttl, owner=owner, **call)
            except ItemsTaken:
                continue
        raise Overloaded("others took some of the chosen items each time; this call did nothing")

    # Within

    def _beginning(self, prefix: str | None, tx: Any) -> list[Item]:
        start = "" if prefix == "" else text(prefix, "prefix", MAX_ITEM)
        pools = self._read(ListPools(self._tenant, ITEMS + start, limit=1_000), tx)
        return [item_of(item_name(pool.id), pool) for pool in pools]

    def _named(self, hold: Hold | str | UUID, owner: str | None, tx: Any) -> tuple[str, str | None]:
        """Hold id and token; `PartOfHold` if the hold has other things than items too."""
        id, token = reference(hold, owner)
        if isinstance(hold, Hold):
            legs = hold.legs
        else:
            row = self._read(FindHold((self._tenant, id)), tx)
            if row is None:
                raise refusal_of(missing(id, self._desk.limits.retention, self._desk.now()))
            legs = row.legs
        if not all(leg.pool.startswith(ITEMS) for leg in legs):
            raise part_of_hold(id, id)
        return id, token


def _names(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise invalid("items", "items_malformed", "must be a list of item ids")
    try:
        names = [item_name(item_pool(item)) for item in ids]
    except TypeError:
        raise invalid("items", "items_malformed", "must be a list of item ids") from None
    if len(names) > 10_000:
        raise invalid("items", "items_too_many", f"{len(names)} items, at most 10000 are looked at together")
    return names


def _taken(refusal: InsufficientCapacity) -> ItemsTaken:
    """The refusal in the words of whoever asked."""
    holders = {item_name(short.pool): short.holder for short in refusal.shortfalls}
    shown = ", ".join(map(repr, list(holders)[:5])) + (f" and {len(holders) - 5} more" if len(holders) > 5 else "")
    return ItemsTaken(f"others have {shown}", replayed=refusal.replayed, taken=tuple(holders), holders=holders,
                      subject=next(iter(holders)))  # fmt: skip


def _settled(outcomes: list[Outcome]) -> None:
    """All done; else what stopped them is raised."""
    for outcome in outcomes:
        if isinstance(outcome, Refusal) and outcome.reason is not Reason.ABORTED:
            raise refusal_of(outcome)
        if not isinstance(outcome, Done | Refusal):
            raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
