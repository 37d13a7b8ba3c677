"""Pools as calls return them: what they show, and that every call returns the same type."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import holdkit
from holdkit import Allowance, Pool
from holdkit.commands import CreatePool
from holdkit.core.model import MAX_QUANTITY
from holdkit.core.model import Pool as StoredPool
from holdkit.errors import QuantityExceedsConsumed
from holdkit.kernel.one_line import MAX_LENGTH
from holdkit.testing import FakeClock

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
NIGHT = date(2026, 11, 19)


class Chairs(holdkit.Resource[str, None]):
    kind = "chairs"

    def capacity(self, tx: Any, key: str, window: None) -> int:
        return 3


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.set(int(NOON.timestamp()) * 1_000_000)
    return clock


@pytest.fixture
def hk(clock: FakeClock) -> Iterator[holdkit.Kernel]:
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("show:42", 2)
        yield hk


def resized(hk: holdkit.Kernel) -> Pool:
    budget = hk.budget("llm", tokens=Allowance(10, per="day"))
    budget.consume("ann", {"tokens": 1})
    return budget.resize("ann", "tokens", 20)


def freed(hk: holdkit.Kernel) -> Pool:
    hk.admin.change_limits(retention=0, retention_consumed=0, reason="nothing is kept")
    hk.consume("show:42")
    hk.sweep()
    return hk.admin.free("show:42", 1, reason="refund")


def below(hk: holdkit.Kernel) -> Pool:
    hk.create_pool("show:42//stalls", 1)
    return hk.pools(below="show:42")[0]


def of_resource(hk: holdkit.Kernel) -> Pool:
    chairs = hk.resource(Chairs())
    chairs.hold("a", ttl=60)
    return chairs.pools()[0].pool


def of_catalog(hk: holdkit.Kernel) -> Pool:
    hk.calendar("inn", {"double": 3}).hold("double", NIGHT, NIGHT + timedelta(days=1), ttl=60)
    return hk.admin.catalog.calendar("inn", begin="2026-11-19", days=1)[0].cells[0].pool


CALLS: dict[str, Callable[[holdkit.Kernel], Pool]] = {
    "create_pool": lambda hk: hk.create_pool("b", 1),
    "pool": lambda hk: hk.pool("show:42"),
    "pools": lambda hk: hk.pools()[0],
    "pools below": below,
    "apply": lambda hk: hk.apply([CreatePool(id="b", total=1)])[0].unwrap(),
    "resize_pool": lambda hk: hk.admin.resize_pool("show:42", 3),
    "limit_pool": lambda hk: hk.admin.limit_pool("show:42", 3),
    "archive_pool": lambda hk: hk.admin.archive_pool("show:42"),
    "unarchive_pool": lambda hk: hk.admin.unarchive_pool("show:42"),
    "remove_pool": lambda hk: hk.admin.remove_pool("show:42"),
    "free": freed,
    "budget": resized,
    "search": lambda hk: hk.admin.search("show").pools[0],
    "resource": of_resource,
    "resource without a hold": lambda hk: hk.resource(Chairs()).pool("a"),
    "catalog": of_catalog,
    "catalog of windows": lambda hk: (resized(hk), hk.admin.catalog.windows("budgets", "llm")[0].pool)[1],
    "catalog of resources": lambda hk: (of_resource(hk), hk.admin.catalog.resources("chairs")[0].pool)[1],
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_returns_the_result(hk: holdkit.Kernel, call: str) -> None:
    pool = CALLS[call](hk)
    assert (type(pool), type(pool.raw)) == (Pool, StoredPool)


def test_it_shows_what_is_stored(hk: holdkit.Kernel) -> None:
    hk.create_pool("venue", 9, per_account=5, line="skip")
    hk.create_pool("venue//stalls", 7)
    hk.hold("venue//stalls", 2, ttl=60, account="ann")
    hk.consume("venue", 3, account="ann")
    hk.join("venue", 5, ttl=60, offer_ttl=60, account="bob")
    pool = hk.pool("venue")
    assert (pool.id, pool.tenant, pool.total, pool.held, pool.consumed) == ("venue", "", 9, 2, 3)
    assert (pool.available, pool.bookable, pool.over, pool.waiting, pool.children) == (4, 0, False, 1, 1)
    assert (pool.per_account, pool.line, pool.archived, pool.closes, pool.replayed) == (5, "skip", False, None, False)
    assert pool.version == pool.raw.version > 1
    assert hk.admin.archive_pool("venue").archived


def test_an_answer_that_was_recorded_says_so(hk: holdkit.Kernel) -> None:
    answers = [hk.create_pool("b", 1, op="one") for _ in range(2)]
    assert [answer.replayed for answer in answers] == [False, True]


def test_the_end_of_a_window_is_a_datetime(hk: holdkit.Kernel) -> None:
    assert resized(hk).closes == datetime(2026, 11, 19, tzinfo=UTC)


def test_it_is_frozen_and_equal_to_what_stores_the_same(hk: holdkit.Kernel) -> None:
    pool = hk.pool("show:42")
    with pytest.raises(AttributeError, match="a Pool is frozen: total cannot be set"):
        pool.total = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="a Pool is frozen: raw cannot be deleted"):
        del pool.raw
    copy = pickle.loads(pickle.dumps(pool))
    assert copy == pool
    assert len({copy, pool}) == 1
    assert pool != Pool(structs.replace(pool.raw, held=1))
    assert pool != pool.raw


def test_a_repr_has_the_counters_and_what_limits_them(hk: holdkit.Kernel) -> None:
    assert repr(hk.pool("show:42")) == "<Pool show:42 total=2 held=0 consumed=0 available=2 waiting=0>"
    hk.hold("show:42", 2, ttl=60)
    hk.join("show:42", ttl=60, offer_ttl=60)
    assert repr(hk.pool("show:42")) == "<Pool show:42 total=2 held=2 consumed=0 available=0 waiting=1>"
    hk.create_pool("venue", 5, per_account=4)
    hk.create_pool("venue//stalls", 9)
    assert (
        repr(hk.pool("venue//stalls"))
        == "<Pool venue//stalls total=9 held=0 consumed=0 available=9 bookable=5 waiting=0>"
    )
    assert repr(hk.admin.archive_pool("venue")) == (
        "<Pool venue total=5 held=0 consumed=0 available=5 bookable=0 waiting=0 per_account=4 archived>"
    )


def test_a_repr_cuts_a_long_name_in_its_middle(hk: holdkit.Kernel) -> None:
    shown = repr(hk.create_pool("begin" + "x" * 200 + "end", 2))
    assert len(shown) == MAX_LENGTH
    assert shown.startswith("<Pool beginx")
    assert shown.endswith("xend total=2 held=0 consumed=0 available=2 waiting=0>")


def test_a_repr_names_a_pool_of_a_face_as_its_user_does(hk: holdkit.Kernel) -> None:
    assert repr(of_catalog(hk)).startswith("<Pool inn/double/2026-11-19 total=3 ")
    hk.claims.hold("email", "ann@example.com", ttl=60)
    assert repr(hk.pools("~claim/")[0]).startswith("<Pool email:ann@example.com total=1 ")


@given(id=st.text(min_size=1, max_size=512), amount=st.sampled_from([0, 7, MAX_QUANTITY]), archived=st.booleans())
def test_a_repr_is_one_line_that_is_not_too_long(id: str, amount: int, archived: bool) -> None:
    stored = StoredPool(
        "", id, amount, waiting=amount, children=amount, per_account=amount, least=amount, archived=archived
    )
    shown = repr(Pool(stored))
    assert len(shown) <= MAX_LENGTH
    assert shown.isprintable()
    assert shown[:6] + shown[-1] == "<Pool >"


def test_a_refused_return_says_how_many_units_are_loose(hk: holdkit.Kernel) -> None:
    hk.consume("show:42", 2)
    with pytest.raises(QuantityExceedsConsumed) as kept:
        hk.admin.free("show:42", 1, reason="refund")
    assert (kept.value.loose, kept.value.consumed) == (0, 2)
    hk.admin.change_limits(retention=0, retention_consumed=0, reason="nothing is kept")
    hk.sweep()
    with pytest.raises(QuantityExceedsConsumed, match="has 2 units consumed, and 2 of them come back") as refused:
        hk.admin.free("show:42", 3, reason="refund")
    assert (refused.value.requested, refused.value.loose, refused.value.consumed) == (3, 2, 2)
