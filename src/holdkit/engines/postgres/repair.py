"""Repair: rows are made again what the journal says, in one transaction, while every writer waits. On one server only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from ...core.commands import Command
from ...core.lanes import lane_of_pool
from ...core.model import Limits, Slot
from ...core.repair import Mended, Repaired, mend, sort_out
from ..metering import Progress
from .audit import Audit
from .batch_options import lock_timeout
from .driver import BEGIN, COMMIT, ROLLBACK, Driver, Row, Statement
from .parts import parts_of
from .rows import NEW, columns, new_hold_row, new_pool_row, record_row
from .writing import limits_version


def repair(
    driver: Driver,
    limits: Limits,
    lanes: int,
    now: Slot,
    command: Command,
    progress: Progress | None = None,
    *,
    dry_run: bool,
) -> Repaired:
    """Verify with every table locked against writers, and write what differs."""
    driver.say((BEGIN, ("mend_patience", (lock_timeout(limits),)), ("mend_lock", ())))
    finished = False
    try:
        with closing(Audit(driver, limits, lanes, progress)) as audit:
            report = sort_out(audit.differences(now))
            mended = mend(audit.mismatches, audit.folded, audit.stored.fence_floor, report.mended, command, 1)
        if report.mended:
            report = Repaired(report.mended, report.left, tuple(mended.entries))
            if not dry_run:
                stamp = driver.ask("mend_stamp")[0][0] + 1
                finished = True  # whatever comes of it, there is nothing left to roll back
                driver.say((*statements_of(mended, limits, lanes, stamp), COMMIT))
    finally:
        if not finished and driver.usable and not driver.busy:
            driver.say((ROLLBACK,))
    return report


def statements_of(mended: Mended, limits: Limits, lanes: int, stamp: int) -> list[Statement]:
    """Everything that was mended: a row goes, and comes back as it should be. The heads last, as ever."""
    pools = [new_pool_row(pool, lanes) for pool in mended.pools.values() if pool is not None]
    holds = [new_hold_row(hold, lanes) for hold in mended.holds.values() if hold is not None]
    legs = [(lane_of_pool(key[:2], lanes), *key, units) for key, units in mended.legs.items() if units]
    records = [record_row(record, lanes) for record in mended.records.values() if record is not None]
    statements: list[Statement] = [
        *_drop("drop_pools", [*mended.pools], 2),
        *_drop("drop_holds", [*mended.holds], 2),
        *_drop("drop_legs", [*mended.legs], 4),
        *_drop("drop_records", [*mended.records], 3),
        *([("insert_pools", (*columns(pools, NEW), stamp, len(pools), True))] if pools else []),
        *([("rescan_pools", (sorted({row[0] for row in pools}),))] if pools else []),
        *([("insert_holds", (*columns(holds, 24), len(holds), True))] if holds else []),
        *([("insert_legs", (*columns(legs, 6), len(legs), True))] if legs else []),
        *([("insert_records", (*columns(records, 7), len(records), True))] if records else []),
        *limits_version(mended.records),
        *([("mend_floor", (mended.fence_floor,))] if mended.fence_floor is not None else []),
    ]
    parts = parts_of(mended.entries, lanes)
    touched = sorted(parts.counts)
    if touched:
        statements.append(("lock_heads", (touched, lock_timeout(limits))))
        counts = [parts.counts[lane] for lane in touched]
        statements.append(("write_journal_behind", (touched, counts, *parts.columns)))
    return statements


def _drop(name: str, keys: Sequence[Row], width: int) -> list[Statement]:
    return [(name, columns(keys, width))] if keys else []
