"""Archiving on PostgreSQL: lane by lane, entries leave the journal, and their result becomes rows of the baseline.

A step reads what it needs before its transaction, which only compares, writes and deletes. The transaction locks the lane's row of
`archived` and old entries, which no batch touches, so no batch waits for it. One connection does all of it and holds an advisory lock of
its session, so that there is one run at a time. Each transaction also checks that `through` has not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from ...core.baseline import (
    HOLD,
    ArchivedLane,
    KnownFile,
    RowKey,
    hold_may_leave,
)
from ...core.reading import JournalRow
from ..archive_pace import Pace
from ..archiving import (
    STEP,
    ArchivableLane,
    Step,
    archived_checksum,
    moved_meanwhile,
    row_checksum,
    step_of,
    step_without,
    under_way,
)
from .archive_reading import PostgresBaseline, archived_lanes, archived_of, nothing, paged_row
from .compact_entries import journal_row
from .connections import PipelineConnection
from .driver import BEGIN, COMMIT, ROLLBACK, Statement
from .rows import columns


class PostgresArchiver:
    """One run."""

    step = STEP

    def __init__(self, connection: PipelineConnection) -> None:
        self._connection = connection
        self.pace = Pace(self.step)

    def lanes(self) -> list[ArchivableLane]:
        """Return the state of every lane."""
        fetch = self._connection.fetch
        known = archived_lanes(self._connection)
        ((before,),) = fetch("first_referred")
        return [
            ArchivableLane(known.get(lane, nothing(lane)), seq - 1, before) for lane, seq in fetch("read_archivable")
        ]

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """Return the next entries of a lane."""
        rows = self._connection.fetch("read_journal", ([lane], [after], None, limit, None))
        return [journal_row(row) for row in rows]

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], first: int, file: KnownFile) -> ArchivedLane:
        """Fold and delete these entries."""
        step = step_of(archived, rows, first, file, PostgresBaseline(self._connection.fetch, archived.lane))
        self._write(archived, step)
        self.pace.blocked(0.0, len(rows))
        return step.archived

    def tidy(self, archived: ArchivedLane) -> None:
        """Page through the holds of the baseline; remove those that nothing needs."""
        after: RowKey | None = (HOLD, "", "", "")
        stored = PostgresBaseline(self._connection.fetch, archived.lane)
        while after is not None:
            self.pace.give_way()
            parameters = (archived.lane, HOLD, *after[1:], None, STEP)
            rows = [paged_row(row).row for row in self._connection.fetch("page_baseline", parameters)]
            leaving = [(row.tenant, row.id) for row in rows if hold_may_leave(row.body)]
            needed = stored.needed(leaving, archived.through) if leaving else ()
            gone = [key for key in leaving if key not in needed]
            if gone:
                step = step_without(archived, gone, stored)
                self._write(archived, step)
                archived = step.archived
            after = rows[-1].key if len(rows) == STEP else None

    def _write(self, before: ArchivedLane, step: Step) -> None:
        """Compare, write the baseline, delete the entries and advance the lane, in one transaction."""
        lane, after = before.lane, step.archived
        (_, rows) = self._connection.execute((BEGIN, ("lock_archived", (lane,))))
        if next(map(archived_of, rows), nothing(lane)) != before:
            self._connection.execute((ROLLBACK,))
            raise moved_meanwhile(lane)
        statements: list[Statement] = [("put_archived", (*structs.astuple(after), archived_checksum(after)))]
        if step.put:
            put = [(*key, body, row_checksum(lane, key, body)) for key, body in step.put]
            statements.append(("put_baseline", (lane, *columns(put, 6))))
        if step.remove:
            statements.append(("delete_baseline", (lane, *columns(step.remove, 4))))
        if after.through > before.through:
            statements.append(("delete_entries", (lane, before.through, after.through)))
        self._connection.execute((*statements, COMMIT))


@contextmanager
def archiver(connection: PipelineConnection, url: str) -> Iterator[PostgresArchiver]:
    """Take the lock of the one run that may archive, and yield that run. Raise if another run has the lock."""
    ((taken,),) = connection.fetch("take_archive")
    if not taken:
        raise under_way(url)
    try:
        yield PostgresArchiver(connection)
    finally:
        if connection.usable and not connection.busy:
            if connection.in_transaction:
                connection.execute((ROLLBACK,))
            connection.fetch("release_archive")
