"""What fits a search, and how walks are put together."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.codec import minted_id
from holdkit.core.entries import Action, Entry
from holdkit.core.model import HeldLeg, State, StoredHold
from holdkit.core.pages import Page
from holdkit.core.reading import ListHolds
from holdkit.core.searching import (
    IdRange,
    ListLine,
    SearchJournal,
    Walked,
    fits_entry,
    fits_hold,
    ids_left,
    ids_minted,
    joined,
    line_page,
    placed_at,
    reached,
    spans,
)

MINTED = minted_id(5_000_000, b"\0" * 10)
CHOSEN = "0" * 32


def hold(id: str = CHOSEN, held_at: int | None = 7, joined_at: int | None = None) -> StoredHold:
    legs = (HeldLeg("a", 1, 1),)
    return StoredHold(
        "", id, legs, "", held_at, 1, entity="order:1", actor="user:7", account="customer:1", joined_at=joined_at
    )


def test_the_time_of_placing_is_the_one_in_the_id_or_when_units_or_a_place_in_line_were_given() -> None:
    assert placed_at(hold(MINTED)) == 5_000_000
    assert placed_at(hold()) == 7
    assert placed_at(hold(held_at=9, joined_at=4)) == 4
    assert placed_at(hold(held_at=None, joined_at=4)) == 4


@pytest.mark.parametrize(
    ("field", "fits", "other"),
    [("state", State.HELD, State.EXPIRED), ("entity", "order:1", "order:2"), ("actor", "user:7", "user:8"),
     ("account", "customer:1", "customer:2"), ("pool", "a", "b"), ("within", "a", "b"), ("placed_from", 7, 8), ("placed_to", 8, 7)],
)  # fmt: skip
def test_every_filter_of_holds_counts(field: str, fits: object, other: object) -> None:
    assert fits_hold(hold(), ListHolds("", **{field: fits}))  # type: ignore[arg-type]
    assert not fits_hold(hold(), ListHolds("", **{field: other}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "fits", "other"),
    [("tenant", "acme", "other"), ("action", Action.HOLD_HELD, Action.HOLD_EXPIRED), ("subject", "s", "t"),
     ("actor", "user:7", "user:8"), ("correlation_id", "r1", "r2")],
)  # fmt: skip
def test_every_filter_of_entries_counts(field: str, fits: object, other: object) -> None:
    entry = Entry(1, Action.HOLD_HELD, "s", "acme", actor="user:7", correlation_id="r1")
    assert fits_entry(entry, SearchJournal(**{"tenant": None, field: fits}))  # type: ignore[arg-type]
    assert not fits_entry(entry, SearchJournal(**{"tenant": None, field: other}))  # type: ignore[arg-type]


def test_ids_left_and_minted() -> None:
    assert ids_left(ListHolds("")) == IdRange("", None)
    assert ids_left(ListHolds("", after=CHOSEN)) == IdRange(CHOSEN + "0", None)
    assert ids_left(ListHolds("", after=CHOSEN, newest_first=True)) == IdRange("", CHOSEN)
    assert ids_minted(ListHolds("")) is None
    assert ids_minted(ListHolds("", placed_from=1_001, placed_to=2_001)) == IdRange("000000000002", "000000000003")
    assert ids_minted(ListHolds("", placed_from=-5)) == IdRange("000000000000", None)
    assert ids_minted(ListHolds("", placed_to=2**62)) == IdRange("000000000000", None)
    assert ids_minted(ListHolds("", placed_from=2**62)) == IdRange("", "")
    assert ids_minted(ListHolds("", placed_to=0)) == IdRange("", "")
    assert ids_minted(ListHolds("", placed_to=1_000)) == IdRange("000000000000", "000000000001")
    last = 0xFFFF_FFFF_FFFF * 1_000
    assert ids_minted(ListHolds("", placed_from=last)) == IdRange("ffffffffffff", None)
    assert ids_minted(ListHolds("", placed_to=last)) == IdRange("000000000000", "ffffffffffff")


def test_ranges_meet() -> None:
    assert IdRange("1", "5").meets(IdRange("3", None)) == IdRange("3", "5")
    assert IdRange("1", "5").meets(IdRange("0", "4")) == IdRange("1", "4")
    assert IdRange().meets(IdRange()) == IdRange("", None)
    assert [id for id in "01345" if IdRange("1", "5").has(id)] == ["1", "3", "4"]


def test_walks_are_one_only_as_far_as_the_slowest_has_come() -> None:
    ahead, behind = Walked(["1", "3", "6"], "7"), Walked(["2"], "4")
    assert joined([ahead, behind], newest_first=False) == Walked(["1", "2", "3"], "4")
    assert joined([Walked(["9", "5"]), Walked(["8", "6"], "6")], newest_first=True) == Walked(["9", "8", "6"], "6")
    assert joined([Walked(["9", "5"], "5"), Walked(["8", "6"], "6")], newest_first=True) == Walked(["9", "8", "6"], "6")
    assert joined([Walked(["1", "4", "6"], "4")], newest_first=False) == Walked(["1", "4"], "4")
    assert joined([Walked(["2"]), Walked(["1", "2"])], newest_first=False) == Walked(["1", "2"], None)


def test_a_page_goes_on_behind_its_last_hold_if_it_is_full_else_behind_what_was_looked_at() -> None:
    full = reached(Page([hold()], more=True), "f")
    assert (full.more, full.reached) == (True, CHOSEN)
    looked = reached(Page(), "f")
    assert (looked.more, looked.reached) == (True, "f")
    done = reached(Page([hold()]), None)
    assert (done.more, done.reached) == (False, None)


def test_a_query_looks_at_few_rows_first_and_never_at_more_than_it_may() -> None:
    assert list(spans(ListHolds("", limit=100))) == [200, 1_600, 12_800, 5_400]
    assert list(spans(ListHolds("", limit=100, max_scanned=7))) == [7]
    assert list(spans(ListHolds("", limit=100, max_scanned=200))) == [200]
    assert list(spans(ListHolds("", limit=100, max_scanned=201))) == [200, 1]


def test_a_page_of_a_line_has_those_who_wait() -> None:
    ended = structs.replace(hold("1" * 32), state=State.EXPIRED)
    waiting = [structs.replace(hold(number * 32), state=State.WAITING) for number in "234"]
    query = ListLine(("", "a"), limit=2)
    page = line_page([None, ended, *waiting], query)
    assert ([hold.id for hold in page], page.more) == ([waiting[0].id, waiting[1].id], True)
    page = line_page([ended, waiting[2]], query)
    assert (list(page), page.more) == ([waiting[2]], False)
    page = line_page(waiting, ListLine(("", "a"), limit=9, max_bytes=1))
    assert (list(page), page.more) == ([waiting[0]], True)
