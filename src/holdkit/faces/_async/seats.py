"""Seats: items that have a place in a section. Stores the map of a section, and takes the best seats that are free.

`seat_map` says how a section is stored, `seating` which seats are the best. Decides nothing: it chooses from what a read has shown, then
holds the seats like any items, all or none; if others were faster, it searches again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Unpack

from msgspec.structs import replace

from ...core.codec import canonical_json
from ...core.commands import CreatePool, PutRecord, Ttl
from ...core.model import Leg
from ...core.reading import FindAvailable, FindRecord, ListRecords
from ...core.validation import invalid, text, whole
from ...errors import ItemsTaken, Overloaded, PoolNotFound, SectionNotFound, VersionConflict
from ...kernel._async.executor import AsyncExecutor
from ...kernel.arguments import Call, CallFields
from ...kernel.context import one_call
from ...kernel.results import Hold
from ..keys import item_legs, item_name, item_pool, listed, op_of_attempt
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
from .taking import AsyncItemTaking

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
        self._taking = AsyncItemTaking(executor, call_fields, tenant)
        self._layouts: LayoutCache = executor.face_caches.setdefault("seats", LayoutCache())

    async def add(self, seats: Iterable[Seat], **call: Unpack[Call]) -> None:
        """Create the items that are missing, then put the seats into the maps of their sections, up to 10,000 at once.

        A seat that is in its map already gets this place instead, whatever its state. Each map is changed completely or not at
        all. After a failure call it again with the same seats: a seat that was added is not added twice.
        """
        given = listed(seats, "seats", "Seat objects")
        if len(given) > MAX_SEATS:
            raise invalid("seats", "seats_too_many", f"{len(given)} seats, at most {MAX_SEATS} are added at once")
        seats = [checked_seat(seat) for seat in given]
        item_legs([seat.id for seat in seats])  # none twice
        by_section: dict[str, list[Seat]] = {}
        for seat in seats:
            by_section.setdefault(seat.section, []).append(seat)
        for section, changed in by_section.items():  # before anything is written
            (await self._map(section, call.get("tx"))).with_change(changed)
        replayed = await self._begin(["add", seats], call)
        fields = {**self._call_fields(call), "op": None}
        most = self._executor.limits.max_batch
        for begin in range(0, len(seats), most):
            commands = [
                CreatePool(id=item_pool(seat.id), total=1, exist_ok=True, label=seat.id, **fields)
                for seat in seats[begin : begin + most]
            ]
            await self._executor.execute_all(commands, call.get("tx"))
        for section, changed in by_section.items():
            await self._change(section, changed, [], call, replayed=replayed)

    async def hold(
        self,
        count: int,
        *,
        section: str,
        ttl: Ttl | None,
        kind: str = "",
        together: Together = True,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the best `count` free seats of a section: neighbours; with `together="prefer"` neighbours if possible, else as
        few groups as possible; with `together=False` the best ones anywhere. Only seats of this `kind` are looked at. With
        `ttl=None` they are held until the hold is confirmed or released.

        Raises `ItemsTaken` if there are not enough, `SectionNotFound` if the section has no seats. If others take some of the
        chosen seats first, it searches again, each time among more choices, so that many callers do not all want the same seats.
        """
        asked = Asked(
            whole(count, "count", 1, self._executor.limits.max_legs),
            text(section, "section", MAX_SECTION),
            checked_kind(kind),
            checked_together(together),
        )
        command, tx = self._taking.command((), ttl, token, metadata, call), call.get("tx")
        original = replace(command, legs=(Leg(f"{NO_ITEMS}/{canonical_json(asked)}"),))
        for attempt in range(ATTEMPTS):
            choices = await self._choices(asked, 2**attempt, tx, recorded=command.op is not None)
            missing = NO_SECTION if choices is None else NO_ITEMS
            if not choices and command.op is None:
                raise _too_few(missing, asked)
            legs = item_legs(choices[self._executor.mint.draw(len(choices))]) if choices else (Leg(missing),)
            tried = replace(command, legs=legs, op=op_of_attempt(command.op, attempt))
            try:
                return await self._taking.take(tried, tx, original)
            except ItemsTaken:
                continue
            except PoolNotFound as refusal:
                raise _too_few(refusal.subject, asked, replayed=refusal.replayed) from None
        raise Overloaded(
            "other callers took some of the chosen seats at each attempt; this call did nothing: retry later"
        )

    async def remove(self, section: str, ids: Iterable[str] | None = None, **call: Unpack[Call]) -> None:
        """Take seats out of the map of a section, or with `ids=None` all of them, so that `hold` no longer finds them.
        The items stay, with the holds that they have; ids that are not in the map are passed over."""
        text(section, "section", MAX_SECTION)
        names = None if ids is None else [item_name(leg.pool) for leg in item_legs(ids)]
        replayed = await self._begin(["remove_seats", section, names], call)
        await self._change(section, [], names, call, replayed=replayed)

    # Choosing

    async def _choices(self, asked: Asked, most: int, tx: Any, *, recorded: bool) -> list[list[str]] | None:
        """Return the best choices now; None if the section has no seats. An empty result is an answer, so it is read again, durably,
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

    # The map

    async def _layout(self, section: str, tx: Any, *, durable: bool = False) -> Layout | None:
        """Return the layout of a section; None if it has no seats."""
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
        """Return the map of a section: head and chunks of the same version."""
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

    async def list(self, section: str, *, tx: Any = None) -> list[Seat]:
        """Return the seats of a section, in order of row and position, whatever their state. Raises `SectionNotFound`."""
        layout = await self._layout(text(section, "section", MAX_SECTION), tx)
        if layout is None:
            layout = await self._layout(section, tx, durable=True)
        if layout is None:
            raise _no_section(section)
        return [*layout.seats]


def _no_section(section: str, *, replayed: bool = False) -> SectionNotFound:
    return SectionNotFound(
        f"there are no seats in section {section!r}: add them first", replayed=replayed, subject=section
    )


def _too_few(missing: str, asked: Asked, *, replayed: bool = False) -> SectionNotFound | ItemsTaken:
    """Return the refusal for a section with nothing to choose."""
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
