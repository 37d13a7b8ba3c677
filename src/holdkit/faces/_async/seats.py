"""Seats: items that have a place in a section. Stores the map of a section, and takes the best seats that are free.

`seat_map` says how a section is stored, `seating` which seats are the best. Decides nothing: a choice is made of what a read has shown,
and then held like any items, all or none; if others were faster, the search begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Unpack

from msgspec.structs import replace

from ...core.codec import canonical_json, same_owner
from ...core.commands import CreatePool, PlaceHold, PutRecord, Ttl
from ...core.model import Leg, State
from ...core.reading import FindAvailable, FindHold, FindRecord, ListRecords
from ...core.validation import invalid, text, whole
from ...errors import (
    InsufficientCapacity,
    ItemsTaken,
    Overloaded,
    PoolNotFound,
    SectionNotFound,
    VersionConflict,
)
from ...kernel._async.executor import AsyncExecutor
from ...kernel.answers import capacity_of, hold_of
from ...kernel.context import Call, CallFields, one_call
from ...kernel.normalise import span
from ...kernel.results import Hold
from ..keys import item_legs, item_name, item_pool, op_of_attempt
from ..seat_map import MAX_SEATS, SEATS, SECTIONS, LayoutCache, SeatMap, chunk_ids, digest_of, row_of
from ..seating import (
    MAX_SECTION,
    Asked,
    Layout,
    Seat,
    Together,
    checked_kind,
    checked_seat,
    checked_together,
)

NO_ITEMS: Final = "~nothing"
NO_SECTION: Final = "~nowhere"
"""Pools that never exist: one of them is asked for if there is nothing to choose, so that the refusal is recorded like any
other."""
ATTEMPTS: Final = 20
"""How often the best seats are searched again because others took some of them first, and a map is changed or read again because
others changed it."""


@one_call
class AsyncSeats:
    """The seats of one tenant."""

    def __init__(self, executor: AsyncExecutor, call_fields: CallFields, tenant: str) -> None:
        self._executor, self._call_fields, self._tenant = executor, call_fields, tenant
        self._layouts: LayoutCache = executor.face_caches.setdefault("seats", LayoutCache())

    async def seats(self, section: str, *, tx: Any = None) -> list[Seat]:
        """The seats of a section, in order of row and position, wherever they are in their sale. Raises `SectionNotFound`."""
        layout = await self._layout(text(section, "section", MAX_SECTION), tx)
        if layout is None:
            layout = await self._layout(section, tx, durable=True)
        if layout is None:
            raise _no_section(section)
        return list(layout.seats)

    async def remove_seats(self, section: str, ids: Iterable[str] | None = None, **call: Unpack[Call]) -> None:
        """Take seats out of the map of a section, or with `ids=None` all of them, so that `best_available` no longer finds them.
        The items stay, with the holds that they have; ids that are not in the map are passed over."""
        text(section, "section", MAX_SECTION)
        names = None if ids is None else [leg.label or "" for leg in item_legs(ids)]
        replayed = await self._begin(["remove_seats", section, names], call)
        await self._change(section, [], names, call, replayed=replayed)

    async def best_available(
        self,
        count: int,
        *,
        section: str,
        kind: str = "",
        together: Together = True,
        ttl: Ttl | None = None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the best `count` free seats of a section: neighbours; with `together="prefer"` neighbours if possible, else as
        few groups as possible; with `together=False` the best ones anywhere. Only seats of this `kind` are looked at.

        `ItemsTaken` if there are not enough, `SectionNotFound` if the section has no seats. If others take some of them
        first, it searches again, each time among more choices, so that many callers do not all want the same seats.
        """
        asked = Asked(
            whole(count, "count", 1, self._executor.limits.max_legs),
            text(section, "section", MAX_SECTION),
            checked_kind(kind),
            checked_together(together),
        )
        command, tx = self._placing((), ttl, token, metadata, call), call.get("tx")
        original = replace(command, legs=(Leg(f"{NO_ITEMS}/{canonical_json(asked)}"),))
        for attempt in range(ATTEMPTS):
            choices = await self._choices(asked, 2**attempt, tx, recorded=command.op is not None)
            missing = NO_SECTION if choices is None else NO_ITEMS
            if not choices and command.op is None:
                raise _too_few(missing, asked)
            legs = item_legs(choices[self._executor.mint.draw(len(choices))]) if choices else (Leg(missing),)
            tried = replace(command, legs=legs, op=op_of_attempt(command.op, attempt))
            try:
                return await self._take(tried, tx, original)
            except ItemsTaken:
                continue
            except PoolNotFound as refusal:
                raise _too_few(refusal.subject, asked, replayed=refusal.replayed) from None
        raise Overloaded(
            "other callers took some of the chosen seats at each attempt; this call did nothing: retry later"
        )

    # Choosing

    async def _choices(self, asked: Asked, most: int, tx: Any, *, recorded: bool) -> list[list[str]] | None:
        """The best choices now; None if the section has no seats. That there are none is an answer, so it is read again, durably:
        unless it is going to be `recorded` under an operation id, which is durable itself."""
        found: list[list[str]] | None = None
        for durable in (False,) if recorded else (False, True):
            layout = await self._layout(asked.section, tx, durable=durable)
            plan = None if layout is None else layout.plans.get(asked.kind)
            found = None if layout is None else []
            if plan is not None:
                free = await self._executor.read(FindAvailable(self._tenant, plan.pools), tx, durable=durable)
                found = plan.choices(free, asked.count, asked.together, most)
            if found:
                break
        return found

    def _placing(
        self, legs: tuple[Leg, ...], ttl: Ttl | None, token: str | None, metadata: dict[str, Any] | None, call: Call
    ) -> PlaceHold:
        slots = None if ttl is None else span(ttl)
        return PlaceHold(legs=legs, ttl_slots=slots, token=token, metadata=metadata, **self._call_fields(call))

    async def _take(self, command: PlaceHold, tx: Any, original: PlaceHold | None = None) -> Hold:
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
        """The live hold of this owner on exactly these items, if that is what is in the way."""
        holders = {short.holder for short in refusal.shortfalls}
        holder = holders.pop()
        if command.token is None or holders or holder is None or len(refusal.shortfalls) != len(command.legs):
            return None
        found = await self._executor.read(FindHold((self._tenant, holder)), tx, durable=True)
        if found is None or found.state is not State.HELD or not same_owner(command.token, found.owner_hash):
            return None
        same = {leg.pool for leg in found.legs} == {leg.pool for leg in command.legs}
        return Hold(found, command.token) if same else None

    # The map

    async def _layout(self, section: str, tx: Any, *, durable: bool = False) -> Layout | None:
        """The layout of a section; None if it has no seats."""
        head = await self._executor.read(FindRecord((self._tenant, SECTIONS, section)), tx, durable=durable)
        found = SeatMap(section, head)
        if not found.head.chunks:
            return None
        key = (self._tenant, section)
        layout = self._layouts.get(key, found.stamp)
        if layout is None:
            found = await self._map(section, tx, durable=durable)
            layout = found.layout()
            self._layouts.put(key, found.stamp, layout)
        return layout if layout.seats else None

    async def _map(self, section: str, tx: Any, *, durable: bool = False) -> SeatMap:
        """The map of a section: head and chunks of the same version."""
        key = (self._tenant, SECTIONS, section)
        head = await self._executor.read(FindRecord(key), tx)
        for _ in range(ATTEMPTS):
            count = SeatMap(section, head).head.chunks
            query = ListRecords(self._tenant, SEATS, chunk_ids(section), count)
            chunks = [] if head is None or not count else await self._executor.read(query, tx)
            before, head = head, await self._executor.read(FindRecord(key), tx, durable=durable)
            if before == head:
                return SeatMap(section, head, chunks)
        raise Overloaded(f"section {section!r} changed each time it was read; this call did nothing: retry later")

    async def _begin(self, asked: list[Any], call: Call) -> bool:
        """Record the operation id of a change of maps, if it has one; returns whether it was recorded before. The command changes
        nothing: its record is what a retry finds, and what other seats under the same id conflict with."""
        fields = self._call_fields(call)
        if fields["op"] is None:
            return False
        command = PutRecord(kind=SEATS, id="none", body=None, **fields)
        original = replace(command, body=canonical_json(asked))
        return (await self._executor.execute(command, call.get("tx"), faces=True, original=original)).replayed

    async def _add_seats(self, given: list[Any], call: Call) -> None:
        """Create the items that are missing, then put the seats into the maps of their sections."""
        if len(given) > MAX_SEATS:
            raise invalid("seats", "seats_too_many", f"{len(given)} seats, at most {MAX_SEATS} are added at once")
        seats = [checked_seat(seat) for seat in given]
        item_legs([seat.id for seat in seats])  # none twice
        by_section: dict[str, list[Seat]] = {}
        for seat in seats:
            by_section.setdefault(seat.section, []).append(seat)
        for section, its in by_section.items():  # before anything is written
            (await self._map(section, call.get("tx"))).with_change(its)
        replayed = await self._begin(["add", seats], call)
        fields = {**self._call_fields(call), "op": None}
        most = self._executor.limits.max_batch
        for begin in range(0, len(seats), most):
            commands = [
                CreatePool(id=item_pool(seat.id), total=1, exist_ok=True, label=seat.id, **fields)
                for seat in seats[begin : begin + most]
            ]
            await self._executor.execute_all(commands, call.get("tx"))
        for section, its in by_section.items():
            await self._change(section, its, [], call, replayed=replayed)

    async def _change(
        self, section: str, put: list[Seat], drop: list[str] | None, call: Call, *, replayed: bool
    ) -> None:
        """Change a map, unless this operation has done it before. `drop=None`: all seats that are there."""
        fields, tx = self._call_fields(call), call.get("tx")
        op = fields.pop("op")
        digest = None if op is None else digest_of(op, "put" if put else "drop", [row_of(seat) for seat in put] or drop)
        for _ in range(ATTEMPTS):
            found = await self._map(section, tx)
            if replayed and digest in found.head.operations:
                return
            gone = {row.id for chunk in found.chunks for row in chunk} if drop is None else set(drop)
            chunks = found.with_change(put, gone)
            if chunks is None:
                return
            stamp = f"{self._executor.mint.draw(1 << 62):016x}"
            try:
                await self._executor.execute_all(found.writing(chunks, stamp, digest, fields), tx)
            except VersionConflict:
                continue
            return
        raise Overloaded(f"others changed section {section!r} at each attempt; its seats are as before: retry later")


def _no_section(section: str, *, replayed: bool = False) -> SectionNotFound:
    return SectionNotFound(
        f"there are no seats in section {section!r}: add them first", replayed=replayed, subject=section
    )


def _too_few(missing: str, asked: Asked, *, replayed: bool = False) -> SectionNotFound | ItemsTaken:
    """There was nothing to choose."""
    if missing == NO_SECTION:
        return _no_section(asked.section, replayed=replayed)
    side = " side by side" if asked.together is True and asked.count > 1 else ""
    kind = f" of kind {asked.kind!r}" if asked.kind else ""
    short = f"there is no seat{kind}" if asked.count == 1 else f"there are not {asked.count} seats{kind}"
    return ItemsTaken(
        f"{short} available{side} in section {asked.section!r}",
        replayed=replayed,
        taken=(),
        holders={},
        subject=asked.section,
    )


def _items_taken(refusal: InsufficientCapacity) -> ItemsTaken:
    """The refusal in terms of items."""
    holders = {item_name(short.pool): short.holder for short in refusal.shortfalls}
    shown = ", ".join(map(repr, list(holders)[:5])) + (f" and {len(holders) - 5} more" if len(holders) > 5 else "")
    return ItemsTaken(f"others have {shown}", replayed=refusal.replayed, taken=tuple(holders), holders=holders,
                      subject=next(iter(holders)), **capacity_of(refusal))  # fmt: skip
