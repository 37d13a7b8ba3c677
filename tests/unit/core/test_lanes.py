"""Lanes: stable, everywhere the same, and a minted id can be moved into any of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdkit.core.codec import encode_entry, minted_at, minted_id
from holdkit.core.entries import Action, Entry
from holdkit.core.lanes import MAX_LANES, in_lane, lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from holdkit.core.reading import JournalRow, entry_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LANES = st.one_of(st.integers(1, MAX_LANES), st.sampled_from([1, 2, 64, 1_024, MAX_LANES]))


@given(TEXTS, TEXTS, TEXTS, LANES)
def test_everything_has_a_lane(tenant: str, kind: str, id: str, lanes: int) -> None:
    assert 0 <= lane_of_pool((tenant, id), lanes) < lanes
    assert 0 <= lane_of_operation((tenant, id), lanes) < lanes
    assert 0 <= lane_of_record((tenant, kind, id), lanes) < lanes


def test_lanes_never_change() -> None:
    """They are in every key of every table: another function would lose all that is stored."""
    assert [lane_of_pool(("", f"p{number}"), 64) for number in range(6)] == [8, 30, 36, 50, 17, 7]
    assert lane_of_pool(("acme", "p0"), 64) == 12
    assert [lane_of_operation(("", "p0"), lanes) for lanes in (1, 2, 64)] == [0, 1, 57]
    assert [lane_of_record(("", "k", "p0"), lanes) for lanes in (1, 2, 64)] == [0, 1, 5]
    assert [lane_of_hold("f" * 28 + "0141", lanes) for lanes in (1, 2, 64, 257, 1_024)] == [0, 1, 1, 64, 321]


def test_the_last_four_digits_of_an_id_decide_what_they_become() -> None:
    begin = "0190f3a5c0de70008000000abcde"
    assert in_lane(f"{begin}1234", 1, 3) == f"{begin}369d"


@given(st.integers(0, 2**60), st.binary(min_size=10, max_size=10), LANES, st.data())
def test_a_minted_id_moves_into_any_lane(slot: int, random: bytes, lanes: int, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, lanes - 1))
    minted = minted_id(slot, random)
    moved = in_lane(minted, lane, lanes)
    assert lane_of_hold(moved, lanes) == lane
    assert minted_at(moved) == minted_at(minted)
    assert moved[:-4] == minted[:-4]
    assert len(moved) == 32


def test_one_lane_leaves_an_id_as_it_is() -> None:
    assert in_lane("a" * 32, 0, 1) == "a" * 32


def test_a_row_has_its_entry() -> None:
    entry = Entry(5, Action.RECORD_PUT, "k/x")
    assert entry_of(JournalRow(7, encode_entry(entry), 3)) == Entry(5, Action.RECORD_PUT, "k/x")
