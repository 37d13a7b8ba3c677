"""Which entry each answer tells of: its number, known when the command is decided, stands beside the outcome."""

from __future__ import annotations

from msgspec import structs

from holdkit.core.commands import AnyCommand, CreatePool, Group, Sweep
from holdkit.core.outcomes import Done, Position, Refusal

from .world import World, consume, done, expire, place, release


def taken(op: str | None = None) -> AnyCommand:
    """Two entries, one answer."""
    return consume("x", "p", op=op)


def test_each_answer_has_the_number_of_its_own_entry() -> None:
    world = World()
    world.pool("p", 3)
    world.batch(place("a", "p", 10), place("b", {"p": 9}, 10), taken())
    assert world.numbers == [2, 0, 4]  # a refusal has none; a consume is answered by its second entry


def test_what_is_returned_on_the_way_is_not_the_commands_own() -> None:
    world = World()
    world.pool("p", 1)
    done(world.do(place("a", "p", 10)))
    world.slot = 10
    assert isinstance(world.do(expire("a")), Done)
    assert (world.numbers, world.actions()[-1]) == ([0], "hold.expired")


def test_a_sweep_has_the_number_of_its_last_entry() -> None:
    world = World()
    world.pool("p", 2)
    world.batch(place("a", "p", 10), place("b", "p", 10))
    world.slot = 10
    world.batch(Sweep(), Sweep())
    assert world.numbers == [5, 0]


def test_a_recorded_answer_has_the_number_it_had() -> None:
    world = World()
    world.pool("p", 3)
    world.batch(taken(op="once"), place("a", "p", 10))
    assert world.numbers == [3, 4]
    outcome = world.do(taken(op="once"))
    assert isinstance(outcome, Done)
    assert outcome.replayed
    assert world.numbers == [3]
    assert isinstance(world.do(structs.replace(taken(op="once"), entity="another")), Refusal)
    assert world.numbers == [0]


def test_a_recorded_refusal_has_none() -> None:
    world = World()
    world.pool("p", 0)
    world.do(place("a", "p", 10, op="once"))
    assert (world.operations["", "once"].seq, world.numbers) == (0, [0])


def test_an_aborted_group_has_none_but_those_of_recorded_answers() -> None:
    world = World()
    world.pool("p", 3)
    done(world.do(taken(op="once")))
    world.atomic(place("a", "p", 10, op="a"), taken(op="once"), place("b", {"p": 9}, 10, op="b"))
    assert world.numbers == [0, 3, 0]
    assert [world.operations["", op].seq for op in ("a", "b")] == [0, 0]
    assert world.actions() == ["pool.created", "hold.held", "hold.confirmed"]


def test_a_group_whose_key_was_used_before_has_none() -> None:
    world = World()
    world.under("key", CreatePool(id="p", total=1))
    assert world.numbers == [1]
    world.under("key", CreatePool(id="p", total=1))
    assert world.numbers == [1]
    world.under("key", CreatePool(id="q", total=1), CreatePool(id="r", total=1))
    assert world.numbers == [0, 0]


def test_a_change_that_the_hold_itself_remembers_has_none() -> None:
    world = World(retry_window=1)
    world.pool("p", 3)
    ended = release("a", op="end")
    world.batch(place("a", "p", 100), ended)
    world.slot = 5
    outcome = world.apply(Group((ended,)))[0][0]
    assert isinstance(outcome, Done)
    assert outcome.replayed
    assert world.numbers == [0]


def test_positions_stand_beside_the_outcomes_group_by_group() -> None:
    world = World()
    world.pool("p", 3)
    world.apply(Group((place("a", "p", 10), place("b", {"p": 9}, 10))), Group((place("c", {"p": 9}, 10),)), Group(()))
    assert world.positions == [[Position(0, 2), None], [None], []]
