"""Rows written again from a journal: our own (repair), or another engine's (import).

Both run in one transaction that locks every table against writers; readers continue. On one server only. They commit only after all rows
fit.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TypeVar

import msgspec

from ...core.bounds import Limits
from ...core.command_kinds import Command
from ...core.import_ import Carried, check_room, chunks, needs_of, not_empty, take_in
from ...core.lanes import lane_of_pool
from ...core.model import Slot
from ...core.repair import Repaired, RepairedRows, repair_rows, sort_out
from ...core.view import View
from ...errors import EngineError
from ..progress import Progress
from .audit import Audit
from .connections import PipelineConnection
from .database import BatchOptions, bounded, lock_timeout_ms
from .driver import BEGIN, COMMIT, ROLLBACK, Row, Script, Statement
from .journal_rows import journal_rows
from .loading import load_batch
from .rows import (
    LEG_COLUMNS,
    NEW_HOLD_COLUMNS,
    NEW_POOL_COLUMNS,
    columns,
    leg_values,
    new_hold_row,
    new_pool_row,
    record_row,
    tally_row,
)
from .sweeping import NO_CANDIDATES
from .writing import limits_version, write_back

T = TypeVar("T")


@contextmanager
def _tables_locked(connection: PipelineConnection, limits: Limits) -> Iterator[None]:
    """Open a transaction that locks every table against writers. Roll it back unless the block has ended it."""
    connection.execute((BEGIN, ("set_repair_timeouts", (lock_timeout_ms(limits),)), ("lock_tables", ())))
    try:
        yield
    finally:
        if connection.in_transaction and connection.usable and not connection.busy:
            connection.execute((ROLLBACK,))


def repair(
    connection: PipelineConnection,
    limits: Limits,
    lanes: int,
    now: Slot,
    command: Command,
    progress: Progress | None = None,
    *,
    dry_run: bool,
) -> Repaired:
    """Verify with every table locked, and write the rows that differ."""
    with _tables_locked(connection, limits):
        with closing(Audit(connection, limits, lanes, progress)) as audit:
            report = sort_out(audit.differences(now))
            repaired = repair_rows(audit.mismatches, audit.folded, command)
        if report.repaired:
            report = Repaired(report.repaired, report.left, tuple(repaired.entries))
            if not dry_run:
                ((stamp,),) = connection.fetch("latest_stamp")
                connection.execute((*repair_statements(repaired, limits, lanes, stamp + 1), COMMIT))
    return report


def repair_statements(repaired: RepairedRows, limits: Limits, lanes: int, stamp: int) -> list[Statement]:
    """Return the statements that delete every row that differs and insert it as it should be. The lane heads come last, as everywhere."""
    pools = [new_pool_row(pool, lanes) for pool in repaired.pools.values() if pool is not None]
    holds = [new_hold_row(hold, lanes) for hold in repaired.holds.values() if hold is not None]
    legs = [
        (lane_of_pool(key[:2], lanes), *key, *leg_values(leg)) for key, leg in repaired.legs.items() if leg is not None
    ]
    tallies = [tally_row(key, tally, lanes) for key, tally in repaired.tallies.items() if tally is not None]
    records = [record_row(record, lanes) for record in repaired.records.values() if record is not None]
    known = sorted((tenant, floor) for tenant, floor in repaired.fence_floors.items() if floor)
    floors = [(lane, *floor) for lane in range(lanes) for floor in known]
    statements: list[Statement] = [
        *_drop("drop_pools", [*repaired.pools], 2),
        *_drop("drop_holds", [*repaired.holds], 2),
        *_drop("drop_legs", [*repaired.legs], 4),
        *_drop("drop_tallies", [*repaired.tallies], 3),
        *_drop("drop_records", [*repaired.records], 3),
        *([("insert_pools", (*columns(pools, NEW_POOL_COLUMNS), stamp, len(pools), True))] if pools else []),
        *([("rescan_pools", (sorted({lane for lane, *_ in pools}),))] if pools else []),
        *([("insert_holds", (*columns(holds, NEW_HOLD_COLUMNS), len(holds), True))] if holds else []),
        *([("insert_legs", (*columns(legs, LEG_COLUMNS), len(legs), True))] if legs else []),
        *([("insert_tallies", (*columns(tallies, 6), len(tallies), True))] if tallies else []),
        *([("insert_records", (*columns(records, 7), len(records), True))] if records else []),
        *limits_version(repaired.records),
        *_drop("drop_floors", [(tenant,) for tenant in repaired.fence_floors], 1),
        *([("raise_floors", columns(floors, 3))] if floors else []),
    ]
    journal = journal_rows(repaired.entries, lanes)
    touched = sorted(journal.counts)
    if touched:
        statements.append(("lock_heads", (touched, lock_timeout_ms(limits))))
        counts = [journal.counts[lane] for lane in touched]
        statements.append(("write_journal_with_unnumbered", (touched, counts, *journal.columns)))
    return statements


def _drop(name: str, keys: Sequence[Row], width: int) -> list[Statement]:
    return [(name, columns(keys, width))] if keys else []


# Import


def import_journal(
    connection: PipelineConnection,
    carried: Iterable[Carried],
    limits: Limits,
    lanes: int,
    now: Slot,
    where: str,
    *,
    verify: bool,
) -> None:
    """Fold another engine's journal and write it as ours, chunk by chunk. Entries are divided by our lanes, not by those of the other
    engine."""
    options = BatchOptions(limits, lanes, 0, True, lock_timeout_ms(limits), bounded=bounded(limits))
    with _tables_locked(connection, limits):
        if any(used for row in connection.fetch("is_used") for used in row):
            raise not_empty(where)
        for chunk in chunks(carried):
            connection.run(_without_begin(_import_chunk(chunk, options)))
        connection.fetch("rescan_pools", (list(range(lanes)),))
        ((pools,),), ((holds,),) = connection.fetch("count_pools"), connection.fetch("count_live_holds", (now,))
        check_room(limits, pools, holds)
        if verify:
            with closing(Audit(connection, limits, lanes)) as audit:
                for difference in audit.differences(now):
                    raise EngineError(f"cannot import into {where}: {difference}; export it again while nobody writes")
        connection.fetch("renew_generation", (msgspec.json.encode(secrets.token_hex(8)).decode(),))
        connection.execute((COMMIT,))


def _import_chunk(chunk: Sequence[Carried], options: BatchOptions) -> Script[None]:
    batch_rows = yield from load_batch(needs_of(chunk), NO_CANDIDATES, options, None)
    view = View(batch_rows.loaded)
    take_in(view, chunk)
    statements, _ = write_back(view, batch_rows, options, random.getrandbits(62), strict=True)
    yield tuple(statements)


def _without_begin(script: Script[T]) -> Script[T]:
    """Run a script inside an open transaction, without its BEGIN."""
    try:
        statements = next(script)
        while True:
            rest = [one for one in statements if one != BEGIN]
            answers = iter((yield tuple(rest)) if rest else [])
            statements = script.send([[] if one == BEGIN else next(answers) for one in statements])
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()
