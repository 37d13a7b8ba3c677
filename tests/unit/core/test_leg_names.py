"""The name of a leg for its users, and the label that a pool has under it."""

from __future__ import annotations

import pytest

from holdkit.core.keyed import label_of, leg_name


@pytest.mark.parametrize(
    ("pool", "label", "name"),
    [
        ("show:42", None, "show:42"),
        ("~item/42/A1", None, "42/A1"),
        ("~item/42/A1", "42/A1", "42/A1"),
        ("~claim/email:0a", "email:ann@example.com", "email:ann@example.com"),
        ("~calendar/inn/double/2027-07-01", None, "inn/double/2027-07-01"),
        ("~budgets/llm/tokens/day@1", None, "llm/tokens/day@1"),
        ("~rates/api/ann@1", None, "api/ann@1"),
        ("~r/desk/3", None, "desk/3"),
        ("~item/~item/x", None, "~item/x"),
        ("~other/x", None, "other/x"),
    ],
)
def test_a_name_has_nothing_of_the_face_that_made_the_pool(pool: str, label: str | None, name: str) -> None:
    assert leg_name(pool, label) == name


@pytest.mark.parametrize(
    ("pool", "label"),
    [("~claim/0a", "x"), ("~item/x", "x"), ("~calendar/x", None), ("~rates/x", None), ("show", None), ("item/x", None)],
)
def test_only_claims_and_items_have_a_label(pool: str, label: str | None) -> None:
    assert label_of(pool, "x") == label
