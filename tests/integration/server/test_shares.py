from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.server.fairness import Shares


def all_that(shares: Shares, tenant: str, key: str, amount: int = 1) -> int:
    """How often a caller gets so many when it takes all it can."""
    return next(count for count in range(10_000) if not shares.take(tenant, key, amount))


def test_a_key_alone_gets_a_third_and_a_tenant_alone_gets_half() -> None:
    shares = Shares(300)
    assert all_that(shares, "a", "a1") == 100
    assert all_that(shares, "a", "a2") == 50, "the tenant's share ends before the key's"
    assert not shares.take("a", "a3")
    assert shares.used_by("a") == shares.used == 150


def test_whoever_comes_late_still_finds_a_share() -> None:
    shares = Shares(200)
    taken = []
    for tenant in "abcde":
        for key in range(10):
            all_that(shares, tenant, f"{tenant}{key}")
        taken.append(shares.used_by(tenant))
    assert taken == [100, 50, 25, 13, 6], "each takes half of what the others have left"
    assert shares.take("late", "late")


def test_units_that_come_back_go_to_those_who_have_less() -> None:
    shares = Shares(300)
    for key in range(10):
        all_that(shares, "early", f"e{key}")
    for key in range(10):
        all_that(shares, "late", f"l{key}")
    assert (shares.used_by("early"), shares.used_by("late")) == (150, 75)
    for _ in range(40):
        shares.release("early", "e0")
        assert not shares.take("early", "e0"), "it has more than its share by now"
        shares.take("late", "l9")
    assert (shares.used_by("early"), shares.used_by("late")) == (110, 95)


def test_the_first_unit_is_given_while_any_is_free() -> None:
    shares = Shares(2)
    assert shares.take("a", "a1")
    assert not shares.take("a", "a1")
    assert not shares.take("a", "a2"), "the tenant has its share"
    assert shares.take("b", "b1")
    assert not shares.take("c", "c1"), "none is free"
    shares.release("a", "a1")
    assert shares.take("c", "c1")


def test_undivided_only_the_total_counts() -> None:
    shares = Shares(3, divided=False)
    assert all_that(shares, "", "anonymous") == 3


def test_what_was_never_taken_cannot_be_released() -> None:
    with pytest.raises(KeyError):
        Shares(1).release("a", "a")


TAKING = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"), st.integers(1, 40)), max_size=60)


@given(st.integers(1, 200), TAKING, st.randoms(use_true_random=False))
def test_whatever_is_taken_and_released_adds_up(total: int, taking: list[tuple[str, str, int]], dice: object) -> None:
    shares = Shares(total)
    held: list[tuple[str, str, int]] = []
    for tenant, number, amount in taking:
        if held and dice.random() < 0.3:  # type: ignore[attr-defined]
            shares.release(*held.pop())
        if shares.take(tenant, tenant + number, amount):
            held.append((tenant, tenant + number, amount))
        assert shares.used == sum(one[2] for one in held) <= total
        assert shares.used_by("a") == sum(one[2] for one in held if one[0] == "a")
    for one in held:
        shares.release(*one)
    assert shares.used == 0
    assert not shares._tenants
    assert not shares._keys, "callers that hold nothing take no memory"
