"""Windows and cells follow one another without gap or overlap, in every time zone there is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdkit import InvalidRequest
from holdkit.core.model import SECOND
from holdkit.faces.grid import Nights, Times
from holdkit.faces.windows import CALENDAR, Period, day_start, period_of, zone_of
from holdkit.kernel.times import moment

HOUR = 3600 * SECOND
ZONES = sorted(available_timezones())
SLOTS = st.integers(0, 130 * 365 * 24 * HOUR)  # 1970 to 2100
ODD = ["Africa/Cairo", "America/Goose_Bay", "America/Havana", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut",
       "Asia/Kolkata", "Asia/Manila", "Australia/Lord_Howe", "Europe/Dublin", "Europe/Lisbon", "Pacific/Apia",
       "Pacific/Kwajalein"]  # fmt: skip


def at(zone: str, *when: int, fold: int = 0) -> int:
    slot: int = moment(datetime(*when, tzinfo=ZoneInfo(zone), fold=fold))  # type: ignore[arg-type, misc]
    return slot


@given(SLOTS, st.sampled_from(ODD) | st.sampled_from(ZONES), st.sampled_from(CALENDAR))
@example(at("Pacific/Apia", 2011, 12, 31), "Pacific/Apia", "day")
@example(at("America/Goose_Bay", 2010, 11, 7), "America/Goose_Bay", "day")
@example(at("America/Goose_Bay", 2010, 11, 6, 23, 30, fold=1), "America/Goose_Bay", "day")
@example(at("America/Havana", 2023, 11, 5, 0, 30, fold=1), "America/Havana", "day")
def test_every_slot_is_in_one_window_and_the_next_begins_where_it_ends(slot: int, zone: str, unit: str) -> None:
    period = period_of(unit, zone)
    window = period.window(slot)
    assert window.opens <= slot < window.closes
    assert period.window(window.opens) == period.window(window.closes - 1) == window
    assert period.window(window.closes).opens == window.closes
    assert period.window(window.opens - 1).closes == window.opens


@given(SLOTS, st.sampled_from(ODD))
def test_a_window_begins_with_its_first_date(slot: int, zone: str) -> None:
    """At its first instant the clocks show the date, a moment before an earlier one."""
    opens = period_of("day", zone).window(slot).opens
    first = datetime.fromtimestamp(opens // SECOND, ZoneInfo(zone)).date()
    before = datetime.fromtimestamp(opens // SECOND - 1, ZoneInfo(zone)).date()
    assert before < first
    assert day_start(zone, first) == opens


@given(SLOTS, st.integers(1, 366 * 86_400))
def test_lengths_are_counted_from_1970(slot: int, seconds: int) -> None:
    window = period_of(seconds).window(slot)
    assert window.closes - window.opens == seconds * SECOND
    assert window.opens % (seconds * SECOND) == 0
    assert window.opens <= slot < window.closes


HOURS: dict[tuple[str, int, int, int], float] = {
    ("Europe/Berlin", 2026, 3, 29): 23,
    ("Europe/Berlin", 2026, 10, 25): 25,
    ("Europe/Berlin", 2026, 10, 26): 24,
    ("Australia/Lord_Howe", 2026, 4, 5): 24.5,
    ("Australia/Lord_Howe", 2026, 10, 4): 23.5,
    ("America/Sao_Paulo", 2018, 11, 4): 23,  # no midnight: 00:00 was 01:00
    ("America/Havana", 2023, 11, 5): 25,  # two midnights
    ("America/Goose_Bay", 2010, 11, 7): 25,  # at 00:01 it was 23:01 again: the date had begun, and goes on
    ("Pacific/Apia", 2011, 12, 29): 24,
    ("Pacific/Apia", 2011, 12, 31): 24,  # the 30th was skipped
}


@pytest.mark.parametrize(("day", "hours"), HOURS.items(), ids=str)
def test_days_are_as_long_as_they_are(day: tuple[str, int, int, int], hours: float) -> None:
    zone, *date_ = day
    window = period_of("day", zone).window(at(zone, *date_, 12))
    assert (window.closes - window.opens) / HOUR == hours


def test_a_day_goes_on_when_the_clocks_show_the_day_before() -> None:
    again = at("America/Goose_Bay", 2010, 11, 6, 23, 30, fold=1)
    assert period_of("day", "America/Goose_Bay").window(again).opens == at("America/Goose_Bay", 2010, 11, 7)


@pytest.mark.parametrize("seconds", [900, 3600, 5400, 7200, 86_400])
@pytest.mark.parametrize("day", HOURS, ids=str)
def test_the_last_time_of_a_day_ends_with_it(day: tuple[str, int, int, int], seconds: int) -> None:
    zone, *date_ = day
    window = period_of("day", zone).window(at(zone, *date_, 12))
    begin, end = (datetime.fromtimestamp(edge // SECOND, UTC) for edge in (window.opens, window.closes))
    cells = Times(zone, seconds * SECOND).cells(begin, end, 400)
    assert [cell.closes for cell in cells] == [*(moment(cell.begins) for cell in cells[1:]), window.closes]
    assert len(cells) == -(-(window.closes - window.opens) // (seconds * SECOND))


def test_a_skipped_date_has_no_window_and_no_slot() -> None:
    assert day_start("Pacific/Apia", date(2011, 12, 30)) == day_start("Pacific/Apia", date(2011, 12, 31))


def test_a_gap_that_begins_before_midnight_begins_the_day_there() -> None:
    """Toronto, 30 March 1919: at 23:30 of that day it was 00:30 of the 31st."""
    assert at("America/Toronto", 1919, 3, 31, 0, 30) == day_start("America/Toronto", date(1919, 3, 31))


@pytest.mark.parametrize(
    ("per", "name"),
    [("second", "1s"), ("minute", "60s"), ("60s", "60s"), (60, "60s"), ("1m", "60s"), (timedelta(minutes=1), "60s"),
     ("hour", "3600s"), ("1d", "86400s"), ("day", "day"), ("month", "month"), (1.0, "1s")],
)  # fmt: skip
def test_one_name_for_every_form(per: Any, name: str) -> None:
    assert period_of(per).name == name


def test_units_of_the_calendar_begin_where_people_say() -> None:
    slot = at("Europe/Berlin", 2026, 11, 15, 9)  # a Sunday
    begins = {unit: period_of(unit, "Europe/Berlin").window(slot).opens for unit in CALENDAR}
    assert begins == {
        "day": at("Europe/Berlin", 2026, 11, 15),
        "week": at("Europe/Berlin", 2026, 11, 9),
        "month": at("Europe/Berlin", 2026, 11, 1),
        "year": at("Europe/Berlin", 2026, 1, 1),
    }
    assert period_of("year").window(at("UTC", 2024, 12, 31, 23)).closes == at("UTC", 2025, 1, 1)


BAD: list[tuple[Any, Any, str, str]] = [
    ("fortnight", None, "per", "per_malformed"),
    (0, None, "per", "per_out_of_range"),
    (-1, None, "per", "per_out_of_range"),
    (0.5, None, "per", "per_out_of_range"),
    ("1500ms", None, "per", "per_out_of_range"),
    ("367d", None, "per", "per_out_of_range"),
    (float("nan"), None, "per", "per_malformed"),
    (True, None, "per", "per_malformed"),
    (None, None, "per", "per_malformed"),
    ("minute", "Europe/Berlin", "zone", "zone_unused"),
    ("day", "Mars/Phobos", "zone", "zone_unknown"),
    ("day", "Europe", "zone", "zone_unknown"),
    ("day", "../../etc/passwd", "zone", "zone_unknown"),
    ("day", "/etc/localtime", "zone", "zone_unknown"),
    ("day", "a\0b", "zone", "zone_unknown"),
    ("day", "\ud800", "zone", "zone_unknown"),
    ("day", "x" * 65, "zone", "zone_malformed"),
    ("day", "", "zone", "zone_malformed"),
    ("day", UTC, "zone", "zone_malformed"),
    ("day", 1, "zone", "zone_malformed"),
]


@pytest.mark.parametrize(("per", "zone", "field", "code"), BAD)
def test_what_is_no_window_is_refused(per: Any, zone: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        period_of(per, zone)
    assert (refused.value.field, refused.value.code) == (field, code)


def test_slots_beyond_every_calendar_are_refused_not_guessed() -> None:
    for slot in (2**63 - 1, -(2**62)):
        with pytest.raises(InvalidRequest, match="no calendar reaches"):
            period_of("day").window(slot)
    assert period_of("minute").window(2**62).opens == 2**62 // 60_000_000 * 60_000_000


# Cells


@given(st.dates(date(1971, 1, 1), date(2100, 1, 1)), st.integers(1, 60), st.sampled_from(ODD))
def test_nights_are_half_open_and_end_in_order(first: date, nights: int, zone: str) -> None:
    cells = Nights(zone).cells(first, first + timedelta(days=nights), 60)
    assert [cell.begins for cell in cells] == [first + timedelta(days=night) for night in range(nights)]
    assert [cell.key for cell in cells] == sorted({cell.key for cell in cells})
    assert all(early.closes <= late.closes for early, late in pairwise(cells))


@given(SLOTS, st.sampled_from([300, 900, 1800, 3600, 5400, 7200, 86_400]), st.sampled_from(ODD))
@settings(max_examples=60)
def test_times_cover_a_day_without_a_gap(slot: int, seconds: int, zone: str) -> None:
    day = Period("day", zone=zone).window(slot + 366 * 24 * HOUR)
    begin, end = (datetime.fromtimestamp(edge // SECOND, UTC) for edge in (day.opens, day.closes))
    cells = Times(zone, seconds * SECOND).cells(begin, end, 400)
    assert [cell.key for cell in cells] == sorted({cell.key for cell in cells})
    begins = [moment(cell.begins) for cell in cells]
    assert begins[0] == day.opens
    assert [cell.closes for cell in cells] == [*begins[1:], day.closes]
    assert all(0 < cell.closes - begin <= seconds * SECOND for cell, begin in zip(cells, begins, strict=True))


def test_zones_may_be_given_as_such() -> None:
    assert zone_of(ZoneInfo("Asia/Tokyo")) == "Asia/Tokyo"
