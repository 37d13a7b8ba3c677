from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.core.model import HeldLeg, Record, StoredHold
from holdkit.core.pages import Page, disjoint, hold_bytes, page_of, ranges_behind, record_bytes, text_bytes
from holdkit.core.reading import JournalRow, row_bytes


def test_a_page_is_a_list_that_knows_whether_more_follow() -> None:
    page = Page([1, 2])
    assert page == [1, 2]
    assert (page.more, page.size) == (False, 0)
    assert (Page(more=True, size=7).more, Page(more=True, size=7).size) == (True, 7)


@pytest.mark.parametrize(
    ("rows", "limit", "most", "taken", "more", "size"),
    [
        ([], 3, None, [], False, 0),
        ([5, 5], 3, None, [5, 5], False, 0),
        ([5, 5, 5], 3, None, [5, 5, 5], True, 0),
        ([5, 5, 5], None, None, [5, 5, 5], False, 0),
        ([5, 5, 5], 2, 100, [5, 5], True, 10),
        ([5, 5, 5], None, 10, [5, 5], True, 10),
        ([5, 5], None, 10, [5, 5], False, 10),
        ([5, 5], None, 9, [5], True, 5),
        ([50, 5], None, 9, [50], True, 50),
        ([50], None, 9, [50], True, 50),
        ([], None, 9, [], False, 0),
    ],
)
def test_a_page_ends_at_its_limit_or_its_bytes(
    rows: list[int], limit: int | None, most: int | None, taken: list[int], more: bool, size: int
) -> None:
    page = page_of(rows, lambda row: row, limit, most)
    assert (page, page.more, page.size) == (taken, more, size)


def test_no_more_is_read_than_the_one_that_does_not_fit() -> None:
    read: list[int] = []

    def rows() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield 10

    assert page_of(rows(), lambda row: row, 50, 35) == [10, 10, 10]
    assert read == [0, 1, 2, 3]


def test_bytes_are_those_of_the_text_as_it_is_sent() -> None:
    assert [text_bytes(text) for text in (None, "", "abc", "é", "\U0001f642x")] == [0, 0, 3, 2, 5]
    assert [row_bytes(JournalRow(1, "é" * 10)), row_bytes(JournalRow(1, "abc"))] == [30, 4]
    assert record_bytes(Record("", "k", "i", "é", 1, 0)) == 202
    hold = StoredHold(
        "", "0" * 32, (HeldLeg("ab", 1, 1), HeldLeg("é", 1, 1)), "hash", held_at=0, fence=1, deadline=9, metadata="{}"
    )
    assert hold_bytes(hold) == 500 + 2 + 2 * (80 + 2)


@given(st.lists(st.text("ab\ud7ff\U0010ffff", max_size=4), max_size=6))
def test_of_prefixes_that_begin_with_each_other_the_shortest_remain(prefixes: list[str]) -> None:
    remaining = disjoint(prefixes)
    assert list(remaining) == sorted(set(remaining))
    assert set(remaining) <= set(prefixes)
    for prefix in prefixes:
        assert len([one for one in remaining if prefix.startswith(one)]) == 1


TEXTS = st.text("ab\ud7ff\U0010ffff", max_size=4)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=5), st.lists(TEXTS, min_size=1, max_size=40))
def test_ranges_hold_exactly_the_texts_that_begin_with_a_prefix(
    after: str, prefixes: list[str], texts: list[str]
) -> None:
    ranges = ranges_behind(after, prefixes)
    assert ranges == sorted(ranges)
    for text in [*texts, *prefixes]:
        expected = text >= after and any(text.startswith(prefix) for prefix in prefixes)
        among = [one for one in ranges if text >= one[0] and (one[1] is None or text < one[1])]
        assert len(among) == expected, (text, ranges)


def test_a_range_that_ends_before_its_begin_is_left_out() -> None:
    assert ranges_behind("b", ["a", "b", "c"]) == [("b", "c"), ("c", "d")]
    assert ranges_behind("", ["top//mine", "top"]) == [("top", "toq")]
    assert ranges_behind("x", [""]) == [("x", None)]
