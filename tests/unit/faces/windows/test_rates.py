"""Rates: fixed windows per client, on every engine, sync and async."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit import Allowance, InsufficientCapacity, InvalidRequest, State
from holdkit.core.values import pool_id
from holdkit.faces.allowances import meters_of
from holdkit.kernel.times import moment
from tests.support.kernels import Store

SECOND = 1_000_000


def refused(call: Any, *arguments: Any, **options: Any) -> InsufficientCapacity:
    with pytest.raises(InsufficientCapacity) as raised:
        call(*arguments, **options)
    return raised.value


def test_so_many_per_window_and_client(store: Store) -> None:
    api = store.hk.rate("api", Allowance(3, per="minute"))
    store.clock.advance(40)
    assert api.consume("a", 2).state is State.CONFIRMED
    api.consume("a")
    no = refused(api.consume, "a")
    assert (no.requested, no.available, no.total, no.retry_after, no.budgets) == (1, 0, 3, 20.0, ())
    api.consume("b", 3)
    store.clock.advance(19.999999)
    assert refused(api.consume, "a").retry_after == 1e-6
    store.clock.advance(0.000001)  # at `closes` the next window has begun
    assert api.consume("a", 3).legs[0].pool == "~rates/api/a/60s@60"
    assert (api.remaining("a"), api.remaining("b"), api.remaining("never seen")) == (0, 3, 3)


def test_two_rates_are_taken_together_or_not_at_all(store: Store) -> None:
    api = store.hk.rate("api", Allowance(2, per="second"), Allowance(3, per="minute"))
    api.consume("a", 2)
    assert refused(api.consume, "a", 1).retry_after == 1.0
    store.clock.advance(1)
    no = refused(api.consume, "a", 2)
    assert [(short.pool, short.available) for short in no.shortfalls] == [("~rates/api/a/60s@0", 1)]
    assert no.retry_after == 59.0
    assert [usage.consumed for usage in api.usage("a")] == [0, 2], "what was refused is counted nowhere"
    api.consume("a", 1)
    assert [(usage.per, moment(usage.opens), moment(usage.closes), usage.available) for usage in api.usage("a")] == [
        ("1s", 1 * SECOND, 2 * SECOND, 1),
        ("60s", 0, 60 * SECOND, 0),
    ]


def test_finished_windows_are_swept_away(store: Store) -> None:
    api = store.hk.rate("api", Allowance(2, per="second"), Allowance(3, per="minute"))
    for _ in range(3):
        api.consume("a")
        store.clock.advance(1)
    store.hk.sweep()
    assert [pool.id for pool in store.hk.pools("~rates/")] == ["~rates/api/a/60s@0"]
    assert refused(api.consume, "a").retry_after == 57.0, "the window that runs is still there, with what was taken"
    store.clock.set(60 * SECOND)
    store.hk.sweep()
    assert store.hk.pools("~rates/") == []


def put_back(store: Store, *allowances: Allowance) -> Any:
    """Everything of a minute is taken, the minute is over and swept away, and then the clock is put back into it."""
    api = store.hk.rate("api", Allowance(2, per="minute"), *allowances)
    store.clock.set(30 * SECOND)
    api.consume("a", 2)
    store.clock.set(70 * SECOND)
    api.consume("a")
    store.hk.sweep()
    store.clock.set(40 * SECOND)
    return api


def test_a_clock_put_back_into_a_window_that_was_swept_away_opens_it_anew(store: Store) -> None:
    """As the documentation says: nobody remembers it but the journal."""
    api = put_back(store)
    api.consume("a", 2)
    assert refused(api.consume, "a").retry_after == 20.0


def test_beside_a_longer_allowance_no_window_is_opened_twice(store: Store) -> None:
    """A command is decided no earlier than the last one on any of its pools."""
    api = put_back(store, Allowance(100, per="hour"))
    assert api.consume("a").raw.held_at == 70 * SECOND
    assert refused(api.consume, "a").shortfalls[0].pool == "~rates/api/a/60s@60"


def test_the_same_operation_is_the_same_in_a_later_window(store: Store) -> None:
    api = store.hk.rate("api", Allowance(1, per="minute"))
    first = api.consume("a", op="x")
    no = refused(api.consume, "a", op="y")
    store.clock.advance(61)
    again = api.consume("a", op="x")
    assert (again.id, again.replayed, again.token) == (first.id, True, first.token)
    later = refused(api.consume, "a", op="y")
    assert (later.replayed, later.shortfalls, later.retry_after) == (True, no.shortfalls, 0.0)
    assert api.remaining("a") == 1
    with pytest.raises(Exception, match="operation_conflict"):
        api.consume("b", op="x")
    with pytest.raises(Exception, match="operation_conflict"):
        api.consume("a", 2, op="x")


def test_the_total_may_depend_on_the_client_and_is_kept_for_the_window(memory: Store) -> None:
    plans = {"free": 1, "paid": 5}
    api = memory.hk.rate("api", Allowance(plans.__getitem__, per="minute"))
    api.consume("paid", 5)
    assert refused(api.consume, "free", 2).total == 1
    plans["paid"] = 9
    assert api.remaining("paid") == 0, "an existing window keeps its total"
    memory.clock.advance(60)
    assert api.remaining("paid") == 9
    api.consume("paid", 9, op="x")
    plans["paid"] = 3
    assert api.consume("paid", 9, op="x").replayed, "the total is no part of what was asked"


def test_what_was_taken_can_be_given_back_also_when_its_window_is_gone(store: Store) -> None:
    api = store.hk.rate("api", Allowance(2, per="minute"))
    taken, other = api.consume("a", 2), api.consume("b", 2)
    store.hk.return_units(taken, quantity=1)
    assert api.remaining("a") == 1
    store.clock.advance(60)
    store.hk.sweep()
    assert store.hk.return_units(other).legs[0].returned == 2
    assert api.remaining("b") == 2


def test_tenants_have_windows_of_their_own(memory: Store) -> None:
    memory.hk.rate("api", Allowance(1, per="minute")).consume("a")
    other = memory.hk.tenant("acme").rate("api", Allowance(1, per="minute"))
    assert other.remaining("a") == 1
    other.consume("a")


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("client", {"client": ""}, "client", "client_required"),
    ("blank", {"client": "  "}, "client", "client_required"),
    ("long", {"client": "x" * 513}, "client", "client_too_long"),
    ("number", {"client": 7}, "client", "client_not_text"),
    ("none", {"client": None}, "client", "client_not_text"),
    ("control", {"client": "a\nb"}, "client", "client_unprintable"),
    ("surrogate", {"client": "\ud800"}, "client", "client_unprintable"),
    ("zero", {"quantity": 0}, "quantity", "quantity_out_of_range"),
    ("negative", {"quantity": -1}, "quantity", "quantity_out_of_range"),
    ("huge", {"quantity": 2**53}, "quantity", "quantity_out_of_range"),
    ("boolean", {"quantity": True}, "quantity", "quantity_not_whole"),
    ("float", {"quantity": 1.0}, "quantity", "quantity_not_whole"),
    ("entity", {"entity": ""}, "entity", "entity_required"),
    ("metadata", {"metadata": []}, "metadata", "metadata_not_object"),
    ("op", {"op": ""}, "op", "op_required"),
    ("unknown", {"ttl": 5}, "ttl", "argument_unknown"),
]


@pytest.mark.parametrize(("options", "field", "code"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_calls_are_refused_and_nothing_is_written(
    memory: Store, options: dict[str, Any], field: str, code: str
) -> None:
    api = memory.hk.rate("api", Allowance(3, per="minute"))
    with pytest.raises(InvalidRequest) as no:
        api.consume(**{"client": "a", **options})
    assert (no.value.field, no.value.code) == (field, code)
    assert str(no.value).startswith("holdkit: ")
    assert list(memory.hk.journal.list()) == []


MADE: list[tuple[Any, str, str]] = [
    (lambda hk: hk.rate("", Allowance(1, per="minute")), "name", "name_required"),
    (lambda hk: hk.rate("x" * 65, Allowance(1, per="minute")), "name", "name_too_long"),
    (lambda hk: hk.rate("api"), "allowances", "allowance_required"),
    (lambda hk: hk.rate("api", 5), "allowances", "allowance_malformed"),
    (lambda hk: hk.rate("api", Allowance(1, per=60), Allowance(2, per="minute")), "per", "per_twice"),
    (lambda hk: hk.rate("api", Allowance(True, per=60)), "total", "total_not_whole"),
    (lambda hk: hk.rate("api", Allowance(-1, per=60)), "total", "total_out_of_range"),
    (lambda hk: hk.rate("api", Allowance(2**53, per=60)), "total", "total_out_of_range"),
    (lambda hk: hk.rate("api", Allowance("5", per=60)), "total", "total_not_whole"),  # type: ignore[arg-type]
    (lambda hk: hk.rate("api", Allowance(5, per="moon")), "per", "per_malformed"),
    (lambda hk: hk.rate("api", Allowance(lambda client: 1.5, per=60)).consume("a"), "total", "total_not_whole"),  # type: ignore[arg-type, return-value]
]


@pytest.mark.parametrize(("make", "field", "code"), MADE, ids=range(len(MADE)))
def test_bad_definitions_are_refused_where_they_are_written(memory: Store, make: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as no:
        make(memory.hk)
    assert (no.value.field, no.value.code) == (field, code)


NAMES = st.text(min_size=1, max_size=512).filter(lambda name: name.isprintable() and not name.isspace())


@given(NAMES, NAMES, st.integers(0, 2**60))
def test_no_two_clients_share_a_pool_and_every_id_is_one(one: str, other: str, slot: int) -> None:
    (meter,) = meters_of("rates", "n" * 64, {"": Allowance(1, per="minute")})
    ids = {name: meter.leg(name, 1, slot).pool for name in (one, other)}
    for id in ids.values():
        assert pool_id(id, "id", faces=True) == id
        assert id.count("/") == 3
    assert len(set(ids.values())) == len({one, other})


def test_names_that_look_like_escapes_or_hashes_stay_apart() -> None:
    (meter,) = meters_of("rates", "api", {"": Allowance(1, per="minute")})
    names = ["a/b", "a%2Fb", "a%252Fb", "a@60", "a", "#a", "x" * 129, "x" * 130, meter.pools("x" * 129).split("/")[2]]
    assert len({meter.pools(name) for name in names}) == len(names)
