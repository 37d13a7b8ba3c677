"""Where a page of holds begins, whatever text is given as its cursor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdkit.engines.postgres.hold_reading import first_id_after

digits = st.text("0123456789abcdef", min_size=32, max_size=32)
places = st.one_of(digits, st.text("0123456789abcdefg/:Z~", max_size=36), st.text(max_size=5), st.just("f" * 32))


@given(places, digits)
def test_an_id_is_on_the_page_exactly_if_it_comes_after_the_place(place: str, id: str) -> None:
    begin = first_id_after(place)
    assert (id > place) == (begin is not None and id >= begin)


@given(digits)
def test_the_next_page_begins_right_behind_the_last_id(id: str) -> None:
    begin = first_id_after(id)
    assert begin == (None if id == "f" * 32 else f"{int(id, 16) + 1:032x}")
