"""Operation ids on distributed tables: bind, then do. Every interleaving of two and three sessions keeps the promises of the protocol that
`operation_model` describes, and every broken protocol breaks one. (No engine is built like this yet: the model is what one is to be built by.)

HOLDKIT_FAULTS=every searches every pair of ways, with clocks that differ, and more sessions of three.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from tests.support.operation_model.protocol import Protocol, World
from tests.support.operation_model.search import Broken, search
from tests.support.operation_model.state import CONFLICT, INVALID, REFUSED, Call, Command, Way

EVERY = os.environ.get("HOLDKIT_FAULTS") == "every"
CLOCKS: list[Mapping[str, int]] = [{}, {"S": 1}, {"P": 1, "Q": 1}] if EVERY else [{}]
LAST = 6
ONE, OTHER = Command(), Command(payload="b")
"""A command, and another one under the same id."""
INVALID_ONE = ONE._replace(verdict="invalid")
PAIRS = {
    "the same": (ONE, ONE),
    "another payload": (ONE, OTHER),
    "another pool": (ONE, OTHER._replace(lane="Q")),
    "the next window": (ONE, ONE._replace(lane="Q")),
    "refused": (ONE._replace(verdict="refused"), ONE._replace(verdict="refused")),
    "invalid": (INVALID_ONE, OTHER),
    "invalid twice": (INVALID_ONE, INVALID_ONE),
    "ends the hold": (ONE._replace(verdict="ends"), ONE._replace(verdict="ends")),
    "ends it otherwise": (ONE._replace(verdict="ends"), OTHER._replace(verdict="ends")),
    "ends it under another id": (ONE._replace(verdict="ends"), Command("y", verdict="ends")),
    "two pools": (ONE._replace(second_lane="Q"), ONE._replace(second_lane="Q")),
    "two pools or one": (ONE._replace(second_lane="Q"), OTHER),
}
EACH: tuple[Way, ...] = ("bound", "ordinary", "caller")
ALL_WAYS = [(one, other) for one in EACH for other in EACH]
WAYS = ALL_WAYS if EVERY else [ways for ways in ALL_WAYS if ways[0] < ways[1] or ways == ("bound", "bound")]
GROUP = (ONE, Command("y"))


def calls(commands: tuple[Command, ...], ways: tuple[Way, ...]) -> tuple[Call, ...]:
    return tuple([Call((command,), way) for command, way in zip(commands, ways, strict=True)])


def are_possible(commands: tuple[Command, ...], ways: tuple[Way, ...]) -> bool:
    """Whether none of them is on two pools and bound."""
    return not any(command.second_lane and way == "bound" for command, way in zip(commands, ways, strict=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_two_sessions(pair: str) -> None:
    last = LAST if EVERY or pair != "ends it under another id" else 1  # two ids have many states
    searched = [
        search(World(calls(PAIRS[pair], ways), ahead=ahead, last=last))
        for ways in WAYS
        if are_possible(PAIRS[pair], ways)
        for ahead in CLOCKS
    ]
    assert len(searched) >= (4 if EVERY else 1)
    assert all(each.ends > 10 for each in searched)


@pytest.mark.parametrize("pair", [*PAIRS] if EVERY else ["the same", "the next window"])
@pytest.mark.parametrize("way", EACH)
def test_a_shard_that_moves_and_an_erasure(pair: str, way: Way) -> None:
    ways: tuple[Way, Way] = (way, "ordinary" if PAIRS[pair][1].second_lane else "bound")
    if are_possible(PAIRS[pair], ways):
        world = World(calls(PAIRS[pair], ways), last=1, moves=True, erases=True)
        assert {"move the shard", "erase"} <= search(world).steps


TRIPLES: dict[str, tuple[tuple[Command, Way], ...]] = {
    "a retry beside a misuse": ((ONE, "bound"), (ONE, "bound"), (OTHER, "bound")),
    "each way": ((ONE, "bound"), (ONE, "ordinary"), (ONE, "caller")),
    "a caller between two payloads": ((ONE, "bound"), (ONE, "caller"), (OTHER._replace(lane="Q"), "bound")),
    "the next window": ((ONE, "bound"), (ONE._replace(lane="Q"), "bound"), (ONE, "caller")),
    "two callers": ((ONE, "bound"), (ONE, "caller"), (ONE, "caller")),
    "invalid": (
        (INVALID_ONE, "bound"),
        (INVALID_ONE, "bound"),
        (OTHER, "bound"),
    ),
}


@pytest.mark.parametrize("triple", [*TRIPLES] if EVERY else ["a retry beside a misuse", "each way"])
def test_three_sessions(triple: str) -> None:
    commands, ways = zip(*TRIPLES[triple], strict=True)
    for ahead in CLOCKS:
        assert search(World(calls(commands, ways), ahead=ahead, last=LAST)).ends > 100


@pytest.mark.parametrize("way", ["bound", "ordinary"])
def test_a_group_binds_its_ids_together(way: Way) -> None:
    """Each id has its own binding, and the commands are done in one transaction."""
    world = World((Call(GROUP, "bound"), Call((Command("y", "b"),), way)), last=LAST if EVERY else 1)
    answers = search(world).answers
    assert {("effect 0x effect 0y", CONFLICT), (f"effect 0x {CONFLICT}", "effect 1y")} <= answers
    assert search(World((Call(GROUP), Call(GROUP[::-1])), last=2)).ends


def test_what_sessions_are_told() -> None:
    """So that the search is not empty: the answers and steps that there must be."""
    same = search(World(calls((ONE, ONE), ("bound", "bound"))))
    assert {("effect 0x", "effect 0x"), ("effect 1x", "effect 1x"), ("effect 0x", "effect 1x")} <= same.answers, (
        "also both, one after the other's window"
    )
    assert {"bind", "find bound", "decide", "commit", "crash", "clock", "prune Sx", "prune Px"} <= same.steps
    other = search(World(calls((ONE, OTHER), ("bound", "bound")), last=0))
    assert {("effect 0x", CONFLICT), (CONFLICT, "effect 1x")} <= other.answers
    assert ("", CONFLICT) in other.answers, "also before anything was done"
    invalid = search(World(calls(PAIRS["invalid"], ("bound", "bound")), last=0))
    assert (INVALID, "effect 1x") in invalid.answers, "an invalid call leaves the id to the next"
    assert (INVALID, CONFLICT) in invalid.answers, "unless that came before it was known to be invalid"
    assert "find it void" in invalid.steps
    window = search(World(calls(PAIRS["the next window"], ("bound", "bound")), last=0))
    assert {"show P"} <= window.steps
    ended = search(World(calls(PAIRS["ends it under another id"], ("bound", "bound")), last=0))
    assert {("effect 0x", REFUSED), (REFUSED, "effect 1y")} <= ended.answers
    moved = search(World(calls((ONE, ONE), ("bound", "bound")), moves=True, last=0))
    assert "find the shard moved" in moved.steps


BROKEN: dict[str, tuple[World, str]] = {
    "binds_first": (World(calls((ONE, OTHER), ("bound", "bound"))), "has no binding"),
    "compares_payloads": (World(calls((ONE, OTHER), ("bound", "bound"))), "instead of"),
    "answers_beside_the_effect": (World(calls((ONE, ONE), ("bound", "bound"))), "is not recorded"),
    "answers_by_binding": (World(calls((ONE, ONE), ("bound", "bound"))), "instead of"),
    "looks_at_the_end": (World(calls(PAIRS["another pool"], ("bound", "bound"))), "has two effects"),
    "looks_for_void": (World(calls((ONE, OTHER), ("bound", "bound"))), "instead of"),
    "yields_to_a_newer_binding": (
        World(calls((INVALID_ONE, INVALID_ONE, OTHER), ("bound", "bound", "bound")), last=0),
        "is not recorded",
    ),
    "ordinary_follows": (World(calls((ONE, ONE), ("bound", "ordinary"))), "has two effects"),
    "keeps_the_row_it_follows": (
        World(calls((ONE, ONE, OTHER._replace(lane="Q")), ("bound", "caller", "bound"))),
        "has two effects",
    ),
    "answers_at_home": (World(calls(PAIRS["the next window"], ("bound", "bound"))), "has two effects"),
    "checks_the_placement": (World(calls((ONE, ONE), ("bound", "bound")), moves=True), "which was not done"),
    "keeps_answers_longer": (World(calls((ONE, ONE), ("bound", "bound")), ahead={"P": 1}), "is not recorded"),
    "keeps_bindings": (World(calls((ONE, ONE), ("bound", "bound"))), "has no binding"),
    "erases_every_lane": (World(calls((ONE, ONE), ("bound", "bound")), erases=True), "was not erased"),
}


@pytest.mark.parametrize("mistake", Protocol._fields)
def test_a_broken_protocol_is_noticed(mistake: str) -> None:
    world, what = BROKEN[mistake]
    with pytest.raises(Broken, match=what):
        search(world._replace(protocol=Protocol()._replace(**{mistake: False})))
