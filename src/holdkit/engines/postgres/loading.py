"""Loading: locks what a batch names, then reads it, in one round trip; a second one only where legs are due or locks missed.

What others have locked is skipped, unless the batch is patient: a command that needs it is left out, so that a slow
caller's transaction stops nobody but those who want the same pools. Decides nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from msgspec import Struct

from ...core.decide import NOTHING_DUE, Needs, SweepList
from ...core.ladders.finding import prunable
from ...core.model import Key, Limits, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outcomes import Operation
from ...core.view import Counts, DueLeg, Loaded
from .driver import BEGIN, Row, Script, Statement
from .rows import (
    hold_keys,
    hold_of,
    legs_of,
    operation_keys,
    operation_of,
    pool_keys,
    pool_of,
    record_keys,
    record_of,
)

IDLE_POOLS = 100
"""How many empty on-demand pools one sweep takes away."""


class Terms(NamedTuple):
    """On what terms a batch is loaded and written."""

    limits: Limits
    lanes: int
    slot: Slot | None
    """An injected clock's, or None: the server's, read after the locks."""
    patient: bool
    """Wait for what is locked."""
    lock_timeout: str | None = None
    """To be set first; None: the connection's own will do."""
    joined: bool = False
    """In a caller's own transaction: no error on contention, no numbers, and no pool is removed."""


def lock_timeout(limits: Limits) -> str:
    """How long the patient wait for a lock: milliseconds."""
    return str(max(1, limits.lock_timeout // 1000))


class Gathered(Struct):
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
    unnumbered: bool
    """Whether entries of callers' transactions wait for their numbers, in any lane."""


class Listed(NamedTuple):
    """What a sweep found to do, at a first look without locks."""

    holds: dict[Key, tuple[str, ...]]
    pools: list[Key]
    more: bool


NOTHING_LISTED = Listed({}, [], False)


def gather(needs: Needs, listed: Listed, terms: Terms) -> Script[Gathered]:
    """Begin, lock and load everything that `needs` names."""
    rows = Rows({}, {}, {}, {}, {})
    named = sorted({*needs.pools, *listed.pools})
    standing = sorted({*needs.standing, *listed.holds})
    holds = sorted({*needs.holds, *listed.holds})
    records = sorted(needs.records)
    operations = sorted(needs.operations)
    answers = yield tuple(_first(named, holds, standing, records, operations, terms))
    if terms.lock_timeout is not None:
        del answers[1]
    slot, floor, unnumbered, found = rows.take(answers, bool(records), bool(holds), bool(operations))
    touched = {*needs.pools, *rows.pools_of(needs.standing, terms.limits.retention, slot)}
    wanted = {*named, *touched, *rows.pools_of(listed.holds, terms.limits.retention, slot)}
    horizon = max([slot, *(pool.slot for pool in rows.pools.values())])
    if horizon > slot and len(rows.pools) > 1:
        yield from _load_later_due(rows, found, slot, horizon, terms)
    due = {pool: legs for pool, legs in found.items() if pool in touched}  # a sweep returns the legs of its holds alone
    locked_out = yield from _find_locked(wanted - rows.pools.keys(), set(records) - rows.records.keys(), terms)
    if due:
        locked_out |= yield from _load_due_holds(rows, due, terms)
        unnumbered = (
            True  # a caller who marked one of them expired may have committed since we looked: its entry goes first
        )
    counts = (yield from _count(terms)) if _bounded(terms.limits) else Counts()
    for pool in locked_out & rows.pools.keys():
        del rows.pools[pool]  # type: ignore[arg-type]  # a record's key is never among the pools'
    loaded = Loaded(slot, 1, rows.pools, rows.holds, rows.operations, rows.records, lookup(due), horizon, terms.limits,
                    floor, counts)  # fmt: skip
    return Gathered(loaded, _swept(listed, rows, terms), due, found, rows.stamps, locked_out, unnumbered)


def _first(
    named: list[Key],
    holds: list[Key],
    standing: list[Key],
    records: list[RecordKey],
    operations: list[Key],
    terms: Terms,
) -> list[Statement]:
    """Each its own statement: what is read behind a lock must be read by a later snapshot than the lock's own."""
    lanes, waiting = terms.lanes, "_waiting" if terms.patient else ""
    pools, of_holds = pool_keys(named, lanes), hold_keys(holds, lanes)
    clock = (terms.slot, terms.limits.max_due + 1)
    statements: list[Statement] = [BEGIN]
    if terms.lock_timeout is not None:
        statements.append(("set_patience", (terms.lock_timeout,)))
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
    ) -> tuple[Slot, int, bool, dict[Key, list[DueLeg]]]:
        """Take in the answers of the first round trip: the slot, the fence floor, whether entries wait for their numbers,
        and what is due on locked pools."""
        rest = iter(answers[1:])
        if records:
            for row in next(rest):
                self.records[row[0], row[1], row[2]] = record_of(row)
        for row in next(rest):
            key = (row[0], row[1])
            self.pools[key], self.stamps[key] = pool_of(row), row[9]
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
        return found[0][0], found[0][1] or 0, found[0][2], due

    def pools_of(self, keys: Iterable[Key], retention: Slot, slot: Slot) -> set[Key]:
        """The pools of these holds; one that may be pruned touches none, as in the core's own `touched`."""
        holds = [hold for key in keys if (hold := self.holds.get(key)) is not None]
        return {(hold.tenant, leg.pool) for hold in holds if not prunable(hold, retention, slot) for leg in hold.legs}


def _find_locked(pools: set[Key], records: set[RecordKey], terms: Terms) -> Script[set[Key | RecordKey]]:
    """Which of what was not locked is there all the same: somebody else has it, or it was born a moment ago."""
    if not pools and not records:
        return set()
    found, others = yield (("find_pools", pool_keys(sorted(pools), terms.lanes)),
                           ("find_records", record_keys(sorted(records), terms.lanes)))  # fmt: skip
    return {*((row[0], row[1]) for row in found), *((row[0], row[1], row[2]) for row in others)}


def _load_later_due(
    rows: Rows, found: dict[Key, list[DueLeg]], slot: Slot, horizon: Slot, terms: Terms
) -> Script[None]:
    """A command over several pools is decided at the latest of their slots: what comes due by then, beyond a pool's own."""
    (later,) = yield (("load_later_due", (*pool_keys(sorted(rows.pools), terms.lanes), slot, horizon)),)
    for tenant, pool, deadline, hold in sorted(later):
        found.setdefault((tenant, pool), []).append((deadline, hold))


def _load_due_holds(rows: Rows, due: dict[Key, list[DueLeg]], terms: Terms) -> Script[set[Key | RecordKey]]:
    """The holds behind due legs, locked: whoever has the other pools of one may be marking it expired right now.

    A pool with a due leg whose hold is locked by another is as good as locked itself.
    """
    behind = sorted({(pool[0], hold) for pool, legs in due.items() for _, hold in legs})
    name = "lock_due_holds_waiting" if terms.patient else "lock_due_holds"
    (found,) = yield ((name, hold_keys(behind, terms.lanes)),)
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


# Sweeping


def list_sweep(limit: int, terms: Terms, idle_pools: int = IDLE_POOLS) -> Script[Listed]:
    """The holds with due legs anywhere, as many as one transaction may return legs, and the empty on-demand pools."""
    holds, pools = yield (("find_sweep", (terms.slot, limit + 1)),
                          ("find_idle_pools", (0 if terms.joined else idle_pools,)))  # fmt: skip
    listed: dict[Key, tuple[str, ...]] = {}
    legs = 0
    for row in holds[:limit]:
        held = tuple(leg.pool for leg in legs_of(row[2]) if leg.held)
        legs += len(held)
        if listed and legs > terms.limits.max_due:
            break
        listed[row[0], row[1]] = held
    return Listed(listed, [(row[0], row[1]) for row in pools], len(holds) > len(listed))


def _swept(listed: Listed, rows: Rows, terms: Terms) -> SweepList:
    """What of it could be locked; a pool that somebody else has comes another time."""
    if listed is NOTHING_LISTED:
        return NOTHING_DUE
    holds = [
        key
        for key, pools in listed.holds.items()
        if key in rows.holds and all((key[0], pool) in rows.pools for pool in pools)
    ]
    pools = [] if terms.joined else [pool for pool in listed.pools if pool in rows.pools]
    return SweepList(holds, pools, listed.more or len(holds) < len(listed.holds))


# Bounded tables


def _bounded(limits: Limits) -> bool:
    return limits.max_pools is not None or limits.max_holds is not None or limits.max_operations is not None


def _count(terms: Terms) -> Script[Counts]:
    """How full the bounded tables are; each costs a scan, and others count at the same time: a bound here is not exact."""
    pools, holds, operations = yield (("count_pools", ()), ("count_live_holds", (terms.slot,)),
                                      ("count_operations", (terms.slot, terms.limits.retry_window)))  # fmt: skip
    return Counts(pools[0][0], holds[0][0], operations[0][0])


def left_out(pools: Iterable[Key], records: Collection[RecordKey], gathered: Gathered) -> Key | RecordKey | None:
    """The first of these that somebody else has locked."""
    for key in (*pools, *records):
        if key in gathered.locked_out:
            return key
    return None
