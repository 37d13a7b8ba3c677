"""Cells: what a calendar is cut into. Nights, named by their date, or times of equal length from local midnight on.

Ranges are half open: a stay from the 1st to the 4th is three nights, a meeting until 11:00 leaves 11:00 free. Plain
arithmetic over dates, slots and `zoneinfo`: never reads a clock.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from ..core.model import DAY, SECOND, Slot
from ..core.values import invalid
from ..kernel.normalise import datetime_of, moment, span
from .windows import LAST_YEAR, Period, day_start, whole_seconds, zone_of

FIRST_YEAR: Final = 1970


class Cell(Struct, frozen=True):
    """One night, or one stretch of time: the smallest thing that can be held."""

    key: str
    """Its name in the id of its pool; in order of time."""
    begins: date | datetime
    closes: Slot
    """When it is over, and can no longer be held."""


class Nights(Struct, frozen=True):
    """A cell per date; it is over when the date is, in the zone of the house."""

    zone: str

    def cells(self, begin: Any, end: Any, most: int) -> list[Cell]:
        """The nights from check-in (inclusive) to check-out (exclusive)."""
        first, last = _date(begin, "begin"), _date(end, "end")
        nights = (last - first).days
        _check_count(nights, most)
        return [self._cell(first + timedelta(days=night)) for night in range(nights)]

    def _cell(self, night: date) -> Cell:
        return Cell(night.isoformat(), night, max(1, day_start(self.zone, night + timedelta(days=1))))


class Times(Struct, frozen=True):
    """Cells of equal length, from local midnight on. The last of a day ends with it, so on a day of 23 or 25 hours it may be
    shorter."""

    zone: str
    length: Slot

    def cells(self, begin: Any, end: Any, most: int) -> list[Cell]:
        """The cells from `begin` (inclusive) to `end` (exclusive), both at the edge of one."""
        slot, last = _time(begin, "begin"), _time(end, "end")
        _check_count(-((slot - last) // self.length), most)
        days = Period("day", zone=self.zone)
        day = days.window(slot)
        if (slot - day.opens) % self.length:
            raise self._off("begin")
        found: list[Cell] = []
        while slot < last:
            if slot == day.closes:
                day = days.window(slot)
            closes = min(slot + self.length, day.closes)
            begins = datetime_of(slot)
            assert begins is not None, "checked with the ends"
            found.append(Cell(f"{begins:%Y-%m-%dT%H:%M:%SZ}", begins, closes))
            slot = closes
        if slot != last:
            raise self._off("end")
        _check_count(len(found), most)
        return found

    def _off(self, field: str) -> Exception:
        every = self.length // SECOND
        return invalid(field, f"{field}_off_grid", f"must lie at a multiple of {every} s from midnight in {self.zone}")


def cells_of(zone: Any, every: Any) -> Nights | Times:
    """How a calendar is cut: by night, or every so often."""
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
