"""`holdkit.Limits`: intervals are given like a ttl, and the limits in force are reported as intervals."""

from __future__ import annotations

import asyncio
import queue
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdkit
from holdkit import InvalidRequest, Limits
from holdkit.core import bounds
from holdkit.core.limits import SPANS
from holdkit.engines.sqlite import open_engine as open_sqlite
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.kernel.limits import limits_of, slots_of
from holdkit.reports import LimitsInForce
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
    assert len(SPANS) == 9


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
        hk.journal.on("limits.changed", lambda entry: heard.put(entry.after))
        changed = hk.admin.change_limits(max_ttl="90m", max_holds=5)
        assert_type(hk._limits, LimitsInForce)
        assert_type(hk._limits.retention, timedelta)
        assert_type(changed.max_ttl + hk.admin.limits().retention, timedelta)
        assert (hk._limits.retention, changed.max_ttl) == (WEEK, timedelta(minutes=90))
        assert [type(getattr(hk._limits, name)) for name in SPANS] == [timedelta] * len(SPANS)
        assert heard.get(timeout=60) == {"max_ttl": 5_400.0, "max_holds": 5} == hk.journal.list()[0].after


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
        assert hk._limits == hk.admin.limits()
        told = hk._limits
        assert (told.min_ttl, told.max_ttl) == (timedelta(seconds=10), timedelta(minutes=5))
        assert (told.max_lifetime, told.retention) == (timedelta(minutes=10), timedelta(days=2))
        assert (told.lock_timeout, told.version) == (timedelta(seconds=2.5), 0)


def test_connect_async_obeys_too(engine: str, request: pytest.FixtureRequest) -> None:
    limits = Limits(max_ttl="5m")
    url = url_of(engine, limits, request)

    async def main() -> None:
        async with await holdkit.connect_async(url, clock=FakeClock(), limits=limits) as hk:
            assert hk._limits.max_ttl == (await hk.admin.limits()).max_ttl == timedelta(minutes=5)
            assert (await hk.admin.change_limits(max_ttl="1h")).max_ttl == hk._limits.max_ttl == timedelta(hours=1)

    asyncio.run(main())


def test_the_same_in_another_form_is_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    for said in SPELLINGS:
        with holdkit.connect(url, limits=Limits(retention=said)) as hk:  # type: ignore[arg-type]
            assert hk._limits.retention == WEEK
    again = LimitsInForce(retention=WEEK)
    with holdkit.connect(url, limits=again) as hk:
        assert hk._limits == again


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


ALLOWED = {
    "max_pools": (0, 2**53 - 1),
    "max_holds": (0, 2**53 - 1),
    "max_operations": (0, 2**53 - 1),
    "retry_window": (timedelta(microseconds=1), timedelta(days=100_000)),
    "retention": (timedelta(0), timedelta(days=100_000)),
    "retention_consumed": (timedelta(0), timedelta(days=100_000)),
    "min_ttl": (timedelta(microseconds=1), timedelta(days=100_000)),
    "max_ttl": (timedelta(microseconds=1), timedelta(days=100_000)),
    "max_claim_ttl": (timedelta(microseconds=1), timedelta(days=100_000)),
    "max_lifetime": (timedelta(microseconds=1), timedelta(days=100_000)),
    "max_legs": (1, 10_000),
    "max_due": (1, 10_000),
    "max_offers": (1, 10_000),
    "max_line": (0, 2**53 - 1),
    "max_batch": (1, 10_000),
    "max_touched_legs": (1, 1_000_000),
    "max_queue": (1, 1_000_000),
    "lock_timeout": (timedelta(0), timedelta(days=10)),
    "call_timeout": (timedelta(milliseconds=1), timedelta(days=100_000)),
}
"""The least and the greatest value of each limit."""
UNBOUNDED = ("max_pools", "max_holds", "max_operations")
STORED = (
    *UNBOUNDED,
    "retry_window",
    "retention",
    "retention_consumed",
    "min_ttl",
    "max_ttl",
    "max_claim_ttl",
    "max_lifetime",
    "max_legs",
    "max_line",
)
WORDS = {
    "max_pools": "must be a whole number between 0 and 9007199254740991, or none for no bound",
    "max_legs": "must be a whole number between 1 and 10000",
    "max_queue": "must be a whole number between 1 and 1000000",
    "min_ttl": "must lie between 0.001ms and 100000d",
    "retention": "must lie between 0s and 100000d",
    "lock_timeout": "must lie between 0s and 10d",
    "call_timeout": "must lie between 1ms and 100000d",
}
"""How messages say it."""


def beyond(name: str) -> list[tuple[Any, str]]:
    """Values that the limit may not have, each with the code that says so."""
    least, greatest = ALLOWED[name]
    if name in SPANS:
        assert isinstance(least, timedelta)
        assert isinstance(greatest, timedelta)
        step = timedelta(microseconds=1)
        said: list[Any] = ["quarter", None, True, float("nan"), float("inf"), [60], "", "9" * 40 + "s"]
        short: list[Any] = [least - step, -1, -1e300, timedelta.min, *(() if name.startswith("ret") else (-0.1,))]
        long: list[Any] = [greatest + step, 10**30, 10**400, 1e300, timedelta.max, "99999999999d"]
        codes = {"malformed": said, "too_short": short, "too_long": long}
    else:
        assert isinstance(least, int)
        assert isinstance(greatest, int)
        said = ["9", 1.5, timedelta(1), True, [], *(() if name in UNBOUNDED else (None,))]
        codes = {"malformed": said, "too_small": [least - 1, -(10**400)], "too_large": [greatest + 1, 2**63, 10**400]}
    return [(value, f"{name}_{code}") for code, values in codes.items() for value in values]


NONSENSE = [
    pytest.param(name, value, code, id=f"{code}-{number}")
    for name in ALLOWED
    for number, (value, code) in enumerate(beyond(name))
]


def test_each_limit_has_a_least_and_a_greatest_value() -> None:
    assert list(ALLOWED) == list(bounds.BOUNDS) == list(Limits.__struct_fields__[:-1])
    assert STORED == bounds.MEANING
    for name, (least, greatest) in ALLOWED.items():
        for value in (least, greatest, getattr(Limits(), name)):
            given: dict[str, Any] = {name: value}
            slots = getattr(slots_of(Limits(**given)), name)
            assert slots == (value // timedelta(microseconds=1) if isinstance(value, timedelta) else value), name
    assert slots_of(Limits(max_pools=None, max_holds=None, max_operations=None)) == bounds.Limits()


@pytest.mark.parametrize(("name", "value", "code"), NONSENSE)
def test_what_a_limit_may_not_be_is_refused_where_it_is_given(name: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Limits(**{name: value})
    assert (caught.value.field, caught.value.code) == (name, code)
    assert len(str(caught.value)) < 150, "no value is echoed, however long it is"
    if name in WORDS and not (name in SPANS and code.endswith("malformed")):
        assert str(caught.value) == f"holdkit: {name}: {WORDS[name]}"


def test_limits_that_were_not_checked_are_checked_at_connect() -> None:
    """As `msgspec` can make them, and a pickle."""
    limits = Limits()
    msgspec.structs.force_setattr(limits, "lock_timeout", 2e6)
    for attempt in (
        lambda: holdkit.connect("memory://", limits=limits),
        lambda: asyncio.run(holdkit.connect_async("memory://", limits=limits)),
        lambda: holdkit.migrate("postgresql://nowhere/none", limits=limits),
    ):
        with pytest.raises(InvalidRequest, match="must lie between 0s and 10d") as caught:
            attempt()
        assert (caught.value.field, caught.value.code) == ("lock_timeout", "lock_timeout_too_long")


@pytest.mark.parametrize(("name", "value", "code"), [each for each in NONSENSE if each.values[0] in STORED])
def test_a_change_is_refused_alike(name: str, value: Any, code: str) -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk:
        with pytest.raises(InvalidRequest) as caught:
            hk.admin.change_limits(**{name: value})
        assert (caught.value.field, caught.value.code) == (name, code)
        assert hk._limits.version == 0


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_limit_is_accepted_exactly_within_its_bounds(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(ALLOWED)))
    least, greatest = ALLOWED[name]
    unit = timedelta(microseconds=1) if name in SPANS else 1
    low, high = least // unit, greatest // unit  # type: ignore[operator]
    near = st.one_of(*(st.integers(edge - 2, edge + 2) for edge in (low, high, 0)), st.integers(-(2**60), 2**60))
    count = data.draw(near)
    given: dict[str, Any] = {name: count * unit}
    if low <= count <= high:
        assert getattr(slots_of(Limits(**given)), name) == count
    else:
        with pytest.raises(InvalidRequest) as caught:
            Limits(**given)
        assert caught.value.field == name


EDGES = [{name: value} for name, edges in ALLOWED.items() for value in edges] + [
    {name: ALLOWED[name][edge] for name in ALLOWED} for edge in (0, 1)
]  # fmt: skip


@pytest.mark.parametrize("limits", EDGES, ids=lambda limits: "-".join(map(str, [*limits, *limits.values()][:2])))
def test_a_file_is_opened_with_each_edge(limits: dict[str, Any], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    for _ in range(2):  # as new, and as it was created
        with holdkit.connect(url, limits=Limits(**limits)) as hk:
            assert {name: getattr(hk._limits, name) for name in limits} == limits
            assert hk.pools() == []


def test_a_database_is_opened_and_used_with_each_edge_of_the_timeouts(migrated: Any) -> None:
    """PostgreSQL counts them in 31 bits of milliseconds."""
    url = migrated()
    for name in ("lock_timeout", "call_timeout"):
        for value in ALLOWED[name]:
            with holdkit.connect(url, limits=Limits(**{name: value})) as hk:  # type: ignore[arg-type]
                assert getattr(hk._limits, name) == value
                with holdkit.context(timeout="1m"):
                    assert hk.create_pool("p", 5, exist_ok=True).total == 5
                    assert hk.sweep().expired == 0


@pytest.mark.parametrize("edge", [0, 1])
def test_a_database_is_opened_with_the_edges_of_all_limits(edge: int, postgres_url: str) -> None:
    limits = Limits(**{name: edges[edge] for name, edges in ALLOWED.items()})  # type: ignore[arg-type]
    holdkit.migrate(postgres_url, limits=limits)
    with holdkit.connect(postgres_url, limits=limits) as hk, holdkit.context(timeout="1m"):
        assert {name: getattr(hk._limits, name) for name in ALLOWED} == {name: ALLOWED[name][edge] for name in ALLOWED}
        assert hk.pools() == []


def test_a_limit_of_older_data_that_is_beyond_its_bounds_stays(tmp_path: Path) -> None:
    """It was allowed when the data was created: the data can be opened, exported and imported, and given an allowed value."""
    ages = timedelta(days=200_000)
    older = open_sqlite(str(tmp_path / "holds.db"), limits=bounds.Limits(retention=ages // timedelta(microseconds=1)))
    lines = [*export(older)]
    older.close()
    import_journal(f"sqlite:///{tmp_path}/copy.db", Import(lines))
    for name in ("holds", "copy"):
        with holdkit.connect(f"sqlite:///{tmp_path}/{name}.db") as hk:
            assert hk._limits.retention == hk.admin.limits().retention == ages
            with pytest.raises(InvalidRequest, match="must lie between 0s and 100000d"):
                holdkit.connect(hk.url, limits=hk._limits)
            assert hk.admin.change_limits(retention="90d").retention == timedelta(days=90)


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
