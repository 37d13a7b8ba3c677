"""Time: alive if and only if now < deadline, noticed by whoever touches the pool first, marked once."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import CreatePool, ResizePool, Sweep
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.ladders.finding import find_live
from holdkit.core.model import HeldLeg, Leg, Pool, State
from holdkit.core.outcomes import Done, Reason, Refusal
from holdkit.core.view import View
from tests.unit.core.world import (
    World,
    confirm,
    done,
    expire,
    extend,
    give_back,
    hold_id,
    place,
    refused,
    release,
    said,
)


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("p", "q", "r"):
        world.pool(name, 10)
    return world


@pytest.mark.parametrize(("slot", "says"), [(59, "insufficient_capacity"), (60, "done"), (61, "done")])
def test_at_the_deadline_the_units_are_free_for_the_next_caller(world: World, slot: int, says: str) -> None:
    done(world.do(place("a", {"p": 10}, 60)))
    world.slot = slot
    assert said(world.do(place("b", "p", 60))) == says


@pytest.mark.parametrize(
    "command", [confirm("a"), release("a"), extend("a", until=999)], ids=["confirm", "release", "extend"]
)
def test_at_the_deadline_it_is_too_late_for_everyone(world: World, command: Any) -> None:
    done(world.do(place("a", "p", 60)))
    world.slot = 60
    assert said(world.do(command)) == "hold_expired"


def test_an_expiry_is_written_whole(world: World) -> None:
    done(world.do(place("a", {"p": 4}, 60, correlation_id="c", actor="user:1")))
    world.slot = 75
    assert said(world.do(place("b", {"p": 11}, 60))) == "insufficient_capacity"  # noticed all the same
    hold = world.held("a")
    assert (hold.state, hold.ended_at, hold.version, hold.legs) == (State.EXPIRED, 60, 2, (HeldLeg("p", 4),))
    assert hold.reason is None
    assert world.entries[-1] == Entry(
        slot=75,
        action=Action.HOLD_EXPIRED,
        subject=hold_id("a"),
        effects=(Effect(Pool("", "p", 10, fence=1, slot=75, version=3), held=-4),),
        change=Change(
            state=State.EXPIRED,
            was=State.HELD,
            version=2,
            legs=(HeldLeg("p", 4),),
            deadline=60,
            was_deadline=60,
            ended_at=60,
        ),
        actor="system",
        correlation_id="c",
    )


@pytest.mark.parametrize(
    "command",
    [
        CreatePool(id="p", total=1),
        ResizePool(id="p", total=10),
        place("b", "p", 5),
        place("b", {"q": 1, "p": 11}, 5),
        expire("a"),
        release("a"),
        give_back("a"),
        expire("neighbour"),
    ],
    ids=["create", "resize", "place", "refused", "expire", "release", "return", "neighbour"],
)
def test_every_command_on_a_pool_notices(world: World, command: Any) -> None:
    done(world.do(place("a", {"p": 3}, 60)))
    done(world.do(place("neighbour", {"p": 1}, 999)))
    world.slot = 60
    world.do(command)
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired"]


def test_other_pools_are_left_alone(world: World) -> None:
    done(world.do(place("a", {"p": 1}, 60)))
    world.slot = 60
    done(world.do(place("b", "q", 5)))
    assert world.held("a").state is State.HELD
    assert world.row("p").held == 1


def test_due_legs_return_in_order_of_deadline_and_id(world: World) -> None:
    for name, ttl in [("d", 50), ("c", 60), ("b", 60), ("a", 70), ("e", 71)]:
        done(world.do(place(name, "p", ttl)))
    world.slot = 70
    done(world.do(place("z", {"p": 9}, 5)))
    returned = [entry.subject for entry in world.entries if entry.action is Action.HOLD_EXPIRED]
    assert returned == [hold_id(name) for name in "dbca"]


def test_due_legs_of_several_pools_return_in_one_order(world: World) -> None:
    for name, what, ttl in [("a", {"p": 1}, 50), ("b", {"q": 1}, 40), ("c", {"p": 1, "q": 1}, 45)]:
        done(world.do(place(name, what, ttl)))
    world.slot = 60
    done(world.do(place("z", {"p": 1, "q": 1}, 5)))
    returned = [entry for entry in world.entries if entry.action is Action.HOLD_EXPIRED]
    assert [entry.subject for entry in returned] == [hold_id(name) for name in "bca"]
    assert [effect.pool.id for effect in returned[1].effects] == ["p", "q"]  # both legs at once


def test_legs_come_back_pool_by_pool_and_the_hold_is_marked_once(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 2, "r": 3}, 60)))
    world.slot = 60
    done(world.do(place("b", "q", 5)))
    assert world.held("a").state is State.EXPIRED
    assert world.held("a").legs == (HeldLeg("p", 1, 1), HeldLeg("q", 2), HeldLeg("r", 3, 3))
    world.slot = 70
    done(world.do(place("c", "r", 5)))
    assert world.held("a").version == 3
    assert world.entries[-2].action is Action.LEG_RETURNED
    assert world.entries[-2].change is not None
    assert (world.entries[-2].change.was, world.entries[-2].change.ended_at) == (State.EXPIRED, 60)
    assert said(world.do(release("a"))) == "hold_expired"  # touches p, q and r
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired", "leg.returned", "leg.returned"]
    assert [world.row(name).held for name in "pqr"] == [0, 0, 1]  # b on q had come due meanwhile
    before = len(world.entries)
    assert said(world.do(release("a"))) == "hold_expired"
    assert len(world.entries) == before


def test_expiry_consumes_nothing_and_keeps_what_was_confirmed(world: World) -> None:
    done(world.do(place("a", {"p": 5}, 60)))
    done(world.do(confirm("a", 2, keep_rest=True)))
    world.slot = 60
    done(world.do(expire("a")))
    assert world.counters("p") == (10, 0, 2)
    assert world.held("a").legs == (HeldLeg("p", 5, 0, 2),)


# Commands at the right slot


def test_time_never_moves_backwards_along_a_pool(world: World) -> None:
    world.slot = 100
    done(world.do(place("a", {"p": 10}, 50)))
    world.slot = 20
    outcome = done(world.do(place("b", "q", 50)))
    assert outcome.slot == 20  # another pool, another clock
    outcome = done(world.do(release("a")))
    assert outcome.slot == 100
    outcome = done(world.do(place("c", {"q": 1, "p": 1}, 50)))
    assert (outcome.slot, world.held("c").deadline, world.held("c").held_at) == (100, 150, 100)
    assert world.row("q").slot == 100
    assert said(world.do(place("d", "q", deadline=100))) == "deadline_passed"


def test_a_pools_later_clock_makes_holds_due(world: World) -> None:
    done(world.do(place("a", {"p": 10}, 50)))
    world.slot = 80
    done(world.do(place("late", "q", 50)))
    world.slot = 10
    outcomes = world.batch(place("b", {"p": 1, "q": 1}, 5), confirm("a"))
    assert [said(outcome) for outcome in outcomes] == ["done", "hold_expired"]


def test_a_hold_placed_in_this_very_batch_can_come_due_in_it(world: World) -> None:
    world.slot = 80
    done(world.do(place("late", "q", 50)))
    world.slot = 10
    outcomes = world.batch(
        place("a", {"p": 10}, 70),  # on p it is slot 10: until 80
        place("b", {"p": 10}, 5),
        place("c", {"p": 10, "q": 1}, 5),  # on q it is slot 80
        confirm("a"),
    )
    assert [said(outcome) for outcome in outcomes] == ["done", "insufficient_capacity", "done", "hold_expired"]
    assert world.held("a").ended_at == 80


@pytest.mark.parametrize(("ttl", "says"), [(70, "done"), (71, "insufficient_capacity")])
def test_the_horizon_itself_is_due(world: World, ttl: int, says: str) -> None:
    world.slot = 80
    done(world.do(place("late", "q", 50)))
    world.slot = 10
    answers = world.batch(place("a", {"p": 10}, ttl), place("c", {"p": 10, "q": 1}, 5))
    assert said(answers[1]) == says


def test_an_extended_hold_returns_in_the_order_of_its_new_deadline(world: World) -> None:
    done(world.do(place("a", {"p": 1}, 50)))
    done(world.do(place("b", {"p": 1}, 60)))
    world.slot = 80
    done(world.do(place("late", "q", 50)))
    world.slot = 10
    world.batch(extend("a", until=70), place("c", {"p": 8, "q": 1}, 5))
    returned = [entry.subject for entry in world.entries if entry.action is Action.HOLD_EXPIRED]
    assert returned == [hold_id("b"), hold_id("a")]


def test_an_extended_hold_does_not_return_at_its_old_deadline(world: World) -> None:
    done(world.do(place("a", {"p": 1}, 50)))
    world.slot = 80
    done(world.do(place("late", "q", 500)))
    world.slot = 10
    world.batch(extend("a", until=200), place("c", {"p": 1, "q": 1}, 5))
    assert world.held("a").state is State.HELD


def test_what_an_atomic_group_returned_is_due_again_when_it_is_rolled_back(world: World) -> None:
    done(world.do(place("a", {"p": 10}, 60)))
    world.slot = 60
    assert [said(one) for one in world.atomic(place("b", {"p": 10}, 5), expire("nobody"))] == [
        "aborted",
        "hold_not_found",
    ]
    assert world.held("a").state is State.HELD
    outcomes = world.apply_groups([place("c", {"p": 10}, 5), expire("nobody")], [place("d", {"p": 10}, 5)])
    assert [[said(one) for one in group] for group in outcomes] == [["aborted", "hold_not_found"], ["done"]]
    assert world.held("a").state is State.EXPIRED


def test_a_due_hold_is_dead_even_if_its_pools_were_not_brought_up_to_date(world: World) -> None:
    done(world.do(place("a", "p", 60)))
    found = find_live(View(world.loaded()), "", hold_id("a"), "owner of a", 60)
    assert found == Refusal(Reason.HOLD_EXPIRED, hold_id("a"), found=60)
    assert find_live(View(world.loaded()), "", hold_id("a"), "owner of a", 59) == world.held("a")


# ExpireHold


def test_expiring(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 1}, 60)))
    world.slot = 59
    refusal = refused(world.do(expire("a")))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("not_due", hold_id("a"), 60)
    world.slot = 60
    assert world.do(expire("a")) == Done(slot=60, hold=world.held("a"))
    assert world.held("a").legs == (HeldLeg("p", 1), HeldLeg("q", 1))
    before = len(world.entries)
    world.slot = 61
    assert world.do(expire("a")) == Done(slot=61, hold=world.held("a"))  # twice: a quiet no-op
    assert len(world.entries) == before


def test_a_hold_without_a_deadline_is_never_due(world: World) -> None:
    done(world.do(place("a", "p")))
    world.slot = 2**62
    assert refused(world.do(expire("a"))).found is None


@pytest.mark.parametrize(("end", "says"), [(confirm("a"), "already_confirmed"), (release("a"), "already_released")])
def test_what_has_ended_otherwise_cannot_expire(world: World, end: Any, says: str) -> None:
    done(world.do(place("a", "p", 60)))
    done(world.do(end))
    world.slot = 60
    refusal = refused(world.do(expire("a")))
    assert (refusal.reason.value, refusal.subject) == (says, hold_id("a"))


# Named regressions


def test_b1_an_early_deadline_behind_a_late_one(world: World) -> None:
    done(world.do(place("a", {"p": 5}, deadline=1000)))
    done(world.do(place("b", {"p": 5}, deadline=3)))
    world.slot = 20
    assert said(world.do(place("c", {"p": 5}, 10))) == "done"


def test_b5_expire_twice(world: World) -> None:
    done(world.do(place("a", "p", 5)))
    world.slot = 5
    assert [said(outcome) for outcome in world.batch(expire("a"), expire("a"))] == ["done", "done"]
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired"]


@pytest.mark.parametrize("slot", [60, 5_000_000])
def test_b6_b17_confirm_after_the_deadline_unswept(world: World, slot: int) -> None:
    done(world.do(place("a", "p", 60)))
    world.slot = slot
    assert said(world.do(confirm("a"))) == "hold_expired"


def test_sweep_and_touch_agree_on_a_claim_like_pool() -> None:
    world = World()
    done(world.do(place("a", (Leg("~k", 1, 1),), 60)))
    world.slot = 60
    done(world.do(Sweep()))
    assert said(world.do(place("b", (Leg("~k", 1, 1),), 60))) == "done"
    assert said(world.do(confirm("b"))) == "done"
    assert said(world.do(place("c", (Leg("~k", 1, 1),), 60))) == "insufficient_capacity"
