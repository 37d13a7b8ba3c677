"""Calendars as pools: rooms × cells. A cell is a night, named by its date, or a stretch of time, cut from local
midnight on.

Ranges are half open: a stay from the 1st to the 4th is three nights; a meeting until 11:00 leaves 11:00 free. A cell
that the calendar closes is asked for under an id that never has a pool, with a total of 0: so the core refuses it
like any full cell, after it has looked at the operation id, and nothing is decided here. Plain arithmetic over
dates, slots and `zoneinfo`; never reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ..core.face_legs import FaceLeg
from ..core.model import DAY, MAX_QUANTITY, SECOND, Leg, Pool, Slot
from ..core.values import invalid, text, whole
from ..kernel.arguments import span
from ..kernel.one_line import line
from ..kernel.times import datetime_of, moment
from .allowances import MAX_NAME, part
from .windows import LAST_YEAR, Period, Zone, day_start, whole_seconds, zone_of

FIRST_YEAR: Final = 1970


class Cell(Struct, frozen=True):
    """One night or one stretch of time: the smallest unit that can be held."""

    key: str
    """Its name in the id of its pool; sorts by time."""
    begins: date | datetime
    closes: Slot
    """When it is over and can no longer be held."""


class Nights(Struct, frozen=True):
    """One cell per date; it is over when the date ends in the calendar's zone."""

    zone: str

    def cells(self, begin: Any, end: Any, most: int) -> list[Cell]:
        """Return the nights from check-in (inclusive) to check-out (exclusive)."""
        first, last = _date(begin, "begin"), _date(end, "end")
        nights = (last - first).days
        _check_count(nights, most)
        return [self._cell(first + timedelta(days=night)) for night in range(nights)]

    def _cell(self, night: date) -> Cell:
        return Cell(night.isoformat(), night, max(1, day_start(self.zone, night + timedelta(days=1))))


class Times(Struct, frozen=True):
    """Cells of equal length, from local midnight on. The last cell of a day ends with the day, so it may be shorter
    on a day of 23 or 25 hours."""

    zone: str
    length: Slot

    def cells(self, begin: Any, end: Any, most: int) -> list[Cell]:
        """Return the cells from `begin` (inclusive) to `end` (exclusive), both at the edge of a cell."""
        slot, last = _time(begin, "begin"), _time(end, "end")
        _check_count(-((slot - last) // self.length), most)
        days = Period("day", zone=self.zone)
        day = days.window(slot)
        if (slot - day.opens) % self.length:
            raise self._off_grid("begin")
        found: list[Cell] = []
        while slot < last:
            if slot == day.closes:
                day = days.window(slot)
            closes = min(slot + self.length, day.closes)
            begins = datetime_of(slot)
            found.append(Cell(f"{begins:%Y-%m-%dT%H:%M:%SZ}", begins, closes))
            slot = closes
        if slot != last:
            raise self._off_grid("end")
        _check_count(len(found), most)
        return found

    def _off_grid(self, field: str) -> Exception:
        every = self.length // SECOND
        return invalid(field, f"{field}_off_grid", f"must lie at a multiple of {every} s from midnight in {self.zone}")


def cells_of(zone: Any, every: Any) -> Nights | Times:
    """Return how a calendar is divided: by night, or by length."""
    name = zone_of(zone)
    if every is None:
        return Nights(name)
    return Times(name, whole_seconds(span(every, "every"), "every", DAY) * SECOND)


def _check_count(cells: int, most: int) -> None:
    if cells < 1:
        raise invalid("end", "end_not_after_begin", "must lie after begin: ranges are half open")
    if cells > most:
        raise invalid("end", "range_too_long", f"the range has {cells} parts, at most {most} fit into one hold")


def _date(value: Any, field: str) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise invalid(
            field, f"{field}_not_date", f"must be a date such as date(2026, 7, 1), not {type(value).__name__}"
        )
    _check_year(value.year, field)
    return value


def _time(value: Any, field: str) -> Slot:
    if not isinstance(value, datetime):
        raise invalid(field, f"{field}_not_datetime", f"must be an aware datetime, not {type(value).__name__}")
    _check_year(value.year, field)
    slot: Slot = moment(value, field)
    return slot


def _check_year(year: int, field: str) -> None:
    if not FIRST_YEAR < year < LAST_YEAR:
        raise invalid(field, f"{field}_out_of_range", f"must lie in the years {FIRST_YEAR + 1} to {LAST_YEAR - 1}")


Capacity: TypeAlias = "int | Callable[[Any], int]"
"""How many of a room there are: a number, or a function of the night (for times: of the aware datetime in UTC)."""

Closed: TypeAlias = "Collection[date | datetime] | Callable[[Any], bool]"
"""Nights on which nothing can be held: a collection, or a function."""

Wanted: TypeAlias = "str | Mapping[str, int]"
"""A room, meaning one of it; or how many of each."""

MAX_ROOMS: Final = 10_000


class Free(Struct, frozen=True):
    """The counters of one room in one cell."""

    begins: date | datetime
    total: int
    held: int
    consumed: int
    available: int
    """0 if the cell is closed or over."""


class Availability(Struct, frozen=True):
    """The counters of a room in each cell of a range, in order of time."""

    nights: tuple[Free, ...]

    @property
    def minimum(self) -> int:
        """How many can be held for the whole range."""
        return min([night.available for night in self.nights])

    def __repr__(self) -> str:
        return line("Availability", f"nights={len(self.nights)} minimum={self.minimum}")


class Grid(Struct, frozen=True):
    """Says which pool belongs to a room and cell, and how many there are."""

    name: str
    rooms: Mapping[str, Capacity]
    cut: Nights | Times
    closing: Closed

    def legs(self, what: Any, begin: Any, end: Any, most: int) -> tuple[FaceLeg, ...]:
        """Return one leg per room and cell. The room's total is not among what the caller asked for, so a retry may find another."""
        wanted = self.wanted(what)
        cells = self.cut.cells(begin, end, most // len(wanted))
        return tuple(self._leg(room, cell, wanted[room]) for room in wanted for cell in cells)

    def _leg(self, room: str, cell: Cell, quantity: int) -> FaceLeg:
        pool = self.prefix(room) + cell.key
        if self.closed(cell):
            pool += "/closed"
        total = self.total(room, cell)
        return FaceLeg(pool, quantity, total, opens=0, closes=cell.closes, asked=Leg(pool, quantity))

    def wanted(self, what: Any) -> dict[str, int]:
        """Return how many of each room are wanted, in order of room."""
        amounts = {what: 1} if isinstance(what, str) else what
        if not isinstance(amounts, Mapping) or not 0 < len(amounts) <= MAX_ROOMS:
            raise invalid("what", "what_malformed", 'must be a room, or a mapping such as {"double": 2}')
        for room, quantity in amounts.items():
            self.prefix(room)
            whole(quantity, "quantity", 1, MAX_QUANTITY)
        return {room: amounts[room] for room in sorted(amounts)}

    def prefix(self, room: Any) -> str:
        """Return the beginning of the ids of a room's pools."""
        if type(room) is not str or room not in self.rooms:
            raise invalid("room", "room_unknown", "must be one of the rooms that the calendar was made with")
        return f"~calendar/{part(self.name)}/{part(room)}/"

    def total(self, room: str, cell: Cell) -> int:
        """Return how many of a room there are in a cell; 0 if the cell is closed."""
        if self.closed(cell):
            return 0
        capacity = self.rooms[room]
        return whole(capacity(cell.begins) if callable(capacity) else capacity, "rooms", 0, MAX_QUANTITY)

    def closed(self, cell: Cell) -> bool:
        """Return whether the calendar closes a cell."""
        return bool(self.closing(cell.begins)) if callable(self.closing) else cell.begins in self.closing

    def free(self, room: str, cell: Cell, pool: Pool | None, now: Slot) -> Free:
        """Return the counters of a room in a cell, given its pool."""
        total, held, consumed = (
            (self.total(room, cell), 0, 0) if pool is None else (pool.total, pool.held, pool.consumed)
        )
        unavailable = now >= cell.closes or self.closed(cell)
        return Free(cell.begins, total, held, consumed, 0 if unavailable else max(0, total - held - consumed))


def grid_of(name: Any, rooms: Any, zone: Zone, every: Any, closed: Any) -> Grid:
    """Check the parameters of a grid, except what callables will answer, and return it."""
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
    """Check a collection of closed cells, and return it: a datetime would never match a night, and a naive one matches nothing."""
    if not isinstance(closed, set | frozenset | list | tuple):
        raise invalid("closed", "closed_malformed", "must be a collection of dates, or a function")
    for day in closed:
        fits = isinstance(day, date) and isinstance(day, datetime) is not nights
        if not fits or (isinstance(day, datetime) and day.utcoffset() is None):
            raise invalid("closed", "closed_malformed", f"must name {'dates' if nights else 'aware datetimes'} only")
    return frozenset(closed)
