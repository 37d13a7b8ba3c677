"""Batches: a refused command has no effect and the others stand; an atomic group is all or none."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.commands import CreatePool, PutRecord, Sweep
from holdkit.core.model import Leg
from holdkit.core.outcomes import Done, Reason, Refusal
from tests.unit.core.world import World, confirm, done, extend, place, refused, release, said


@pytest.fixture
def world() -> World:
    world = World(retry_window=100)
    world.pool("p", 10)
    return world


def test_in_a_plain_batch_the_others_stand(world: World) -> None:
    answers = world.batch(place("a", {"p": 6}, 60), place("b", {"p": 5}, 60), place("c", {"p": 4}, 60), release("a"))
    assert [said(one) for one in answers] == ["done", "insufficient_capacity", "done", "done"]
    assert world.counters("p") == (10, 4, 0)


def test_all(world: World) -> None:
    answers = world.atomic(place("a", {"p": 6}, 60), confirm("a"), CreatePool(id="q", total=1))
    assert [said(one) for one in answers] == ["done", "done", "done"]
    assert [done(one).slot for one in answers] == [0, 0, 0]
    assert world.numbers == [2, 3, 4]


def test_none(world: World) -> None:
    before = world.state()
    answers = world.atomic(
        CreatePool(id="q", total=5),
        place("a", {"p": 6, "q": 1}, 60),
        place("b", {"p": 5}, 60),
        PutRecord(kind="k", id="i", body="1"),
    )
    assert answers[2] == refused(answers[2])
    assert said(answers[2]) == "insufficient_capacity"
    aborted = Refusal(Reason.ABORTED, "insufficient_capacity")
    assert [answers[0], answers[1], answers[3]] == [aborted] * 3
    assert world.state() == before


def test_what_others_did_in_the_same_batch_stands(world: World) -> None:
    answers = world.apply_groups(
        [place("a", {"p": 6}, 60)],
        [confirm("a"), place("b", {"p": 5}, 60)],
        [release("a"), place("c", {"p": 10}, 60)],
    )
    assert [[said(one) for one in group] for group in answers] == [
        ["done"],
        ["aborted", "insufficient_capacity"],
        ["done", "done"],
    ]
    assert world.counters("p") == (10, 10, 0)


def test_an_invalid_command_aborts_the_others_and_is_not_remembered(world: World) -> None:
    done(world.do(place("a", {"p": 1}, 60)))
    answers = world.atomic(place("b", "p", 60, op="o1"), confirm("a", {"nowhere": 1}, op="o2"))
    assert answers[0] == Refusal(Reason.ABORTED, "invalid_request")
    assert said(answers[1]) == "leg_unknown"
    assert world.operations == {}


def test_each_answer_of_an_aborted_group_is_remembered(world: World) -> None:
    group = (place("a", "p", 60, op="o1"), place("b", {"p": 11}, 60, op="o2"), place("c", "p", 60))
    first = world.atomic(*group)
    assert [said(one) for one in first] == ["aborted", "insufficient_capacity", "aborted"]
    assert sorted(op for _, op in world.operations) == ["o1", "o2"]
    again = world.atomic(*group)
    assert [said(one) for one in again] == ["aborted", "insufficient_capacity", "aborted"]
    assert again[:2] == [structs.replace(refused(one), replayed=True) for one in first[:2]]


def test_a_retry_of_a_group_that_was_done(world: World) -> None:
    group = (place("a", "p", 60, op="o1"), place("b", "p", 60, op="o2"))
    first = world.atomic(*group)
    state = world.state()
    assert world.atomic(*group) == [structs.replace(done(one), replayed=True) for one in first]
    assert world.state() == state


def test_a_known_command_in_an_aborted_group_keeps_its_answer(world: World) -> None:
    known = done(world.do(place("a", "p", 60, op="o1")))
    answers = world.atomic(place("a", "p", 60, op="o1"), place("b", {"p": 11}, 60, op="o2"))
    assert answers[0] == structs.replace(known, replayed=True)
    assert said(answers[1]) == "insufficient_capacity"


def test_a_group_that_was_turned_away_may_try_again() -> None:
    world = World(max_operations=1, retry_window=100)
    group = (CreatePool(id="a", total=1, op="o1"), CreatePool(id="b", total=1, op="o2"))
    assert [said(one) for one in world.atomic(*group)] == ["aborted", "operation_table_full"]
    assert world.operations == {}
    world.limits = World(max_operations=2, retry_window=100).limits
    assert [said(one) for one in world.atomic(*group)] == ["done", "done"]


def test_a_conflict_says_nothing_of_its_neighbours(world: World) -> None:
    done(world.do(CreatePool(id="q", total=1, op="used")))
    answers = world.atomic(place("a", "p", 60, op="o1"), CreatePool(id="r", total=1, op="used"))
    assert [said(one) for one in answers] == ["aborted", "operation_conflict"]
    assert said(world.do(place("a", "p", 60, op="o1"))) == "done"


def test_a_conflict_beside_the_culprit_leaves_the_first_answer_standing(world: World) -> None:
    first = done(world.do(CreatePool(id="q", total=1, op="used")))
    answers = world.atomic(place("a", {"p": 11}, 60, op="o1"), CreatePool(id="r", total=1, op="used"))
    assert [said(one) for one in answers] == ["insufficient_capacity", "operation_conflict"]
    assert world.do(CreatePool(id="q", total=1, op="used")) == structs.replace(first, replayed=True)


def test_bounds_are_counted_as_if_the_group_had_never_been() -> None:
    world = World(max_pools=2, max_holds=1, max_operations=2)
    world.pool("p", 10)
    failing = [
        place("a", (Leg("~new", 1, 1),), 60, op="o1"),
        place("b", "nowhere", 60),
    ]
    answers = world.apply_groups(
        list(failing), [place("c", (Leg("~other", 1, 1),), 60, op="o2")], [CreatePool(id="z", total=1)]
    )
    assert [[said(one) for one in group] for group in answers] == [
        ["aborted", "pool_not_found"],
        ["done"],
        ["pool_table_full"],
    ]
    assert sorted(op for _, op in world.operations) == ["o1", "o2"]


def test_fences_and_extensions_are_rolled_back(world: World) -> None:
    done(world.do(place("k", (Leg("~k", 1, 1),), 60)))
    done(world.do(release("k")))
    done(world.do(place("a", "p", 60)))
    before = world.state()
    answers = world.atomic(Sweep(), extend("a", by_slots=9), place("b", {"p": 99}, 60))
    assert [said(one) for one in answers] == ["aborted", "aborted", "insufficient_capacity"]
    assert world.state() == before
    assert world.fence_floors == {}
    assert ("", "~k") in world.pools


def test_a_group_of_nothing(world: World) -> None:
    assert world.atomic() == []
    assert world.batch() == []
    assert isinstance(world.do(place("a", "p", 60)), Done)
