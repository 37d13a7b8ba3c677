"""`holdkit.Limits`: intervals are given like a ttl, and the limits in force are reported as intervals."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_type

import pytest

import holdkit
from holdkit import InvalidRequest, Limits, LimitsInForce
from holdkit.core import bounds
from holdkit.core.limits import SPANS
from holdkit.kernel.limits import limits_of, slots_of
from holdkit.testing import FakeClock

WEEK = timedelta(days=7)
SPELLINGS = [604_800, 604_800.0, "604800s", "7d", "168h", WEEK]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def url_of(engine: str, limits: Limits, request: pytest.FixtureRequest) -> str:
    if engine == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        holdkit.migrate(url, limits=limits)
        return url
    folder: Path = request.getfixturevalue("tmp_path")
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/holds.db"}[engine]


def test_every_interval_takes_every_form() -> None:
    for name in SPANS:
        for said in SPELLINGS:
            slots = slots_of(Limits(**{name: said}))  # type: ignore[arg-type]
            assert getattr(slots, name) == 604_800 * 10**6, (name, said)
    assert len(SPANS) == 8


def test_the_two_classes_have_the_same_fields_and_defaults() -> None:
    others = ("audit_refusals", "erased_accounts", "erased_claims")  # each process has its own; of erasures
    bounding = [name for name in bounds.Limits.__struct_fields__ if name not in others]
    assert bounding == [*Limits.__struct_fields__, "past"]
    assert slots_of(Limits()) == bounds.Limits()
    assert limits_of(bounds.Limits()) == LimitsInForce()
    assert set(LimitsInForce.__struct_fields__) == set(Limits.__struct_fields__)
    assert slots_of(LimitsInForce()) == bounds.Limits()
    assert {name for name in Limits.__struct_fields__ if isinstance(getattr(Limits(), name), timedelta)} == set(SPANS)


def test_limits_in_force_are_typed_as_they_are_told() -> None:
    with holdkit.connect("memory://", clock=FakeClock(), limits=Limits(retention="7d")) as hk:
        heard = queue.Queue[dict[str, Any]]()
        hk.on("limits.changed", lambda entry: heard.put(entry.after))
        changed = hk.change_limits(max_ttl="90m", max_holds=5)
        assert_type(hk.limits, LimitsInForce)
        assert_type(hk.limits.retention, timedelta)
        assert_type(changed.max_ttl + hk.limits_in_force().retention, timedelta)
        assert (hk.limits.retention, changed.max_ttl) == (WEEK, timedelta(minutes=90))
        assert [type(getattr(hk.limits, name)) for name in SPANS] == [timedelta] * len(SPANS)
        assert heard.get(timeout=60) == {"max_ttl": 5_400.0, "max_holds": 5} == hk.journal()[0].after


def test_connect_obeys_the_limits_it_was_given(engine: str, request: pytest.FixtureRequest) -> None:
    limits = Limits(min_ttl="10s", max_ttl=timedelta(minutes=5), max_lifetime=600, retention="2d", lock_timeout=2.5)
    url, clock = url_of(engine, limits, request), FakeClock()
    with holdkit.connect(url, clock=clock, limits=limits) as hk:
        hk.create_pool("p", 1)
        for ttl, code in ((9, "ttl_too_short"), (301, "ttl_too_long")):
            with pytest.raises(InvalidRequest) as caught:
                hk.hold("p", ttl=ttl)
            assert caught.value.code == code
        hk.release(hk.hold("p", ttl="5m"))
        assert hk.limits == hk.limits_in_force()
        told = hk.limits
        assert (told.min_ttl, told.max_ttl) == (timedelta(seconds=10), timedelta(minutes=5))
        assert (told.max_lifetime, told.retention) == (timedelta(minutes=10), timedelta(days=2))
        assert (told.lock_timeout, told.version) == (timedelta(seconds=2.5), 0)


def test_connect_async_obeys_too(engine: str, request: pytest.FixtureRequest) -> None:
    limits = Limits(max_ttl="5m")
    url = url_of(engine, limits, request)

    async def main() -> None:
        async with await holdkit.connect_async(url, clock=FakeClock(), limits=limits) as hk:
            assert hk.limits.max_ttl == (await hk.limits_in_force()).max_ttl == timedelta(minutes=5)
            assert (await hk.change_limits(max_ttl="1h")).max_ttl == hk.limits.max_ttl == timedelta(hours=1)

    asyncio.run(main())


def test_the_same_in_another_form_is_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    for said in SPELLINGS:
        with holdkit.connect(url, limits=Limits(retention=said)) as hk:  # type: ignore[arg-type]
            assert hk.limits.retention == WEEK
    again = LimitsInForce(retention=WEEK)
    with holdkit.connect(url, limits=again) as hk:
        assert hk.limits == again


def test_a_disagreement_is_told_in_seconds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    holdkit.connect(url, limits=Limits(retention="7d", max_legs=7)).close()
    for limits, words in (
        (Limits(retention="9d"), "retention is 604800 s in .*, not 777600 s"),
        (Limits(retention="7d", max_legs=8), "max_legs is 7 in .*, not 8:"),
    ):
        with pytest.raises(InvalidRequest, match=words) as caught:
            holdkit.connect(url, limits=limits)
        assert caught.value.code == "limits_differ"


def nonsense() -> Iterator[tuple[str, Any, str]]:
    """What no interval is, and no number of things."""
    for name in SPANS:
        yield name, "quarter", f"{name}_malformed"
        yield name, None, f"{name}_malformed"
        yield name, True, f"{name}_malformed"
        yield name, float("nan"), f"{name}_malformed"
        yield name, [60], f"{name}_malformed"
        yield name, -1, f"{name}_too_short"
        yield name, timedelta(seconds=-1), f"{name}_too_short"
        yield name, 10**30, f"{name}_too_long"
        yield name, timedelta.max, f"{name}_too_long"
    for name in ("max_pools", "max_legs", "max_queue"):
        for value in ("9", -1, 1.5, timedelta(1), True):
            yield name, value, f"{name}_malformed"


@pytest.mark.parametrize(("name", "value", "code"), list(nonsense()))
def test_nonsense_is_refused_by_the_name_of_the_limit(name: str, value: Any, code: str) -> None:
    limits = Limits(**{name: value})
    with pytest.raises(InvalidRequest) as caught:
        holdkit.connect("memory://", limits=limits)
    assert (caught.value.field, caught.value.code) == (name, code)
    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(holdkit.connect_async("memory://", limits=limits))
    assert (caught.value.field, caught.value.code) == (name, code)
    with pytest.raises(InvalidRequest) as caught:
        holdkit.migrate("postgresql://nowhere/none", limits=limits)
    assert (caught.value.field, caught.value.code) == (name, code)


@pytest.mark.parametrize(("name", "value", "code"), [each for each in nonsense() if each[0] in bounds.MEANING])
def test_a_change_is_refused_alike(name: str, value: Any, code: str) -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        with pytest.raises(InvalidRequest) as caught:
            hk.change_limits(**{name: value})
        assert (caught.value.field, caught.value.code) == (name, code)
        assert hk.limits.version == 0


def test_only_the_public_class_is_taken() -> None:
    """The core's own counts microseconds: nobody shall take one for the other."""
    slots: Any = bounds.Limits(retention=90)
    with pytest.raises(InvalidRequest, match=r"must be a holdkit\.Limits") as caught:
        holdkit.connect("memory://", limits=slots)
    assert (caught.value.field, caught.value.code) == ("limits", "limits_malformed")
    with pytest.raises(InvalidRequest) as caught:
        holdkit.migrate("postgresql://nowhere/none", limits=slots)
    assert (caught.value.field, caught.value.code) == ("limits", "limits_malformed")


def test_a_version_is_not_asked_for() -> None:
    with pytest.raises(InvalidRequest, match="version") as caught:
        holdkit.connect("memory://", limits=Limits(version=1))
    assert (caught.value.field, caught.value.code) == ("limits", "limits_malformed")
