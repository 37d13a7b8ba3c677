"""Messages of refusals: every reason has its own text, with its numbers, for somebody who has not read the manual."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import holdkit
from holdkit import Refused
from holdkit.core.outcomes import TRANSIENT, Reason, Refusal, Shortfall
from holdkit.kernel.answers import refusal_of
from holdkit.testing import FakeClock

WALL = 1_700_000_000_000_000


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_a_class_with_words(reason: Reason) -> None:
    counted = (Reason.INSUFFICIENT_CAPACITY, Reason.QUANTITY_EXCEEDS_CONSUMED, Reason.ACCOUNT_LIMIT)
    short = (Shortfall("p", 3, 1, 10),) if reason in counted else ()
    refused = refusal_of(Refusal(reason, "it", short, found=7))
    name = "".join(word.capitalize() for word in reason.split("_"))
    assert type(refused) is getattr(holdkit.errors, name)
    assert refused.reason == reason
    assert refused.transient == (reason in TRANSIENT)
    assert str(refused).startswith(f"holdkit: {reason}: ")
    assert "{" not in str(refused)
    assert "None" not in str(refused)
    assert (refused.subject, refused.effect) == ("it", "none")
    assert not hasattr(refused, "nonsense")


def test_a_shortfall_tells_its_numbers() -> None:
    many = tuple(Shortfall(f"p{number}", 3, 1, 10) for number in range(7))
    refused = refusal_of(Refusal(Reason.INSUFFICIENT_CAPACITY, "p0", many))
    assert "pool 'p0' has 1 of 10 available, 3 requested; " in str(refused)
    assert str(refused).endswith("and 2 more")
    assert isinstance(refused, holdkit.InsufficientCapacity)
    assert (refused.requested, refused.available, refused.total, refused.shortfalls) == (3, 1, 10, many)


def test_a_return_by_pool_tells_an_operator_where_the_other_units_are() -> None:
    """Two units whose hold is dropped belong to an account, so none comes back without it: that is not said of holds."""
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("show", total=5)
        hk.consume("show", 2, account="ann@example.com")
        clock.advance(401 * 86_400)
        hk.sweep()
        with pytest.raises(holdkit.errors.QuantityExceedsConsumed) as refused:
            hk.admin.free("show", 1, reason="refund")
        assert (refused.value.requested, refused.value.loose, refused.value.consumed) == (1, 0, 2)
        assert "0 of them come back like this, not 1" in str(refused.value)
        assert str(refused.value).endswith("those of an account with account=")
        assert "ann" not in str(refused.value)


def test_what_is_behind_a_face_is_nobodys_to_create() -> None:
    short = (Shortfall("~calendar/inn/double/2026-07-02", 2, 1, 3),)
    said = [
        str(refusal_of(Refusal(reason, "~calendar/inn/double/2026-07-02", short if number == 0 else (), found=WALL)))
        for number, reason in enumerate(
            [Reason.INSUFFICIENT_CAPACITY, Reason.POOL_NOT_FOUND, Reason.WINDOW_CLOSED, Reason.BELOW_IN_USE]
        )
    ]
    assert all("'inn/double/2026-07-02'" in text for text in said), "as `Shortfall.name` has it"
    assert not any(word in text for text in said for word in ("~", "pool '", "create_pool"))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_interval_that_is_no_number_is_not_called_finite(bad: float) -> None:
    with holdkit.connect("memory://") as hk, pytest.raises(holdkit.InvalidRequest, match="'5m', not infinity or NaN"):
        hk.hold("p", 1, ttl=60, wait=bad)


def test_a_claim_is_not_a_hold() -> None:
    with holdkit.connect("memory://") as hk:
        hk.claims.hold("email", "a@b.c", ttl=60)
        claim: Any = hk.claims.get("email", "a@b.c")
        for verb in (hk.confirm, hk.release, hk.extend, hk.return_units):
            with pytest.raises(holdkit.InvalidRequest, match="the Hold that claims") as wrong:
                verb(claim)
            assert (wrong.value.field, wrong.value.code) == ("hold", "hold_is_claim")


def test_a_thing_named_twice_is_named_by_its_own_name() -> None:
    with holdkit.connect("memory://") as hk:
        hk.items.add(["seat"])
        for twice, name in ((holdkit.items("seat"), "seat"), (holdkit.claim("email", "a@b.c"), "email:a@b.c")):
            with pytest.raises(holdkit.InvalidRequest, match=f"'{name}' is named twice"):
                hk.hold([twice, twice], ttl=60)


@pytest.mark.parametrize(
    ("reason", "found", "words"),
    [
        (Reason.HOLD_EXPIRED, WALL, "reached its deadline at 2023-11-14 22:13:20.000+00:00"),
        (Reason.HOLD_EXPIRED, 60, "reached its deadline at slot 60"),
        (Reason.NOT_DUE, WALL + 1, "lives until 2023-11-14"),
        (Reason.NOT_DUE, 2**62, f"lives until slot {2**62}"),
        (Reason.DEADLINE_PASSED, WALL, "it is already 2023-11-14 22:13:20.000+00:00: give a ttl instead"),
        (Reason.LIFETIME_EXCEEDED, 7_776_000_000_000, "90d from the moment it was placed"),
        (Reason.LIFETIME_EXCEEDED, 90_500_000, "90500ms from the moment it was placed"),
        (Reason.BELOW_IN_USE, 5, "pool 'it' has 5 units in use"),
        (Reason.VERSION_CONFLICT, 0, "at version 0: read it again"),
    ],
)
def test_numbers_are_said_for_people(reason: Reason, found: int, words: str) -> None:
    assert words in str(refusal_of(Refusal(reason, "it", found=found)))


def test_braces_in_a_name_are_only_text() -> None:
    assert "'{found}'" in str(refusal_of(Refusal(Reason.POOL_NOT_FOUND, "{found}", found=3)))


def test_refusals_can_be_raised_caught_and_told_apart() -> None:
    with holdkit.connect("memory://") as hk:
        caught: dict[str, Any] = {}
        for call in (
            lambda: hk.pool("none"),
            lambda: hk.get("1" * 32),
            lambda: hk.confirm(holdkit.ticket("1" * 32, "x")),
        ):
            try:
                call()
            except Refused as refused:
                caught[refused.reason] = refused
        assert sorted(caught) == ["hold_not_found", "pool_not_found"]
        assert "create it with create_pool" in str(caught["pool_not_found"])


def test_a_shortfall_is_named_as_its_caller_knows_it() -> None:
    named = {
        ("show:42", None): "show:42",
        ("~item/42/A5", "42/A5"): "42/A5",
        ("~claim/res_1", "email:ann@example.com"): "email:ann@example.com",
        ("~calendar/inn/parking/2027-07-01", None): "inn/parking/2027-07-01",
    }
    for (pool, label), name in named.items():
        assert Shortfall(pool, 1, 0, 1, label).name == name


def test_the_longest_lifetime_is_a_timedelta() -> None:
    with holdkit.connect("memory://", limits=holdkit.Limits(max_lifetime="2h")) as hk:
        hk.create_pool("p", 1)
        hold = hk.hold("p", 1, ttl="90m")
        with pytest.raises(holdkit.errors.LifetimeExceeded) as longer:
            hk.extend(hold, by="1h")
        assert longer.value.max_lifetime == timedelta(hours=2)
        assert longer.value.details == {"subject": hold.id, "max_lifetime": timedelta(hours=2)}
