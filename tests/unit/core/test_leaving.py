"""The end of a wait: leaving the line, the end of a blocking call, the end of the pool, and the places that are given again."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.commands import ArchivePool, Group, RemovePool, ResizePool
from holdkit.core.model import HeldLeg, State, StoredHold
from holdkit.core.outcomes import Reason, Refusal, Shortfall
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    expire,
    extend,
    full_world,
    give_back,
    hold_id,
    join,
    leave,
    line,
    place,
    refused,
    release,
    said,
)


@pytest.fixture
def world() -> World:
    return full_world()


# Ending a waiter


def test_leaving_gives_up_the_place_at_once(world: World) -> None:
    for name, units in (("a", 5), ("b", 2)):
        done(world.do(join(name, {"p": units})))
    done(world.do(release("full", 3)))
    told = done(world.do(release("a", op="o", reason="too slow", actor="user:1")))
    hold = world.held("a")
    assert told.hold == hold
    assert (hold.state, hold.ended_at, hold.held_at, hold.legs, hold.reason) == (
        State.RELEASED,
        5,
        None,
        (HeldLeg("p", 5),),
        "too slow",
    )
    assert world.states("b") == ["held"], "the next one moves up"
    assert world.actions()[-2:] == ["hold.released", "hold.offered"]
    left = world.entries[-2]
    assert ([effect.waiting for effect in left.effects], left.actor, left.forced) == ([-1], "user:1", False)
    world.operations.clear()
    again = done(world.do(release("a", op="o")))
    assert (again.hold, again.replayed) == (hold, True), "the hold itself remembers what ended it"


def test_an_operator_takes_somebody_out_of_the_line(world: World) -> None:
    done(world.do(join("a", {"p": 5})))
    assert said(world.do(release("a", token=None))) == "not_owner"
    done(world.do(release("a", token=None, force=True, reason="abuse")))
    assert (world.entries[-1].forced, world.states("a"), world.row("p").waiting) == (True, ["released"], 0)


def test_a_part_of_a_place_cannot_be_released(world: World) -> None:
    done(world.do(join("a", {"p": 5})))
    assert refused(world.do(release("a", 1))) == Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold_id("a"), found=0)
    assert refused(world.do(release("a", {"p": 5}))).reason is Reason.QUANTITY_EXCEEDS_HOLD


def test_what_a_waiter_is_told(world: World) -> None:
    done(world.do(join("a", {"p": 5})))
    done(world.do(join("b", {"p": 5})))
    assert refused(world.do(confirm("b"))) == Refusal(Reason.HOLD_WAITING, hold_id("b"), found=2)
    assert refused(world.do(give_back("b"))) == Refusal(Reason.NOT_CONFIRMED, hold_id("b"))
    assert refused(world.do(expire("b"))) == Refusal(Reason.NOT_DUE, hold_id("b"), found=55)


def test_extending_moves_the_end_of_the_wait_and_never_shortens_it(world: World) -> None:
    done(world.do(join("a", {"p": 5}, 50)))
    place_in_line = world.row("p")
    done(world.do(extend("a", by_slots=10)))
    assert (world.held("a").deadline, world.held("a").number, world.row("p")) == (65, 1, place_in_line)
    world.slot = 30
    done(world.do(extend("a", ttl_slots=20)))
    assert world.held("a").deadline == 65
    done(world.do(extend("a", ttl_slots=60)))
    assert world.held("a").deadline == 90
    world.slot = 65
    done(world.do(release("full")))
    assert world.states("a") == ["held"]


def test_an_ended_waiter_is_kept_for_the_retention_and_its_id_is_free_after_it() -> None:
    world = World(retention=20, retention_consumed=500)
    world.pool("p", 1)
    done(world.do(place("full", "p", 1000)))
    done(world.do(join("a", "p", 10)))
    world.slot = 10
    assert said(world.do(release("a"))) == "hold_expired"
    first = world.held("a")
    world.slot = 29
    assert said(world.do(join("a", "p", 10))) == "hold_exists"
    world.slot = 30
    assert said(world.do(confirm("a"))) == "hold_not_found"
    done(world.do(join("a", "p", 10)))
    assert not first.same_life(world.held("a"))
    assert world.held("a").number == 2
    second = world.held("a")
    done(world.do(release("full")))
    assert world.held("a").state is State.HELD
    assert second.same_life(world.held("a")), "an offer goes on with the same life"


@pytest.mark.parametrize("field", ["joined_at", "number", "owner_hash", "actor"])
def test_lives_are_told_apart_by_their_beginning(field: str) -> None:
    one = StoredHold("", "a", (HeldLeg("p", 1),), "hash", None, 0, 9, State.WAITING, joined_at=3, number=4)
    other = structs.replace(one, **{field: 7 if field in ("joined_at", "number") else "x"})
    assert one.same_life(structs.replace(one, held_at=8, fence=5, state=State.HELD))
    assert not one.same_life(other)


# The end of a blocking call


def test_a_call_whose_time_is_over_leaves_and_is_told_why(world: World) -> None:
    told = done(world.do(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o")))
    assert told.hold is not None
    world.slot = 35
    left = done(world.do(leave("a", placed_op="o")))
    short = Refusal(Reason.INSUFFICIENT_CAPACITY, "p", (Shortfall("p", 4, 0, 10),))
    assert (left.refusal, left.hold, world.states("a")) == (short, world.held("a"), ["released"])
    assert world.held("a").ended_at == 35
    assert world.operations["", "o"].seq == 0, "a refusal has no number in the journal"
    asked = place("a", {"p": 4}, 60, wait_slots=20, offer_slots=10, op="o")
    assert refused(world.do(asked)) == structs.replace(short, replayed=True), "a retry, however long it would wait"
    done(world.do(release("full", 4)))
    again = done(world.do(leave("a", placed_op="o")))
    assert again.refusal == Refusal(Reason.LINE_AHEAD, "p", found=0), "as the numbers are now"
    assert refused(world.do(asked)) == structs.replace(short, replayed=True), "leaving again changes no recorded answer"


def test_one_group_may_join_and_leave(world: World) -> None:
    told = world.atomic(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o"), leave("a", placed_op="o"))
    refusal = done(told[1]).refusal
    assert refusal is not None
    assert (refusal.reason, done(told[0]).hold) == (Reason.INSUFFICIENT_CAPACITY, world.held("a"))
    again = world.do(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o"))
    assert again == structs.replace(refusal, replayed=True)


def test_behind_others_the_line_is_the_reason(world: World) -> None:
    done(world.do(join("a", {"p": 4})))
    done(world.do(join("b", {"p": 2})))
    done(world.do(release("full", 3)))
    assert done(world.do(leave("b"))).refusal == Refusal(Reason.LINE_AHEAD, "p", found=2)
    assert (line(world), world.operations) == ([("a", 1)], {})


def test_units_that_were_offered_by_then_are_kept(world: World) -> None:
    done(world.do(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o")))
    done(world.do(release("full", 4)))
    before = world.state()
    told = done(world.do(leave("a", placed_op="o")))
    assert (told.refusal, told.hold) == (None, world.held("a"))
    done(world.do(confirm("a")))
    assert done(world.do(leave("a"))).refusal is None
    assert before["operations"] == world.state()["operations"]


def test_an_offer_that_is_over_was_in_vain(world: World) -> None:
    done(world.do(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o")))
    done(world.do(release("full", 4)))
    world.slot = 15
    told = done(world.do(leave("a", placed_op="o")))
    assert told.hold == world.held("a")
    assert (world.states("a"), told.refusal) == (["expired"], Refusal(Reason.LINE_AHEAD, "p", found=0))


def test_another_callers_operation_is_left_alone(world: World) -> None:
    done(world.do(place("a", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="o")))
    done(world.do(place("b", {"p": 4}, 60, wait_slots=60, offer_slots=10, op="n")))
    recorded = dict(world.operations)
    done(world.do(leave("a", placed_op="n")))
    assert world.operations == recorded
    assert said(world.do(leave("a", placed_op="unknown"))) == "done"
    assert said(world.do(leave("missing"))) == "hold_not_found"
    assert said(world.do(leave("a", token="thief"))) == "not_owner"


def test_a_hold_whose_pool_is_gone_is_refused(world: World) -> None:
    """It has no line to leave, and nobody is to go on waiting for it."""
    done(world.do(join("a", {"p": 4})))
    world.batch(release("a"), release("full"), RemovePool(id="p"))
    assert refused(world.do(leave("a"))) == Refusal(Reason.POOL_NOT_FOUND, "p")


# Pools with a line


def test_a_pool_with_a_line_is_not_removed(world: World) -> None:
    done(world.do(join("a", {"p": 4}, 500)))
    done(world.do(ArchivePool(id="p")))
    done(world.do(release("full")))
    assert refused(world.do(RemovePool(id="p"))) == Refusal(Reason.POOL_IN_USE, "p", found=0)
    done(world.do(release("a")))
    assert said(world.do(RemovePool(id="p"))) == "done"


def test_a_pool_that_is_created_anew_begins_a_new_line(world: World) -> None:
    done(world.do(join("a", {"p": 4}, 500)))
    world.batch(release("a"), release("full"), RemovePool(id="p"))
    world.pool("p", 1)
    done(world.do(join("b", "p")))
    assert (world.held("b").number, world.held("b").fence) == (1, 2)


def test_a_line_is_one_tenants(world: World) -> None:
    world.pool("p", 10, tenant="acme")
    done(world.do(join("a", {"p": 4})))
    assert said(world.do(place("a", {"p": 4}, 60, tenant="acme"))) == "done"
    assert said(world.do(consume("b", {"p": 4}, tenant="acme"))) == "done"


def test_resizing_answers_with_the_pool_and_then_feeds_it(world: World) -> None:
    done(world.do(join("a", {"p": 2})))
    assert said(world.do(ResizePool(id="p", total=9))) == "below_in_use"
    told = done(world.do(ResizePool(id="p", total=12)))
    assert told.pool is not None
    assert (told.pool.available, world.row("p").available) == (2, 0)


# Places given again


def test_an_id_that_is_used_again_does_not_get_back_its_old_place() -> None:
    world = World(retention=0)
    world.pool("p", 10)
    done(world.do(place("full", {"p": 10}, 1000)))
    for name in "abc":
        done(world.do(join(name, {"p": 5})))
    told = world.batch(release("b"), join("b", {"p": 5}), release("full", 5), release("full", 5))
    assert [said(one) for one in told] == ["done"] * 4
    assert (world.states("a", "b", "c"), world.held("b").number) == (["held", "waiting", "held"], 4)


@pytest.mark.parametrize("pruned", [False, True])
def test_an_id_that_is_used_again_waits_anew_whatever_its_number_was(pruned: bool) -> None:
    """What `test_pruned_or_not_the_answers_are_the_same` meets now and then: number 1 in the line of p, later number 1 in the line of q."""
    world = World(retry_window=30, retention=20, retention_consumed=40, max_lifetime=80)
    world.pool("p", 6)
    world.pool("q", 5, per_account=3)
    done(world.do(join("a", "p", 5, 5)))
    world.slot = 5
    done(world.do(expire("a")))
    world.slot = 30
    if pruned:
        world.prune()
        assert world.holds == {}
    hold = done(world.do(join("a", {"q": 3}, account="bob"))).hold
    assert hold is not None
    assert (hold.state.value, hold.number, world.row("q").held) == ("held", 1, 3)


def test_a_group_that_is_undone_gives_nobody_another_place() -> None:
    """Who joined in it joins behind those who came after it; who left in it has not."""
    world = World(retention=0)
    world.pool("p", 10)
    done(world.do(place("full", {"p": 10}, 1000)))
    for name in "ab":
        done(world.do(join(name, {"p": 5})))
    told = world.apply(
        Group((release("a"), join("a", {"p": 5}), join("c", {"p": 5}), place("x", {"p": 11}, 60)), atomic=True),
        Group((join("d", {"p": 5}), join("c", {"p": 5}))),
        Group((release("full", 5), release("full", 5), release("a"))),
    )
    assert [said(one) for one in told[0]] == ["aborted"] * 3 + ["insufficient_capacity"]
    assert [said(one) for group in told[1:] for one in group] == ["done"] * 5
    assert world.states("a", "b", "c", "d") == ["released", "held", "waiting", "held"]
    assert line(world) == [("c", 4)]
