"""Guards: one operation id for a whole group."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.commands import CreatePool, Group, Guard, Sweep
from holdkit.core.face_legs import FaceLeg
from holdkit.core.needs import needs
from holdkit.core.outcomes import Done, Reason, Refusal
from tests.unit.core.world import World, confirm, done, place, refused, release, said


@pytest.fixture
def world() -> World:
    world = World(retry_window=100)
    world.pool("p", 10)
    return world


PAIR = (place("a", {"p": 6}, 60), place("b", {"p": 5}, 60))


@pytest.mark.parametrize("atomic", [False, True], ids=["each", "all or none"])
def test_the_same_group_again_is_the_same_answer_and_nothing_twice(world: World, atomic: bool) -> None:
    first = world.under("k", *PAIR, atomic=atomic)
    before = world.state()
    world.slot = 99
    again = world.under("k", *(structs.replace(one, actor="job:retry") for one in PAIR), atomic=atomic)
    assert again == [structs.replace(one, replayed=True) for one in first if isinstance(one, Done | Refusal)]
    assert world.state() == before


OTHERS: list[Any] = [
    (PAIR[:1], False),
    ((*PAIR, CreatePool(id="q", total=1)), False),
    (PAIR[::-1], False),
    (PAIR, True),
    ((structs.replace(PAIR[0], entity="order:8"), PAIR[1]), False),
    ((PAIR[0], structs.replace(PAIR[1], op="its own")), False),
    ((confirm("a"), release("b")), False),
]


@pytest.mark.parametrize(("commands", "atomic"), OTHERS)
def test_another_group_under_the_key_does_nothing_at_all(world: World, commands: Any, atomic: bool) -> None:
    world.under("k", *PAIR)
    before = world.state()
    answers = world.under("k", *commands, atomic=atomic)
    assert answers == [Refusal(Reason.OPERATION_CONFLICT, "k")] * len(commands)
    assert world.state() == before


def test_the_correlation_id_is_no_part_of_it(world: World) -> None:
    world.under("k", *PAIR)
    traced = [structs.replace(one, correlation_id="another request") for one in PAIR]
    answers = world.under("k", *traced)
    assert [one.replayed for one in answers if isinstance(one, Done | Refusal)] == [True] * len(PAIR)


def test_a_single_command_and_a_group_never_share_a_key(world: World) -> None:
    done(world.do(place("x", "p", 60, op="one")))
    assert [said(one) for one in world.under("one", *PAIR)] == ["operation_conflict"] * 2
    world.under("many", *PAIR)
    assert said(world.do(place("y", "p", 60, op="many"))) == "operation_conflict"
    assert world.counters("p") == (10, 7, 0)


def test_tenants_have_keys_of_their_own(world: World) -> None:
    world.pool("p", 10, tenant="acme")
    world.under("k", *PAIR)
    theirs = [structs.replace(one, tenant="acme") for one in (PAIR[0], confirm("a"))]
    assert [said(one) for one in world.under("k", *theirs)] == ["done", "done"]


def test_an_aborted_group_stays_aborted_though_there_is_room_by_now(world: World) -> None:
    first = [said(one) for one in world.under("k", *PAIR, atomic=True)]
    assert first == ["aborted", "insufficient_capacity"]
    world.pool("q", 1)
    again = world.under("k", *PAIR, atomic=True)
    assert [refused(one).replayed for one in again] == [True, True]
    assert [said(one) for one in again] == first
    assert world.counters("p") == (10, 0, 0)


def test_at_the_age_of_the_window_the_key_is_free(world: World) -> None:
    world.under("k", *PAIR)
    world.slot = 99
    assert said(world.under("k", confirm("x"))[0]) == "operation_conflict"
    world.slot = 100
    assert [said(one) for one in world.under("k", place("c", "p", 60))] == ["done"]


def test_what_was_turned_away_may_be_asked_again_by_the_same_group(world: World) -> None:
    wrong = place("a", (FaceLeg("~w", 1, 1, opens=5, closes=9),), 60)
    assert said(world.under("k", place("b", "p", 60), wrong, atomic=True)[1]) == "window_closed"
    world.slot = 5
    assert [said(one) for one in world.under("k", place("b", "p", 60), wrong, atomic=True)] == ["done", "done"]


def test_a_full_table_turns_away_births_but_no_end() -> None:
    world = World(max_operations=1)
    world.pool("p", 10)
    for name in ("a", "b"):
        done(world.do(place(name, "p", 60)))
    done(world.do(place("c", "p", 60, op="full")))
    ends = (confirm("a"), release("b"))
    assert [said(one) for one in world.under("k", *ends, place("d", "p", 60))] == [
        "done",
        "done",
        "operation_table_full",
    ]
    assert [done(one).replayed for one in world.under("k", *ends)] == [True, True], "the holds remember"
    assert world.counters("p") == (10, 1, 1)


def test_no_command_of_the_group_takes_the_place_of_its_guard(world: World) -> None:
    thief = place("a", "p", 60, op="k")
    for _ in range(2):
        assert [said(one) for one in world.under("k", thief, place("b", "p", 60))] == ["operation_conflict", "done"]
    assert world.counters("p") == (10, 1, 0)


def test_it_is_asked_for_even_where_births_are_taken_for_new() -> None:
    group = Group((place("a", "p", 60, op="k#0"),), guard=Guard("acme", "k", "f"))
    need = needs([group, Group((Sweep(),))])
    assert (need.asked, need.operations) == ({("acme", "k")}, {("acme", "k"), ("", "k#0")})
