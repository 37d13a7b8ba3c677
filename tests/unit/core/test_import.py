"""Importing a journal: it becomes this store's own, or is refused at the line that does not follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.import_ import Carried, check_room, chunks, needs_of, not_empty, take_in
from holdkit.core.model import Pool
from holdkit.core.needs import Needs
from holdkit.core.view import View
from holdkit.errors import InvalidRequest, PromiseBroken
from tests.unit.core.stored_rows import bit_of_everything
from tests.unit.core.world import World, done, extend, hold_id

A, B, C = hold_id("a"), hold_id("b"), hold_id("c")


@pytest.fixture
def world() -> World:
    return bit_of_everything()


def carried(entries: list[Entry]) -> list[Carried]:
    """As lines of a file, the first of which is its head."""
    return [Carried(line, entry) for line, entry in enumerate(entries, 2)]


# Stretches


@pytest.mark.parametrize(
    ("effects", "stretches"),
    [
        ([], []),
        ([0], [[1]]),
        ([998, 0], [[1, 2]]),
        ([998, 0, 0], [[1, 2, 3]]),
        ([998, 0, 0, 0], [[1, 2, 3], [4]]),
        ([999, 1, 1], [[1, 2], [3]]),
        ([1000, 1000], [[1], [2]]),
        ([5000, 0], [[1], [2]]),
        ([999, 5000, 999, 0, 7], [[1, 2], [3, 4], [5]]),
    ],
)
def test_a_stretch_ends_with_its_thousandth_effect(effects: list[int], stretches: list[list[int]]) -> None:
    effect = Effect(Pool("", "p", 1))
    lines = [
        Carried(line, Entry(0, Action.HOLD_HELD, "x", effects=(effect,) * count))
        for line, count in enumerate(effects, 1)
    ]
    assert [[one.line for one in chunk] for chunk in chunks(iter(lines))] == stretches


def test_entries_without_effects_count_as_one() -> None:
    lines = [Carried(line, Entry(0, Action.RECORD_PUT, "k/i")) for line in range(2_001)]
    assert [len(chunk) for chunk in chunks(lines)] == [1000, 1000, 1]


# What must be loaded


@pytest.mark.parametrize(
    ("seqs", "needed"),
    [
        ([], Needs(set(), set(), set(), set())),
        ([1], Needs({("", "p")}, set(), set(), set())),
        ([2], Needs({("", "p")}, {("", A)}, set(), set())),
        ([3], Needs(set(), {("", A)}, set(), set())),
        ([7], Needs({("", "p"), ("", "~k")}, {("", B)}, set(), set())),
        ([8], Needs({("", "~k")}, set(), set(), set())),
        ([9], Needs(set(), set(), set(), {("", "k", "i")})),
        ([11], Needs({("acme", "q")}, {("acme", C)}, set(), set())),
        (
            [3, 6, 9, 11],
            Needs({("", "p"), ("", "~k"), ("acme", "q")}, {("", A), ("", B), ("acme", C)}, set(), {("", "k", "i")}),
        ),
    ],
)
def test_what_a_stretch_needs(world: World, seqs: list[int], needed: Needs) -> None:
    found = needs_of(carried([world.entries[seq - 1] for seq in seqs]))
    assert found == structs.replace(needed, created=needed.pools)


def test_a_change_needs_the_hold_of_its_own_tenant(world: World) -> None:
    done(world.do(extend("c", by_slots=40, tenant="acme")))
    assert needs_of(carried(world.entries[11:])) == Needs(set(), {("acme", C)}, set(), set(), created=set())


# Taking in


def received(*stretches: list[Carried]) -> World:
    """A new world that was handed these, each stretch loaded and written as an engine does it."""
    other = World()
    for stretch in stretches:
        view = View(other.loaded())
        take_in(view, stretch)
        other.write(view)
    return other


@pytest.mark.parametrize("cut", [0, 1, 3, 6, 8, 11])
def test_a_whole_journal_becomes_the_same_state(world: World, cut: int) -> None:
    lines = carried(world.entries)
    other = received(lines[:cut], lines[cut:])
    assert other.state() == world.state()
    assert (other.fence_floors, other.counters("p")) == ({"": 2}, (10, 3, 2))


def test_entries_are_taken_over_as_they_are(world: World) -> None:
    lines = carried(world.entries)
    assert received(lines[:4], lines[4:]).entries == world.entries


def test_a_baseline_may_start_from_anywhere() -> None:
    pool = Pool("", "p", 10, held=3, consumed=2, fence=7, version=9)
    entry = Entry(0, Action.JOURNAL_BASELINE, "p", effects=(Effect(pool),))
    view = View(World().loaded())
    take_in(view, carried([entry]))
    assert view.pools.changed == {("", "p"): pool}


def edited(entries: list[Entry], seq: int, **fields: int) -> list[Entry]:
    """One entry's first effect says something else."""
    entry = entries[seq - 1]
    effect = structs.replace(entry.effects[0], **fields)
    return [*entries[: seq - 1], structs.replace(entry, effects=(effect, *entry.effects[1:])), *entries[seq:]]


FOLLOW = "does not follow from the lines before it"
CONTRADICTIONS: dict[str, tuple[Callable[[list[Entry]], list[Entry]], int, str, int]] = {
    "its head is cut off": (lambda e: e[1:], 2, "pool 1 (p): total before should be 0", 0),
    "an entry is lost": (lambda e: e[:3] + e[4:], 6, "pool 5 (p): held before should be 5", 4),
    "two are mixed up": (lambda e: [*e[:5], e[6], e[5]], 7, "pool 6 (p): held before should be 3", 5),
    "one is there twice": (lambda e: [*e[:2], e[1]], 4, "pool 3 (p): held before should be 5", 2),
    "total edited": (lambda e: edited(e, 4, total=1), 5, "pool 4 (p): total before should be 10", 3),
    "held edited": (lambda e: edited(e, 4, held=-1), 5, "pool 4 (p): held before should be 5", 3),
    "consumed edited": (lambda e: edited(e, 4, consumed=1), 5, "pool 4 (p): consumed before should be 0", 3),
    "a hold without its birth": (
        lambda e: [e[0], structs.replace(e[1], hold=None), *e[2:]],
        4,
        f"an entry changes hold {A}, which was never held",
        2,
    ),
    "a hold of another tenant": (
        lambda e: [*e[:2], structs.replace(e[2], tenant="acme"), *e[3:]],
        4,
        f"an entry changes hold {A}, which was never held",
        2,
    ),
}


@pytest.mark.parametrize(("spoil", "line", "words", "taken"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_does_not_follow_is_refused_by_its_line(
    world: World, spoil: Callable[[list[Entry]], list[Entry]], line: int, words: str, taken: int
) -> None:
    view = View(World().loaded())
    with pytest.raises(InvalidRequest) as refusal:
        take_in(view, carried(spoil(world.entries)))
    assert (refusal.value.field, refusal.value.code) == (f"line {line}", "entry_contradicts")
    assert str(refusal.value).startswith(f"holdkit: line {line}: {FOLLOW}: ")
    assert str(refusal.value).endswith(words)
    assert str(refusal.value).count("holdkit: ") == 1
    assert isinstance(refusal.value.__cause__, PromiseBroken) == ("never held" in words)
    assert len(view.entries) == taken  # what came before it, and no more


# Room, and an empty place


@pytest.mark.parametrize(
    ("limits", "pools", "holds", "says"),
    [
        (Limits(), 10**9, 10**9, None),
        (Limits(max_pools=3, max_holds=2), 3, 2, None),
        (Limits(max_pools=0, max_holds=0), 0, 0, None),
        (Limits(max_pools=3), 4, 10**9, "has max_pools=3, but there are 4"),
        (Limits(max_holds=2), 10**9, 3, "has max_holds=2, but there are 3"),
        (Limits(max_pools=3, max_holds=2), 2, 3, "has max_holds=2, but there are 3"),
        (Limits(max_pools=3, max_holds=2), 4, 3, "has max_pools=3, but there are 4"),
        (Limits(max_pools=0), 1, 0, "has max_pools=0, but there are 1"),
        (Limits(max_operations=0), 5, 5, None),
    ],
)
def test_there_must_be_room_for_what_came(limits: Limits, pools: int, holds: int, says: str | None) -> None:
    if says is None:
        check_room(limits, pools, holds)
        return
    with pytest.raises(InvalidRequest) as refusal:
        check_room(limits, pools, holds)
    assert str(refusal.value) == f"holdkit: limits: {says}"
    assert (refusal.value.field, refusal.value.code) == ("limits", "limits_too_small")


def test_a_place_with_a_journal_is_no_place_for_another() -> None:
    refusal = not_empty("here.db")
    assert str(refusal) == "holdkit: url: here.db has a journal already: import into a new, empty one"
    assert (refusal.field, refusal.code) == ("url", "target_not_empty")
