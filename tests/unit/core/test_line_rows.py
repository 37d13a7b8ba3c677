"""Lines, tallies and trees in the journal and in stored rows: folded, imported, audited, repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from holdkit.core.audit import audit
from holdkit.core.audit_rows import Folded, Mismatches, Stored
from holdkit.core.audit_sums import outstanding
from holdkit.core.codec import decode_entry, encode_entry
from holdkit.core.command_kinds import Command
from holdkit.core.commands import Sweep
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.fold import fold, reconstruct
from holdkit.core.import_ import Carried, needs_of, take_in
from holdkit.core.model import Pool, State
from holdkit.core.outstanding import OpenLeg, Tally
from holdkit.core.reading import touches
from holdkit.core.repair import repair_rows, sort_out
from holdkit.core.view import View
from holdkit.errors import InvalidRequest
from tests.unit.core.stored_rows import stored, with_hold, with_pool
from tests.unit.core.world import World, confirm, consume, done, hold_id, join, place

W, X = hold_id("w"), hold_id("x")
WAITS = ("", "v", 550, W)
TALLY = ("", "v", "ann")


@pytest.fixture
def world() -> World:
    """v of 10 has a child v//a of 8 and a line; ann has bought 2 of v//a (the hold is gone), holds 3 of it and waits for 4 of v."""
    world = World(retention=10, retention_consumed=10)
    world.pool("v", 10)
    world.pool("v//a", 8)
    done(world.do(consume("old", {"v//a": 2}, account="ann")))
    world.slot = 50
    done(world.do(Sweep()))
    done(world.do(place("x", {"v//a": 3}, 500, account="ann")))
    done(world.do(place("y", {"v": 4}, 500)))
    done(world.do(join("w", {"v": 4}, 500, account="ann")))
    assert world.tallies == {("", "v", "ann"): Tally("ann", 9), ("", "v//a", "ann"): Tally("ann", 5, 2)}
    assert (world.row("v").held, world.row("v").consumed, world.row("v").waiting, world.row("v").children) == (
        7,
        2,
        1,
        1,
    )
    return world


def differences(world: World, rows: Stored, entries: list[Entry] | None = None) -> list[str]:
    numbered = enumerate(world.entries if entries is None else entries, 1)
    return [str(one) for one in audit(numbered, rows, world.limits, world.slot)]


def with_tallies(world: World, **changed: Any) -> dict[str, Any]:
    """The tallies, ann's of v spoiled."""
    return {"tallies": {**world.tallies, TALLY: structs.replace(world.tallies[TALLY], **changed)}}


def with_legs(world: World, leg: OpenLeg | None) -> dict[str, Any]:
    """The legs, that of the waiter spoiled."""
    legs = {**outstanding(world.holds.values()), WAITS: leg}
    return {"legs": {key: row for key, row in legs.items() if row is not None}}


SPOILED: dict[str, tuple[Callable[[World], dict[str, Any]], list[str]]] = {
    "nothing": (lambda w: {}, []),
    "a tally": (
        lambda w: with_tallies(w, used=8),
        ["tallies v/ann: used is 8, the journal says 9", "tallies v/ann: used is 8, the journal says 9 (by its holds, and loose)"],
    ),
    "what is loose of a tally": (lambda w: with_tallies(w, loose=1), ["tallies v/ann: loose is 1, the journal says 0"]),
    "a lost tally": (
        lambda w: {"tallies": {key: row for key, row in w.tallies.items() if key != TALLY}},
        ["tallies v/ann: row is missing, the journal says there", "tallies v/ann: used is 0, the journal says 9 (by its holds, and loose)"],
    ),
    "a tally of nobody": (
        lambda w: {"tallies": {**w.tallies, ("", "v", "bob"): Tally("bob", 1)}},
        ["tallies v/bob: row is there, the journal says missing", "tallies v/bob: used is 1, the journal says 0 (by its holds, and loose)"],
    ),
    "the length of a line": (
        lambda w: {"pools": with_pool(w, "v", waiting=2)},
        ["pools v: waiting is 2, the journal says 1", "pools v: waiting is 2, the journal says 1 (its legs that wait)"],
    ),
    "the last number": (lambda w: {"pools": with_pool(w, "v", last_number=0)}, ["pools v: last_number is 0, the journal says 1"]),
    "the number of children": (
        lambda w: {"pools": with_pool(w, "v", children=0)},
        ["pools v: children is 0, the journal says 1", "pools v: children is 0, the journal says 1 (pools below it)"],
    ),
    "a limit": (lambda w: {"pools": with_pool(w, "v", per_account=1)}, ["pools v: per_account is 1, the journal says None"]),
    "what is above": (
        lambda w: {"holds": with_hold(w, "x", above=())},
        [f"holds {X}: above is (), the journal says (Level(pool='v', held=3),)"],
    ),
    "a place in line": (
        lambda w: {"holds": with_hold(w, "w", number=7)},
        [f"holds {W}: number is 7, the journal says 1"],
    ),
    "the leg of a waiter": (
        lambda w: with_legs(w, OpenLeg(0, 3, 2, "bob")),
        [
            f"legs v of hold {W}: waiting is 3, the journal says 4",
            f"legs v of hold {W}: number is 2, the journal says 1",
            f"legs v of hold {W}: account is bob, the journal says ann",
        ],
    ),
    "a lost leg of a waiter": (
        lambda w: with_legs(w, None),
        [
            f"legs v of hold {W}: waiting is 0, the journal says 4",
            f"legs v of hold {W}: number is 0, the journal says 1",
            f"legs v of hold {W}: account is None, the journal says ann",
            "pools v: waiting is 1, the journal says 0 (its legs that wait)",
        ],
    ),
    "a leg of a level above": (
        lambda w: {"legs": {key: leg for key, leg in outstanding(w.holds.values()).items() if key[1:] != ("v", 550, X)}},
        [
            f"legs v of hold {X}: units is 0, the journal says 3",
            f"legs v of hold {X}: account is None, the journal says ann",
            "pools v: held is 7, the journal says 4 (sum of its legs)",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_every_difference_is_named(world: World, name: str) -> None:
    spoil, says = SPOILED[name]
    assert differences(world, stored(world, **spoil(world))) == says


@pytest.mark.parametrize("name", SPOILED)
def test_every_difference_is_repaired(world: World, name: str) -> None:
    rows = stored(world, **SPOILED[name][0](world))
    folded, wrong = Folded(), Mismatches()
    report = sort_out(audit(enumerate(world.entries, 1), rows, world.limits, world.slot, folded, wrong))
    assert (bool(report.repaired), report.left) == (bool(SPOILED[name][1]), ())
    what = repair_rows(wrong, folded, Command(actor="ann", reason="disk"))

    def laid(table: Any, changes: Any) -> Any:
        return {key: row for key, row in {**table, **changes}.items() if row is not None}

    after = Stored(
        laid(rows.pools, what.pools), laid(rows.holds, what.holds), laid(rows.records, what.records),
        laid(rows.legs, what.legs), rows.fence_floors, laid(rows.tallies, what.tallies),
    )  # fmt: skip
    assert differences(world, after, [*world.entries, *what.entries]) == []
    assert bool(what.entries) == bool(SPOILED[name][1]), "each pool that changed has an entry"


def test_a_pool_of_nobody_that_has_a_line_is_removed(world: World) -> None:
    rows = stored(world, pools={**world.pools, ("", "z"): Pool("", "z", 3, waiting=2, children=1, last_number=4)})
    folded, wrong = Folded(), Mismatches()
    sort_out(audit(enumerate(world.entries, 1), rows, world.limits, world.slot, folded, wrong))
    (entry,) = repair_rows(wrong, folded, Command()).entries
    (effect,) = entry.effects
    assert (effect.pool.waiting, effect.pool.children, effect.waiting, effect.children) == (0, 0, -2, -1)


# A journal that was changed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"waiting": 2}, "waiting before is -1, the journal says 0"),
        ({"children": 1}, "children before is 0, the journal says 1"),
        ({"used": 3}, "used before is 6, the journal says 5"),
        ({"loose": 1}, "loose of the account before is -1, the journal says 0"),
    ],
)
def test_a_changed_entry_is_noticed(world: World, change: dict[str, Any], says: str) -> None:
    entries = list(world.entries)
    last = entries[-1]
    assert last.action is Action.HOLD_WAITING
    entries[-1] = structs.replace(last, effects=(structs.replace(last.effects[0], **change),))
    assert differences(world, stored(world), entries)[0] == f"journal {len(entries)} (v): {says}"
    with pytest.raises(InvalidRequest, match="does not follow"):
        take_all(entries)


def take_all(entries: list[Entry]) -> World:
    """Import a journal, each entry in a transaction of its own."""
    other = World(retention=10, retention_consumed=10)
    for line, entry in enumerate(entries, 1):
        carried = [Carried(line, decode_entry(encode_entry(entry)))]
        view = View(other.loaded())
        wanted = needs_of(carried)
        take_in(view, carried)
        assert set(view.pools.changed) <= wanted.pools
        assert set(view.tallies.changed) <= wanted.tallies
        other.slot = max(other.slot, entry.slot)
        tables: list[tuple[Any, Any]] = [
            (other.pools, view.pools.changed),
            (other.holds, view.holds.changed),
            (other.tallies, view.tallies.changed),
        ]
        for table, changed in tables:
            table.update(changed)
            for key in [key for key, row in changed.items() if row is None]:
                del table[key]
    return other


def test_an_imported_journal_goes_on_where_it_ended(world: World) -> None:
    other = take_all(world.entries)
    assert (other.pools, other.tallies) == (world.pools, world.tallies)
    assert {key: row for key, row in other.holds.items() if row.live} == {
        key: row for key, row in world.holds.items() if row.live
    }
    other.entries, other.fence_floors, other.slot = list(world.entries), dict(world.fence_floors), 50
    for each in (world, other):
        done(each.do(confirm("y", 1)))
        assert (each.states("w"), each.row("v").held) == (["held"], 7)
    assert other.tallies == world.tallies


def test_a_waiters_history_is_folded_to_what_it_is(world: World) -> None:
    done(world.do(confirm("y", 1)))
    history = [entry for entry in world.entries if entry.subject == W]
    assert [entry.action for entry in history] == [Action.HOLD_WAITING, Action.HOLD_OFFERED]
    assert reconstruct(history) == world.held("w")
    assert reconstruct(history[:1]) == history[0].hold
    assert world.held("w").state is State.HELD
    assert [touches(entry, "v") for entry in history] == [True, True]


def test_a_child_that_is_removed_leaves_its_parent() -> None:
    folded = Folded()
    for pool in (Pool("", "v", 5, children=1), Pool("", "v//a", 5, fence=3)):
        folded.put_pool(pool.key, pool)
    gone, parent = Effect(Pool("", "v//a", 0, fence=3), -5), Effect(Pool("", "v", 5, fence=8), children=-1)
    fold(folded, Entry(1, Action.POOL_REMOVED, "v//a", "", (gone, parent), removed=True))
    assert [key for key, _ in folded.pools.items()] == [("", "v")]
    assert folded.floors.get(("",)) == 3, "the parent's fence is no floor: it lives on"


@pytest.mark.parametrize(("used", "there"), [(1, True), (0, False)])
def test_a_tally_is_gone_at_zero(used: int, there: bool) -> None:
    folded = Folded()
    folded.put_tally(("", "v", "ann"), Tally("ann", 4))
    fold(folded, Entry(1, Action.HOLD_RELEASED, "x", "", (Effect(Pool("", "v", 5), tally=Tally("ann", used)),)))
    assert (folded.tallies.get(("", "v", "ann")) is not None) == there
