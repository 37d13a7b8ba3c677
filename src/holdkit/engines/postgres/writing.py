"""Writing back: the difference between what was loaded and what the batch left, as one statement per table and kind.

In the one lock order: new pools, holds, operations, records, and last of all the heads, whose numbers the entries get. Decides
nothing; reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import SECOND, Key, Limits, Record, RecordKey, Slot, State, StoredHold
from ...core.retention import retired_until
from ...core.view import View
from .batch_options import BatchOptions, lock_timeout
from .driver import Row, Statement
from .loading import LoadedBatch
from .parts import Parts, parts_of
from .rows import (
    NEW,
    PLAIN,
    changed_hold_row,
    columns,
    leg_rows,
    new_hold_row,
    new_pool_row,
    operation_row,
    placed_columns,
    pool_keys,
    pool_row,
    pool_terms_row,
    record_row,
)

PRUNED = 1_000
"""Rows of each kind that one pruning takes away at most."""


LAG = 60 * SECOND
"""Longer than any transaction of ours takes."""


class Writes(NamedTuple):
    """Everything a batch changed: no statement, if nothing did."""

    statements: list[Statement]
    parts: Parts


def write_back(view: View, gathered: LoadedBatch, options: BatchOptions, batch: int) -> Writes:
    """What the batch changed, as statements. `batch` is a random number."""
    strict = not options.joined
    stamp = max([view.loaded.slot, *(one + 1 for one in gathered.stamps.values())])
    statements: list[Statement] = []
    pools = _pools(view, gathered, options.lanes) if view.pools.changed else NO_POOLS
    holds = _holds(view, options.lanes) if view.holds.changed else NO_HOLDS
    if pools.plain and holds.placed and not holds.others and not options.distributed:
        statements.append(_place(pools, holds, stamp, strict, options.lanes))
    else:
        statements += [*pools.statements(stamp, strict), *holds.statements(options.lanes, strict)]
    if view.operations.changed:
        rows = sorted(operation_row(row, options.lanes) for row in view.operations.changed.values() if row is not None)
        statements.append(("put_operations", (*columns(rows, 7), view.loaded.slot, len(rows), strict)))
    if view.records.changed:
        statements += _records(view, options.lanes, strict)
    parts = parts_of(view.entries, options.lanes)
    if parts.lanes and options.joined:
        statements += _unnumbered(view, parts, gathered, options.lanes, stamp, batch)
    elif parts.lanes and not options.distributed:  # there, `numbering` comes behind
        statements += _numbered(view, parts, gathered, options.lanes, options.limits)
    return Writes(statements, parts)


def _checked(name: str, rows: Sequence[Row], width: int, strict: bool, *more: Any) -> list[Statement]:
    return [(name, (*columns(rows, width), *more, len(rows), strict))] if rows else []


class Pools(NamedTuple):
    """The rows of pools, by what is done with them."""

    gone: list[Row]
    born: list[Row]
    moved: list[Row]
    versions: list[int]
    """Of the moved ones, before."""
    scanned: list[Slot]
    """Up to where each of these has no due leg any more."""
    labelled: list[Key]
    """Those of them that have a label."""
    options: list[Row]
    """Those of them whose window ends at another time, or that were archived or unarchived."""
    floor: int = 0
    """What the fences of new ones began above."""

    @property
    def plain(self) -> bool:
        """Whether pools moved, and nothing of them but their counters."""
        return bool(self.moved) and not (self.born or self.gone or self.labelled or self.options)

    def statements(self, stamp: int, strict: bool) -> list[Statement]:
        """One for each kind."""
        found = _checked("delete_pools", self.gone, 4, strict)
        if self.born:
            found.append(("insert_pools", (*columns(self.born, NEW), stamp, len(self.born), strict)))
            homes = sorted({row[0] for row in self.born})
            found.append(("check_floors", (homes, self.floor, len(homes), strict)))
        if self.moved:
            found.append(("update_pools", (*self.columns(16, stamp), len(self.moved), strict)))
        return found + _checked("update_pool_terms", self.options, 5, strict)

    def columns(self, width: int, stamp: int) -> list[Any]:
        """Of the moved ones, as many as are wanted."""
        return [*columns(self.moved, 16)[:width], stamp, self.versions, self.scanned]


NO_POOLS = Pools([], [], [], [], [], [], [])


def _pools(view: View, gathered: LoadedBatch, lanes: int) -> Pools:
    pools = Pools([], [], [], [], [], [], [], view.loaded.fence_floor)
    loaded = view.loaded.pools
    for key, pool in sorted(view.pools.changed.items()):
        before = loaded.get(key)
        if pool is None:
            if before is not None:
                pools.gone.append((lane_of_pool(key, lanes), *key, before.version))
        elif before is None:
            pools.born.append(new_pool_row(pool, lanes))
        elif not before.same_life(pool):  # swept away and born anew in the same batch
            pools.gone.append((lane_of_pool(key, lanes), *key, before.version))
            pools.born.append(new_pool_row(pool, lanes))
        else:
            pools.moved.append(pool_row(pool, lanes))
            if pool.label is not None:
                pools.labelled.append(key)
            if (before.closes, before.archived) != (pool.closes, pool.archived):
                pools.options.append(pool_terms_row(pool, lanes))
            pools.versions.append(before.version)
            pools.scanned.append(scanned_to(view, gathered, key))
    return pools


def scanned_to(view: View, gathered: LoadedBatch, pool: Key) -> Slot:
    """Up to where no leg of this pool is outstanding any more: where the next scan for due legs begins.

    The slot, if the view has taken every due leg up to it; else just before the first that it has left.
    """
    slot, legs, bound = view.loaded.slot, gathered.found.get(pool, []), view.limits.max_due
    left = [deadline for deadline, hold_id in legs if _outstanding(view.holds.get((pool[0], hold_id)), pool[1])]
    if len(legs) > bound:  # not all were loaded: those left have later deadlines than these, or the same
        left.append(legs[bound][0])
    return min([slot, *(deadline - 1 for deadline in left)])


def _outstanding(hold: StoredHold | None, pool: str) -> bool:
    return hold is None or any(leg.held and leg.pool == pool for leg in hold.legs)  # one that nobody loaded still is


class Holds(NamedTuple):
    """The rows of holds and legs, by what is done with them."""

    placed: list[StoredHold]
    """New holds of one leg, alive: the usual case."""
    gone: list[Row]
    """Dropped, or another takes the id."""
    born: list[Row]
    changed: list[Row]
    legs_gone: list[Row]
    legs_born: list[Row]

    @property
    def others(self) -> bool:
        """Whether anything is not the usual case."""
        return bool(self.gone or self.born or self.changed or self.legs_gone or self.legs_born)

    def statements(self, lanes: int, strict: bool) -> list[Statement]:
        """One for each kind."""
        born = self.born + [new_hold_row(hold, lanes) for hold in self.placed]
        legs = self.legs_born + [(*leg, units) for hold in self.placed for leg, units in leg_rows(hold, lanes).items()]
        return [
            *_checked("delete_holds", self.gone, 4, strict),
            *_checked("insert_holds", born, 24, strict),
            *_checked("update_holds", self.changed, 16, strict),
            *_checked("delete_legs", self.legs_gone, 5, strict),
            *_checked("insert_legs", legs, 6, strict),
        ]


NO_HOLDS = Holds([], [], [], [], [], [])


def _holds(view: View, lanes: int) -> Holds:
    holds = Holds([], [], [], [], [], [])
    before = view.loaded.holds
    for key, hold in sorted(view.holds.changed.items()):
        was = before.get(key)
        if hold is None:
            if was is not None:
                holds.gone.append((lane_of_hold(was.id, lanes), was.tenant, was.id, was.version))
            continue
        if was is None:
            if len(hold.legs) == 1 and hold.state is State.HELD and hold.version == 1:
                holds.placed.append(hold)
            else:
                holds.born.append(new_hold_row(hold, lanes))
                holds.legs_born.extend((*leg, units) for leg, units in leg_rows(hold, lanes).items())
            continue
        if not was.same_life(hold):
            holds.gone.append((lane_of_hold(was.id, lanes), was.tenant, was.id, was.version))
            holds.born.append(new_hold_row(hold, lanes))
        else:
            holds.changed.append(changed_hold_row(hold, was.version, lanes))
        filed, now = leg_rows(was, lanes), leg_rows(hold, lanes)
        holds.legs_gone.extend(leg for leg, units in filed.items() if now.get(leg) != units)
        holds.legs_born.extend((*leg, units) for leg, units in now.items() if filed.get(leg) != units)
    return holds


def _place(pools: Pools, holds: Holds, stamp: int, strict: bool, lanes: int) -> Statement:
    count = len(pools.moved) + len(holds.placed)
    return ("place_holds", (*pools.columns(PLAIN, stamp), *placed_columns(holds.placed, lanes), count, strict))


def _records(view: View, lanes: int, strict: bool) -> list[Statement]:
    born: list[Row] = []
    changed: list[Row] = []
    gone: list[Row] = []
    for key, record in sorted(view.records.changed.items()):
        before = view.loaded.records.get(key)
        if record is None:
            if before is not None:
                gone.append((lane_of_record(key, lanes), *key, before.version))
        elif before is None:
            born.append(record_row(record, lanes))
        else:
            changed.append((*record_row(record, lanes), before.version))
    return [
        *_checked("delete_records", gone, 5, strict),
        *_checked("insert_records", born, 7, strict),
        *_checked("update_records", changed, 8, strict),
        *limits_version(view.records.changed),
    ]


def limits_version(records: Mapping[RecordKey, Record | None]) -> list[Statement]:
    """If the record of the limits is among what is written: its version, where every transaction looks for it."""
    if LIMITS_KEY not in records:
        return []
    record = records[LIMITS_KEY]
    return [("put_limits_version", (str(0 if record is None else record.version),))]


# The journal


def _numbered(view: View, parts: Parts, gathered: LoadedBatch, lanes: int, limits: Limits) -> list[Statement]:
    touched = sorted(parts.counts)
    statements: list[Statement] = []
    patience = lock_timeout(limits)
    if len(touched) > 1 or gathered.unnumbered:
        statements.append(("lock_heads", (touched, patience)))
    statements += raised_floor(view, lanes)
    entries = (touched, [parts.counts[lane] for lane in touched], *parts.columns)
    if gathered.unnumbered:
        statements.append(("write_journal_behind", entries))
    else:
        statements.append(("write_journal", (*entries, patience)))
    return statements


def raised_floor(view: View, lanes: int) -> list[Statement]:
    """Pools were removed, also if they are back already: their lanes remember the fences."""
    if view.fence_floor == view.loaded.fence_floor:
        return []
    gone = (effect.pool.key for entry in view.entries if entry.removed for effect in entry.effects)
    removed = sorted({lane_of_pool(key, lanes) for key in gone})
    return [("raise_floor", (removed, view.fence_floor))] if removed else []


def _unnumbered(view: View, parts: Parts, gathered: LoadedBatch, lanes: int, stamp: int, batch: int) -> list[Statement]:
    """Every pool that an entry touched carries its stamp, so that the next transaction on it gets a higher one."""
    still = sorted(key for key in gathered.stamps if key not in view.pools.changed)
    statements: list[Statement] = [("stamp_pools", (*pool_keys(still, lanes), stamp))] if still else []
    statements.append(("write_unnumbered", (stamp, batch, *parts.columns)))
    return statements


def prune(options: BatchOptions, slot: Slot) -> list[Statement]:
    """Take away rows that are gone for every reader already: holds a little later, because the retention may just have been
    raised by a transaction that this one could not see yet. (An injected clock stands still meanwhile.)"""
    lag = LAG if options.slot is None else 0
    return [
        ("prune_operations", (slot, PRUNED)),
        ("prune_holds", (retired_until(options.limits, slot - lag), PRUNED)),
    ]
