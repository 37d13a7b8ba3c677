"""Loading: locks what a batch names, then reads it, in one round trip; a second one only where legs are due or locks missed.

What others have locked is skipped, unless the batch is patient: a command that needs it is left out, so that a slow
caller's transaction stops nobody but those who want the same pools. Decides nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from ...core.decide import Needs, SweepList
from ...core.ladders.finding import prunable
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import Key, Limits, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outcomes import Operation
from ...core.view import Counts, DueLeg, Loaded
from .batch_options import BatchOptions, bounded
from .driver import BEGIN, Row, Script, Statement
from .rows import (
    hold_keys,
    hold_of,
    operation_keys,
    operation_of,
    pool_keys,
    pool_of,
    record_keys,
    record_of,
)
from .sweeping import Listed, swept


class SeveralLanes(Exception):
    """What should have been one lane's affair needs others too, `lanes` among them: nothing was done."""

    def __init__(self, lanes: set[int]) -> None:
        super().__init__(f"needs {len(lanes)} lanes")
        self.lanes = lanes


class LoadedBatch(Struct):
    """What was loaded for one batch."""

    loaded: Loaded
    swept: SweepList
    due: dict[Key, list[DueLeg]]
    """Of the pools that commands touch."""
    found: dict[Key, list[DueLeg]]
    """Of these and of all others that were loaded."""
    stamps: dict[Key, int]
    locked_out: set[Key | RecordKey]
    """Pools and records that somebody else has locked."""
    version: int
    """Of the limits that are stored."""
    synchronous: bool
    """Whether COMMIT waits for standbys."""
    unnumbered: bool
    """Whether entries of callers' transactions wait for their numbers, in any lane."""


def gather(needs: Needs, listed: Listed, options: BatchOptions, *, begun: bool = False) -> Script[LoadedBatch]:
    """Begin, unless it has, lock and load everything that `needs` names."""
    rows = Rows({}, {}, {}, {}, {})
    named = sorted({*needs.pools, *listed.pools})
    standing = sorted({*needs.standing, *listed.holds, *listed.retiring})
    holds = standing if options.assume_new else sorted({*needs.holds, *standing})
    records = sorted(needs.records)
    operations = sorted(needs.asked if options.assume_new else needs.operations)
    begin = [] if begun else opening(options)
    if options.several and standing:
        named = sorted({*named, *(yield from _pools_of(standing, begin, options))})
        begin, standing = [], []
    first = _first(named, holds, standing, records, operations, options)
    answers = (yield (*begin, *first))[len(begin) :]
    seen, floor, unnumbered, version, synchronous, found = rows.take(
        answers, bool(records), bool(holds), bool(operations)
    )
    slot = seen[-1]
    touched = {*needs.pools, *rows.pools_of(needs.standing, options.limits, slot)}
    theirs = rows.pools_of({*listed.holds, *listed.retiring}, options.limits, slot)
    wanted = {*named, *touched, *theirs}
    if options.distributed and not options.several:
        _check_lanes(wanted, holds, options.lanes)
    horizon = max([slot, *(pool.slot for pool in rows.pools.values())])
    if horizon > seen[0] and len(rows.pools) > 1:
        yield from _load_later_due(rows, found, seen[0], horizon, options)
    due = {pool: legs for pool, legs in found.items() if pool in touched}  # a sweep returns the legs of its holds alone
    locked_out = yield from _find_locked(wanted - rows.pools.keys(), set(records) - rows.records.keys(), options)
    if due:
        locked_out |= yield from _load_due_holds(rows, due, options)
    # A caller who marked a due hold expired may have committed since we looked: its entry goes first.
    unnumbered = unnumbered or bool(due) or options.several
    counts = (yield from _count(options)) if bounded(options.limits) or needs.changes_limits else Counts()
    for pool in locked_out & rows.pools.keys():
        del rows.pools[pool]  # type: ignore[arg-type]  # a record's key is never among the pools'
    loaded = Loaded(slot, 1, rows.pools, rows.holds, rows.operations, rows.records, lookup(due), horizon, options.limits,
                    floor, counts)  # fmt: skip
    return LoadedBatch(
        loaded,
        swept(listed, rows.holds, rows.pools, locked_out, options),
        due,
        found,
        rows.stamps,
        locked_out,
        version,
        synchronous,
        unnumbered,
    )


def opening(options: BatchOptions) -> list[Statement]:
    """How a transaction begins."""
    return [BEGIN] if options.lock_timeout is None else [BEGIN, ("set_patience", (options.lock_timeout,))]


def _pools_of(holds: list[Key], begin: list[Statement], options: BatchOptions) -> Script[list[Key]]:
    """Where a statement has one lane: the pools of these holds, so that they can be locked in order of lane."""
    *_, found = yield (*begin, ("find_pools_of_holds", hold_keys(holds, options.lanes)))
    return [(row[0], row[1]) for row in found]


def _check_lanes(pools: Iterable[Key], holds: Iterable[Key], lanes: int) -> None:
    """A transaction that is one lane's affair must not become another's as well."""
    found = {lane_of_pool(key, lanes) for key in pools} | {lane_of_hold(key[1], lanes) for key in holds}
    if len(found) > 1:
        raise SeveralLanes(found)


def _first(
    named: list[Key],
    holds: list[Key],
    standing: list[Key],
    records: list[RecordKey],
    operations: list[Key],
    options: BatchOptions,
) -> list[Statement]:
    """Each its own statement: what is read behind a lock must be read by a later snapshot than the lock's own."""
    lanes, waiting = options.lanes, "_waiting" if options.wait_for_locks else ""
    pools, of_holds = pool_keys(named, lanes), hold_keys(holds, lanes)
    clock = (options.slot, options.limits.max_due + 1)
    statements: list[Statement] = []
    if records:
        statements.append((f"lock_records{waiting}", record_keys(records, lanes)))
    if standing:
        theirs = of_holds if standing == holds else hold_keys(standing, lanes)
        statements.append((f"lock_pools_of_holds{waiting}", (*pools, *theirs)))
        statements.append(("load_due_of_holds", (*pools, *clock, *theirs)))
    else:
        statements.append((f"lock_pools{waiting}", pools))
        statements.append(("load_due", (*pools, *clock)))
    if holds:
        statements.append(("load_holds", of_holds))
    if operations:
        statements.append(("load_operations", operation_keys(operations, lanes)))
    return statements


class Rows(Struct):
    """The rows gathered so far."""

    pools: dict[Key, Pool]
    stamps: dict[Key, int]
    holds: dict[Key, StoredHold]
    operations: dict[Key, Operation]
    records: dict[RecordKey, Record]

    def take(
        self, answers: list[list[Row]], records: bool, holds: bool, operations: bool
    ) -> tuple[tuple[Slot, Slot], int, bool, int, bool, dict[Key, list[DueLeg]]]:
        """Take in the answers of the first round trip: the slot (where lanes were asked one by one: the first and the last),
        the fence floor, whether entries wait for their numbers, the version of the limits, whether COMMIT waits for standbys,
        and what is due on locked pools."""
        rest = iter(answers)
        if records:
            for row in next(rest):
                self.records[row[0], row[1], row[2]] = record_of(row)
        for row in next(rest):
            key = (row[0], row[1])
            self.pools[key], self.stamps[key] = pool_of(row), row[16]
        found = next(rest)
        due: dict[Key, list[DueLeg]] = {}
        for row in found:
            if row[3] is not None and (row[3], row[4]) in self.pools:
                due.setdefault((row[3], row[4]), []).append((row[5], row[6]))
        for legs in due.values():
            legs.sort()
        if holds:
            for row in next(rest):
                self.holds[row[0], row[1]] = hold_of(row)
        if operations:
            for row in next(rest):
                self.operations[row[0], row[1]] = operation_of(row)
        slots, floors, waiting, versions, synchronous = zip(*{(*row[:3], *row[7:]) for row in found}, strict=True)
        floor, version = (max(one or 0 for one in each) for each in (floors, versions))
        return (min(slots), max(slots)), floor, any(waiting), version, any(synchronous), due

    def pools_of(self, keys: Iterable[Key], limits: Limits, slot: Slot) -> set[Key]:
        """The pools of these holds; one that may be pruned touches none, as in the core's own `touched`."""
        holds = [hold for key in keys if (hold := self.holds.get(key)) is not None]
        return {(hold.tenant, leg.pool) for hold in holds if not prunable(hold, limits, slot) for leg in hold.legs}


def _find_locked(pools: set[Key], records: set[RecordKey], options: BatchOptions) -> Script[set[Key | RecordKey]]:
    """Which of what was not locked is there all the same: somebody else has it, or it was born a moment ago."""
    if not pools and not records:
        return set()
    found, others = yield (("find_pools", pool_keys(sorted(pools), options.lanes)),
                           ("find_records", record_keys(sorted(records), options.lanes)))  # fmt: skip
    return {*((row[0], row[1]) for row in found), *((row[0], row[1], row[2]) for row in others)}


def _load_later_due(
    rows: Rows, found: dict[Key, list[DueLeg]], slot: Slot, horizon: Slot, options: BatchOptions
) -> Script[None]:
    """A command over several pools is decided at the latest of their slots: what comes due by then, beyond a pool's own."""
    (later,) = yield (("load_later_due", (*pool_keys(sorted(rows.pools), options.lanes), slot, horizon)),)
    known = {(*pool, *leg) for pool, legs in found.items() for leg in legs}  # of lanes that were asked by a later clock
    for tenant, pool, deadline, hold in sorted({*later} - known):
        found.setdefault((tenant, pool), []).append((deadline, hold))


def _load_due_holds(rows: Rows, due: dict[Key, list[DueLeg]], options: BatchOptions) -> Script[set[Key | RecordKey]]:
    """The holds behind due legs, locked: whoever has the other pools of one may be marking it expired right now.

    A pool with a due leg whose hold is locked by another is as good as locked itself.
    """
    behind = sorted({(pool[0], hold) for pool, legs in due.items() for _, hold in legs})
    if options.distributed and not options.several:
        _check_lanes(due, behind, options.lanes)
    name = "lock_due_holds_waiting" if options.wait_for_locks else "lock_due_holds"
    (found,) = yield ((name, hold_keys(behind, options.lanes)),)
    rows.holds.update({(row[0], row[1]): hold_of(row) for row in found})
    got = {(row[0], row[1]) for row in found}
    missed = {hold for hold in behind if hold not in got}
    return (
        {pool for pool, legs in due.items() if any((pool[0], hold) in missed for _, hold in legs)} if missed else set()
    )


def lookup(due: dict[Key, list[DueLeg]]) -> Callable[[Key], list[DueLeg]]:
    """The due legs of a pool, as the view asks for them."""
    none: list[DueLeg] = []
    return lambda key: due.get(key, none)


# Bounded tables


def _count(options: BatchOptions) -> Script[Counts]:
    """How full the bounded tables are; each costs a scan, and others count at the same time: a bound here is not exact."""
    pools, holds, operations = yield (("count_pools", ()), ("count_live_holds", (options.slot,)),
                                      ("count_operations", (options.slot,)))  # fmt: skip
    return Counts(pools[0][0], holds[0][0], operations[0][0])


def skipped_locked(
    pools: Iterable[Key], records: Collection[RecordKey], gathered: LoadedBatch
) -> Key | RecordKey | None:
    """The first of these that somebody else has locked."""
    for key in (*pools, *records):
        if key in gathered.locked_out:
            return key
    return None
