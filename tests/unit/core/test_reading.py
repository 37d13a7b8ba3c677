"""How rows look at a slot, without writing; and the nouns themselves."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.model import HeldLeg, Pool, Record, State, StoredHold
from holdkit.core.pages import beyond
from holdkit.core.seen import NOTHING_ON_POOL, DueOnPool, seen_hold, seen_pool

HOLD = StoredHold("", "h", (HeldLeg("p", 5, 3, 2, 1), HeldLeg("q", 2, 2)), "token", 0, 1, deadline=100)
LIMITS = Limits(retention=50)


@pytest.mark.parametrize("now", [0, 99])
def test_a_live_hold_is_seen_as_it_is(now: int) -> None:
    assert seen_hold(HOLD, LIMITS, now) is HOLD


@pytest.mark.parametrize("now", [100, 149])
def test_a_due_hold_is_seen_as_expired(now: int) -> None:
    assert seen_hold(HOLD, LIMITS, now) == structs.replace(
        HOLD, state=State.EXPIRED, ended_at=100, legs=(HeldLeg("p", 5, 0, 2, 1), HeldLeg("q", 2))
    )


def test_an_expired_hold_with_legs_out_is_seen_whole() -> None:
    half = structs.replace(HOLD, state=State.EXPIRED, ended_at=100, legs=(HeldLeg("p", 5, 0, 2, 1), HeldLeg("q", 2, 2)))
    seen = seen_hold(half, LIMITS, 120)
    assert seen is not None
    assert seen.legs == (HeldLeg("p", 5, 0, 2, 1), HeldLeg("q", 2))


@pytest.mark.parametrize("state", [State.CONFIRMED, State.RELEASED, State.EXPIRED])
def test_an_ended_hold_is_seen_until_the_retention(state: State) -> None:
    ended = structs.replace(HOLD, state=state, ended_at=100, legs=(HeldLeg("p", 5, 0, 5, 5),))
    assert seen_hold(ended, LIMITS, 149) is ended
    assert seen_hold(ended, LIMITS, 150) is None
    consumed = structs.replace(ended, legs=(HeldLeg("p", 5, 0, 5, 4),))
    assert seen_hold(consumed, LIMITS, 2**62) is consumed
    assert seen_hold(structs.replace(HOLD, legs=(HeldLeg("p", 5, 5),)), LIMITS, 150) is None
    assert seen_hold(None, LIMITS, 0) is None


def test_without_a_deadline_a_hold_is_seen_for_ever() -> None:
    free = structs.replace(HOLD, deadline=None)
    assert seen_hold(free, LIMITS, 2**62) is free


def test_due_units_are_seen_as_returned() -> None:
    pool = Pool("", "p", 10, held=5, consumed=2)
    assert seen_pool(pool, DueOnPool(3)) == Pool("", "p", 10, held=2, consumed=2, least=6)
    assert seen_pool(pool, NOTHING_ON_POOL) is pool


@pytest.mark.parametrize(
    ("held", "consumed", "available", "over"),
    [(0, 0, 10, False), (4, 3, 3, False), (10, 0, 0, False), (6, 5, 0, True)],
)
def test_a_pool(held: int, consumed: int, available: int, over: bool) -> None:
    pool = Pool("acme", "p", 10, held, consumed)
    assert (pool.available, pool.over, pool.key) == (available, over, ("acme", "p"))


def test_a_hold_and_a_record() -> None:
    assert HOLD.key == ("", "h")
    assert HOLD.open
    assert not structs.replace(HOLD, legs=(HeldLeg("p", 5),)).open
    assert [HOLD.due(now) for now in (99, 100, 101)] == [False, True, True]
    assert not structs.replace(HOLD, deadline=None).due(2**62)
    assert Record("t", "k", "i", "{}", 1, 0).key == ("t", "k", "i")


def test_the_bounds_that_come_without_asking() -> None:
    limits = Limits()
    day = 86_400 * 1_000_000
    assert (limits.max_pools, limits.max_holds, limits.max_operations) == (None, None, None)
    assert (limits.retry_window, limits.retention) == (day, 30 * day)
    assert (limits.min_ttl, limits.max_ttl, limits.max_lifetime) == (1, 30 * day, 90 * day)
    assert (limits.max_legs, limits.max_due) == (1_000, 1_000)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", None),
        ("a", "b"),
        ("ab", "ac"),
        ("\ud7ff", "\ue000"),  # between them lie the surrogates, which no text holds
        ("a\U0010ffff", "b"),
        ("\U0010ffff\U0010ffff", None),
    ],
)
def test_the_first_text_beyond_a_prefix(prefix: str, expected: str | None) -> None:
    assert beyond(prefix) == expected


def test_a_hold_that_went_on_is_the_same_life() -> None:
    later = structs.replace(HOLD, state=State.CONFIRMED, deadline=200, entity="order:1", reason="paid", version=4)
    assert HOLD.same_life(later)


@pytest.mark.parametrize(
    "other",
    [{"owner_hash": "x"}, {"held_at": 1}, {"fence": 2}, {"actor": "a"}, {"correlation_id": "c"}, {"metadata": "{}"}],
)
def test_a_hold_that_took_a_retired_id_is_another_life(other: dict[str, object]) -> None:
    assert not HOLD.same_life(structs.replace(HOLD, **other))
