"""Lines, accounts and trees, by name: what goes wrong elsewhere, told of the core."""

from __future__ import annotations

import pytest

from holdkit.core.commands import AnyCommand, Group, ResizePool, Sweep
from holdkit.core.model import HeldLeg
from holdkit.core.outcomes import Reason, Refusal, Shortfall
from holdkit.core.outstanding import Level
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    extend,
    give_back,
    give_back_loose,
    join,
    leave,
    place,
    refused,
    release,
    said,
)


@pytest.fixture
def world() -> World:
    """A pool g of 2; a venue v of 3 with sections v//a and v//b of 2 each."""
    world = World(retention=60, retention_consumed=60)
    world.pool("g", 2)
    world.pool("v", 3)
    world.pool("v//a", 2)
    world.pool("v//b", 2)
    return world


@pytest.mark.parametrize("together", [True, False])
def test_two_releases_at_once_with_one_waiter(world: World, together: bool) -> None:
    world.batch(place("a", "g", 60), place("b", "g", 60), join("w", "g"))
    if together:
        world.apply(Group((release("a"),)), Group((release("b"),)))
    else:
        world.batch(release("a"), release("b"))
    assert world.states("w") == ["held"]
    assert (world.counters("g"), world.row("g").waiting, world.actions().count("hold.offered")) == ((2, 1, 0), 0, 1)
    assert said(world.do(place("c", "g", 60))) == "done", "one unit each, and one is left"


def test_a_waiter_of_three_behind_two_free_units() -> None:
    world = World()
    world.pool("g", 4)
    world.batch(place("a", {"g": 2}, 60), join("w", {"g": 3}, 100), join("u", "g", 100))
    assert world.states("w", "u") == ["waiting", "waiting"]
    assert refused(world.do(place("c", "g", 60))) == Refusal(Reason.LINE_AHEAD, "g", found=2)
    assert refused(world.do(place("c", {"g": 3}, 60))).reason is Reason.INSUFFICIENT_CAPACITY
    done(world.do(release("a", 1)))
    assert world.states("w", "u") == ["held", "waiting"]
    done(world.do(release("a")))
    assert world.states("w", "u") == ["held", "held"]


@pytest.mark.parametrize("first", ["leave", "release of units"])
@pytest.mark.parametrize("together", [True, False])
def test_leave_racing_an_offer(world: World, first: str, together: bool) -> None:
    world.batch(place("a", {"g": 2}, 60), join("w", "g"), join("u", "g"))
    race: list[AnyCommand] = [leave("w"), release("a", 1)] if first == "leave" else [release("a", 1), leave("w")]
    told = world.batch(*race) if together else [world.do(command) for command in race]
    assert [said(one) for one in told] == ["done", "done"]
    if first == "leave":
        assert world.states("w", "u") == ["released", "held"]
    else:
        assert (world.states("w", "u"), done(told[1]).refusal) == (["held", "waiting"], None), "what it got it keeps"
    assert world.counters("g") == (2, 2, 0)


@pytest.mark.parametrize(
    ("slot", "says", "w", "u"), [(9, "done", "confirmed", "waiting"), (10, "hold_expired", "expired", "held")]
)
def test_an_offer_that_expires_while_its_owner_confirms(world: World, slot: int, says: str, w: str, u: str) -> None:
    world.batch(place("a", {"g": 2}, 60), join("w", {"g": 2}, 50, 10), join("u", {"g": 2}, 50, 10))
    done(world.do(release("a")))
    world.slot = slot
    assert said(world.do(confirm("w"))) == says
    assert world.states("w", "u") == [w, u]
    assert said(world.do(extend("w", by_slots=5))) == ("already_confirmed" if slot == 9 else "hold_expired")
    assert world.counters("g") == ((2, 0, 2) if slot == 9 else (2, 2, 0))


def test_a_resize_under_the_head(world: World) -> None:
    world.batch(place("a", "g", 60), join("w", {"g": 2}, 100), join("u", "g", 100))
    assert world.states("w", "u") == ["waiting", "waiting"]
    done(world.do(ResizePool(id="g", total=1)))
    assert world.states("w", "u") == ["waiting", "waiting"]
    done(world.do(release("a")))
    assert world.states("w", "u") == ["waiting", "held"], "the head asks for more than there will ever be"
    world.slot = 10
    done(world.do(ResizePool(id="g", total=3)))
    assert world.states("w", "u") == ["held", "expired"], "it kept its place"
    assert world.counters("g") == (3, 2, 0)


def test_overage_and_several_legs_against_a_line(world: World) -> None:
    world.batch(place("a", "g", 60), join("w", {"g": 2}, 100))
    assert refused(world.do(confirm("a", 2, overage="if_available"))) == Refusal(Reason.LINE_AHEAD, "g", found=1)
    assert refused(world.do(place("c", {"v//a": 1, "g": 1}, 60))) == Refusal(Reason.LINE_AHEAD, "g", found=1)
    assert refused(world.do(consume("c", {"v//a": 1, "g": 1}))) == Refusal(Reason.LINE_AHEAD, "g", found=1)
    assert (world.counters("v//a"), world.counters("v")) == ((2, 0, 0), (3, 0, 0)), "all or nothing"
    told = done(world.do(confirm("a", 2, overage="up_to_available")))
    assert (told.uncovered, world.counters("g")) == ({"g": 1}, (2, 0, 1))


def test_a_full_parent_and_a_free_child(world: World) -> None:
    done(world.do(place("a", {"v": 3}, 60)))
    assert refused(world.do(place("b", "v//a", 60))) == Refusal(
        Reason.INSUFFICIENT_CAPACITY, "v", (Shortfall("v", 1, 0, 3),)
    )
    done(world.do(join("w", {"v": 2}, 100)))
    done(world.do(release("a", 1)))
    assert refused(world.do(place("b", "v//a", 60))) == Refusal(Reason.LINE_AHEAD, "v", found=1), (
        "the line is the parent's"
    )
    done(world.do(release("a", 2)))
    assert (world.states("w"), said(world.do(place("b", "v//a", 60)))) == (["held"], "done")


def test_a_child_that_comes_back_serves_the_line_of_its_root(world: World) -> None:
    world.batch(place("a", {"v//a": 2}, 20), place("b", {"v": 1}, 60), join("w", {"v": 2}, 100))
    world.slot = 20
    assert said(world.do(confirm("a"))) == "hold_expired"
    assert (world.states("w"), world.counters("v"), world.counters("v//a")) == (["held"], (3, 3, 0), (2, 0, 0))


def test_a_partial_confirm_of_a_hold_with_account_and_ancestors(world: World) -> None:
    done(world.do(place("a", {"v//a": 2, "v//b": 1}, 60, account="ann")))
    done(world.do(confirm("a", {"v//a": 1}, keep_rest=True)))
    assert [world.counters(name) for name in ("v", "v//a", "v//b")] == [(3, 2, 1), (2, 1, 1), (2, 1, 0)]
    assert [world.used(name) for name in ("v", "v//a", "v//b")] == [3, 2, 1]
    assert world.held("a").above == (Level("v", 2),)
    done(world.do(confirm("a", {"v//b": 1})))
    assert [world.counters(name) for name in ("v", "v//a", "v//b")] == [(3, 0, 2), (2, 0, 1), (2, 0, 1)]
    assert [world.used(name) for name in ("v", "v//a", "v//b")] == [2, 1, 1]
    assert world.held("a").legs == (HeldLeg("v//a", 2, 0, 1), HeldLeg("v//b", 1, 0, 1))
    done(world.do(give_back("a", {"v//a": 1})))
    assert [world.used(name) for name in ("v", "v//a", "v//b")] == [1, 0, 1]


def test_a_return_by_pool_beside_a_return_by_hold(world: World) -> None:
    done(world.do(consume("old", {"v//a": 1}, account="ann")))
    world.slot = 30
    done(world.do(consume("new", {"v//a": 1}, account="ann")))
    assert said(world.do(give_back_loose("v//a", 1, account="ann"))) == "quantity_exceeds_consumed", "its hold is there"
    world.slot = 60
    done(world.do(Sweep()))
    done(world.do(join("w", {"v": 3}, 100)))
    assert world.states("w") == ["waiting"]
    told = world.batch(give_back_loose("v//a", 1, account="ann"), give_back("new"), give_back_loose("v//a", 1, account="ann"), give_back("new"))  # fmt: skip
    assert [said(one) for one in told] == ["done", "done", "quantity_exceeds_consumed", "quantity_exceeds_hold"]
    assert (world.counters("v//a"), world.counters("v"), world.tallies) == ((2, 0, 0), (3, 3, 0), {})
    assert world.states("w") == ["held"], "each unit came back once, on every level"


def test_a_release_in_a_callers_transaction_is_offered_by_the_next(world: World) -> None:
    world.batch(place("a", {"g": 2}, 500), join("w", "g", 400, 10))
    world.may_offer = False
    done(world.do(release("a")))
    world.may_offer, world.slot = True, 100  # it commits late
    assert said(world.do(place("c", "g", 60))) == "done"
    assert (world.held("w").held_at, world.held("w").deadline) == (100, 110), "the offer begins when it can be seen"
