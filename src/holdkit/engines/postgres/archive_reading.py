"""Answers to the readers of an archived journal on PostgreSQL: where each lane's archive ends, the rows of the baselines, the known files.

Distributed tables are not archived: all answers for them are empty.
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
    """Return the state of a lane that has no archived entries."""
    return ArchivedLane(lane, 0, 0, "", "")


def archived_lanes(connection: PipelineConnection) -> dict[int, ArchivedLane]:
    """Return where the archive of each lane ends, by lane. Lanes without archived entries are missing."""
    return archived_by_lane(connection.fetch("read_archived"))


def archived_by_lane(rows: Iterable[Row]) -> dict[int, ArchivedLane]:
    """Return the rows of `read_archived` by lane."""
    return {archived.lane: archived for archived in map(archived_of, rows)}


def archived_of(row: Row) -> ArchivedLane:
    """Return the state of an archived lane; ignore a checksum behind its columns."""
    return ArchivedLane(*row[: len(structs.fields(ArchivedLane))])


def read_baseline(connection: PipelineConnection, query: ReadBaseline) -> Page[BaselineRow]:
    """Return a page of a lane's baseline. The caller compares `FindArchived` afterwards, because the baseline may change meanwhile."""
    rows = stored_rows(connection, query.lane, query.tenant, query.after, query.limit)
    return Page([row.row for row in rows])


def read_rewritten(connection: PipelineConnection, query: ReadRewritten) -> dict[int, str]:
    """Return the archived entries of a lane that an erasure has rewritten and whose files do not have them yet."""
    return {int(row.id): row.body for row in _rows_of_kind(connection, query.lane, ENTRY)}


def find_known_files(connection: PipelineConnection, query: FindKnownFiles) -> dict[int, KnownFile]:
    """Return the known files of a lane."""
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
    """Return all rows of this kind that belong to no tenant, by id."""
    found: list[BaselineRow] = []
    after = ""
    while page := connection.fetch("page_baseline", (lane, kind, "", after, "", None, STEP)):
        found += [paged_row(row).row for row in page]
        after = found[-1].id
    return found


class PostgresBaseline:
    """A lane's baseline, for a caller that is about to change it."""

    def __init__(self, fetch: Callable[[str, Sequence[Any]], list[Row]], lane: int) -> None:
        self._fetch, self._lane = fetch, lane

    def load(self, keys: Sequence[RowKey]) -> Mapping[RowKey, StoredRow]:
        """Return the rows that exist among these."""
        found: dict[RowKey, StoredRow] = {}
        for start in range(0, len(keys), LOADED):
            rows = self._fetch("load_baseline", (self._lane, *columns(keys[start : start + LOADED], 4)))
            found.update({(kind, tenant, id, part): StoredRow(body, crc) for kind, tenant, id, part, body, crc in rows})
        return found

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        """Return which of these holds are stored, or mentioned by a later entry."""
        keys = columns(holds, 2)
        stored = self._fetch("find_stored_holds", (self._lane, *keys))
        return {(tenant, id) for tenant, id in (*stored, *self._fetch("find_told_holds", (self._lane, *keys, behind)))}

    def measure(self) -> tuple[int, int]:
        """Return the number of rows that a total counts, and the sum of their checksums."""
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
    """Yield every row of a lane's baseline with its checksum, in the order of `STORED_KINDS`."""
    after: RowKey | None = None
    while rows := stored_rows(connection, lane, None, after, STEP, kinds=STORED_KINDS):
        yield from rows
        after = rows[-1].row.key


def baseline_entry(
    connection: PipelineConnection, archived: ArchivedLane, tenant: str, subject: str, after: int
) -> list[JournalRow]:
    """Return the baseline row that stands for a subject's archived entries, unless the reader has seen all of them."""
    if after >= archived.through:
        return []
    keys = columns(list(subject_keys(tenant, subject)), 4)
    for row in connection.fetch("load_baseline", (archived.lane, *keys)):
        *of_baseline, _ = row
        text = encode_entry(entry_of_row(BaselineRow(*of_baseline), archived.slot))
        return [JournalRow(archived.through, text, archived.lane, archived.place)]
    return []


def check_archived(row: Row) -> Iterator[Difference]:
    """Yield a difference if the state of an archived lane does not match its checksum."""
    archived, (*_, crc, _) = archived_of(row), row
    expected = archived_checksum(archived)
    if crc != expected:
        yield Difference("archived", str(archived.lane), "crc", str(crc), str(expected))


def check_baselines(connection: PipelineConnection, query: CheckBaselines) -> list[Difference]:
    """Return the differences that the baselines show without the journal."""

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
"""By query: the function that answers it, and the one that makes the empty answer of distributed tables."""
