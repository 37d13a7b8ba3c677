"""The forms in which intervals and times are accepted, in and out of range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdkit
from holdkit import InvalidRequest
from holdkit.errors import DeadlinePassed, LifetimeExceeded, SlotOverflow
from holdkit.kernel.arguments import span
from holdkit.kernel.times import FIRST, LAST, datetime_of, is_in_calendar, moment
from holdkit.testing import FakeClock

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("spelled", "slots"),
    [
        ("90s", 90 * SECOND),
        ("5m", 300 * SECOND),
        ("2h", 7200 * SECOND),
        ("1d", 86_400 * SECOND),
        ("250ms", 250_000),
        ("1.5h", 5400 * SECOND),
        (" 5 m ", 300 * SECOND),
        (90, 90 * SECOND),
        (0.25, 250_000),
        (1e-6, 1),
        (timedelta(minutes=5), 300 * SECOND),
        (timedelta(microseconds=1), 1),
        (timedelta(days=-1), -86_400 * SECOND),
    ],
)
def test_intervals(spelled: Any, slots: int) -> None:
    assert span(spelled) == slots


@given(st.integers(1, 10**9), st.sampled_from([("ms", 10**3), ("s", 10**6), ("m", 6 * 10**7), ("h", 36 * 10**8)]))
def test_every_whole_number_of_units(number: int, unit: tuple[str, int]) -> None:
    word, slots = unit
    if number * slots <= 2**53:
        assert span(f"{number}{word}") == number * slots


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("", "ttl_malformed"),
        ("5", "ttl_malformed"),
        ("m", "ttl_malformed"),
        ("-5m", "ttl_malformed"),
        ("5 minutes", "ttl_malformed"),
        ("1h30m", "ttl_malformed"),
        ("1e3s", "ttl_malformed"),
        ("٣s", "ttl_malformed"),
        ("9" * 40 + "s", "ttl_malformed"),
        ("999999999999999999d", "ttl_too_long"),
        (float("nan"), "ttl_malformed"),
        (float("inf"), "ttl_malformed"),
        (1e300, "ttl_too_long"),
        (-1e300, "ttl_too_short"),
        (10**30, "ttl_too_long"),
        (-(10**30), "ttl_too_short"),
        (True, "ttl_malformed"),
        (b"5m", "ttl_malformed"),
        ([5], "ttl_malformed"),
        (object(), "ttl_malformed"),
        (0, "ttl_too_short"),
        (-1, "ttl_too_short"),
        (1e-9, "ttl_too_short"),
        (timedelta(0), "ttl_too_short"),
        (timedelta.max, "ttl_too_long"),
        (timedelta(days=31), "ttl_too_long"),
        ("31d", "ttl_too_long"),
    ],
)
def test_bad_intervals(bad: Any, code: str) -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        hold = hk.hold("p", 1, ttl=60)
        for call in (
            lambda: hk.hold("p", 1, ttl=bad),
            lambda: hk.extend(hold, ttl=bad),
            lambda: hk.apply([holdkit.commands.PlaceHold(legs=(holdkit.Leg("p"),), ttl=bad)]),
            lambda: hk.holding("p", 1, ttl=bad).__enter__(),
        ):
            with pytest.raises(InvalidRequest) as refused:
                call()
            assert (refused.value.field, refused.value.code) == ("ttl", code)
        with pytest.raises(InvalidRequest) as refused:
            hk.extend(hold, by=bad)
        assert (refused.value.field, refused.value.code) == ("by", code.replace("ttl", "by"))


class Vague(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "vague"


def test_deadlines() -> None:
    clock = FakeClock(1_700_000_000 * SECOND)
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 10)
        at = datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)
        assert hk.hold("p", 1, deadline=at).deadline == at
        local = at.astimezone(timezone(timedelta(hours=2)))
        assert hk.hold("p", 1, deadline=local).deadline == at
        assert hk.hold("p", 1, deadline=clock.now() + 1).raw.deadline == clock.now() + 1
        hold = hk.hold("p", 1, ttl=1)
        assert hk.extend(hold, until=at).deadline == at
        assert hk.extend(hold, until=local + timedelta(hours=1)).deadline == at + timedelta(hours=1)


@pytest.mark.parametrize("naive", [datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=Vague())])  # noqa: DTZ001
def test_naive_datetimes_are_refused(naive: datetime) -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        hold = hk.hold("p", 1, ttl=60)
        for field, call in (
            ("deadline", lambda: hk.hold("p", 1, deadline=naive)),
            ("until", lambda: hk.extend(hold, until=naive)),
            ("deadline", lambda: hk.apply([holdkit.commands.PlaceHold(legs=(holdkit.Leg("p"),), deadline=naive)])),
            ("until", lambda: hk.apply([holdkit.commands.ExtendHold(id=hold.id, token=hold.token, until=naive)])),
        ):
            with pytest.raises(InvalidRequest) as refused:
                call()
            assert (refused.value.field, refused.value.code) == (field, f"{field}_naive")


@pytest.mark.parametrize("op", [None, "op-1"])
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_deadlines_beyond_every_clock(op: str | None, engine: str, tmp_path: Path) -> None:
    url = "memory://" if engine == "memory" else f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url, clock=FakeClock(5)) as hk:
        hk.create_pool("p", 1)
        for huge in (2**63, 2**64, 10**30, 10**400, 10**5_000):
            for _ in range(2):  # the second time it is replayed
                with pytest.raises(SlotOverflow):
                    hk.hold("p", 1, deadline=huge, op=op and f"{op}-{huge:x}"[:200])
        for past in (5, 0, -1, -(2**63), -(10**30), -(10**400), -(10**5_000)):
            with pytest.raises(DeadlinePassed):
                hk.hold("p", 1, deadline=past, op=op and f"{op}-{past:x}"[:200])
        with pytest.raises(LifetimeExceeded):
            hk.hold("p", 1, deadline=2**62)
        with pytest.raises(LifetimeExceeded):
            hk.hold("p", 1, deadline=datetime.max.replace(tzinfo=UTC))
        with pytest.raises(DeadlinePassed):
            hk.hold("p", 1, deadline=datetime.min.replace(tzinfo=UTC))
        hold = hk.hold("p", 1, ttl=60)
        with pytest.raises(SlotOverflow):
            hk.extend(hold, until=10**30, op=op)
        with pytest.raises(SlotOverflow):
            hk.extend(hold, until=10**5_000, op=op and f"{op}-longer")


@pytest.mark.parametrize("bad", [1.5, "tomorrow", True, b"1", [1], float("nan")])
def test_deadlines_of_another_kind(bad: Any) -> None:
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        hold = hk.hold("p", 1, ttl=60)
        with pytest.raises(InvalidRequest) as refused:
            hk.hold("p", 1, deadline=bad)
        assert (refused.value.field, refused.value.code) == ("deadline", "deadline_malformed")
        with pytest.raises(InvalidRequest) as refused:
            hk.extend(hold, until=bad)
        assert (refused.value.field, refused.value.code) == ("until", "until_malformed")


@given(st.integers(-(2**63), 2**63 - 1))
def test_slots_as_datetimes_and_back(slot: int) -> None:
    at = datetime_of(slot)
    assert moment(at) == slot if is_in_calendar(slot) else at in (FIRST, LAST)
