"""Fold, reconstruct and audit: the journal alone rebuilds everything, and every difference is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Difference, Folded, Stored
from holdkit.core.audit_sums import outstanding
from holdkit.core.commands import ResizePool
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.fold import _after, fold, reconstruct
from holdkit.core.model import MAX_SLOT, HeldLeg, Pool, Record, State
from holdkit.core.outstanding import OpenLeg
from holdkit.core.reading import touches
from holdkit.errors import PromiseBroken
from tests.unit.core.stored_rows import bit_of_everything, stored, with_hold, with_pool
from tests.unit.core.world import World, confirm, done, extend, give_back, hold_id, place


@pytest.fixture
def world() -> World:
    return bit_of_everything()


def differences(world: World, rows: Stored, entries: list[Entry] | None = None, now: int = 0) -> list[str]:
    numbered = enumerate(world.entries if entries is None else entries, 1)
    return [str(one) for one in audit(numbered, rows, world.limits, now)]


def test_nothing_to_say(world: World) -> None:
    assert differences(world, stored(world)) == []
    assert differences(World(), stored(World())) == []


A, B = hold_id("a"), hold_id("b")
LEG = ("", "p", 100, A)

SPOILED: list[tuple[Callable[[World], dict[str, Any]], list[str]]] = [
    (lambda w: {"fence_floors": {"": 7}}, ["fence_floors (default tenant): floor is 7, the journal says 2"]),
    (lambda w: {"fence_floors": {}}, ["fence_floors (default tenant): floor is 0, the journal says 2"]),
    (lambda w: {"fence_floors": {"": 2, "acme": 1}}, ["fence_floors acme: floor is 1, the journal says 0"]),
    (lambda w: {"fence_floors": {"": 2, "acme": 0}}, []),
    (
        lambda w: {"pools": with_pool(w, "p", consumed=3)},
        [
            "pools p: consumed is 3, the journal says 2",
            "pools p: consumed is 3, the journal says 2 (by its holds, and loose)",
        ],
    ),
    (
        lambda w: {"pools": with_pool(w, "p", loose=1)},
        ["pools p: loose is 1, the journal says 0"],
    ),
    (
        lambda w: {"pools": with_pool(w, "p", held=4, version=9)},
        [
            "pools p: held is 4, the journal says 3",
            "pools p: version is 9, the journal says 5",
            "pools p: held is 4, the journal says 3 (sum of its legs)",
        ],
    ),
    (lambda w: {"pools": {("", "p"): w.row("p")}}, ["pools acme/q: row is missing, the journal says there"]),
    (
        lambda w: {"pools": {**w.pools, ("", "z"): Pool("", "z", 1)}},
        ["pools z: row is there, the journal says missing"],
    ),
    (
        lambda w: {"holds": with_hold(w, "a", deadline=99, entity="x")},
        [f"holds {A}: deadline is 99, the journal says 100", f"holds {A}: entity is 'x', the journal says None"],
    ),
    (
        lambda w: {"holds": {key: row for key, row in w.holds.items() if row.id != B}},
        [f"holds {B}: row is missing, the journal says there"],
    ),
    (
        lambda w: {"pools": {key: structs.replace(row, fence=99) for key, row in w.pools.items()}},
        ["pools p: fence is 99, the journal says 2", "pools acme/q: fence is 99, the journal says 1"],
    ),
    (
        lambda w: {"holds": {key: structs.replace(row, entity="x") for key, row in w.holds.items() if row.id != A}},
        [
            f"holds {A}: row is missing, the journal says there",
            f"holds {B}: entity is 'x', the journal says None",
            f"holds acme/{hold_id('c')}: entity is 'x', the journal says None",
        ],
    ),
    (lambda w: {"records": {}}, ["records k/i: row is missing, the journal says there"]),
    (
        lambda w: {"records": {("", "k", "i"): Record("", "k", "i", "2", 1, 0)}},
        ["records k/i: body is '2', the journal says '1'"],
    ),
    (
        lambda w: {"legs": {**outstanding(w.holds.values()), LEG: OpenLeg(2)}},
        [
            f"legs p of hold {A}: units is 2, the journal says 3",
            "pools p: held is 3, the journal says 2 (sum of its legs)",
        ],
    ),
    (
        lambda w: {"legs": {key: units for key, units in outstanding(w.holds.values()).items() if key != LEG}},
        [
            f"legs p of hold {A}: units is 0, the journal says 3",
            "pools p: held is 3, the journal says 0 (sum of its legs)",
        ],
    ),
    (
        lambda w: {"legs": {**outstanding(w.holds.values()), ("", "p", MAX_SLOT, "ghost"): OpenLeg(1)}},
        [
            "legs p of hold ghost: units is 1, the journal says 0",
            "pools p: held is 3, the journal says 4 (sum of its legs)",
        ],
    ),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILED)
def test_every_difference_is_named(world: World, spoil: Callable[[World], dict[str, Any]], says: list[str]) -> None:
    assert differences(world, stored(world, **spoil(world))) == says


def test_a_difference_is_a_record_of_its_own(world: World) -> None:
    (one,) = audit(enumerate(world.entries, 1), stored(world, fence_floors={"": 7}), world.limits, 0)
    assert one == Difference("fence_floors", "(default tenant)", "floor", "7", "2")


# A journal that was changed


def test_a_lost_entry_is_noticed(world: World) -> None:
    numbered = [*enumerate(world.entries, 1)]
    said = [str(one) for one in audit(numbered[:2] + numbered[3:], stored(world), world.limits, 0)]
    assert "journal 4: seq is 4, the journal says 3" in said
    assert not [line for line in said if line.startswith("journal 5")]  # named once, then on from there


def test_a_changed_entry_is_noticed(world: World) -> None:
    entries = list(world.entries)
    effect = entries[3].effects[0]
    entries[3] = structs.replace(entries[3], effects=(structs.replace(effect, held=-1),))
    assert differences(world, stored(world), entries) == ["journal 4 (p): held before is 4, the journal says 5"]
    entries[3] = structs.replace(entries[3], effects=(structs.replace(effect, held=-1, total=1, consumed=1),))
    assert differences(world, stored(world), entries) == [
        "journal 4 (p): total before is 9, the journal says 10",
        "journal 4 (p): held before is 4, the journal says 5",
        "journal 4 (p): consumed before is 1, the journal says 0",
    ]


def test_an_entry_may_change_a_pool_twice() -> None:
    """Each effect starts where the one before it has left the pool."""
    pool = Pool("", "p", 5)
    first, second = structs.replace(pool, held=2, version=2), structs.replace(pool, held=1, version=3)
    twice = Entry(2, Action.POOL_RESIZED, "p", effects=(Effect(first, held=2), Effect(second, held=-1)))
    entries = [Entry(1, Action.POOL_CREATED, "p", effects=(Effect(pool, total=5),)), twice]

    def said() -> list[str]:
        return [one for one in differences(World(), stored(World()), entries) if one.startswith("journal")]

    assert said() == []
    entries[1] = structs.replace(twice, effects=twice.effects[::-1])
    assert "journal 2 (p): held before is 2, the journal says 0" in said()


def test_what_the_reader_of_the_journal_found_is_passed_on(world: World) -> None:
    """A row that cannot be read is no entry: the next one tells that its number is missing."""
    found = Difference("journal", "2", "body", "x", "an entry")
    numbered = [*enumerate(world.entries, 1)]
    said = list(audit([numbered[0], found, *numbered[2:]], stored(world), world.limits, 0))
    assert said[:2] == [found, Difference("journal", "3", "seq", "3", "2")]
    assert list(audit([found, *numbered], stored(world), world.limits, 0)) == [found]


def test_a_hold_that_was_never_born_is_noticed(world: World) -> None:
    entries = [structs.replace(entry, hold=None) if n == 2 else entry for n, entry in enumerate(world.entries, 1)]
    said = differences(world, stored(world), entries)
    assert said[0] == (f"journal 3: subject is {A}, the journal says an entry changes hold {A}, which was never held")


def test_repairs_and_baselines_may_start_from_anywhere(world: World) -> None:
    for action in (Action.POOL_REPAIRED, Action.JOURNAL_BASELINE):
        pool = Pool("", "p", 99, held=3, consumed=50, fence=9, version=9, loose=48)
        entry = Entry(0, action, "p", effects=(Effect(pool, total=99),))
        rows = stored(world, pools={**world.pools, ("", "p"): pool})
        assert differences(world, rows, [*world.entries, entry]) == []


# Holds that may have left


def test_retired_holds_may_be_there_or_not(world: World) -> None:
    world.limits = World(retention=100).limits
    gone = {key: row for key, row in world.holds.items() if row.id != B}
    assert differences(world, stored(world), now=100) == []
    assert differences(world, stored(world, holds=gone), now=100) == []
    assert len(differences(world, stored(world, holds=gone), now=99)) == 1


def test_a_retired_hold_with_legs_out_must_be_there() -> None:
    world = World(retention=100)
    for name in "pq":
        world.pool(name, 1)
    done(world.do(place("a", {"p": 1, "q": 1}, 5)))
    world.slot = 10
    done(world.do(place("b", "p", 900)))
    rows = stored(world, holds={("", hold_id("b")): world.held("b")})
    assert differences(world, rows, now=500) == [f"holds {A}: row is missing, the journal says there"]


def test_where_the_table_is_bounded_ended_holds_leave_early_and_live_ones_do_not(world: World) -> None:
    world.limits = World(max_holds=5).limits
    assert differences(world, stored(world, holds={key: row for key, row in world.holds.items() if row.id != B})) == []
    without_a = {key: row for key, row in world.holds.items() if row.id != A}
    assert differences(world, stored(world, holds=without_a)) == [
        f"holds {A}: row is missing, the journal says there",
    ]
    ghost = {**world.holds, ("", "ghost"): structs.replace(world.held("b"), id="ghost")}
    assert differences(world, stored(world, holds=ghost)) == ["holds ghost: row is there, the journal says missing"]
    spoiled = stored(world, holds=with_hold(world, "b", entity="x"))
    assert differences(world, spoiled) == [f"holds {B}: entity is 'x', the journal says None"]


def test_a_retired_hold_nobody_wrote_is_noticed(world: World) -> None:
    world.limits = World(retention=100).limits
    ghost = {**world.holds, ("", "ghost"): structs.replace(world.held("b"), id="ghost", ended_at=50)}
    assert differences(world, stored(world, holds=ghost), now=100) == [
        "holds ghost: row is there, the journal says missing"
    ]


# Folding


def test_a_change_of_nothing_is_a_broken_promise() -> None:
    change = Change(State.HELD, State.HELD, 2, (HeldLeg("p", 1, 1),))
    with pytest.raises(PromiseBroken, match="an entry changes hold x, which was never held"):
        fold(Folded(), Entry(0, Action.HOLD_EXTENDED, "x", change=change))


def test_a_removed_pool_leaves_its_fence(world: World) -> None:
    folded = Folded()
    for entry in world.entries:
        fold(folded, entry)
    assert folded.pools.get(("", "~k")) is None
    assert [*folded.floors.items()] == [(("",), 2)]
    higher = Entry(0, Action.POOL_REMOVED, "x", effects=(Effect(Pool("", "x", 0, fence=8)),), removed=True)
    lower = structs.replace(higher, effects=(Effect(Pool("", "x", 0, fence=3)),))
    fold(folded, higher)
    fold(folded, lower)
    fold(folded, structs.replace(higher, tenant="acme", effects=(Effect(Pool("acme", "x", 0, fence=5)),)))
    assert [*folded.floors.items()] == [(("",), 8), (("acme",), 5)]


def test_an_entry_touches_the_pools_it_moves_units_of() -> None:
    world = World()
    world.pool("p", 5)
    world.pool("q", 5)
    done(world.do(place("a", {"p": 1}, 60)))
    done(world.do(extend("a", by_slots=10)))
    assert [str(entry.action) for entry in world.entries if touches(entry, "p")] == ["pool.created", "hold.held"]
    assert [str(entry.action) for entry in world.entries if touches(entry, "q")] == ["pool.created"]


def test_a_holds_history_tells_its_final_state(world: World) -> None:
    world.slot = 30
    done(world.do(confirm("a", 1, entity="order:1", reason="r")))
    done(world.do(give_back("a", 1)))
    history = [entry for entry in world.entries if entry.subject == A]
    assert reconstruct(history) == world.held("a")
    assert reconstruct(history[:1]) == history[0].hold
    assert reconstruct([]) is None
    assert reconstruct(history[1:]) is None  # without its birth there is nothing to change
    assert reconstruct([entry for entry in world.entries if entry.subject == "p"]) is None


def test_resized_pools_fold_too(world: World) -> None:
    done(world.do(ResizePool(id="p", total=50)))
    assert differences(world, stored(world)) == []


def test_what_is_true_of_an_action() -> None:
    assert [action.value for action in Action if action.begins] == ["hold.waiting", "hold.held"]
    assert [action.value for action in Action if action.grants] == ["hold.offered", "hold.held"]
    assert [action.value for action in Action if action.answers] == [
        "hold.waiting",
        "hold.offered",
        "hold.held",
        "hold.reassigned",
        "journal.baseline",
    ]
    assert [action.value for action in Action if action.beside] == ["pool.created", "pool.resized"]
    assert {action.value.partition(".")[0] for action in Action if action.of_hold} == {"hold", "leg"}


def test_a_field_of_a_hold_comes_from_the_change_if_the_change_says_it() -> None:
    """`changed` is compiled from these expressions while the module is imported."""
    assert {name: _after(name) for name in ("owner_hash", "state", "fence")} == {
        "owner_hash": "hold.owner_hash",
        "state": "change.state",
        "fence": "hold.fence if change.fence is UNSET else change.fence",
    }
