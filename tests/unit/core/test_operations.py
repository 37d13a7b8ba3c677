"""Operation ids: rung 0 of every ladder."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.codec import fingerprint
from holdkit.core.commands import ChangeLimits, CreatePool, PutRecord, ResizePool, Sweep
from holdkit.core.face_legs import FaceLeg
from holdkit.core.outcomes import Done, Operation, Reason, Refusal
from tests.unit.core.world import (
    World,
    confirm,
    consume,
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
    world = World(retry_window=100)
    world.pool("p", 10)
    return world


def test_the_same_answer_again_with_the_token_and_nothing_twice(world: World) -> None:
    first = done(world.do(place("a", {"p": 3}, 60, op="o")))
    before = world.state()
    again = world.do(place("a", {"p": 3}, 60, op="o"))
    assert again == structs.replace(first, replayed=True)
    assert done(again).token == "owner of a"
    assert world.state() == before


COMMANDS: list[Any] = [
    CreatePool(id="new", total=1, op="o"),
    ResizePool(id="p", total=11, op="o"),
    place("a", "p", 60, op="o"),
    consume("a", "p", op="o"),
    confirm("x", op="o"),
    release("x", op="o"),
    extend("x", by_slots=5, op="o"),
    expire("due", op="o"),
    give_back("spent", op="o"),
    PutRecord(kind="k", id="i", body="1", op="o"),
    Sweep(op="o"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_every_command_is_safe_to_retry(world: World, command: Any) -> None:
    for before in (place("x", "p", 60), place("due", "p", 10), consume("spent", "p")):
        done(world.do(before))
    world.slot = 20
    first = done(world.do(command))
    state = world.state()
    world.slot = 50
    assert world.do(command) == structs.replace(first, replayed=True)
    assert world.state() == state


def test_a_refusal_is_remembered_too(world: World) -> None:
    first = refused(world.do(place("a", {"p": 11}, 60, op="o")))
    done(world.do(ResizePool(id="p", total=20)))
    again = refused(world.do(place("a", {"p": 11}, 60, op="o")))
    assert again == structs.replace(first, replayed=True)
    assert again.shortfalls[0].available == 10
    assert said(world.do(place("a", {"p": 11}, 60, op="another"))) == "done"


def test_a_wrong_window_is_not_remembered(world: World) -> None:
    """So that whoever guessed it can ask again under the same id, for the window of the slot it was told."""
    world.slot = 60
    for window in ((0, 60), (61, 120)):
        wrong = place("a", (FaceLeg("~w", 1, 1, opens=window[0], closes=window[1]),), 60, op="o")
        assert refused(world.do(wrong)) == Refusal(Reason.WINDOW_CLOSED, "~w", found=60)
    assert world.operations == {}
    right = place("a", (FaceLeg("~w", 1, 1, opens=60, closes=120),), 60, op="o")
    assert not done(world.do(right)).replayed
    world.slot = 120
    assert done(world.do(right)).replayed, "what is remembered is found before the window is looked at"


def test_the_same_id_with_another_payload(world: World) -> None:
    done(world.do(place("a", {"p": 3}, 60, op="o")))
    refusal = refused(world.do(place("a", {"p": 4}, 60, op="o")))
    assert refusal == Refusal(Reason.OPERATION_CONFLICT, "o")
    assert said(world.do(CreatePool(id="q", total=1, op="o"))) == "operation_conflict"
    assert said(world.do(place("a", {"p": 3}, 60, op="o"))) == "done"  # a conflict does not settle the operation anew


def test_what_is_remembered(world: World) -> None:
    world.slot = 7
    outcome = done(world.do(CreatePool(id="q", total=1, op="o", tenant="acme")))
    (operation,) = world.operations.values()
    assert operation == Operation("acme", "o", fingerprint(CreatePool(id="q", total=1)), 107, outcome, 2)
    assert operation.key == ("acme", "o")


@pytest.mark.parametrize(("age", "known"), [(99, True), (100, False), (101, False)])
def test_at_age_equal_to_the_window_it_is_gone(world: World, age: int, known: bool) -> None:
    world.slot = 5
    done(world.do(CreatePool(id="q", total=1, op="o")))
    world.slot = 5 + age
    again = world.do(CreatePool(id="q", total=1, op="o"))
    assert said(again) == ("done" if known else "pool_exists")
    if not known:  # and it is remembered anew, with the new answer
        assert world.operations["", "o"].until == 5 + age + 100
        assert refused(world.do(CreatePool(id="q", total=1, op="o"))).replayed


def test_a_clock_that_falls_back_forgets_nothing(world: World) -> None:
    world.slot = 500
    done(world.do(CreatePool(id="q", total=1, op="o")))
    world.slot = 3
    assert done(world.do(CreatePool(id="q", total=1, op="o"))).replayed


def test_within_one_batch(world: World) -> None:
    first, again, other = world.batch(
        place("a", "p", 60, op="o"), place("a", "p", 60, op="o"), place("b", "p", 60, op="o")
    )
    assert not done(first).replayed
    assert done(again).replayed
    assert said(other) == "operation_conflict"
    assert world.row("p").held == 1


# A full table


def test_a_full_table_turns_away_what_it_could_not_remember() -> None:
    world = World(max_operations=2)
    answers = world.batch(*(CreatePool(id=name, total=1, op=name) for name in "abc"))
    assert [said(one) for one in answers] == ["done", "done", "operation_table_full"]
    assert answers[2] == Refusal(Reason.OPERATION_TABLE_FULL, "c")
    assert said(world.do(CreatePool(id="c", total=1, op="c"))) == "operation_table_full"
    assert done(world.do(CreatePool(id="a", total=1, op="a"))).replayed  # what it knows it still knows
    assert said(world.do(CreatePool(id="c", total=1))) == "done"  # without an id there is nothing to remember


def test_a_change_that_leaves_no_room_is_remembered_itself() -> None:
    world = World(max_operations=5)
    lower = ChangeLimits(changes={"max_operations": 0}, op="lower")
    assert not done(world.do(lower)).replayed
    assert done(world.do(lower)).replayed
    assert said(world.do(ChangeLimits(changes={"max_pools": 3}, op="lower"))) == "operation_conflict"
    assert said(world.do(ChangeLimits(changes={"max_pools": 3}, op="another"))) == "operation_table_full"


def test_a_table_has_room_again_when_the_window_has_passed() -> None:
    world = World(max_operations=1, retry_window=100)
    done(world.do(CreatePool(id="a", total=1, op="a")))
    world.slot = 99
    assert said(world.do(CreatePool(id="b", total=1, op="b"))) == "operation_table_full"
    world.slot = 100
    assert said(world.do(CreatePool(id="b", total=1, op="b"))) == "done"


@pytest.mark.parametrize(("command", "ended"), [(confirm, "already_confirmed"), (release, "already_released")])
def test_b4_the_hold_remembers_what_ended_it(command: Any, ended: str) -> None:
    world = World(max_operations=0)
    world.pool("p", 10)
    done(world.do(place("a", {"p": 4}, 60)))
    first = done(world.do(command("a", op="end")))
    assert first.hold is not None
    assert first.hold.last_op == fingerprint(command("a")) + "end"
    assert world.operations == {}
    again = world.do(command("a", op="end"))
    assert again == Done(slot=0, hold=first.hold, replayed=True)
    assert world.do(command("a", op="end", actor="job:retry", reason="again")) == again
    assert said(world.do(command("a", 4, op="end"))) == "operation_conflict"
    assert refused(world.do(command("a", 4, op="end"))).subject == "end"
    assert said(world.do(command("a", op="another"))) == ended
    assert said(world.do(command("a"))) == ended


def test_the_hold_remembers_after_the_window(world: World) -> None:
    done(world.do(place("a", {"p": 4}, 60)))
    done(world.do(confirm("a", 1, keep_rest=True, op="first")))
    done(world.do(confirm("a", 2, keep_rest=True, op="second")))
    world.slot = 50
    world.operations.clear()
    assert done(world.do(confirm("a", 2, keep_rest=True, op="second"))).replayed
    assert world.counters("p") == (10, 1, 3)


def test_a_retired_hold_remembers_nothing_pruned_or_not() -> None:
    world = World(max_operations=0, retention=100)
    world.pool("p", 10)
    done(world.do(place("a", "p", 60)))
    done(world.do(release("a", op="end")))
    world.slot = 99
    assert done(world.do(release("a", op="end"))).replayed
    world.slot = 100
    assert said(world.do(release("a", op="end"))) == "hold_not_found"
    world.prune()
    assert said(world.do(release("a", op="end"))) == "hold_not_found"


def test_extensions_leave_no_mark_on_the_hold(world: World) -> None:
    done(world.do(place("a", "p", 60)))
    done(world.do(release("a", 1, op="end")))
    assert world.held("a").last_op is not None
    done(world.do(place("b", {"p": 2}, 60)))
    done(world.do(confirm("b", 1, keep_rest=True, op="part")))
    marked = world.held("b").last_op
    done(world.do(extend("b", by_slots=5, op="more")))
    assert world.held("b").last_op == marked


def test_an_operation_of_another_hold_means_nothing_to_this_one() -> None:
    world = World(max_operations=0)
    world.pool("p", 10)
    for name in "ab":
        done(world.do(place(name, "p", 60)))
    done(world.do(confirm("a", op="o")))
    assert said(world.do(confirm("b", op="o"))) == "done"
    assert world.held("b").id == hold_id("b")
