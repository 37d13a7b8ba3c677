"""The sorted indexes against the plainest model: a list that is sorted each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.core.model import HeldLeg, Key, Slot, StoredHold
from holdkit.core.outstanding import OpenLeg
from holdkit.engines.memory.operations import Ends, Order
from holdkit.engines.memory.tables import Tables

SLOTS = st.integers(0, 3)
ROWS = st.tuples(SLOTS, st.tuples(st.sampled_from(["", "acme"]), st.sampled_from("abc")))


def by_slot_id_tenant(row: tuple[Slot, Key]) -> tuple[Slot, str, str]:
    slot, (tenant, name) = row
    return slot, name, tenant


@given(st.lists(ROWS, unique=True), st.data())
def test_an_order_is_a_sorted_list(rows: list[tuple[Slot, Key]], data: st.DataObject) -> None:
    order = Order()
    for row in rows:
        order.file(*row)
    gone = data.draw(st.sets(st.sampled_from(rows))) if rows else set()
    for row in gone:
        order.take_out(*row)
    model = sorted(set(rows) - gone, key=by_slot_id_tenant)
    assert list(order.first(len(order))) == model
    for slot in range(-1, 5):
        count = sum(at <= slot for at, _ in model)
        assert (order.count(slot), order.any(slot)) == (count, count > 0)
    count = data.draw(st.integers(0, len(rows) + 1))
    assert list(order.first(count)) == model[:count]
    assert order.drop(count) == [key for _, key in model[:count]]
    assert list(order.first(len(order))) == model[count:]


@given(st.lists(ROWS, unique=True), st.data())
def test_ends_are_sorted_by_slot_then_by_arrival(rows: list[tuple[Slot, Key]], data: st.DataObject) -> None:
    ends = Ends()
    for row in rows:
        ends.file(*row)
    gone = data.draw(st.sets(st.sampled_from(rows))) if rows else set()
    for row in gone:
        ends.take_out(*row)
    model = sorted([row for row in rows if row not in gone], key=lambda row: row[0])
    assert list(ends.first(len(ends))) == model
    count = data.draw(st.integers(0, len(rows) + 1))
    assert ends.drop(count) == [key for _, key in model[:count]]
    assert list(ends.first(len(ends))) == model[count:]


@pytest.mark.parametrize("row", [(1, ("", "b")), (2, ("", "a")), (1, ("acme", "a")), (3, ("", "a"))])
def test_a_row_that_is_not_there_is_noticed(row: tuple[Slot, Key]) -> None:
    order = Order()
    order.file(1, ("", "a"))
    order.file(2, ("", "b"))
    with pytest.raises(AssertionError, match="an order has lost one of its rows"):
        order.take_out(*row)


def test_a_leg_without_units_left_is_not_outstanding() -> None:
    """A hold that was released in part by the batch that placed it."""
    tables = Tables()
    hold = StoredHold("", "a", (HeldLeg("p", 2, 0), HeldLeg("q", 2, 1), HeldLeg("r", 200, 200)), "", 1, 1, 5)
    tables.put_hold(hold.key, hold)
    assert tables.legs == {("", "q"): {"a": OpenLeg(1)}, ("", "r"): {"a": OpenLeg(200)}}
    assert [tables.due(("", name), 9) for name in "pqr"] == [[], [(5, "a")], [(5, "a")]]
    assert tables.live_at(4) == 1
