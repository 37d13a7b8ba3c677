"""The plain way is the ladder without what does not concern it: random commands get the same answers and the same entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdkit.core import decide
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    CreatePool,
    Group,
    JoinLine,
    LimitPool,
    RemovePool,
    ResizePool,
    Sweep,
    UnarchivePool,
)
from holdkit.core.face_legs import FaceLeg
from holdkit.core.ladders import plain
from holdkit.core.model import Leg, Pool
from holdkit.core.view import View
from tests.unit.core import world as worlds
from tests.unit.core.command_strategies import LIMITS
from tests.unit.core.test_properties import EXAMPLES, Program, start, thorough
from tests.unit.core.world import World, confirm, consume, done, extend, give_back, place, release, said

CONTEXT: list[dict[str, Any]] = [
    {"op": "o1"},
    {"op": "o2"},
    {"op": "o3"},
    {"tenant": "acme"},
    {"actor": "user:7", "reason": "because", "correlation_id": "c", "client_id": "shop", "trace": "t"},
]
BIRTH: list[dict[str, Any]] = [
    {"entity": "order:1", "metadata": {"b": 1, "a": 2}},
    {"force": True, "reason": "box office"},
    {"account": "ann"},
    {"create": 3},
    {"create": 3, "label": "the label"},
    {"create": 9, "opens": 0, "closes": 130},
    {"create": 9, "opens": 110, "closes": 200},
]
TTLS = [1, 5, 20, 50, 90, 2**63]
ENDS: list[dict[str, Any]] = [{"token": "thief"}, {"quantity": 1}, {"force": True}, {"trusted": True}]
ODD: list[AnyCommand] = [
    JoinLine(id="f" * 32, token="waiter", legs=(Leg("p", 3),), ttl_slots=30, offer_slots=10),
    extend("a", by_slots=20),
    give_back("b"),
    place("c", {"r": 1, "q": 1}, 20),
    place("d", "r", wait_slots=20, offer_slots=5),
    ResizePool(id="r", total=4),
    ResizePool(id="r", total=60),
    ArchivePool(id="r"),
    UnarchivePool(id="r"),
    LimitPool(id="r", per_account=2),
    LimitPool(id="r", per_account=None),
    RemovePool(id="p"),
    CreatePool(id="p", total=9),
    ChangeLimits(changes={"max_lifetime": 40}),
    Sweep(limit=2),
]


def program_of(random: Random) -> Program:
    """Commands of one leg, most of which take the plain way, some only just do not, and others that change what is plain."""

    used = ["a"]

    def some(cases: list[dict[str, Any]], seldom: float) -> dict[str, Any]:
        return dict(random.choice(cases)) if random.random() < seldom else {}

    def command() -> AnyCommand:
        if random.random() < 0.07:
            return random.choice(ODD)
        name, more = random.choice(used[-6:]), some(CONTEXT, 0.3)
        verb = random.choice(["place", "place", "consume", "confirm", "release"])
        if verb in ("place", "consume"):
            if random.random() < 0.9:
                used.append(name := chr(ord(used[-1]) + 1))
            more |= some(BIRTH, 0.2)
            born = {name: more.pop(name, None) for name in ("label", "opens", "closes")}
            create = more.pop("create", None)
            pool = random.choice(["r", "r", "r", "p", "q", "q//a", "none"]) if create is None else f"~{create}"
            quantity = random.randint(1, 4)
            by_face = any(value is not None for value in born.values())
            legs = (FaceLeg(pool, quantity, create, **born) if by_face else Leg(pool, quantity, create),)
            return place(name, legs, random.choice(TTLS), **more) if verb == "place" else consume(name, legs, **more)
        more |= some(ENDS, 0.1)
        linked = {"entity": "order:2"} if random.random() < 0.3 else {}
        return confirm(name, **linked | more) if verb == "confirm" else release(name, **more)

    def group() -> Group:
        checked = random.choice([None, None, 0])
        return Group(tuple(command() for _ in range(random.randint(1, 4))), random.random() < 0.1, checked=checked)

    return [(random.randint(-15, 30), [group() for _ in range(random.randint(1, 4))]) for _ in range(10)]


granted: Counter[str] = Counter()


def counting(way: Callable[[View, Any], Any]) -> Callable[[View, Any], Any]:
    """The same way; counts what it grants."""

    def counted(view: View, command: AnyCommand) -> Any:
        outcome = way(view, command)
        granted[type(command).__name__] += outcome is not None
        return outcome

    return counted


COUNTED = {kind: counting(way) for kind, way in plain.PLAIN.items()}


@contextmanager
def by(ways: dict[Any, Any]) -> Iterator[None]:
    """Decide by these plain ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "PLAIN", ways)
        patch.setattr(worlds, "check", lambda _: None)  # the comparison is enough, and much faster
        yield


def compare(program: Program, limits: dict[str, Any]) -> None:
    """Play the program in two worlds, with and without the plain way: all that can be seen is equal after every batch."""
    plainly, generally = start(limits), start(limits)
    for world in (plainly, generally):
        world.do(CreatePool(id="r", total=60))
    for jump, groups in program:
        seen = []
        for world, ways in ((plainly, COUNTED), (generally, {})):
            world.slot = max(0, world.slot + jump)
            with by(ways):
                seen.append((world.apply(*groups), world.numbers, world.unfed, world.state()))
        assert seen[0] == seen[1]
    assert plainly.entries == generally.entries


def test_both_ways_agree_on_random_commands() -> None:
    granted.clear()

    @settings(thorough, max_examples=3 * EXAMPLES)
    @given(st.integers(0, 2**32), LIMITS)
    def agree(seed: int, limits: dict[str, Any]) -> None:
        compare(program_of(Random(seed)), limits)

    agree()
    assert set(granted) == {"PlaceHold", "Consume", "ConfirmHold", "ReleaseHold"}
    assert min(granted.values()) > 20


# Canaries: a plain way that forgets one thing is noticed by the comparison


def one(jump: int, *group: AnyCommand) -> tuple[int, list[Group]]:
    return jump, [Group(group)]


FULL = [one(0, place("a", "p", 50)), one(0, place("b", {"p": 9}, 50))]
DUE = [one(0, place("a", {"p": 2}, 5)), one(10, place("b", {"p": 1}, 50))]
STOLEN = [one(0, place("a", "p", 50)), one(0, confirm("a", token="thief"))]
AGAIN = [one(0, place("a", "p", 50)), one(0, place("a", "p", 50))]


def roomy(view: View, key: tuple[str, str]) -> Pool | None:
    """A pool that says that it has room."""
    pool = view.pools.get(key)
    return (
        None if pool is None else Pool(pool.tenant, pool.id, 10**6, pool.held, fence=pool.fence, version=pool.version)
    )


CANARIES: list[tuple[str, Any, str, Any, Program]] = [
    ("the total", plain, "_plain_pool", roomy, FULL),
    ("what is due", View, "may_be_due", lambda *_: False, DUE),
    ("the owner", plain, "same_owner", lambda *_: True, STOLEN),
    ("the fence", plain, "_moved", lambda pool, *_: Pool("", "p", 6, pool.held + 1, slot=pool.slot), AGAIN),
    ("the hash", plain, "hash_owner", lambda token: token, AGAIN),
]


@pytest.mark.parametrize(("what", "where", "name", "broken", "program"), CANARIES, ids=[case[0] for case in CANARIES])
def test_canary_a_plain_way_that_forgets_something_is_noticed(
    what: str, where: Any, name: str, broken: Any, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(program, {})
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError):
        compare(program, {})


# What is not plain


def ways_taken(world: World, *batch: AnyCommand) -> tuple[list[str], int]:
    """What the commands are answered, and how many of them took the plain way."""
    granted.clear()
    with by(COUNTED):
        answers = [said(outcome) for outcome in world.batch(*batch)]
    return answers, sum(granted.values())


def test_the_commonest_commands_take_the_plain_way() -> None:
    world = start({"max_holds": 100})
    assert ways_taken(world, place("a", "p", 50), place("b", "p", 50), consume("c", "p")) == (["done"] * 3, 3)
    assert ways_taken(world, confirm("a"), release("b", op="o1")) == (["done"] * 2, 2)
    assert ways_taken(world, release("b", op="o1")) == (["done"], 0)


def test_a_hold_that_may_become_due_within_the_batch_is_not_plain() -> None:
    """Another pool is ahead of the clock: if a later command touches both, the hold is due."""
    world = start({})
    world.slot = 130
    done(world.do(place("a", "p", 50)))
    world.slot = 110
    world.pool("r", 5)
    assert ways_taken(world, place("b", "r", 20)) == (["done"], 0)
    assert ways_taken(world, place("d", "r", 21)) == (["done"], 0)  # for that one may become due
    world.slot = 131
    assert ways_taken(world, place("e", "r", 21)) == (["done"], 0)  # it has
    assert ways_taken(world, place("f", "r", 21), release("e")) == (["done"] * 2, 2)
    world.slot = 110
    assert ways_taken(world, place("c", "p", 15)) == (["done"], 1)
