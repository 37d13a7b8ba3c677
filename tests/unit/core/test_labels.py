"""Pools of faces: what a labelled one remembers, and windows that close."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, PlaceHold, Sweep
from holdkit.core.decide import SweepList, decide
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import MAX_SLOT, Leg, Pool
from holdkit.core.outcomes import Invalid, Position, Shortfall
from holdkit.core.validation import check
from holdkit.core.view import View
from holdkit.errors import InvalidRequest
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    expire,
    give_back,
    hold_id,
    place,
    refused,
    release,
    said,
)

KEY = FaceLeg("~key", 1, 1, "email:a@b.c")


def window(opens: int, closes: int, total: int = 5, quantity: int = 1) -> tuple[Leg, ...]:
    return (FaceLeg("~window", quantity, total, None, opens, closes),)


def memory(world: World, name: str = "~key") -> tuple[str | None, str | None]:
    """Who had it last, and for what."""
    row = world.row(name)
    return row.holder, row.entity


@pytest.fixture
def world() -> World:
    return World(retention=100)


def test_a_labelled_pool_is_born_with_its_label_and_remembers_who_has_it(world: World) -> None:
    done(world.do(place("a", (KEY,), 10)))
    assert (world.row("~key").label, *memory(world)) == ("email:a@b.c", hold_id("a"), None)
    assert world.row("~key").on_demand


def test_other_pools_remember_nothing(world: World) -> None:
    world.pool("p", 5)
    done(world.do(place("a", (Leg("p"), Leg("~born", 1, 3)), 10, entity="order:1")))
    done(world.do(confirm("a")))
    assert memory(world, "p") == memory(world, "~born") == (None, None)


@pytest.mark.parametrize(
    ("held_for", "confirmed_for", "linked"),
    [(None, None, None), ("order:1", None, "order:1"), (None, "order:2", "order:2"), ("order:1", "order:2", "order:2")],
)
def test_a_confirm_links_the_entity(
    world: World, held_for: str | None, confirmed_for: str | None, linked: str | None
) -> None:
    done(world.do(place("a", (KEY,), 10, entity=held_for)))
    assert memory(world) == (hold_id("a"), None)
    done(world.do(confirm("a", entity=confirmed_for)))
    assert memory(world) == (hold_id("a"), linked)
    assert world.held("a").entity == linked


def test_so_does_consume(world: World) -> None:
    done(world.do(consume("a", (KEY,), entity="order:1")))
    assert memory(world) == (hold_id("a"), "order:1")


def test_a_confirm_of_nothing_on_this_leg_links_nothing(world: World) -> None:
    done(world.do(place("a", (KEY, FaceLeg("~other", 1, 1, "other")), 10)))
    done(world.do(confirm("a", {"~other": 1}, entity="order:1")))
    assert memory(world) == (hold_id("a"), None)
    assert memory(world, "~other") == (hold_id("a"), "order:1")


def test_returned_units_take_the_entity_along_and_a_new_grant_too(world: World) -> None:
    world.do(CreatePool(id="~seat", total=2, label="A1"))
    done(world.do(consume("a", {"~seat": 1}, entity="order:1")))
    assert not world.row("~seat").on_demand
    done(world.do(place("b", {"~seat": 1}, 10)))
    assert memory(world, "~seat") == (hold_id("b"), None)
    done(world.do(confirm("b", entity="order:2")))
    done(world.do(give_back("a")))
    assert memory(world, "~seat") == (hold_id("b"), None)


@pytest.mark.parametrize("end", [release, expire])
def test_release_and_expiry_leave_the_last_holder(world: World, end: Any) -> None:
    done(world.do(place("a", (KEY,), 10)))
    world.slot = 9 if end is release else 10
    done(world.do(end("a")))
    assert memory(world) == (hold_id("a"), None)


def test_a_confirm_that_is_late_for_the_holder_keeps_the_younger_one(world: World) -> None:
    world.do(CreatePool(id="~seat", total=2, label="A1"))
    for name in "ab":
        done(world.do(place(name, {"~seat": 1}, 10)))
    done(world.do(confirm("a", entity="order:1")))
    assert memory(world, "~seat") == (hold_id("b"), "order:1")


# Sweeping


@pytest.mark.parametrize(("slot", "there"), [(5, True), (104, True), (105, False)])
def test_a_labelled_pool_rests_for_the_retention(world: World, slot: int, there: bool) -> None:
    done(world.do(place("a", (KEY,), 10)))
    world.slot = 5
    done(world.do(release("a")))
    world.slot = slot
    done(world.do(Sweep()))
    assert (("", "~key") in world.pools) is there


def test_unless_there_is_no_room(world: World) -> None:
    done(world.do(place("a", (KEY,), 10)))
    done(world.do(release("a")))
    for pressed, gone in ((False, False), (True, True)):
        view = View(world.loaded())
        done(decide(view, Sweep(), SweepList([], [("", "~key")], pressed=pressed)))
        assert (view.pools.get(("", "~key")) is None) is gone


def test_a_claim_that_was_swept_away_is_born_anew_with_a_higher_fence(world: World) -> None:
    done(world.do(place("a", (KEY,), 10)))
    done(world.do(release("a")))
    world.slot = 100
    done(world.do(Sweep()))
    again = done(world.do(place("b", (KEY,), 10))).hold
    assert again is not None
    assert again.fence == 2
    assert memory(world) == (hold_id("b"), None)


@pytest.mark.parametrize(
    ("changed", "since"),
    [
        ({}, 0),
        ({"on_demand": False}, None),
        ({"held": 1}, None),
        ({"consumed": 1}, None),
        ({"label": "l"}, 107),
        ({"label": "l", "consumed": 1}, None),
        ({"label": "l", "held": 1}, None),
        ({"closes": 50}, 50),
        ({"closes": 50, "consumed": 2}, 50),
        ({"closes": 50, "held": 1}, None),
        ({"closes": 50, "label": "l"}, 50),
        ({"closes": 50, "label": "l", "consumed": 1}, 50),
    ],
)
def test_from_when_on_a_pool_may_go(changed: dict[str, Any], since: int | None) -> None:
    fields: dict[str, Any] = {"tenant": "", "id": "~x", "total": 2, "slot": 7, "on_demand": True} | changed
    assert Pool(**fields).idle_from(100) == since


# Windows


@pytest.mark.parametrize(
    ("slot", "says"), [(9, "window_closed"), (10, "done"), (19, "done"), (20, "window_closed"), (21, "window_closed")]
)
def test_a_leg_is_granted_within_its_window_only(world: World, slot: int, says: str) -> None:
    world.slot = slot
    outcome = world.do(place("a", window(10, 20), 60))
    assert said(outcome) == says
    if says == "done":
        assert world.row("~window").closes == 20
    else:
        assert (refused(outcome).subject, refused(outcome).found) == ("~window", slot)
        assert world.pools == {}


def test_the_first_closed_leg_is_named(world: World) -> None:
    legs = (*window(0, 5), FaceLeg("~second", 1, 1, None, 6, 7), FaceLeg("~third", 1, 1, None, 8, 9))
    assert refused(world.do(place("a", legs, 60))).subject == "~second"


def test_it_is_the_slot_of_the_pools_that_counts(world: World) -> None:
    world.pool("p", 5)
    world.slot = 20
    done(world.do(place("a", "p", 60)))
    world.slot = 15
    assert refused(world.do(place("b", (*window(10, 20), Leg("p")), 60))).found == 20


def test_a_window_goes_when_it_is_over_and_nothing_is_held(world: World) -> None:
    done(world.do(consume("a", window(0, 20))))
    done(world.do(place("b", window(0, 20), 60)))
    for slot, there in (
        (19, True),
        (20, True),
        (60, True),
        (60, False),
    ):  # the sweep that frees it has listed it before
        world.slot = slot
        done(world.do(Sweep()))
        assert (("", "~window") in world.pools) is there, slot


def test_an_empty_window_stays_until_it_is_over(world: World) -> None:
    done(world.do(place("a", window(0, 20), 60)))
    done(world.do(release("a")))
    done(world.do(Sweep()))
    assert world.row("~window").fence == 1
    world.slot = 20
    done(world.do(Sweep()))
    assert world.pools == {}


def test_what_was_consumed_in_a_window_that_is_gone_can_be_returned_to_nobody(world: World) -> None:
    world.pool("p", 5)
    done(world.do(consume("a", (*window(0, 20, quantity=3), Leg("p", 2)))))
    world.slot = 20
    done(world.do(Sweep()))
    done(world.do(give_back("a", {"~window": 2})))
    assert world.pools.keys() == {("", "p")}
    assert [leg.returned for leg in world.held("a").legs] == [2, 0]
    done(world.do(give_back("a", {"~window": 1, "p": 2})))
    assert world.counters("p") == (5, 0, 0)
    assert said(world.do(give_back("a"))) == "quantity_exceeds_hold"


def test_nor_is_it_taken_from_a_pool_that_has_its_place(world: World) -> None:
    done(world.do(consume("a", window(0, 20, quantity=3))))
    world.slot = 20
    done(world.do(Sweep()))
    done(world.do(consume("b", window(20, 40, quantity=1))))
    done(world.do(give_back("a")))
    assert world.counters("~window") == (5, 0, 1)
    done(world.do(give_back("b")))
    assert world.counters("~window") == (5, 0, 0)


def test_confirming_more_than_is_held_after_the_window_is_gone(world: World) -> None:
    world.pool("p", 5)
    done(world.do(place("a", (*window(0, 20), Leg("p")), 60)))
    done(world.do(confirm("a", {"~window": 1}, keep_rest=True)))
    world.slot = 20
    done(world.do(Sweep()))
    refusal = refused(world.do(confirm("a", {"~window": 1, "p": 1}, overage="if_available")))
    assert refusal.shortfalls == (Shortfall("~window", 1, 0, 0),)
    outcome = done(world.do(confirm("a", {"~window": 1, "p": 1}, overage="up_to_available")))
    assert outcome.uncovered == {"~window": 1}


# Only for faces

LIMITS = Limits()


def checked(**leg: Any) -> str | None:
    """The code with which a leg is turned away."""
    faces = leg.pop("faces", True)
    try:
        check(
            PlaceHold(legs=(FaceLeg("~p", 1, 1, **leg),) if faces else (FaceLeg("p", 1, 1, **leg),), ttl_slots=5),
            LIMITS,
            faces=faces,
        )
    except InvalidRequest as error:
        return f"{error.field} {error.code}"
    return None


@pytest.mark.parametrize(
    ("leg", "code"),
    [
        ({"label": "x" * 1_200}, None),
        ({"label": "x" * 1_201}, "label label_too_long"),
        ({"label": " "}, "label label_required"),
        ({"label": 5}, "label label_not_text"),
        ({"label": "x", "faces": False}, "label label_reserved"),
        ({"opens": 0, "closes": 1}, None),
        ({"opens": 5, "closes": MAX_SLOT}, None),
        ({"opens": 5, "closes": 5}, "closes closes_out_of_range"),
        ({"opens": -1, "closes": 5}, "opens opens_out_of_range"),
        ({"opens": True, "closes": 5}, "opens opens_not_whole"),
        ({"opens": 0, "closes": 5.0}, "closes closes_not_whole"),
        ({"opens": 0}, "closes window_incomplete"),
        ({"closes": 5}, "closes window_incomplete"),
        ({"opens": 0, "closes": 5, "faces": False}, "closes closes_reserved"),
    ],
)
def test_labels_and_windows_are_checked(leg: dict[str, Any], code: str | None) -> None:
    assert checked(**leg) == code


def test_so_is_the_label_of_a_new_pool() -> None:
    check(CreatePool(id="~p", total=1, label="A1"), LIMITS, faces=True)
    with pytest.raises(InvalidRequest, match="only the pools behind faces"):
        check(CreatePool(id="p", total=1, label="A1"), LIMITS)


# How long a key may be held


CLAIMED = FaceLeg("~claim/res_1", 1, 1, "email:a@b.c")


def test_a_key_is_held_for_its_own_limit_at_most_however_it_is_placed() -> None:
    limits = Limits(max_claim_ttl=50)
    too_long = "must be at most 0.05ms for a key (max_claim_ttl)"
    check(place("a", (CLAIMED,), 50), limits, faces=True)
    with pytest.raises(InvalidRequest, match=r"ttl: must be at most 0\.05ms for a key") as long:
        check(place("a", (Leg("p"), CLAIMED), 51), limits, faces=True)
    assert (long.value.field, long.value.code) == ("ttl", "ttl_too_long")
    check(place("a", "p", 51), limits)
    world = World(max_claim_ttl=50)
    world.pool("p", 1)
    world.slot = 100
    assert world.do(place("a", (CLAIMED,), deadline=151)) == Invalid("deadline", "deadline_too_late", too_long)
    done(world.do(place("a", (CLAIMED,), deadline=150)))
    done(world.do(place("b", "p", deadline=151)))


# Names


@pytest.mark.parametrize(
    ("pool", "label", "name"),
    [
        ("show:42", None, "show:42"),
        ("~item/42/A4", None, "42/A4"),
        ("~calendar/inn/double/2027-07-03", None, "inn/double/2027-07-03"),
        ("~claim/res_1", None, "res_1"),
        ("~claim/res_1", "email:a@b.c", "email:a@b.c"),
        ("~budgets/llm/team", None, "llm/team"),
        ("~strange", None, "strange"),
    ],
)
def test_a_shortfall_has_the_name_that_its_caller_knows(pool: str, label: str | None, name: str) -> None:
    assert Shortfall(pool, 1, 0, 1, label).name == name


def test_a_position_prints_its_lane_and_number() -> None:
    assert str(Position(3, 17)) == "3.17"
