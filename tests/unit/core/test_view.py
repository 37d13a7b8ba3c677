"""The overlay of a batch: what was loaded stays untouched, and every change can be forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.commands import ChangeLimits, CreatePool, Group, PutRecord, Sweep
from holdkit.core.decide import NOTHING_DUE, decide_group, decide_groups
from holdkit.core.face_legs import FaceLeg
from holdkit.core.ladders.expiry import return_due_legs
from holdkit.core.model import Leg, Pool
from holdkit.core.needs import Needs, needs
from holdkit.core.outcomes import Done
from holdkit.core.view import Counts, DueLeg, Loaded, Table, View
from tests.unit.core.world import World, confirm, consume, done, extend, hold_id, place, release


def test_a_table_is_laid_over_what_was_loaded() -> None:
    base = {"a": 1, "b": 2}
    table: Table[str, int] = Table(base)
    table.put("a", 5)
    table.put("b", None)
    table.put("c", 3)
    assert [table.get(key) for key in "abcd"] == [5, None, 3, None]
    assert base == {"a": 1, "b": 2}
    assert table.changed == {"a": 5, "b": None, "c": 3}


def test_changes_since_the_mark_are_forgotten() -> None:
    table: Table[str, int] = Table({"a": 1})
    table.put("a", 2)
    table.undo = {}
    for value in (3, 4):
        table.put("a", value)
        table.put("new", value)
    table.put("gone", None)
    table.roll_back()
    assert table.changed == {"a": 2}
    assert table.get("new") is None
    table.put("a", 9)
    table.roll_back()  # no mark, nothing to forget
    assert table.get("a") == 9


def test_what_a_batch_needs() -> None:
    groups = [
        Group((place("a", {"p": 1, "q": 1}, 60, tenant="t", op="o1"), CreatePool(id="r", total=1))),
        Group((confirm("b", op="o2"), consume("c", "s"), PutRecord(kind="k", id="i", body=None), Sweep(limit=7))),
        Group((extend("d", until=5), Sweep(limit=3))),
    ]
    assert needs(groups) == Needs(
        pools={("t", "p"), ("t", "q"), ("", "r"), ("", "s")},
        holds={("t", hold_id("a")), ("", hold_id("b")), ("", hold_id("c")), ("", hold_id("d"))},
        operations={("t", "o1"), ("", "o2")},
        records={("", "k", "i")},
        sweep=7,
        standing={("", hold_id("b")), ("", hold_id("d"))},
        asked={("", "o2")},
        created={("", "r")},
    )
    assert needs([]) == Needs(set(), set(), set(), set(), 0, set(), set(), set())


@pytest.mark.parametrize(
    ("leg", "creates"),
    [
        (Leg("p"), False),
        (Leg("p", 1, 0), True),
        (FaceLeg("p", 1, total=0), True),
        (FaceLeg("p", 1, total=5, in_use=1), True),
    ],
)
def test_the_pools_that_a_batch_may_create(leg: Leg, creates: bool) -> None:
    for command in (place("a", (leg,), 60, tenant="t"), consume("a", (leg,), tenant="t")):
        assert needs([Group((command,))]).created == ({("t", "p")} if creates else set())


def test_a_batch_that_may_set_a_bound_says_so() -> None:
    change = Group((ChangeLimits(changes={"max_pools": 2}),))
    assert needs([change]).changes_limits
    assert not needs([Group((PutRecord(kind="~limits", id="other", body=None), Sweep(limit=3)))]).changes_limits


def test_nothing_due_is_nothing() -> None:
    assert (NOTHING_DUE.holds, NOTHING_DUE.pools, NOTHING_DUE.more) == ([], [], False)
    assert Counts() == Counts(0, 0, 0)


def asked(world: World, *commands: Any) -> list[str]:
    """Which pools' due legs a batch asks its engine for."""
    questions: list[str] = []

    def due(pool: tuple[str, str]) -> list[DueLeg]:
        questions.append(pool[1])
        return world.due(pool, world.slot)

    view = View(structs.replace(world.loaded(), due=due))
    decide_groups(view, [Group(commands)])
    return questions


def test_the_engine_is_asked_once_per_pool() -> None:
    world = World()
    for name in "pq":
        world.pool(name, 10)
    done(world.do(place("a", {"p": 1, "q": 1}, 5)))
    world.slot = 5
    assert asked(world, *(place(f"x{n}", {"p": 1, "q": 1}, 5) for n in range(4))) == ["p", "q"]


def test_a_due_leg_is_offered_once_but_again_after_a_rollback() -> None:
    world = World()
    world.pool("p", 10)
    for name in "ab":
        done(world.do(place(name, "p", 5)))
    world.slot = 5
    view = View(world.loaded())
    view.begin_atomic()
    assert len(view.take_due(("", "p"), 5)) == 2
    assert view.take_due(("", "p"), 5) == []
    view.roll_back()
    assert len(view.take_due(("", "p"), 4)) == 0
    assert sorted(view.take_due(("", "p"), 5)) == [(5, hold_id("a")), (5, hold_id("b"))]
    view.begin_atomic()
    view.keep()
    view.begin_atomic()
    view.roll_back()
    assert view.take_due(("", "p"), 5) == []


def test_what_was_loaded_is_never_changed() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(place("a", "p", 5)))
    world.slot = 5
    legs = [(5, hold_id("a"))]
    view = View(structs.replace(world.loaded(), due=lambda _: legs))
    before = dict(world.holds), dict(world.pools)
    decide_group(view, Group((place("b", {"p": 10}, 5), release("b"))))
    assert (dict(world.holds), dict(world.pools)) == before
    assert legs == [(5, hold_id("a"))]
    assert view.next_seq == 3 + 3


def test_a_candidate_whose_hold_is_gone_is_passed_over() -> None:
    world = World()
    world.pool("p", 10)
    view = View(structs.replace(world.loaded(), due=lambda _: [(0, hold_id("ghost"))]))
    return_due_legs(view, "", ["p"], 5)
    assert view.entries == []


def test_loaded_defaults() -> None:
    loaded = Loaded(1, 1, {("", "p"): Pool("", "p", 1)}, {}, {}, {}, lambda _: [], 1, Limits())
    view = View(loaded)
    assert (loaded.fence_floors, loaded.counts, view.grown, view.entries) == ({}, Counts(), [0, 0, 0], [])
    assert isinstance(decide_group(view, Group((place("a", "p", 1),)))[0], Done)
