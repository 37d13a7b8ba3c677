"""Holds as rows of columns, and back."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.audit_rows import Difference
from holdkit.core.hold_columns import CHANGING, DERIVED, ERASED, HOLD, hold_of, kept_row, row_of
from holdkit.core.ladders.retiring import keeping
from holdkit.core.model import HeldLeg, State, StoredHold
from holdkit.core.outstanding import Level

HELD = StoredHold(
    "acme", "a", (HeldLeg("p//a", 2, 2),), "o" * 32, held_at=5, fence=1, deadline=9, above=(Level("p", 2),)
)
ENDED = structs.replace(HELD, legs=(HeldLeg("p//a", 2, 0),), above=(), state=State.RELEASED, ended_at=7)
SPENT = structs.replace(HELD, legs=(HeldLeg("p//a", 2, 0, confirmed=2),), above=(), state=State.CONFIRMED, ended_at=7)


@pytest.mark.parametrize("hold", [HELD, ENDED, SPENT])
def test_a_row_is_read_as_the_hold_that_it_was_made_of(hold: StoredHold) -> None:
    row = row_of("hold", HOLD)(hold)
    assert len(row) == len(HOLD)
    assert type(row[HOLD.index("state")]) is str
    assert hold_of(row) == hold


def test_columns_that_are_no_field_are_expressions() -> None:
    made = row_of("hold, lane", ["id", "lane", "*kept_row(hold)"])
    assert made(HELD, 3) == ("a", 3, None, None)
    assert made(ENDED, 3) == ("a", 3, *kept_row(ENDED))


def test_what_is_kept_has_a_kind_and_a_beginning() -> None:
    assert kept_row(HELD) == (None, None)
    for hold in (ENDED, SPENT):
        kept = keeping(hold)
        assert kept is not None
        assert kept_row(hold) == (int(kept[0]), kept[1])
    assert kept_row(ENDED)[0] != kept_row(SPENT)[0]


def test_lists_of_columns_follow_from_the_fields() -> None:
    assert {"state", "legs", "held_at", "fence"} <= {*CHANGING}
    assert not {"tenant", "id", "owner_hash"} & {*CHANGING}
    assert {"legs", "entity", "metadata"} <= {*ERASED}
    assert not {*DERIVED} & {*HOLD}


def test_a_difference_prints_as_one_short_line() -> None:
    assert repr(Difference("pools", "~item/a", "held", "1", "2")) == "<Difference pools item/a held>"
    begin, end = "<Difference pools ", " held>"
    for letters, shown in ((96, f"{'p' * 96}{end}"), (97, f"{'p' * 97} he…>")):
        text = repr(Difference("pools", "p" * letters, "held", "1", "2"))
        assert (len(text), text) == (120, begin + shown)
