"""Repair: what must be written so that the stored rows match the journal again.

The folded journal is the truth. Each pool whose row, legs or holds are corrected gets a `pool.repaired` entry with its state
before and after; rows of holds, legs and records are written as the journal has them. Decides nothing else; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from .audit_rows import Difference, Folded, LegKey, Mismatches
from .command_kinds import Command
from .entries import Action, Effect, Entry
from .model import Key, Pool, Record, RecordKey, Slot, StoredHold
from .outstanding import OpenLeg, Tally, TallyKey

REPAIRABLE: Final = frozenset({"pools", "holds", "legs", "records", "tallies", "fence_floors"})
"""Tables that the journal can rebuild."""
TRUTH: Final = frozenset({"journal", "heads", "migrations", "archived", "baseline"})
"""If these differ, there is nothing to repair from."""


class Repaired(Struct, frozen=True):
    """The rows that a repair changed, or would change."""

    repaired: tuple[Difference, ...]
    left: tuple[Difference, ...]
    """What the journal cannot repair: itself, settings, recorded answers."""
    entries: tuple[Entry, ...] = ()


class RepairedRows(Struct, frozen=True):
    """Rows to write, or with None to remove."""

    pools: dict[Key, Pool | None]
    holds: dict[Key, StoredHold | None]
    legs: Mapping[LegKey, OpenLeg | None]
    records: dict[RecordKey, Record | None]
    fence_floors: dict[str, int]
    """By tenant; 0 removes the row."""
    entries: list[Entry]
    tallies: Mapping[TallyKey, Tally | None] = {}


def sort_out(differences: Iterable[Difference]) -> Repaired:
    """Select the differences that can be repaired; none if the journal itself is damaged."""
    repaired: list[Difference] = []
    left: list[Difference] = []
    found: list[Difference] = []
    for one in differences:
        found.append(one)
        (repaired if one.table in REPAIRABLE else left).append(one)
    if any(one.table in TRUTH for one in left):
        return Repaired((), tuple(found))
    return Repaired(tuple(repaired), tuple(left))


def repair_rows(mismatches: Mismatches, folded: Folded, command: Command) -> RepairedRows:
    """Return the rows to write, which differ, and the pools to which they belong."""
    touched = {key[:2] for key in mismatches.legs} | {key[:2] for key in mismatches.tallies}
    for mine, theirs in mismatches.holds.values():
        hold = theirs or mine
        if hold is not None:
            touched.update([(hold.tenant, name) for name in hold.pools])
    rows = dict(mismatches.pools)
    for key in touched - rows.keys():
        row = folded.pools.get(key)
        if row is not None:
            rows[key] = row, row
    now = folded.latest
    floors = {key[0]: theirs or 0 for key, (_, theirs) in mismatches.floors.items()}
    pools: dict[Key, Pool | None] = {}
    entries: list[Entry] = []
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    for key, (was, row) in sorted(rows.items()):
        effect = _effect(was, row, now)
        removed = row is None
        if removed and effect.pool.fence > _floor(floors, folded, key[0]):
            floors[key[0]] = effect.pool.fence
        pools[key] = None if removed else effect.pool
        entries.append(
            Entry(effect.pool.slot, Action.POOL_REPAIRED, key[1], key[0], (effect,), removed=removed, actor=command.actor, correlation_id=correlation_id, reason=command.reason)
        )  # fmt: skip
    return RepairedRows(
        pools,
        {key: theirs for key, (_, theirs) in mismatches.holds.items()},
        {key: theirs for key, (_, theirs) in mismatches.legs.items()},
        {key: theirs for key, (_, theirs) in mismatches.records.items()},
        floors,
        entries,
        {key: theirs for key, (_, theirs) in mismatches.tallies.items()},
    )


def _floor(floors: dict[str, int], folded: Folded, tenant: str) -> int:
    return max(floors.get(tenant, 0), folded.floors.get((tenant,)) or 0)


def _effect(was: Pool | None, row: Pool | None, now: Slot) -> Effect:
    """Return the effect on a pool. A row that the journal never created is removed, with empty counters."""
    if row is None:
        assert was is not None, "one of the two made this key"
        gone = structs.replace(
            was,
            held=0,
            consumed=0,
            loose=0,
            total=0,
            waiting=0,
            children=0,
            version=was.version + 1,
            slot=max(now, was.slot),
        )
        return Effect(gone, -was.total, -was.held, -was.consumed, -was.loose, -was.waiting, -was.children)
    version = max(row.version, 0 if was is None else was.version) + 1
    after = structs.replace(row, version=version, slot=max(now, row.slot))
    if was is None:
        return Effect(after, after.total, after.held, after.consumed, after.loose, after.waiting, after.children)
    return Effect(after, after.total - was.total, after.held - was.held, after.consumed - was.consumed,
                  after.loose - was.loose, after.waiting - was.waiting, after.children - was.children)  # fmt: skip
