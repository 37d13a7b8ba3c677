"""Windows: fixed stretches of time that follow one another without a gap, [opens, closes).

A length ("60s", "minute") is counted from 1970 in UTC. A day, week, month or year belongs to a time zone's calendar
and begins at the first instant of its first date there. So a day may have 23 or 25 hours, or none at all if the zone
skipped that date. Plain arithmetic over slots and `zoneinfo`; never reads a clock.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

from ..core.commands import Ttl
from ..core.model import DAY, SECOND, Slot
from ..core.values import invalid
from ..kernel.arguments import span
from ..kernel.times import datetime_of, moment

Zone: TypeAlias = "str | ZoneInfo"
"""A time zone of the IANA database: "Europe/Berlin", or the ZoneInfo itself."""

CALENDAR: Final = ("day", "week", "month", "year")
_NAMED: Final = {"second": 1, "minute": 60, "hour": 3600}
_LONGEST: Final = 366 * DAY
LAST_YEAR: Final = 9998
"""The last year in which every window has an end that `datetime` can express."""


class Window(Struct, frozen=True):
    """A stretch of time, half open: at `closes` the next one begins."""

    opens: Slot
    closes: Slot


class Period(Struct, frozen=True):
    """The length of windows: a number of seconds, or a unit of a zone's calendar."""

    name: str
    """Its canonical form: `60s`, `day`."""
    length: int = 0
    """In seconds; 0 for units of the calendar."""
    zone: str = "UTC"

    def window(self, slot: Slot) -> Window:
        """Return the window that a slot lies in."""
        if self.length:
            length = self.length * SECOND
            opens = slot // length * length
            return Window(opens, opens + length)
        at = datetime_of(slot)
        if not 1 < at.year <= LAST_YEAR:
            raise invalid("per", "per_beyond_calendar", f"no calendar reaches slot {slot}: give a length such as '24h'")
        first = _first(self.name, at.astimezone(ZoneInfo(self.zone)).date())
        while (
            day_start(self.zone, _next(self.name, first)) <= slot
        ):  # clocks that were put back over midnight show the day before
            first = _next(self.name, first)
        return Window(day_start(self.zone, first), day_start(self.zone, _next(self.name, first)))


def _first(unit: str, day: date) -> date:
    """Return the first date of the unit that a date lies in; weeks begin on Monday."""
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


def _next(unit: str, first: date) -> date:
    """Return the first date of the unit after the one that begins on `first`."""
    return _first(unit, first + timedelta(days={"day": 1, "week": 7, "month": 31, "year": 366}[unit]))


@lru_cache(maxsize=4096)
def day_start(zone: str, day: date) -> Slot:
    """Return the slot at which a date begins in a zone: the first of two midnights; if there is none, the moment that skipped it."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    slot: Slot = moment(midnight)
    wanted = midnight.replace(tzinfo=None)
    if _local(zone, slot) == wanted:
        return slot
    before: Slot = moment(midnight.replace(fold=1))  # in a gap, the later offset gives the earlier time
    while slot - before > 1:
        middle = (before + slot) // 2
        if _local(zone, middle) < wanted:
            before = middle
        else:
            slot = middle
    return slot


def _local(zone: str, slot: Slot) -> datetime:
    """Return the local time in a zone."""
    at = datetime_of(slot)
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def period_of(per: Ttl, zone: Zone | None = None) -> Period:
    """Return the period, from any form that callers may use."""
    if isinstance(per, str) and per in CALENDAR:
        return Period(per, zone="UTC" if zone is None else zone_of(zone))
    if zone is not None:
        raise invalid("zone", "zone_unused", f"goes with {', '.join(CALENDAR)}: a length is counted from 1970 in UTC")
    length = _NAMED[per] * SECOND if isinstance(per, str) and per in _NAMED else span(per, "per")
    return Period(f"{whole_seconds(length, 'per', _LONGEST)}s", length // SECOND)


def whole_seconds(length: Slot, field: str, longest: Slot) -> int:
    """Return a length in slots as whole seconds, at least one."""
    if not SECOND <= length <= longest or length % SECOND:
        most = f"{longest // DAY} days" if longest > DAY else "a day"
        raise invalid(field, f"{field}_out_of_range", f"must be whole seconds, at least 1 and at most {most}")
    return length // SECOND


def zone_of(zone: Any) -> str:
    """Check that a time zone exists here, and return its name."""
    name = zone.key if isinstance(zone, ZoneInfo) else zone
    if type(name) is not str or not 0 < len(name) <= 64:
        raise invalid(
            "zone", "zone_malformed", "must be the name of a time zone such as 'Europe/Berlin', or its ZoneInfo"
        )
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        raise invalid(
            "zone", "zone_unknown", f"there is no time zone {name!r} here (the tzdata package has them all)"
        ) from None
