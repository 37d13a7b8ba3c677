"""A leg with the total that the application answered: what a pool becomes, and what is granted on it."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, PlaceHold
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import MAX_QUANTITY, Leg, Pool
from holdkit.core.outcomes import Shortfall
from holdkit.core.validation import check
from holdkit.errors import InvalidRequest
from tests.unit.core.world import World, confirm, consume, done, place, refused, release, said


def leg(quantity: int, total: int, in_use: int | None = None) -> tuple[Leg, ...]:
    return (FaceLeg("~r", quantity, total=total, in_use=in_use),)


def ask(world: World, name: str, quantity: int, total: int, in_use: int | None = None) -> str:
    return said(world.do(place(name, leg(quantity, total, in_use), 60)))


def test_a_missing_pool_is_born_with_the_answer() -> None:
    world = World()
    world.slot = 3
    done(world.do(place("a", leg(2, 5), 60, actor="user:1")))
    created, held = world.entries
    assert created == Entry(slot=3, action=Action.POOL_CREATED, subject="~r", actor="user:1",
                            effects=(Effect(Pool("", "~r", 5, slot=3, on_demand=True), total=5),))  # fmt: skip
    assert held.effects == (Effect(Pool("", "~r", 5, held=2, fence=1, slot=3, version=2, on_demand=True), held=2),)


def test_the_same_answer_writes_nothing_more() -> None:
    world = World()
    assert ask(world, "a", 2, 5) == "done"
    assert ask(world, "b", 3, 5) == "done"
    assert world.actions() == ["pool.created", "hold.held", "hold.held"]
    assert world.counters("~r") == (5, 5, 0)


def test_a_raised_answer_is_journaled_and_granted_in_the_same_step() -> None:
    world = World()
    assert ask(world, "a", 2, 2) == "done"
    world.slot = 4
    done(world.do(place("b", leg(3, 5), 60, actor="user:1", reason="more", op="o", correlation_id="c")))
    assert world.numbers == [4]
    resized = world.entries[2]
    assert resized == Entry(
        slot=4,
        action=Action.POOL_RESIZED,
        subject="~r",
        effects=(Effect(Pool("", "~r", 5, held=2, fence=1, slot=4, version=3, on_demand=True), total=3),),
        actor="user:1",
        correlation_id="c",
        reason="more",
        op="o",
    )
    assert world.counters("~r") == (5, 5, 0)


def test_a_lowered_answer_marks_the_pool_over_and_cancels_nothing() -> None:
    world = World()
    assert ask(world, "a", 4, 5) == "done"
    refusal = refused(world.do(place("b", leg(1, 3), 60)))
    assert refusal.shortfalls == (Shortfall("~r", 1, 0, 3),)
    assert world.actions() == ["pool.created", "hold.held", "pool.resized"]
    pool = world.row("~r")
    assert (pool.total, pool.held, pool.over, pool.available) == (3, 4, True, 0)
    assert said(world.do(confirm("a", 2, keep_rest=True))) == "done"
    assert said(world.do(release("a"))) == "done"
    assert (world.row("~r").over, world.row("~r").available) == (False, 1)
    assert ask(world, "b", 1, 3) == "done"


def test_a_lowered_answer_with_room_left_grants_what_is_left() -> None:
    world = World()
    assert ask(world, "a", 1, 9) == "done"
    assert ask(world, "b", 2, 3) == "done"
    assert ask(world, "c", 1, 3) == "insufficient_capacity"
    assert world.counters("~r") == (3, 3, 0)


def test_a_refused_command_brings_no_pool() -> None:
    world = World()
    refusal = refused(world.do(place("a", leg(1, 0), 60)))
    assert refusal.shortfalls == (Shortfall("~r", 1, 0, 0),)
    assert world.entries == []


def test_the_answer_wins_over_the_total_to_be_born_with() -> None:
    world = World()
    assert said(world.do(place("a", (FaceLeg("~r", 1, create_with_total=9, total=2),), 60))) == "done"
    assert world.row("~r").total == 2


def test_what_stands_above_in_the_ladder_wins() -> None:
    world = World()
    assert ask(world, "a", 1, 5) == "done"
    assert said(world.do(place("b", leg(1, 7), deadline=0))) == "deadline_passed"
    assert world.row("~r").total == 5  # not even looked at
    assert said(world.do(place("a", leg(1, 6), 60))) == "hold_exists"
    assert world.row("~r").total == 6  # how things are, whatever became of the hold
    world.limits = Limits(max_pools=1)
    assert said(world.do(place("c", (FaceLeg("~s", 1, total=1),), 60))) == "pool_table_full"


def test_due_legs_come_back_before_the_answer_counts() -> None:
    world = World()
    assert ask(world, "a", 5, 5) == "done"
    world.slot = 60
    assert ask(world, "b", 2, 2) == "done"
    assert world.actions() == ["pool.created", "hold.held", "hold.expired", "pool.resized", "hold.held"]
    assert not world.row("~r").over


def test_consume_too() -> None:
    world = World()
    assert said(world.do(consume("a", leg(2, 2)))) == "done"
    assert said(world.do(consume("b", leg(1, 2)))) == "insufficient_capacity"
    assert said(world.do(consume("b", leg(1, 3)))) == "done"
    assert world.counters("~r") == (3, 0, 3)


def test_an_atomic_group_takes_the_answer_back_with_the_rest() -> None:
    world = World()
    assert ask(world, "a", 1, 1) == "done"
    world.atomic(place("b", leg(1, 2), 60), confirm("nobody"))
    assert world.counters("~r") == (1, 1, 0)


@pytest.mark.parametrize(
    ("total", "in_use", "free", "becomes"),
    [(5, 2, 3, 5), (5, 0, 5, 7), (5, 5, 0, 2), (5, 9, 0, 0), (9, 2, 7, 9), (5, 6, 0, 1)],
)
def test_the_applications_own_count_replaces_ours(total: int, in_use: int, free: int, becomes: int) -> None:
    """Two units are held; the application counts `in_use` of `total`."""
    world = World()
    assert ask(world, "a", 2, 9) == "done"
    refusal = refused(world.do(place("b", leg(free + 1, total, in_use), 60)))
    assert refusal.shortfalls == (Shortfall("~r", free + 1, free, becomes),)
    assert world.row("~r").total == becomes
    if free:
        assert ask(world, "b", free, total, in_use) == "done"


def test_units_that_are_confirmed_are_in_use_too() -> None:
    world = World()
    assert ask(world, "a", 2, 9) == "done"
    done(world.do(confirm("a")))
    assert ask(world, "b", 3, 5, 2) == "done"
    assert world.counters("~r") == (5, 3, 2)


def test_no_total_grows_beyond_the_largest_number() -> None:
    world = World()
    assert ask(world, "a", 2, 9) == "done"
    assert ask(world, "b", 1, MAX_QUANTITY, 0) == "done"
    assert world.row("~r").total == MAX_QUANTITY


def test_the_applications_own_count_on_a_new_pool() -> None:
    world = World()
    assert ask(world, "a", 2, 5, 4) == "insufficient_capacity"
    assert ask(world, "a", 1, 5, 4) == "done"
    assert world.counters("~r") == (1, 1, 0)


def test_a_pool_made_on_demand_by_command() -> None:
    world = World()
    pool = done(world.do(CreatePool(id="~r", total=0, exist_ok=True, on_demand=True))).pool
    assert pool is not None
    assert (pool.on_demand, pool.total) == (True, 0)
    assert ask(world, "a", 1, 2) == "done"
    assert world.actions() == ["pool.created", "pool.resized", "hold.held"]


@pytest.mark.parametrize(
    ("given", "field", "code"),
    [
        ({"total": -1}, "total", "total_out_of_range"),
        ({"total": 2**53}, "total", "total_out_of_range"),
        ({"total": True}, "total", "total_not_whole"),
        ({"total": 1.0}, "total", "total_not_whole"),
        ({"in_use": 1}, "total", "total_not_whole"),
        ({"total": 1, "in_use": -1}, "in_use", "in_use_out_of_range"),
        ({"total": 1, "in_use": "1"}, "in_use", "in_use_not_whole"),
    ],
)
def test_bad_answers(given: dict[str, Any], field: str, code: str) -> None:
    command = PlaceHold(legs=(FaceLeg("~r", 1, **given),), ttl_slots=5)
    with pytest.raises(InvalidRequest) as caught:
        check(command, Limits(), faces=True)
    assert (caught.value.field, caught.value.code) == (field, code)


def test_only_faces_may_answer_or_make_pools_on_demand() -> None:
    for allowed in (FaceLeg("~r", 1, total=1), FaceLeg("~r", 1, total=1, in_use=0)):
        check(PlaceHold(legs=(allowed,), ttl_slots=5), Limits(), faces=True)
    with pytest.raises(InvalidRequest) as caught:
        check(PlaceHold(legs=(FaceLeg("r", 1, total=1),), ttl_slots=5), Limits())
    assert (caught.value.field, caught.value.code) == ("total", "total_reserved")
    check(CreatePool(id="~r", total=0, on_demand=True), Limits(), faces=True)
    for wrong, code in ((True, "on_demand_reserved"), (1, "on_demand_not_boolean")):
        with pytest.raises(InvalidRequest) as caught:
            check(CreatePool(id="r", total=0, on_demand=wrong), Limits())  # type: ignore[arg-type]
        assert caught.value.code == code
