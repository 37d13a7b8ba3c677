"""What readers of an archived journal ask on PostgreSQL: how far each lane is archived, the rows of the baselines, and what is known of files.

Distributed tables are not archived: there every answer is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec import structs

from ...core.archived import CheckBaselines, FindKnownFiles, ReadBaseline, ReadRewritten
from ...core.audit_rows import Difference
from ...core.baseline import (
    ENTRY,
    FILE,
    KINDS,
    ArchivedLane,
    BaselineRow,
    KnownFile,
    RowKey,
    entry_of_row,
    known_files,
    subject_keys,
)
from ...core.codec import encode_entry
from ...core.model import Key
from ...core.pages import Page
from ...core.reading import JournalRow
from ..archiving import STEP, StoredRow, archived_checksum
from ..baseline_check import STORED_KINDS, check_baseline
from .connections import PipelineConnection
from .driver import ROLLBACK, Row
from .rows import columns

LOADED: Final = 1_000
"""Rows that one statement loads by their keys."""


def nothing(lane: int) -> ArchivedLane:
    """A lane of which nothing was archived."""
    return ArchivedLane(lane, 0, 0, "", "")


def archived_lanes(connection: PipelineConnection) -> dict[int, ArchivedLane]:
    """How far each lane is archived; lanes of which nothing was are missing."""
    return archived_by_lane(connection.fetch("read_archived"))


def archived_by_lane(rows: Iterable[Row]) -> dict[int, ArchivedLane]:
    """The rows of `read_archived` by their lanes."""
    return {archived.lane: archived for archived in map(archived_of, rows)}


def archived_of(row: Row) -> ArchivedLane:
    """Return what is known about an archived lane; the row may have its checksum behind that."""
    return ArchivedLane(*row[: len(structs.fields(ArchivedLane))])


def read_baseline(connection: PipelineConnection, query: ReadBaseline) -> Page[BaselineRow]:
    """A page of a lane's baseline. Whoever reads it compares `FindArchived` afterwards."""
    rows = stored_rows(connection, query.lane, query.tenant, query.after, query.limit)
    return Page([row.row for row in rows])


def read_rewritten(connection: PipelineConnection, query: ReadRewritten) -> dict[int, str]:
    """Archived entries of a lane that an erasure has rewritten and whose files do not have them yet."""
    return {int(row.id): row.body for row in _rows_of_kind(connection, query.lane, ENTRY)}


def find_known_files(connection: PipelineConnection, query: FindKnownFiles) -> dict[int, KnownFile]:
    """What is known of the files of a lane."""
    rows = _rows_of_kind(connection, query.lane, FILE)
    return known_files((row.id, row.body) for row in rows)


class PagedRow(NamedTuple):
    """A row of `page_baseline`."""

    row: BaselineRow
    crc: int


def paged_row(row: Row) -> PagedRow:
    """Return a row of `page_baseline`."""
    *of_baseline, crc = row
    return PagedRow(BaselineRow(*of_baseline), crc)


def _rows_of_kind(connection: PipelineConnection, lane: int, kind: str) -> list[BaselineRow]:
    """Return the rows of no tenant, by id."""
    found: list[BaselineRow] = []
    after = ""
    while page := connection.fetch("page_baseline", (lane, kind, "", after, "", None, STEP)):
        found += [paged_row(row).row for row in page]
        after = found[-1].id
    return found


class PostgresBaseline:
    """A lane's baseline, for whoever is about to change it."""

    def __init__(self, fetch: Callable[[str, Sequence[Any]], list[Row]], lane: int) -> None:
        self._fetch, self._lane = fetch, lane

    def load(self, keys: Sequence[RowKey]) -> Mapping[RowKey, StoredRow]:
        """Those of these rows that are there."""
        found: dict[RowKey, StoredRow] = {}
        for start in range(0, len(keys), LOADED):
            rows = self._fetch("load_baseline", (self._lane, *columns(keys[start : start + LOADED], 4)))
            found.update({(kind, tenant, id, part): StoredRow(body, crc) for kind, tenant, id, part, body, crc in rows})
        return found

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        """Those of these holds that are stored, or that a later entry tells of."""
        keys = columns(holds, 2)
        stored = self._fetch("find_stored_holds", (self._lane, *keys))
        return {(tenant, id) for tenant, id in (*stored, *self._fetch("find_told_holds", (self._lane, *keys, behind)))}

    def measure(self) -> tuple[int, int]:
        """How many rows a total counts, and the sum of their checksums."""
        ((count, checksums),) = self._fetch("measure_baseline", (self._lane,))
        return count, checksums


def stored_rows(
    connection: PipelineConnection,
    lane: int,
    tenant: str | None,
    after: RowKey | None,
    limit: int,
    kinds: Sequence[str] = KINDS,
) -> list[PagedRow]:
    """Return up to `limit` rows behind a key, kind by kind, with their checksums."""
    found: list[PagedRow] = []
    for kind in kinds if after is None else kinds[kinds.index(after[0]) :]:
        behind = after[1:] if after is not None and kind == after[0] else (tenant or "", "", "")
        found += map(paged_row, connection.fetch("page_baseline", (lane, kind, *behind, tenant, limit - len(found))))
        if len(found) >= limit:
            break
    return found


def baseline_rows(connection: PipelineConnection, lane: int) -> Iterator[tuple[BaselineRow, int]]:
    """Every row of a lane's baseline, with its checksum, in the order of `STORED_KINDS`."""
    after: RowKey | None = None
    while rows := stored_rows(connection, lane, None, after, STEP, kinds=STORED_KINDS):
        yield from rows
        after = rows[-1].row.key


def baseline_entry(
    connection: PipelineConnection, archived: ArchivedLane, tenant: str, subject: str, after: int
) -> list[JournalRow]:
    """The row of a lane's baseline that stands for a subject's archived entries, if the reader has not seen them all."""
    if after >= archived.through:
        return []
    keys = columns(list(subject_keys(tenant, subject)), 4)
    for row in connection.fetch("load_baseline", (archived.lane, *keys)):
        *of_baseline, _ = row
        text = encode_entry(entry_of_row(BaselineRow(*of_baseline), archived.slot))
        return [JournalRow(archived.through, text, archived.lane, archived.place)]
    return []


def check_archived(row: Row) -> Iterator[Difference]:
    """What is known about an archived lane matches its checksum."""
    archived, (*_, crc, _) = archived_of(row), row
    expected = archived_checksum(archived)
    if crc != expected:
        yield Difference("archived", str(archived.lane), "crc", str(crc), str(expected))


def check_baselines(connection: PipelineConnection, query: CheckBaselines) -> list[Difference]:
    """What is wrong with the baselines by themselves."""

    def each() -> Iterator[Difference]:
        for row in connection.fetch("read_archived"):
            yield from check_archived(row)
            archived = archived_of(row)
            yield from check_baseline(archived, baseline_rows(connection, archived.lane))

    connection.execute((("begin_snapshot", ()), ("disable_timeouts", ())))
    try:
        return list(islice(each(), query.limit))
    finally:
        if connection.usable and not connection.busy:
            connection.execute((ROLLBACK,))


ARCHIVE_ANSWERS: Final[Mapping[type[Any], tuple[Callable[[PipelineConnection, Any], Any], Callable[[], Any]]]] = {
    ReadBaseline: (read_baseline, Page),
    ReadRewritten: (read_rewritten, dict),
    FindKnownFiles: (find_known_files, dict),
    CheckBaselines: (check_baselines, list),
}
"""By query: its answer, and the one of distributed tables."""
