"""Mending: what must be written so that the stored rows are again what the journal says.

The folded journal is the truth. Each pool whose row, legs or holds are mended gets a `pool.repaired` entry with what it was
and what it is; rows of holds, legs and records are put back as the journal has them. Decides nothing else; writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from .audit import Difference, Folded, Stored, outstanding, row_name
from .commands import Command
from .entries import Action, Effect, Entry
from .ladders.finding import prunable
from .model import Key, Limits, Pool, Record, RecordKey, Slot, State, StoredHold

LegKey = tuple[str, str, int | None, str]
"""Tenant, pool, deadline, hold."""

MENDABLE: Final = frozenset({"pools", "holds", "legs", "records"})
"""Tables that the journal can rebuild."""
TRUTH: Final = frozenset({"journal", "heads", "migrations"})
"""Where these differ there is nothing to mend from."""


class Repaired(Struct, frozen=True):
    """What a repair did, or would do."""

    mended: tuple[Difference, ...]
    left: tuple[Difference, ...]
    """What the journal cannot mend: itself, settings, remembered answers."""
    entries: tuple[Entry, ...] = ()


class Mended(Struct, frozen=True):
    """Rows to put, or with None to take away."""

    pools: dict[Key, Pool | None]
    holds: dict[Key, StoredHold | None]
    legs: dict[LegKey, int]
    """Outstanding units; 0 takes the row away."""
    records: dict[RecordKey, Record | None]
    fence_floor: int | None
    entries: list[Entry]


def sort_out(differences: Iterable[Difference]) -> Repaired:
    """Which can be mended. None, if the journal itself is not whole."""
    found = tuple(differences)
    if any(difference.table in TRUTH for difference in found):
        return Repaired((), found)
    mended = [one for one in found if one.table in MENDABLE or (one.table, one.key) == ("settings", "fence_floor")]
    return Repaired(tuple(mended), tuple(one for one in found if one not in mended))


def mend(
    stored: Stored,
    folded: Folded,
    found: Iterable[Difference],
    limits: Limits,
    now: Slot,
    command: Command,
    next_seq: int,
) -> Mended:
    """What to write. Derived columns that differ are mended with their row, which `found` names."""
    named: dict[str, set[str]] = {table: set() for table in MENDABLE}
    for difference in found:
        named.setdefault(difference.table, set()).add(difference.key)
    holds = _holds(stored, _present(folded.holds), named["holds"], limits, now)
    legs = _legs(stored, outstanding(_present(folded.holds).values()))
    records = _rows(stored.records, _present(folded.records), named["records"])
    touched = {(tenant, pool) for tenant, pool, _, _ in legs}
    for key in holds:
        hold = folded.holds.get(key) or stored.holds[key]
        touched.update((hold.tenant, leg.pool) for leg in hold.legs)
    rows: dict[Key, Pool | None] = _rows(stored.pools, _present(folded.pools), named["pools"])
    for key in sorted(touched):
        if key not in rows and folded.pools.get(key) is not None:
            rows[key] = folded.pools.get(key)
    floor = folded.fence_floor
    pools: dict[Key, Pool | None] = {}
    entries: list[Entry] = []
    for key, row in sorted(rows.items()):
        was = stored.pools.get(key)
        effect = _effect(was, row, now)
        removed = row is None
        floor = max(floor, effect.pool.fence) if removed else floor
        pools[key] = None if removed else effect.pool
        entries.append(
            Entry(next_seq + len(entries), effect.pool.slot, Action.POOL_REPAIRED, key[1], key[0], (effect,), removed=removed,
                  actor=command.actor, correlation_id=command.correlation, reason=command.reason)
        )  # fmt: skip
    changed = floor if floor != stored.fence_floor or "fence_floor" in named.get("settings", ()) else None
    return Mended(pools, holds, legs, records, changed, entries)


def _effect(was: Pool | None, row: Pool | None, now: Slot) -> Effect:
    """A pool as it is to be; a row that the journal never made goes, with nothing in it."""
    if row is None:
        assert was is not None, "one of the two made this key"
        gone = structs.replace(was, held=0, consumed=0, total=0, version=was.version + 1, slot=max(now, was.slot))
        return Effect(gone, -was.total, -was.held, -was.consumed)
    version = max(row.version, 0 if was is None else was.version) + 1
    after = structs.replace(row, version=version, slot=max(now, row.slot))
    if was is None:
        return Effect(after, after.total, after.held, after.consumed)
    return Effect(after, after.total - was.total, after.held - was.held, after.consumed - was.consumed)


def _present(table: Any) -> dict[Any, Any]:
    return {key: row for key, row in table.changed.items() if row is not None}


def _rows(stored: Mapping[Any, Any], expected: Mapping[Any, Any], named: set[str]) -> dict[Any, Any]:
    return {
        key: expected.get(key)
        for key in sorted({*stored, *expected})
        if stored.get(key) != expected.get(key) or row_name(key) in named
    }


def _holds(
    stored: Stored, expected: dict[Key, StoredHold], named: set[str], limits: Limits, now: Slot
) -> dict[Key, StoredHold | None]:
    """As `audit` compares them: one that may be pruned need not be there."""
    found: dict[Key, StoredHold | None] = {}
    for key, hold in _rows(stored.holds, expected, named).items():
        if key not in stored.holds:
            assert hold is not None
            early = limits.max_holds is not None and hold.state is not State.HELD and row_name(key) not in named
            if early or prunable(hold, limits.retention, now):
                continue
        found[key] = hold
    return found


def _legs(stored: Stored, expected: Mapping[LegKey, int]) -> dict[LegKey, int]:
    keys = sorted({*stored.legs, *expected}, key=repr)
    return {key: expected.get(key, 0) for key in keys if stored.legs.get(key, 0) != expected.get(key, 0)}
