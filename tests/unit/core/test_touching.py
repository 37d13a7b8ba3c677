"""The legs that a transaction touches are bounded, those of loaded holds counted: who is refused, who is put off, who goes on."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.commands import AnyCommand, CreatePool, Group
from holdkit.core.decide import decide_groups
from holdkit.core.outcomes import Invalid, Outcome
from holdkit.core.touching import groups_put_off
from holdkit.core.view import View
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    expire,
    extend,
    give_back,
    join,
    leave,
    place,
    release,
    said,
)

WIDE = {"p": 1, "q": 1, "r": 1}
"""A hold of three legs."""


def world_of(bound: int) -> World:
    world = World(max_touched_legs=bound)
    for tenant in ("", "b"):
        for name in WIDE:
            done(world.do(CreatePool(id=name, total=99, tenant=tenant)))
    done(world.do(place("wide", WIDE)))
    return world


def only(outcomes: list[Outcome]) -> Invalid:
    """The one answer that every command of a group has."""
    first = outcomes[0]
    assert isinstance(first, Invalid)
    assert all(outcome == first for outcome in outcomes)
    return first


@pytest.mark.parametrize(
    "command",
    [extend("wide", by_slots=1), confirm("wide"), release("wide"), give_back("wide"), expire("wide")],
    ids=lambda command: type(command).__name__,
)  # fmt: skip
def test_the_legs_of_a_named_hold_count_for_each_command_anew(command: AnyCommand) -> None:
    world = world_of(8)
    before = world.state()
    invalid = only(world.under("key", command, command, command))
    assert (invalid.field, invalid.code) == ("commands", "batch_too_large")
    assert invalid.message == (
        "the batch touches 9 legs, at most 8 are allowed: send fewer commands at once (max_touched_legs)"
    )
    assert world.state() == before, "nothing was done, and the key is free"
    assert world.numbers == [0, 0, 0]
    assert len(world.under("key", command, command)) == 2


def test_named_legs_count_too_and_so_do_those_of_a_hold_placed_before_in_the_group() -> None:
    assert [said(one) for one in world_of(3).batch(place("a", WIDE), place("b", "p"))] == ["batch_too_large"] * 2
    assert [said(one) for one in world_of(3).batch(consume("a", WIDE), place("b", "p"))] == ["batch_too_large"] * 2
    assert [
        said(one) for one in world_of(8).batch(place("a", WIDE), extend("a", by_slots=1), extend("a", by_slots=1))
    ] == ["batch_too_large"] * 3
    assert [
        said(one) for one in world_of(9).batch(place("a", WIDE), extend("a", by_slots=1), extend("a", by_slots=1))
    ] == ["done"] * 3


def test_a_pool_above_counts_like_a_leg() -> None:
    for bound, says in ((7, "batch_too_large"), (8, "done")):
        world = world_of(99)
        for name in ("p//a", "p//a//b", "p//c"):
            world.pool(name, 9)
        done(world.do(place("deep", "p//a//b", 60)))
        world.limits = structs.replace(world.limits, max_touched_legs=bound)
        told = world.batch(
            extend("deep", by_slots=1), place("x", {"p//a": 1, "p//c": 1}, 60), join("y", "q"), leave("y")
        )
        assert [said(one) for one in told] == [says] * 4


def test_pools_and_missing_holds_have_no_legs() -> None:
    world = world_of(0)
    told = world.batch(CreatePool(id="s", total=1), CreatePool(id="t", total=1), extend("missing", by_slots=1))
    assert [said(one) for one in told] == ["done", "done", "hold_not_found"]


def test_a_single_command_is_never_refused() -> None:
    assert said(world_of(2).do(extend("wide", by_slots=1))) == "done"


def test_what_is_answered_from_its_record_touches_nothing() -> None:
    world = world_of(9)
    asked = [extend("wide", by_slots=1), extend("wide", by_slots=1), extend("wide", by_slots=1)]
    first = world.under("key", *asked)
    assert [said(one) for one in first] == ["done"] * 3
    world.limits = structs.replace(world.limits, max_touched_legs=1)
    again = world.under("key", *asked)
    assert [done(one).replayed for one in again] == [True] * 3


def test_a_group_without_room_is_put_off_and_so_are_the_later_ones_of_its_tenant() -> None:
    world = world_of(5)
    other = structs.replace(place("c", "p"), tenant="b")
    told = world.apply(
        Group((extend("wide", by_slots=1),)),
        Group((extend("wide", by_slots=1), extend("wide", by_slots=1))),
        Group((other,)),
        Group((place("a", "p"),)),
        Group((structs.replace(place("d", "p"), tenant="b"),)),
    )
    assert [[said(one) for one in group] for group in told] == [
        ["done"],
        ["batch_too_large"] * 2,
        ["done"],
        ["done"],
        [],
    ]
    told = world.apply(
        Group((extend("wide", by_slots=1),)),
        Group((place("e", {"p": 1, "q": 1}), place("f", "p"))),
        Group((place("g", "p"),)),
        Group((structs.replace(place("h", "p"), tenant="b"),)),
    )
    assert [[said(one) for one in group] for group in told] == [["done"], [], [], ["done"]]
    assert ("", place("e", "p").id) not in world.holds


def test_a_single_command_is_put_off_when_there_is_no_room_at_all() -> None:
    world = world_of(3)
    told = world.apply(Group((extend("wide", by_slots=1),)), Group((place("a", "p"),)), Group(()))
    assert [[said(one) for one in group] for group in told] == [["done"], [], []]
    world = world_of(4)
    told = world.apply(
        Group((extend("wide", by_slots=1),)), Group((extend("wide", by_slots=1),)), Group((place("a", "p"),))
    )
    assert [[said(one) for one in group] for group in told] == [["done"], ["done"], []], "a single one may overshoot"


def test_the_first_group_is_never_put_off() -> None:
    world = world_of(0)
    assert [said(one) for one in world.apply(Group((place("a", WIDE),)))[0]] == ["done"]


def test_the_groups_that_were_put_off_are_named_by_their_indexes() -> None:
    view = View(world_of(3).loaded())
    theirs = structs.replace(place("c", "p"), tenant="b")
    groups = [
        Group((extend("wide", by_slots=1),)),
        Group((place("a", "p"),)),
        Group(()),
        Group((theirs,)),
        Group((place("b", "p"),)),
    ]
    outcomes = decide_groups(view, groups)
    assert view.put_off == {"", "b"}
    assert groups_put_off(view, groups, outcomes) == {1, 3, 4}
    view.put_off = {""}
    assert groups_put_off(view, groups, outcomes) == {1, 4}, "b's group may have been skipped for want of a lock"
