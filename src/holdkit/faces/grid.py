"""The grid of a calendar: rooms × cells, each a pool. Neither sync nor async: what is asked becomes legs, pools become answers.

A closed cell is asked for under an id that never has a pool and a total of 0, so that the core refuses it like any other that
is full, behind the operation id; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ..core.model import MAX_QUANTITY, Leg, Pool, Slot
from ..core.values import invalid, text, whole
from .allowances import MAX_NAME, part
from .cells import Cell, Nights, Times, cells_of
from .windows import Zone

Capacity: TypeAlias = "int | Callable[[Any], int]"
"""How many of a room there are: a number, or a function of the night (of a time: its aware datetime in UTC)."""

Closed: TypeAlias = "Collection[date | datetime] | Callable[[Any], bool]"
"""Nights on which nothing can be held: a collection, or a function."""

Wanted: TypeAlias = "str | Mapping[str, int]"
"""A room, of which one is meant; or how many of each."""

MAX_ROOMS: Final = 10_000


class Free(Struct, frozen=True):
    """How one room stands in one night, or one stretch of time."""

    begins: date | datetime
    total: int
    held: int
    consumed: int
    available: int
    """0 if it is closed or over."""


class Availability(Struct, frozen=True):
    """How a room stands in each part of a range, in order of time."""

    nights: tuple[Free, ...]

    @property
    def minimum(self) -> int:
        """How many could be held for the whole range."""
        return min([night.available for night in self.nights])


class Grid(Struct, frozen=True):
    """Which pool is which room and cell, and how many there are of it."""

    name: str
    rooms: Mapping[str, Capacity]
    cut: Nights | Times
    closing: Closed

    def legs(self, what: Any, begin: Any, end: Any, most: int) -> tuple[Leg, ...]:
        """One leg per room and cell."""
        wanted = self.wanted(what)
        cells = self.cut.cells(begin, end, most // len(wanted))
        return tuple(self._leg(room, cell, wanted[room]) for room in wanted for cell in cells)

    def _leg(self, room: str, cell: Cell, quantity: int) -> Leg:
        pool = self.place(room) + cell.key
        if self.closed(cell):
            return Leg(f"{pool}/closed", quantity, create_with_total=0, opens=0, closes=cell.closes)
        return Leg(pool, quantity, create_with_total=self.total(room, cell), opens=0, closes=cell.closes)

    def wanted(self, what: Any) -> dict[str, int]:
        """How many of each room, in order of room."""
        amounts = {what: 1} if isinstance(what, str) else what
        if not isinstance(amounts, Mapping) or not 0 < len(amounts) <= MAX_ROOMS:
            raise invalid("what", "what_malformed", 'must be a room, or a mapping such as {"double": 2}')
        for room, quantity in amounts.items():
            self.place(room)
            whole(quantity, "quantity", 1, MAX_QUANTITY)
        return {room: amounts[room] for room in sorted(amounts)}

    def place(self, room: Any) -> str:
        """What the ids of a room's pools begin with."""
        if type(room) is not str or room not in self.rooms:
            raise invalid("room", "room_unknown", "must be one of the rooms that the calendar was made with")
        return f"~calendar/{part(self.name)}/{part(room)}/"

    def total(self, room: str, cell: Cell) -> int:
        """How many of a room there are in a cell; none where it is closed."""
        if self.closed(cell):
            return 0
        capacity = self.rooms[room]
        return whole(capacity(cell.begins) if callable(capacity) else capacity, "rooms", 0, MAX_QUANTITY)

    def closed(self, cell: Cell) -> bool:
        """Whether nothing can be held then."""
        return bool(self.closing(cell.begins)) if callable(self.closing) else cell.begins in self.closing

    def free(self, room: str, cell: Cell, pool: Pool | None, now: Slot) -> Free:
        """How a room stands in a cell, given its pool."""
        total, held, consumed = (
            (self.total(room, cell), 0, 0) if pool is None else (pool.total, pool.held, pool.consumed)
        )
        shut = now >= cell.closes or self.closed(cell)
        return Free(cell.begins, total, held, consumed, 0 if shut else max(0, total - held - consumed))


def grid_of(name: Any, rooms: Any, zone: Zone, every: Any, closed: Any) -> Grid:
    """A grid, checked as far as it can be before anything is asked of it."""
    text(name, "name", MAX_NAME)
    if not isinstance(rooms, Mapping) or not 0 < len(rooms) <= MAX_ROOMS:
        raise invalid("rooms", "rooms_malformed", f'must be a mapping such as {{"double": 10}}, of at most {MAX_ROOMS}')
    for room, capacity in rooms.items():
        text(room, "rooms", MAX_NAME)
        if not callable(capacity):
            whole(capacity, "rooms", 0, MAX_QUANTITY)
    cut = cells_of(zone, every)
    if not callable(closed):
        closed = _closed(closed, nights=isinstance(cut, Nights))
    return Grid(name, dict(rooms), cut, closed)


def _closed(closed: Any, *, nights: bool) -> frozenset[date | datetime]:
    """The collection, checked: a datetime would never match a night, nor a naive one anything."""
    if not isinstance(closed, set | frozenset | list | tuple):
        raise invalid("closed", "closed_malformed", "must be a collection of dates, or a function")
    for day in closed:
        fits = isinstance(day, date) and isinstance(day, datetime) is not nights
        if not fits or (isinstance(day, datetime) and day.utcoffset() is None):
            raise invalid("closed", "closed_malformed", f"must name {'dates' if nights else 'aware datetimes'} only")
    return frozenset(closed)
