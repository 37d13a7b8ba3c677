"""Archiving on PostgreSQL: lane by lane, entries leave the journal, and what they have led to becomes rows of the baseline.

What a step needs is read before its transaction, which only compares, writes and deletes. It locks the lane's row of `archived` and old
entries, which nobody else touches: so no batch waits for it. One connection does all of it, and holds an advisory lock of its session, so
that there is one run at a time; each transaction also checks that `through` is what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import structs

from ...core.archived import ReadBaseline, ReadRewritten
from ...core.baseline import (
    ENTRY,
    HOLD,
    KINDS,
    ArchivedLane,
    BaselineRow,
    RowKey,
    entry_of_row,
    hold_may_leave,
    subject_keys,
)
from ...core.codec import encode_entry
from ...core.model import Key
from ...core.pages import Page
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
    under_way,
)
from .compact_entries import journal_row
from .connections import PipelineConnection
from .driver import BEGIN, COMMIT, ROLLBACK, Row, Statement
from .rows import columns


class PostgresArchiver:
    """One run."""

    step = STEP

    def __init__(self, connection: PipelineConnection) -> None:
        self._connection = connection
        self.pace = Pace(self.step)

    def lanes(self) -> list[ArchivableLane]:
        """Every lane."""
        fetch = self._connection.fetch
        known = archived_lanes(self._connection)
        before = fetch("first_referred")[0][0]
        return [
            ArchivableLane(known.get(lane, nothing(lane)), seq - 1, before) for lane, seq in fetch("read_archivable")
        ]

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """The next entries of a lane."""
        rows = self._connection.fetch("read_journal", ([lane], [after], None, limit, None))
        return [journal_row(row[:-1]) for row in rows]  # the last column says whether commits wait

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], place: str) -> ArchivedLane:
        """Fold and delete these entries."""
        lane, fetch = archived.lane, self._connection.fetch

        def load(keys: Sequence[RowKey]) -> Mapping[RowKey, str]:
            found = fetch("load_baseline", (lane, *columns(keys, 4))) if keys else []
            return {(row[0], row[1], row[2], row[3]): row[4] for row in found}

        step = step_of(archived, rows, place, load, lambda holds, behind: self._needed(lane, holds, behind))
        self._write(archived, step)
        self.pace.blocked(0.0, len(rows))
        return step.archived

    def _needed(self, lane: int, holds: Sequence[Key], behind: int) -> Collection[Key]:
        """Those of these holds that are stored, or that a later entry tells of."""
        keys, fetch = columns(holds, 2), self._connection.fetch
        stored = fetch("find_stored_holds", (lane, *keys))
        return {(row[0], row[1]) for row in (*stored, *fetch("find_told_holds", (lane, *keys, behind)))}

    def tidy(self, archived: ArchivedLane) -> None:
        """Page through the holds of the baseline; remove those that nothing needs."""
        after: RowKey | None = (HOLD, "", "", "")
        while after is not None:
            self.pace.give_way()
            parameters = (archived.lane, HOLD, *after[1:], None, STEP)
            rows = self._connection.fetch("page_baseline", parameters)
            leaving = [(row[1], row[2]) for row in rows if hold_may_leave(row[4])]
            needed = self._needed(archived.lane, leaving, archived.through) if leaving else ()
            gone: list[RowKey] = [(HOLD, *key, "") for key in leaving if key not in needed]
            if gone:
                changed = structs.replace(archived, edition=archived.edition + 1)
                self._write(archived, Step(changed, [], gone))
                archived = changed
            after = rows[-1][:4] if len(rows) == STEP else None

    def _write(self, before: ArchivedLane, step: Step) -> None:
        """One transaction: compare, write the baseline, delete the entries, move on."""
        lane, after = before.lane, step.archived
        (_, found) = self._connection.execute((BEGIN, ("lock_archived", (lane,))))
        if (ArchivedLane(*found[0]) if found else nothing(lane)) != before:
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
    """A run on this connection."""
    if not connection.fetch("take_archive")[0][0]:
        raise under_way(url)
    try:
        yield PostgresArchiver(connection)
    finally:
        if connection.usable and not connection.busy:
            if connection.in_transaction:
                connection.execute((ROLLBACK,))
            connection.fetch("release_archive")


# What readers ask


def nothing(lane: int) -> ArchivedLane:
    """A lane of which nothing was archived."""
    return ArchivedLane(lane, 0, 0, "", "")


def archived_lanes(connection: PipelineConnection) -> dict[int, ArchivedLane]:
    """How far each lane is archived; lanes of which nothing was are missing."""
    return archived_by_lane(connection.fetch("read_archived"))


def archived_by_lane(rows: Iterable[Row]) -> dict[int, ArchivedLane]:
    """The rows of `read_archived` by their lanes."""
    return {row[0]: ArchivedLane(*row[:6]) for row in rows}


def read_baseline(connection: PipelineConnection, query: ReadBaseline) -> Page[BaselineRow]:
    """A page of a lane's baseline. Whoever reads it compares `FindArchived` afterwards."""
    rows = stored_rows(connection, query.lane, query.tenant, query.after, query.limit)
    return Page([BaselineRow(*row[:6]) for row in rows])


def read_rewritten(connection: PipelineConnection, query: ReadRewritten) -> dict[int, str]:
    """Archived entries of a lane that an erasure has rewritten and whose files do not have them yet."""
    found: dict[int, str] = {}
    after = ""
    while rows := connection.fetch("page_baseline", (query.lane, ENTRY, "", after, "", None, STEP)):
        found.update({int(row[2]): row[4] for row in rows})
        after = rows[-1][2]
    return found


def stored_rows(
    connection: PipelineConnection, lane: int, tenant: str | None, after: RowKey | None, limit: int
) -> list[Row]:
    """Up to `limit` rows behind a key, kind by kind, with their checksums."""
    found: list[Row] = []
    for kind in KINDS if after is None else KINDS[KINDS.index(after[0]) :]:
        behind = after[1:] if after is not None and kind == after[0] else (tenant or "", "", "")
        found += connection.fetch("page_baseline", (lane, kind, *behind, tenant, limit - len(found)))
        if len(found) >= limit:
            break
    return found


def baseline_entry(
    connection: PipelineConnection, archived: ArchivedLane, tenant: str, subject: str, after: int
) -> list[JournalRow]:
    """The row of a lane's baseline that stands for a subject's archived entries, if the reader has not seen them all."""
    if after >= archived.through:
        return []
    keys = columns(list(subject_keys(tenant, subject)), 4)
    for row in connection.fetch("load_baseline", (archived.lane, *keys)):
        text = encode_entry(entry_of_row(BaselineRow(*row), archived.slot))
        return [JournalRow(archived.through, text, archived.lane, archived.place)]
    return []
