"""Writing back: the difference between the loaded rows and those that the batch left, as one statement per table and kind of change.

The statements come in the one lock order: new pools, holds, tallies, operations, records, and last of all the lane heads, which number the
entries. Nothing is decided or read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Pool, Record, RecordKey, Slot, State, StoredHold
from ...core.view import NO_FLOORS, View
from .database import BatchOptions
from .driver import Row, Statement
from .journal_rows import JournalRows, journal_rows
from .loading import LoadedBatch
from .rows import (
    CHANGED_HOLD_COLUMNS,
    LEG_COLUMNS,
    NEW_HOLD_COLUMNS,
    NEW_POOL_COLUMNS,
    OPERATION_COLUMNS,
    PLAIN_POOL_COLUMNS,
    changed_hold_row,
    columns,
    leg_rows,
    new_hold_row,
    new_pool_row,
    operation_row,
    placed_columns,
    pool_keys,
    pool_row,
    pool_settings_row,
    record_row,
    tally_row,
)


def write_back(
    view: View, batch_rows: LoadedBatch, options: BatchOptions, batch: int, *, strict: bool
) -> tuple[list[Statement], JournalRows]:
    """Return the statements that write the changes of the batch, none if it changed nothing; and its journal rows. `batch` is a random
    number. With `strict` a statement raises if it writes another number of rows than it should."""
    stamp = max([view.loaded.slot, *(one + 1 for one in batch_rows.stamps.values())])
    statements: list[Statement] = []
    pools = _pools(view, batch_rows, options.lanes) if view.pools.changed else PoolWrites()
    holds = _holds(view, options.lanes) if view.holds.changed else HoldWrites()
    fused = not (options.distributed or options.in_caller_transaction)  # which plans anew: there the parts are cheaper
    if fused and pools.plain and holds.placed and not holds.others:
        statements.append(_place_holds(pools, holds, stamp, options.lanes))
    else:
        statements += [*pools.statements(stamp, strict), *holds.statements(options.lanes, strict)]
    if view.tallies.changed:
        statements += _tallies(view, options.lanes, strict)
    if view.operations.changed:
        statements += _operations(view, options, strict)
    if view.records.changed:
        statements += _records(view, options.lanes, strict)
    whole = options.in_caller_transaction or options.distributed
    journal = journal_rows(view.entries, options.lanes, whole=whole)
    if journal.rows and options.in_caller_transaction:
        statements += _unnumbered(view, journal, batch_rows, options.lanes, stamp=stamp, batch=batch)
    elif journal.rows and not options.distributed:  # there, `number_distributed` follows
        statements += _numbered(view, journal, batch_rows, options)
    return statements, journal


def _checked(name: str, rows: Sequence[Row], width: int, strict: bool, *more: Any) -> list[Statement]:
    return [(name, (*columns(rows, width), *more, len(rows), strict))] if rows else []


UPDATED: Final = 19
"""The columns of a pool that is updated."""


class PoolWrites(Struct):
    """The rows of pools, by the kind of change."""

    deleted: list[Row] = []
    inserted: list[Row] = []
    updated: list[Row] = []
    versions: list[int] = []
    """The loaded versions of the updated pools."""
    scanned: list[Slot] = []
    """For each updated pool, the slot up to which it has no due leg any more."""
    wide: list[Key] = []
    """The updated pools that have more columns to write than `place_holds` does: those of their label, their line or their children."""
    settings: list[Row] = []
    """The updated pools whose window ends at another time, that were archived or unarchived, or have another limit."""
    floors: Mapping[str, int] = NO_FLOORS
    """The fence floors as they were loaded, by tenant."""

    @property
    def plain(self) -> bool:
        """Whether pools were updated, and only their counters."""
        return bool(self.updated) and not (self.inserted or self.deleted or self.wide or self.settings)

    def statements(self, stamp: int, strict: bool) -> list[Statement]:
        """Return a statement for each kind of change."""
        found = _checked("delete_pools", self.deleted, 4, strict)
        if self.inserted:
            found.append(
                ("insert_pools", (*columns(self.inserted, NEW_POOL_COLUMNS), stamp, len(self.inserted), strict))
            )
            homes = sorted({row[:2] for row in self.inserted})
            known = [(lane, tenant, self.floors.get(tenant, 0)) for lane, tenant in homes]
            found += _checked("check_floors", known, 3, strict)
        if self.updated:
            found.append(("update_pools", (*self.columns(UPDATED, stamp), len(self.updated), strict)))
        return found + _checked("update_pool_settings", self.settings, 6, strict)

    def columns(self, width: int, stamp: int) -> list[Any]:
        """Return the first `width` columns of the updated pools, and those that every update has."""
        return [*columns(self.updated, UPDATED)[:width], stamp, self.versions, self.scanned]


def _pools(view: View, batch_rows: LoadedBatch, lanes: int) -> PoolWrites:
    pools = PoolWrites(floors=view.loaded.fence_floors)
    loaded = view.loaded.pools
    for key, pool in sorted(view.pools.changed.items()):
        before = loaded.get(key)
        if pool is None:
            if before is not None:
                pools.deleted.append((lane_of_pool(key, lanes), *key, before.version))
        elif before is None:
            pools.inserted.append(new_pool_row(pool, lanes))
        elif not before.same_life(pool):  # swept away and created again in the same batch
            pools.deleted.append((lane_of_pool(key, lanes), *key, before.version))
            pools.inserted.append(new_pool_row(pool, lanes))
        else:
            pools.updated.append(pool_row(pool, lanes))
            if pool.label is not None or _grown(before) != _grown(pool):
                pools.wide.append(key)
            if _settings(before) != _settings(pool):
                pools.settings.append(pool_settings_row(pool, lanes))
            pools.versions.append(before.version)
            pools.scanned.append(scanned_to(view, batch_rows, key))
    return pools


def _grown(pool: Pool) -> tuple[int, int, int]:
    return pool.waiting, pool.last_number, pool.children


def _settings(pool: Pool) -> tuple[Slot | None, bool, int | None]:
    return pool.closes, pool.archived, pool.per_account


def scanned_to(view: View, batch_rows: LoadedBatch, pool: Key) -> Slot:
    """Return the slot up to which no leg of this pool is outstanding any more, where the next scan for due legs begins: the batch's own, if
    the view has returned every due leg up to it, else just before the first that it has left."""
    slot, legs, limit = view.loaded.slot, batch_rows.first.due.get(pool, []), view.limits.max_due
    left = [deadline for deadline, hold_id in legs if _outstanding(view.holds.get((pool[0], hold_id)), pool[1])]
    if len(legs) > limit:  # not all were loaded: those left have later deadlines than these, or the same
        left.append(legs[limit][0])
    return min([slot, *(deadline - 1 for deadline in left)])


def _outstanding(hold: StoredHold | None, pool: str) -> bool:
    return hold is None or any(name == pool for name, _ in hold.open_legs())  # a hold that was not loaded may be


class HoldWrites(Struct):
    """The rows of holds and legs, by the kind of change."""

    placed: list[StoredHold] = []
    """New holds of one leg, on one pool, for no account: the usual case."""
    deleted: list[Row] = []
    """Dropped, or replaced by another with the same id."""
    inserted: list[Row] = []
    updated: list[Row] = []
    legs_deleted: list[Row] = []
    legs_inserted: list[Row] = []

    @property
    def others(self) -> bool:
        """Whether there are rows that are not the usual case."""
        return bool(self.deleted or self.inserted or self.updated or self.legs_deleted or self.legs_inserted)

    def statements(self, lanes: int, strict: bool) -> list[Statement]:
        """Return a statement for each kind of change."""
        inserted = self.inserted + [new_hold_row(hold, lanes) for hold in self.placed]
        legs = self.legs_inserted + [(*key, *leg) for hold in self.placed for key, leg in leg_rows(hold, lanes).items()]
        return [
            *_checked("delete_holds", self.deleted, 4, strict),
            *_checked("insert_holds", inserted, NEW_HOLD_COLUMNS, strict),
            *_checked("update_holds", self.updated, CHANGED_HOLD_COLUMNS, strict),
            *_checked("delete_legs", self.legs_deleted, 5, strict),
            *_checked("insert_legs", legs, LEG_COLUMNS, strict),
        ]


def _is_plain(hold: StoredHold) -> bool:
    return len(hold.legs) == 1 and hold.account is None and hold.number is None and not hold.above


def _holds(view: View, lanes: int) -> HoldWrites:
    holds = HoldWrites()
    before = view.loaded.holds
    for key, hold in sorted(view.holds.changed.items()):
        was = before.get(key)
        if hold is None:
            if was is not None:
                holds.deleted.append((lane_of_hold(was.id, lanes), was.tenant, was.id, was.version))
            continue
        if was is None:
            if hold.state is State.HELD and hold.version == 1 and _is_plain(hold):
                holds.placed.append(hold)
            else:
                holds.inserted.append(new_hold_row(hold, lanes))
                holds.legs_inserted.extend((*key, *leg) for key, leg in leg_rows(hold, lanes).items())
            continue
        if not was.same_life(hold):
            holds.deleted.append((lane_of_hold(was.id, lanes), was.tenant, was.id, was.version))
            holds.inserted.append(new_hold_row(hold, lanes))
        else:
            holds.updated.append(changed_hold_row(hold, was.version, lanes))
        stored, now = leg_rows(was, lanes), leg_rows(hold, lanes)
        holds.legs_deleted.extend(key for key, leg in stored.items() if now.get(key) != leg)
        holds.legs_inserted.extend((*key, *leg) for key, leg in now.items() if stored.get(key) != leg)
    return holds


def _place_holds(pools: PoolWrites, holds: HoldWrites, stamp: int, lanes: int) -> Statement:
    plain = pools.columns(PLAIN_POOL_COLUMNS, stamp)
    return "place_holds", (*plain, *placed_columns(holds.placed, lanes), len(pools.updated))


def _tallies(view: View, lanes: int, strict: bool) -> list[Statement]:
    inserted: list[Row] = []
    updated: list[Row] = []
    deleted: list[Row] = []
    for key, tally in sorted(view.tallies.changed.items()):
        before = view.loaded.tallies.get(key)
        if tally is None:
            if before is not None:
                deleted.append(tally_row(key, before, lanes))
        elif before is None:
            inserted.append(tally_row(key, tally, lanes))
        else:
            updated.append((*tally_row(key, tally, lanes), before.used, before.loose))
    return [
        *_checked("delete_tallies", deleted, 6, strict),
        *_checked("insert_tallies", inserted, 6, strict),
        *_checked("update_tallies", updated, 8, strict),
    ]


def _operations(view: View, options: BatchOptions, strict: bool) -> list[Statement]:
    """Return the statements that write answers: new ones; those whose id is used again after its window, or may exist where a statement
    must not raise; and those that replace an answer which still counts."""
    slot, new, used, replaced = view.loaded.slot, list[Row](), list[Row](), list[Row]()
    raising = strict and not options.distributed
    entries = () if options.in_caller_transaction or options.distributed else view.entries
    for key, operation in view.operations.changed.items():
        assert operation is not None, "the core never removes an operation"
        before = view.loaded.operations.get(key)
        rows = (new if raising else used) if before is None else used if before.until <= slot else replaced
        rows.append(operation_row(operation, entries, options.lanes))
    statements: list[Statement] = [("insert_operations", columns(sorted(new), OPERATION_COLUMNS))] if new else []
    statements += _checked("put_operations", sorted(used), OPERATION_COLUMNS, strict, slot)
    return statements + _checked("replace_operations", sorted(replaced), OPERATION_COLUMNS, strict)


def _records(view: View, lanes: int, strict: bool) -> list[Statement]:
    inserted: list[Row] = []
    updated: list[Row] = []
    deleted: list[Row] = []
    for key, record in sorted(view.records.changed.items()):
        before = view.loaded.records.get(key)
        if record is None:
            if before is not None:
                deleted.append((lane_of_record(key, lanes), *key, before.version))
        elif before is None:
            inserted.append(record_row(record, lanes))
        else:
            updated.append((*record_row(record, lanes), before.version))
    return [
        *_checked("delete_records", deleted, 5, strict),
        *_checked("insert_records", inserted, 7, strict),
        *_checked("update_records", updated, 8, strict),
        *limits_version(view.records.changed),
    ]


def limits_version(records: Mapping[RecordKey, Record | None]) -> list[Statement]:
    """If the record of the limits is written, return the statement that writes its version to the setting that every transaction reads."""
    if LIMITS_KEY not in records:
        return []
    record = records[LIMITS_KEY]
    return [("put_limits_version", (str(0 if record is None else record.version),))]


# The journal


def _numbered(view: View, journal: JournalRows, batch_rows: LoadedBatch, options: BatchOptions) -> list[Statement]:
    touched = sorted(journal.counts)
    statements: list[Statement] = []
    timeout = options.wait_ms  # a transaction that has a head locked is about to commit
    floors = raised_floors(view, options.lanes)
    if len(touched) > 1 or batch_rows.has_unnumbered_entries or floors:
        statements.append(("lock_heads", (touched, timeout)))
    statements += floors
    entries = (touched, [journal.counts[lane] for lane in touched], *journal.columns)
    if batch_rows.has_unnumbered_entries:
        statements.append(("write_journal_with_unnumbered", entries))
    else:
        statements.append(("write_journal", (*entries, timeout)))
    return statements


def raised_floors(view: View, lanes: int) -> list[Statement]:
    """Return the statement that raises the fence floors of removed pools, even if they were created again since. Each of their lanes
    remembers the highest fence that its own pools had, though the floor of another lane of this batch may be higher."""
    if not view.raised_floors:
        return []
    highest: dict[tuple[int, str], int] = {}
    removed = (entry for entry in view.entries if entry.removed)
    for pool in (effect.pool for entry in removed for effect in entry.effects if effect.pool.id == entry.subject):
        home = lane_of_pool(pool.key, lanes), pool.tenant
        highest[home] = max(pool.fence, highest.get(home, 0))
    return [("raise_floors", columns([(*home, fence) for home, fence in sorted(highest.items()) if fence], 3))]


def _unnumbered(
    view: View, journal: JournalRows, batch_rows: LoadedBatch, lanes: int, *, stamp: int, batch: int
) -> list[Statement]:
    """Return the statements that give every touched pool its stamp, so that the next transaction on it takes a higher one, and write the
    entries."""
    unchanged = sorted(key for key in batch_rows.stamps if key not in view.pools.changed)
    statements: list[Statement] = [("stamp_pools", (*pool_keys(unchanged, lanes), stamp))] if unchanged else []
    statements.append(("write_unnumbered", (stamp, batch, *journal.whole_columns)))
    return statements


def check_erased(view: View, options: BatchOptions, strict: bool) -> list[Statement]:
    """Return the statement that raises if a claim's pool was erased after it was loaded as missing. It comes behind the insert of such
    pools, which waits for a transaction that renames them."""
    born = [key for key, pool in view.pools.changed.items() if pool is not None and key not in view.loaded.pools]
    erased = sorted((key[0], id) for key in born if options.names and (id := options.names.claim(*key)) is not None)
    return [("check_erased_claims", (*pool_keys(erased, options.lanes), 0, strict))] if erased else []
