"""Repair: rows become what the journal says, each pool that changed gets an entry, and correct rows stay untouched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Difference, Folded, Mismatches, Stored
from holdkit.core.audit_sums import outstanding
from holdkit.core.bounds import Limits
from holdkit.core.command_kinds import Command
from holdkit.core.commands import Sweep
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import MAX_SLOT, HeldLeg, Pool, Record, State, StoredHold
from holdkit.core.outstanding import OpenLeg
from holdkit.core.repair import Repaired, RepairedRows, repair_rows, sort_out
from tests.unit.core.stored_rows import Flawed, bit_of_everything, stored, with_hold, with_pool
from tests.unit.core.world import World, consume, done, hold_id, join, place

A, B, C = hold_id("a"), hold_id("b"), hold_id("c")
LEG = ("", "p", 100, A)
GHOST = StoredHold("", "ghost", (HeldLeg("p", 1, 1), HeldLeg("nowhere", 1, 1)), "hash", 0, 9)
BY = Command(actor="ann", correlation_id="call 7", reason="disk")


@pytest.fixture
def world() -> World:
    return bit_of_everything()


def repair_all(
    world: World,
    rows: Stored,
    now: int = 50,
    flaws: Mapping[tuple[str, tuple[Any, ...]], bool] = MappingProxyType({}),
) -> RepairedRows:
    """As an engine does it: audit, sort out, repair."""
    folded, wrong = Folded(), Mismatches()
    report = sort_out(audit(enumerate(world.entries, 1), Flawed(rows, flaws), world.limits, now, folded, wrong))
    assert not report.left, "nothing but rows that can be repaired"
    return repair_rows(wrong, folded, BY)


def written(what: RepairedRows) -> list[str]:
    """What is to be written, a line each."""
    lines = [f"pool {'/'.join(key)} {_counters(row)}" for key, row in what.pools.items()]
    lines += [f"hold {'/'.join(key)} {'gone' if row is None else row.state}" for key, row in what.holds.items()]
    lines += [f"leg {key[1]} {key[2]} {key[3]} {0 if leg is None else leg.units}" for key, leg in what.legs.items()]
    lines += [f"record {'/'.join(key)} {'gone' if row is None else row.body}" for key, row in what.records.items()]
    lines += [f"floor of '{tenant}' {floor}" for tenant, floor in what.fence_floors.items()]
    return lines


def _counters(row: Pool | None) -> str:
    return "gone" if row is None else f"{row.total}/{row.held}/{row.consumed} version {row.version} slot {row.slot}"


def told(what: RepairedRows) -> list[str]:
    """What the journal will say, a line each."""
    return [
        f"{entry.tenant}/{entry.subject} {effect.total:+}{effect.held:+}{effect.consumed:+}" + " gone" * entry.removed
        for entry in what.entries
        for effect in entry.effects
    ]


def after(rows: Stored, what: RepairedRows) -> Stored:
    """The rows, once it is written."""

    def laid(table: Any, changes: Any, nothing: object = None) -> Any:
        return {key: row for key, row in {**table, **changes}.items() if row != nothing}

    return Stored(
        laid(rows.pools, what.pools),
        laid(rows.holds, what.holds),
        laid(rows.records, what.records),
        laid(rows.legs, what.legs),
        laid(rows.fence_floors, what.fence_floors, 0),
    )


def without(table: Any, *names: str) -> Any:
    return {key: row for key, row in table.items() if not {*names} & {*key}}


P = "pool /p 10/3/2 version 6 slot 50"
Q = "pool acme/q 4/4/0 version 3 slot 50"

SPOILED: dict[str, tuple[Callable[[World], dict[str, Any]], list[str], list[str]]] = {
    "nothing": (lambda w: {}, [], []),
    "floor": (lambda w: {"fence_floors": {"": 7}}, ["floor of '' 2"], []),
    "floor lost": (lambda w: {"fence_floors": {}}, ["floor of '' 2"], []),
    "floor of nobody": (lambda w: {"fence_floors": {"": 2, "acme": 5}}, ["floor of 'acme' 0"], []),
    "floor and a pool of nobody": (
        lambda w: {"fence_floors": {"": 7}, "pools": {**w.pools, ("", "z"): Pool("", "z", 5, fence=2)}},
        ["pool /z gone", "floor of '' 2"],
        ["/z -5+0+0 gone"],
    ),
    "pool of nobody of another tenant": (
        lambda w: {"pools": {**w.pools, ("acme", "z"): Pool("acme", "z", 5, fence=2)}},
        ["pool acme/z gone", "floor of 'acme' 2"],
        ["acme/z -5+0+0 gone"],
    ),
    "pool": (lambda w: {"pools": with_pool(w, "p", total=9, held=4, consumed=0)}, [P], ["/p +1-1+2"]),
    "pool of a later version": (
        lambda w: {"pools": with_pool(w, "p", version=9)},
        ["pool /p 10/3/2 version 10 slot 50"],
        ["/p +0+0+0"],
    ),
    "pool lost": (lambda w: {"pools": without(w.pools, "p")}, [P], ["/p +10+3+2"]),
    "pools lost": (lambda w: {"pools": {}}, [P, Q], ["/p +10+3+2", "acme/q +4+4+0"]),
    "pool of nobody": (
        lambda w: {"pools": {**w.pools, ("", "z"): Pool("", "z", 5, 2, 1, fence=1)}},
        ["pool /z gone"],
        ["/z -5-2-1 gone"],
    ),
    "pool of nobody, the first of its tenant": (
        lambda w: {"pools": {**w.pools, ("new", "z"): Pool("new", "z", 5, fence=1)}},
        ["pool new/z gone", "floor of 'new' 1"],
        ["new/z -5+0+0 gone"],
    ),
    "pool of nobody, with a higher fence": (
        lambda w: {"pools": {**w.pools, ("", "z"): Pool("", "z", 5, fence=8), ("", "zz"): Pool("", "zz", 1, fence=6)}},
        ["pool /z gone", "pool /zz gone", "floor of '' 8"],
        ["/z -5+0+0 gone", "/zz -1+0+0 gone"],
    ),
    "pool that was swept": (
        lambda w: {"pools": {**w.pools, ("", "~k"): Pool("", "~k", 3, fence=2)}},
        ["pool /~k gone"],
        ["/~k -3+0+0 gone"],
    ),
    "hold": (lambda w: {"holds": with_hold(w, "a", entity="x")}, [P, f"hold /{A} held"], ["/p +0+0+0"]),
    "ended hold, also of a pool that is gone": (
        lambda w: {"holds": with_hold(w, "b", entity="x")},
        [P, f"hold /{B} released"],
        ["/p +0+0+0"],
    ),
    "hold with other legs": (
        lambda w: {"holds": with_hold(w, "a", legs=(HeldLeg("elsewhere", 5, 3, 2),))},
        [P, f"hold /{A} held"],
        ["/p +0+0+0"],
    ),
    "hold lost": (
        lambda w: {"holds": without(w.holds, C)},
        [Q, f"hold acme/{C} held"],
        ["acme/q +0+0+0"],
    ),
    "ended hold lost": (lambda w: {"holds": without(w.holds, B)}, [P, f"hold /{B} released"], ["/p +0+0+0"]),
    "hold of nobody": (
        lambda w: {"holds": {**w.holds, GHOST.key: GHOST}},
        [P, "hold /ghost gone"],
        ["/p +0+0+0"],
    ),
    "leg": (
        lambda w: {"legs": {**outstanding(w.holds.values()), LEG: OpenLeg(2)}},
        [P, f"leg p 100 {A} 3"],
        ["/p +0+0+0"],
    ),
    "leg of another deadline": (
        lambda w: {"legs": {**without(outstanding(w.holds.values()), A), ("", "p", 99, A): OpenLeg(3)}},
        [P, f"leg p 99 {A} 0", f"leg p 100 {A} 3"],
        ["/p +0+0+0"],
    ),
    "legs lost": (
        lambda w: {"legs": {}},
        [P, Q, f"leg p 100 {A} 3", f"leg q 60 {C} 4"],
        ["/p +0+0+0", "acme/q +0+0+0"],
    ),
    "legs of nobody": (
        lambda w: {
            "legs": {
                **outstanding(w.holds.values()),
                ("", "p", MAX_SLOT, "x"): OpenLeg(1),
                ("", "nowhere", 5, "x"): OpenLeg(1),
            }
        },
        [P, "leg nowhere 5 x 0", f"leg p {MAX_SLOT} x 0"],
        ["/p +0+0+0"],
    ),
    "pool and its leg": (
        lambda w: {"pools": with_pool(w, "p", held=2), "legs": {**outstanding(w.holds.values()), LEG: OpenLeg(2)}},
        [P, f"leg p 100 {A} 3"],
        ["/p +0+1+0"],
    ),
    "record": (
        lambda w: {"records": {("", "k", "i"): Record("", "k", "i", "2", 1, 0)}},
        ["record /k/i 1"],
        [],
    ),
    "record lost": (lambda w: {"records": {}}, ["record /k/i 1"], []),
    "record of nobody": (
        lambda w: {"records": {**w.records, ("", "k", "j"): Record("", "k", "j", "2", 1, 0)}},
        ["record /k/j gone"],
        [],
    ),
}


@pytest.mark.parametrize(("spoil", "writes", "tells"), SPOILED.values(), ids=SPOILED)
def test_what_was_spoiled_is_repaired_and_nothing_else(
    world: World, spoil: Callable[[World], dict[str, Any]], writes: list[str], tells: list[str]
) -> None:
    rows = stored(world, **spoil(world))
    what = repair_all(world, rows)
    assert (written(what), told(what)) == (writes, tells)
    assert [
        str(one) for one in audit(enumerate([*world.entries, *what.entries], 1), after(rows, what), world.limits, 50)
    ] == []


def test_an_entry_says_who_repaired_and_why(world: World) -> None:
    (entry,) = repair_all(world, stored(world, pools=without(world.pools, "q"))).entries
    pool = Pool("acme", "q", 4, held=4, fence=1, slot=50, version=3)
    assert entry == Entry(
        50, Action.POOL_REPAIRED, "q", "acme", (Effect(pool, 4, 4, 0),),
        actor="ann", correlation_id="call 7", reason="disk",
    )  # fmt: skip


def test_time_never_moves_backwards_along_a_repaired_pool(world: World) -> None:
    world.slot = 70
    done(world.do(place("d", "p", 60)))
    late = {**with_pool(world, "p", slot=3), ("", "z"): Pool("", "z", 1, slot=90, version=4)}
    p, z = repair_all(world, stored(world, pools=late), now=50).entries
    assert (p.slot, p.effects[0].pool.slot) == (70, 70)
    assert (z.slot, z.effects) == (90, (Effect(Pool("", "z", 0, slot=90, version=5), -1),))
    p, z = repair_all(world, stored(world, pools=late), now=95).entries
    assert (p.slot, z.slot) == (95, 95)


# A row whose derived columns differ: equal as a record, and named


@pytest.mark.parametrize(
    ("table", "key", "writes"),
    [
        ("pools", ("", "p"), [P]),
        ("pools", ("acme", "q"), [Q]),
        ("pools", ("", "q"), []),
        ("pools", ("", "~k"), []),
        ("holds", ("acme", C), [Q, f"hold acme/{C} held"]),
        ("holds", ("", B), [P, f"hold /{B} released"]),
        ("records", ("", "k", "i"), ["record /k/i 1"]),
        ("records", ("", "k", "j"), []),
        ("legs", LEG, [P, f"leg p 100 {A} 3"]),
    ],
)
@pytest.mark.parametrize("legible", [True, False])
def test_a_row_that_is_named_is_written_though_it_looks_right(
    world: World, table: str, key: tuple[Any, ...], writes: list[str], legible: bool
) -> None:
    what = repair_all(world, stored(world), flaws={(table, key): legible})
    assert written(what) == writes


# Holds that may have left


@pytest.mark.parametrize(
    ("limits", "now", "lost", "comes_back"),
    [
        (Limits(retention=100), 99, B, True),
        (Limits(retention=100), 100, B, False),
        (Limits(retention=100), 100, A, True),
        (Limits(max_holds=5), 50, B, False),
        (Limits(max_holds=5), 50, A, True),
    ],
)
def test_a_hold_that_may_be_pruned_does_not_come_back(
    world: World, limits: Limits, now: int, lost: str, comes_back: bool
) -> None:
    world.limits = limits
    rows = stored(world, holds=without(world.holds, lost))
    assert bool([*audit(enumerate(world.entries, 1), rows, limits, now)]) == comes_back
    what = repair_all(world, rows, now)
    assert [*what.holds] == [("", lost)] * comes_back
    assert [entry.subject for entry in what.entries] == ["p"] * comes_back


@pytest.mark.parametrize("now", [99, 100])
def test_a_hold_that_nobody_can_read_comes_back_though_it_may_be_gone(world: World, now: int) -> None:
    world.limits = Limits(max_holds=5, retention=100)
    flaws = {("holds", ("", B)): False}
    assert repair_all(world, stored(world), now, flaws).holds == {("", B): world.held("b")}


def test_a_hold_that_nobody_can_read_and_nobody_made_goes(world: World) -> None:
    what = repair_all(
        world, stored(world, holds={**world.holds, GHOST.key: GHOST}), flaws={("holds", GHOST.key): False}
    )
    assert (what.holds, what.entries) == ({GHOST.key: None}, [])


def test_a_hold_that_may_be_pruned_but_is_there_is_repaired(world: World) -> None:
    world.limits = Limits(max_holds=5, retention=100)
    what = repair_all(world, stored(world, holds=with_hold(world, "b", state=State.CONFIRMED)), 200)
    assert what.holds == {("", B): world.held("b")}


# What can be repaired


def difference(table: str, key: str = "x") -> Difference:
    return Difference(table, key, "f", "1", "2")


POOL, HOLD, FLOOR = difference("pools"), difference("holds"), difference("fence_floors", "acme")
OPERATION, RETENTION = difference("operations"), difference("settings", "retention")


@pytest.mark.parametrize(
    ("found", "repaired", "left"),
    [
        ((), (), ()),
        ((POOL, HOLD), (POOL, HOLD), ()),
        ((difference("legs"), difference("records")), (difference("legs"), difference("records")), ()),
        ((RETENTION, FLOOR, OPERATION, POOL), (FLOOR, POOL), (RETENTION, OPERATION)),
        *(((POOL, difference(truth)), (), (POOL, difference(truth))) for truth in ("journal", "heads", "migrations")),
    ],
)
def test_only_a_whole_journal_repairs_and_only_what_it_tells_of(
    found: tuple[Difference, ...], repaired: tuple[Difference, ...], left: tuple[Difference, ...]
) -> None:
    assert sort_out(iter(found)) == Repaired(repaired, left, ())


# Units that a pool counts without a hold


LOOSE: dict[str, tuple[Callable[[World], dict[str, Any]], tuple[int, int, int, int], tuple[int, int, int, int]]] = {
    "too many": (lambda w: {"pools": with_pool(w, "p", loose=5)}, (0, 0, 0, -2), (10, 0, 3, 3)),
    "none": (lambda w: {"pools": with_pool(w, "p", loose=0)}, (0, 0, 0, 3), (10, 0, 3, 3)),
    "pool lost": (lambda w: {"pools": {}}, (10, 0, 3, 3), (10, 0, 3, 3)),
    "pool of nobody": (
        lambda w: {"pools": {**w.pools, ("", "z"): Pool("", "z", 9, 2, 4, loose=4)}},
        (-9, -2, -4, -4),
        (0, 0, 0, 0),
    ),
}


@pytest.mark.parametrize("name", LOOSE)
def test_loose_units_are_repaired_with_their_pool(name: str) -> None:
    spoil, moved, left = LOOSE[name]
    world = World(retention=5, retention_consumed=5)
    world.pool("p", 10)
    done(world.do(consume("a", {"p": 3})))
    world.slot = 50
    done(world.do(Sweep()))
    assert world.row("p").loose == 3, "nothing to spoil"
    (entry,) = repair_all(world, stored(world, **spoil(world)), now=60).entries
    (effect,) = entry.effects
    assert (effect.total, effect.held, effect.consumed, effect.loose) == moved
    assert (effect.pool.total, effect.pool.held, effect.pool.consumed, effect.pool.loose) == left


@pytest.mark.parametrize(
    ("spoiled", "moved"),
    [
        ({("", "v"): {"waiting": 5, "children": 3}}, (0, 0, 0, 0, -3, -2)),
        ({("", "v"): {"waiting": 0, "children": 0}}, (0, 0, 0, 0, 2, 1)),
        ({("", "v"): None}, (10, 10, 0, 0, 2, 1)),
    ],
    ids=["too many", "too few", "pool lost"],
)
def test_waiters_and_children_are_counted_anew(spoiled: Any, moved: tuple[int, ...]) -> None:
    world = World()
    world.pool("v", 10)
    world.pool("v//a", 10)
    world.batch(place("a", {"v": 10}, 60), join("b", {"v": 1}), join("c", {"v": 1}))
    pools = dict(world.pools)
    for key, changes in spoiled.items():
        row = pools.pop(key)
        if changes is not None:
            pools[key] = structs.replace(row, **changes)
    (entry,) = repair_all(world, stored(world, pools=pools)).entries
    (effect,) = entry.effects
    assert (effect.total, effect.held, effect.consumed, effect.loose, effect.waiting, effect.children) == moved
    assert (effect.pool.waiting, effect.pool.children) == (2, 1)
