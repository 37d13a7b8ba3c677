"""Repair and import: rows are rebuilt from a journal, this file's own or another engine's, in one transaction of the writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from ...core.bounds import Limits
from ...core.command_kinds import Command
from ...core.import_ import Carried, check_room, chunks, needs_of, not_empty, take_in
from ...core.model import Slot
from ...core.repair import Repaired, RepairedRows, repair_rows, sort_out
from ...core.view import View
from ...errors import EngineError
from ..progress import Progress
from .audit import Audit, verify
from .driver import Driver, Row, Script, Statement
from .loading import gather
from .rows import new_generation, new_hold_row
from .writing import Written, entry_rows, leg_row, new_pool_row, record_row, rows_of, tally_row


class Repair:
    """One repair; `report` has its result."""

    def __init__(
        self, limits: Limits, now: Slot, command: Command, progress: Progress | None = None, *, dry_run: bool
    ) -> None:
        self._limits, self._now, self._command, self._dry_run = limits, now, command, dry_run
        self._progress = progress
        self.report = Repaired((), ())

    def script(self, driver: Driver) -> Script[Written]:
        """Verify under the write lock, and write what differs."""
        with closing(Audit(driver, self._limits, self._progress)) as audit:
            self.report = sort_out(audit.differences(self._now))
            last_seq = audit.folded.last_seq
            if not self.report.repaired:
                return Written()
            repaired = repair_rows(audit.mismatches, audit.folded, self._command)
        self.report = Repaired(self.report.repaired, self.report.left, tuple(repaired.entries))
        if self._dry_run:
            return Written()
        rows = entry_rows(repaired.entries, last_seq + 1)
        statements = repair_statements(repaired, rows)
        yield tuple(statements)
        return Written(len(statements), ("journal", rows[0]) if rows else None)


def repair_statements(repaired: RepairedRows, journal: list[Row]) -> list[Statement]:
    """Return what was repaired as statements: each row is removed and written as it should be."""
    statements: list[tuple[str, list[Row]]] = [
        ("delete_pools", [*repaired.pools]),
        ("insert_pools", [new_pool_row(pool) for pool in repaired.pools.values() if pool is not None]),
        ("delete_holds", [*repaired.holds]),
        (
            "insert_whole_holds",
            [new_hold_row(hold, int(hold.open)) for hold in repaired.holds.values() if hold is not None],
        ),
        ("delete_legs", [*repaired.legs]),
        ("put_whole_legs", [leg_row(key, leg) for key, leg in repaired.legs.items() if leg is not None]),
        ("delete_tallies", [*repaired.tallies]),
        ("put_tallies", [tally_row(key, tally) for key, tally in repaired.tallies.items() if tally is not None]),
        ("delete_records", [*repaired.records]),
        ("put_records", [record_row(record) for record in repaired.records.values() if record is not None]),
        ("delete_floor", [(tenant,) for tenant in repaired.fence_floors]),
        ("raise_floor", [(tenant, floor) for tenant, floor in repaired.fence_floors.items() if floor]),
        ("insert_journal", journal),
    ]
    return [Statement(name, rows, many=True) for name, rows in statements if rows]


class Import:
    """One import."""

    def __init__(self, carried: Iterable[Carried], limits: Limits, now: Slot, path: str, *, verify: bool) -> None:
        self._chunks: Iterator[list[Carried]] | None = chunks(carried)
        self._limits, self._now, self._path, self._verify = limits, now, path, verify

    def script(self, driver: Driver) -> Script[Written]:
        """Write everything; nothing is committed before all of it fits."""
        carried, self._chunks = self._chunks, None
        if carried is None:
            raise EngineError(f"cannot import into {self._path}: the commit failed; try again")
        ((last_seq, *_),), ((pools,),) = yield (Statement("load_head"), Statement("count_pools"))
        if last_seq is not None or pools:
            raise not_empty(self._path)
        yield (Statement("put_setting", [new_generation()], many=True),)
        committed_row: tuple[str, Row] | None = None
        written = 0
        for chunk in carried:
            loaded_batch = yield from gather(needs_of(chunk), 0, self._limits, importing=True)
            view = View(loaded_batch.loaded)
            take_in(view, chunk)
            rows = rows_of(view)
            yield tuple(rows.statements())
            committed_row = committed_row or rows.committed_row()
            written += len(view.entries)
        ((pools,),), ((live,),) = yield (Statement("count_pools"), Statement("count_live_holds", (self._now,)))
        check_room(self._limits, pools, live)
        if self._verify:
            for difference in verify(driver, self._limits, self._now):
                raise EngineError(f"cannot import into {self._path}: {difference}; export it again while nobody writes")
        return Written(written, committed_row)
