"""Calendars: rooms by nights and by times, on every engine, sync and async."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdkit import InsufficientCapacity, InvalidRequest, State
from holdkit.commands import ReleaseHold, ReturnUnits
from holdkit.errors import BelowInUse, HoldRetired, WindowClosed
from holdkit.faces.grid import Free
from holdkit.kernel.times import moment
from tests.support.kernels import Store

JULY = [date(2026, 7, day) for day in range(1, 32)]
LISBON = ZoneInfo("Europe/Lisbon")


def opened(store: Store, **options: Any) -> Any:
    return store.hk.calendar("inn", {"double": 2, "suite": 1}, zone="Europe/Lisbon", **options)


def test_a_stay_is_one_hold_over_its_nights(store: Store) -> None:
    inn = opened(store)
    stay = inn.hold("double", JULY[0], JULY[3], ttl="15m")
    assert [leg.pool for leg in stay.legs] == [f"~calendar/inn/double/2026-07-0{day}" for day in (1, 2, 3)]
    assert inn.available("double", JULY[0], JULY[5]).minimum == 1
    assert [night.available for night in inn.available("double", JULY[0], JULY[5]).nights] == [1, 1, 1, 2, 2]
    store.hk.confirm(stay, entity="booking:9")
    assert inn.available("double", JULY[0], JULY[1]).nights == (Free(JULY[0], 2, 0, 1, 1),)
    store.clock.advance(900)
    assert store.hk.get(stay).state is State.CONFIRMED


def test_check_out_is_free_for_the_next_guest(store: Store) -> None:
    inn = opened(store)
    inn.hold("suite", JULY[0], JULY[3], ttl=60)
    inn.hold("suite", JULY[3], JULY[5], ttl=60)
    with pytest.raises(InsufficientCapacity) as no:
        inn.hold("suite", JULY[2], JULY[4], ttl=60)
    assert [short.pool[-10:] for short in no.value.shortfalls] == ["2026-07-03", "2026-07-04"]


def test_several_rooms_all_or_nothing(store: Store) -> None:
    inn = opened(store)
    inn.hold("suite", JULY[2], JULY[3], ttl=60)
    with pytest.raises(InsufficientCapacity):
        inn.hold({"double": 2, "suite": 1}, JULY[0], JULY[3], ttl=60)
    assert inn.available("double", JULY[0], JULY[3]).minimum == 2
    assert len(inn.hold({"suite": 1, "double": 2}, JULY[3], JULY[5], ttl=60).legs) == 4
    assert inn.consume("double", JULY[0], JULY[1]).state is State.CONFIRMED


def test_a_hold_that_expires_frees_every_night(store: Store) -> None:
    inn = opened(store)
    inn.hold({"double": 2}, JULY[0], JULY[9], ttl=60)
    store.clock.advance(60)
    assert inn.available("double", JULY[0], JULY[9]).minimum == 2
    inn.hold({"double": 2}, JULY[4], JULY[12], ttl=60)


def test_a_night_can_be_held_until_its_date_is_over_there(store: Store) -> None:
    inn = opened(store)
    midnight = moment(datetime(2026, 7, 2, tzinfo=LISBON))
    store.clock.set(midnight - 1)
    inn.hold("suite", JULY[0], JULY[1], ttl=60)
    assert [night.available for night in inn.available("double", JULY[0], JULY[2]).nights] == [2, 2]
    store.clock.set(midnight)  # an hour before that in UTC
    with pytest.raises(WindowClosed) as no:
        inn.hold("double", JULY[0], JULY[2], ttl=60)
    assert no.value.subject == "~calendar/inn/double/2026-07-01"
    assert [night.available for night in inn.available("double", JULY[0], JULY[2]).nights] == [0, 2]
    store.clock.set(midnight + 60_000_000)
    for _ in range(2):
        store.hk.sweep()
    assert store.hk.pools("~calendar/") == []


def test_closed_nights_are_full_also_when_they_were_open_before(store: Store) -> None:
    stay = opened(store).hold("double", JULY[0], JULY[2], ttl=60, op="x")
    inn = opened(store, closed={JULY[1]})
    with pytest.raises(InsufficientCapacity) as no:
        inn.hold("double", JULY[0], JULY[3], ttl=60)
    assert [(short.pool, short.available, short.total) for short in no.value.shortfalls] == [
        ("~calendar/inn/double/2026-07-02/closed", 0, 0)
    ]
    assert [night.available for night in inn.available("double", JULY[0], JULY[3]).nights] == [1, 0, 2]
    assert store.hk.confirm(stay).state is State.CONFIRMED, "what was held before stays"
    weekly = opened(store, closed=lambda night: night.weekday() == 0)
    assert [night.available for night in weekly.available("suite", JULY[4], JULY[7]).nights] == [1, 0, 1]


def test_a_retry_is_the_same_operation(store: Store) -> None:
    inn = opened(store)
    stay = inn.hold({"double": 1, "suite": 1}, JULY[0], JULY[2], ttl=60, op="x")
    again = inn.hold({"suite": 1, "double": 1}, JULY[0], JULY[2], ttl="1m", op="x")
    assert (again.id, again.token, again.replayed) == (stay.id, stay.token, True)
    bigger = store.hk.calendar("inn", {"double": 9, "suite": 1}, zone="Europe/Lisbon")
    assert bigger.hold({"suite": 1, "double": 1}, JULY[0], JULY[2], ttl=60, op="x").replayed
    with pytest.raises(Exception, match="operation_conflict"):
        inn.hold({"double": 1, "suite": 1}, JULY[0], JULY[3], ttl=60, op="x")
    store.clock.set(moment(datetime(2026, 7, 3, tzinfo=LISBON)))
    with pytest.raises(WindowClosed):
        inn.hold("double", JULY[0], JULY[2], ttl=60, op="y")


def test_a_shorter_and_a_longer_stay(store: Store) -> None:
    inn = opened(store)
    stay = inn.hold("suite", JULY[0], JULY[4], ttl=60)
    store.hk.release(stay, quantity=inn.legs("suite", JULY[3], JULY[4]))
    longer = inn.hold("suite", JULY[4], JULY[5], ttl=60)
    store.hk.confirm(stay)
    store.hk.confirm(longer)
    store.hk.return_units(stay, quantity=inn.legs("suite", JULY[2], JULY[3]))
    assert [night.available for night in inn.available("suite", JULY[0], JULY[5]).nights] == [0, 0, 1, 1, 0]
    (leg,) = inn.legs("suite", JULY[0], JULY[1])
    assert [hold.id for hold in store.hk.holds(pool=leg.pool)] == [stay.id]


def test_capacity_may_depend_on_the_night(store: Store) -> None:
    inn = store.hk.calendar("inn", {"double": lambda night: 5 if night.month == 7 else 1})
    found = inn.available("double", date(2026, 6, 30), date(2026, 7, 2))
    assert [night.total for night in found.nights] == [1, 5]
    inn.hold({"double": 5}, JULY[0], JULY[1], ttl=60)


def test_another_number_of_rooms_in_nights_that_are_known(store: Store) -> None:
    inn = opened(store)
    inn.consume({"double": 2}, JULY[1], JULY[3])
    assert inn.resize("double", 3, JULY[0], JULY[9]) == 2
    assert [night.total for night in inn.available("double", JULY[0], JULY[4]).nights] == [2, 3, 3, 2]
    inn.consume("double", JULY[1], JULY[2])
    with pytest.raises(BelowInUse) as no:
        inn.resize("double", 2, JULY[0], JULY[9])
    assert no.value.in_use == 3
    assert [night.total for night in inn.available("double", JULY[1], JULY[3]).nights] == [3, 3], "all or none"
    assert inn.resize("suite", 3, JULY[0], JULY[9]) == 0


# Times of day


def hours(day: int, first: float, last: float, zone: ZoneInfo = LISBON) -> tuple[datetime, datetime]:
    midnight = datetime(2026, 7, day, tzinfo=zone)
    return midnight + timedelta(hours=first), midnight + timedelta(hours=last)


def test_courts_by_the_half_hour(store: Store) -> None:
    club = store.hk.calendar("club", {"court": 1}, zone="Europe/Lisbon", every="30m")
    club.hold("court", *hours(1, 9, 10.5), ttl=60)
    club.hold("court", *hours(1, 10.5, 11), ttl=60)
    with pytest.raises(InsufficientCapacity) as no:
        club.hold("court", *hours(1, 10, 11.5), ttl=60)
    assert [short.pool for short in no.value.shortfalls] == [
        "~calendar/club/court/2026-07-01T09:00:00Z",  # ten o'clock in Lisbon
        "~calendar/club/court/2026-07-01T09:30:00Z",
    ]
    madrid = hours(1, 12, 12.5, ZoneInfo("Europe/Madrid"))
    assert club.available("court", *madrid).nights[0].begins == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_both_hours_of_a_doubled_hour_can_be_held(memory: Store) -> None:
    club = memory.hk.calendar("club", {"court": 1}, zone="Europe/Berlin", every="1h")
    berlin = ZoneInfo("Europe/Berlin")
    first, second = (datetime(2026, 10, 25, 2, tzinfo=berlin, fold=fold) for fold in (0, 1))
    three = datetime(2026, 10, 25, 3, tzinfo=berlin)
    assert len(club.hold("court", first, three, ttl=60).legs) == 2
    memory.clock.advance(60)
    club.hold("court", second, three, ttl=60)
    club.hold("court", first, second, ttl=60)


# Bad input

BEGIN, END = JULY[0], JULY[2]
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"what": "attic"}, "room", "room_unknown"),
    ({"what": ""}, "room", "room_unknown"),
    ({"what": {"attic": 1}}, "room", "room_unknown"),
    ({"what": {7: 1}}, "room", "room_unknown"),
    ({"what": {}}, "what", "what_malformed"),
    ({"what": 7}, "what", "what_malformed"),
    ({"what": ["double"]}, "what", "what_malformed"),
    ({"what": {"double": 0}}, "quantity", "quantity_out_of_range"),
    ({"what": {"double": True}}, "quantity", "quantity_not_whole"),
    ({"what": {"double": 2**53}}, "quantity", "quantity_out_of_range"),
    ({"end": BEGIN}, "end", "end_not_after_begin"),
    ({"end": date(2026, 6, 30)}, "end", "end_not_after_begin"),
    ({"end": date(2029, 7, 1)}, "end", "range_too_long"),
    ({"what": {"double": 1, "suite": 1}, "end": date(2028, 1, 1)}, "end", "range_too_long"),
    ({"begin": date(1970, 12, 31)}, "begin", "begin_out_of_range"),
    ({"end": date.max}, "end", "end_out_of_range"),
    ({"begin": date.min}, "begin", "begin_out_of_range"),
    ({"begin": "2026-07-01"}, "begin", "begin_not_date"),
    ({"begin": datetime(2026, 7, 1)}, "begin", "begin_not_date"),  # noqa: DTZ001
    ({"begin": datetime(2026, 7, 1, tzinfo=UTC)}, "begin", "begin_not_date"),
    ({"end": None}, "end", "end_not_date"),
    ({"ttl": None}, "ttl", "ttl_required"),
    ({"deadline": 5}, "deadline", "deadline_ambiguous"),
    ({"ttl": None, "deadline": datetime(2026, 7, 1)}, "deadline", "deadline_naive"),  # noqa: DTZ001
    ({"metadata": 5}, "metadata", "metadata_not_object"),
    ({"room": "double"}, "room", "argument_unknown"),
]


@pytest.mark.parametrize(("options", "field", "code"), BAD, ids=range(len(BAD)))
def test_bad_stays_are_refused_and_nothing_is_written(
    memory: Store, options: dict[str, Any], field: str, code: str
) -> None:
    inn = opened(memory)
    with pytest.raises(InvalidRequest) as no:
        inn.hold(**{"what": "double", "begin": BEGIN, "end": END, "ttl": 60, **options})
    assert (no.value.field, no.value.code) == (field, code)
    assert list(memory.hk.journal.list()) == []


TIMES: list[tuple[Any, Any, str, str]] = [
    (datetime(2026, 7, 1, 9), datetime(2026, 7, 1, 10, tzinfo=UTC), "begin", "begin_naive"),  # noqa: DTZ001
    (datetime(2026, 7, 1, 9, tzinfo=UTC), datetime(2026, 7, 1, 10), "end", "end_naive"),  # noqa: DTZ001
    (JULY[0], JULY[1], "begin", "begin_not_datetime"),
    (datetime(2026, 7, 1, 9, 5, tzinfo=UTC), datetime(2026, 7, 1, 10, tzinfo=UTC), "begin", "begin_off_grid"),
    (datetime(2026, 7, 1, 9, tzinfo=UTC), datetime(2026, 7, 1, 9, 31, tzinfo=UTC), "end", "end_off_grid"),
    (datetime(2026, 7, 1, 9, 0, 0, 1, tzinfo=UTC), datetime(2026, 7, 1, 10, tzinfo=UTC), "begin", "begin_off_grid"),
    (datetime(2026, 7, 1, 9, tzinfo=UTC), datetime(2026, 7, 1, 9, tzinfo=UTC), "end", "end_not_after_begin"),
    (datetime(2026, 7, 1, 9, tzinfo=UTC), datetime(2027, 7, 1, 9, tzinfo=UTC), "end", "range_too_long"),
    (datetime(2026, 7, 1, 9, tzinfo=UTC), datetime(9999, 7, 1, 9, tzinfo=UTC), "end", "end_out_of_range"),
]


@pytest.mark.parametrize(("begin", "end", "field", "code"), TIMES, ids=range(len(TIMES)))
def test_bad_times_are_refused(memory: Store, begin: Any, end: Any, field: str, code: str) -> None:
    club = memory.hk.calendar("club", {"court": 1}, every="30m")
    for verb, options in (("hold", {"ttl": 60}), ("available", {}), ("legs", {})):
        with pytest.raises(InvalidRequest) as no:
            getattr(club, verb)("court", begin, end, **options)
        assert (no.value.field, no.value.code) == (field, code)


MADE: list[tuple[tuple[Any, ...], dict[str, Any], str, str]] = [
    (("", {"a": 1}), {}, "name", "name_required"),
    (("inn", {}), {}, "rooms", "rooms_malformed"),
    (("inn", ["a"]), {}, "rooms", "rooms_malformed"),
    (("inn", {"": 1}), {}, "rooms", "rooms_required"),
    (("inn", {"a": -1}), {}, "rooms", "rooms_out_of_range"),
    (("inn", {"a": True}), {}, "rooms", "rooms_not_whole"),
    (("inn", {"a": 1}), {"zone": "Nowhere"}, "zone", "zone_unknown"),
    (("inn", {"a": 1}), {"zone": None}, "zone", "zone_malformed"),
    (("inn", {"a": 1}), {"every": 0}, "every", "every_out_of_range"),
    (("inn", {"a": 1}), {"every": "25h"}, "every", "every_out_of_range"),
    (("inn", {"a": 1}), {"every": "often"}, "every", "every_malformed"),
    (("inn", {"a": 1}), {"closed": "2026-07-01"}, "closed", "closed_malformed"),
    (("inn", {"a": 1}), {"closed": ["2026-07-01"]}, "closed", "closed_malformed"),
    (("inn", {"a": 1}), {"closed": [datetime(2026, 7, 1, tzinfo=UTC)]}, "closed", "closed_malformed"),
    (("inn", {"a": 1}), {"every": "1h", "closed": [date(2026, 7, 1)]}, "closed", "closed_malformed"),
]


@pytest.mark.parametrize(("made", "options", "field", "code"), MADE, ids=range(len(MADE)))
def test_bad_calendars_are_refused(memory: Store, made: Any, options: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as no:
        memory.hk.calendar(*made, **options)
    assert (no.value.field, no.value.code) == (field, code)


def test_bad_totals_and_operation_ids_of_a_resize(memory: Store) -> None:
    inn = opened(memory)
    for total, call, code in [(-1, {}, "total_out_of_range"), (1, {"op": "x"}, "op_unsupported")]:
        with pytest.raises(InvalidRequest) as no:
            inn.resize("double", total, BEGIN, END, **call)
        assert no.value.code == code


def test_a_stay_can_be_returned_until_a_month_after_its_last_night(store: Store) -> None:
    """Then it is dropped, because a night is swept with its consumption; the refusal says until when it could be returned."""
    hk, inn = store.hk, opened(store)
    early, late = [inn.consume("double", JULY[0], JULY[3]) for _ in range(2)]
    until = moment(datetime(2026, 7, 4, tzinfo=LISBON)) + 30 * 86_400_000_000
    for slot in (until - 20 * 86_400_000_000, until - 1):
        store.clock.set(slot)
        hk.sweep()
    assert hk.pools("~calendar/") == []
    assert hk.return_units(early).state is State.CONFIRMED
    store.clock.set(until)
    hk.sweep()
    with pytest.raises(HoldRetired) as refused:
        hk.return_units(late, op="too late")
    said = (
        f"holdkit: hold_retired: hold '{late.id}' is no longer kept: its units could be returned until 2026-08-02 23:00:00.000+00:00; "
        "after its last window, such as a night, a hold is kept for `retention`"
    )
    assert (str(refused.value), refused.value.replayed) == (said, False)
    store.clock.advance(60)
    hk.admin.change_limits(retention="90d")
    with pytest.raises(HoldRetired) as again:
        hk.return_units(late, op="too late")
    recorded = " (this is the recorded answer: to try again, use a new operation id)"
    assert (str(again.value), again.value.replayed) == (said + recorded, True)
    with pytest.raises(HoldRetired, match="ended longer ago than the retention period"):
        hk.release(late)


def test_the_first_returns_of_a_batch_that_come_too_late_say_so_too(store: Store) -> None:
    """Each reads a history, so a batch of a thousand must not read a thousand of them."""
    hk, inn = store.hk, opened(store)
    consumed = [inn.consume("double", JULY[night], JULY[night + 1]) for night in range(3)] * 4
    store.clock.set(moment(datetime(2026, 9, 1, tzinfo=LISBON)))
    hk.sweep()
    late = [ReturnUnits(id=stay.id, token=stay.token) for stay in consumed]
    release = ReleaseHold(id=consumed[0].id, token=consumed[0].token)
    told = [str(one.refusal) for one in hk.apply([release, *late])]
    assert ["could be returned until" in one for one in told] == [False] + [True] * 10 + [False] * 2
    assert "its units could be returned until 2026-07-31 23:00:00.000+00:00" in told[1]
    with pytest.raises(HoldRetired, match="could be returned until 2026-07-31") as stopped:
        hk.apply(late, atomic=True)
    assert stopped.value.index == 0


def test_what_was_consumed_of_a_counted_pool_can_be_returned_for_longer(store: Store) -> None:
    hk = store.hk
    store.clock.set(moment(datetime(2026, 7, 1, tzinfo=UTC)))
    hk.create_pool("parking", total=3)
    place = hk.consume("parking", 1)
    store.clock.advance(400 * 86_400 - 1)
    hk.sweep()
    assert hk.get(place).state is State.CONFIRMED
    store.clock.advance(1)
    hk.sweep()
    with pytest.raises(HoldRetired) as refused:
        hk.return_units(place)
    assert str(refused.value) == (
        f"holdkit: hold_retired: hold '{place.id}' is no longer kept: its units could be returned until 2027-08-05 00:00:00.000+00:00; a "
        "hold with consumed units is kept for `retention_consumed`, and they are returned by pool then"
    )
    assert hk.pool("parking").raw.loose == 1
