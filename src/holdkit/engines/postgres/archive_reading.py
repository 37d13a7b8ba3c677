"""What readers of an archived journal ask on PostgreSQL: how far each lane is archived, the rows of the baselines, and what is known of files.

Distributed tables are not archived: there every answer is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

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
    return {row[0]: ArchivedLane(*row[:6]) for row in rows}


def read_baseline(connection: PipelineConnection, query: ReadBaseline) -> Page[BaselineRow]:
    """A page of a lane's baseline. Whoever reads it compares `FindArchived` afterwards."""
    rows = stored_rows(connection, query.lane, query.tenant, query.after, query.limit)
    return Page([BaselineRow(*row[:6]) for row in rows])


def read_rewritten(connection: PipelineConnection, query: ReadRewritten) -> dict[int, str]:
    """Archived entries of a lane that an erasure has rewritten and whose files do not have them yet."""
    return {int(row[2]): row[4] for row in _rows_of_kind(connection, query.lane, ENTRY)}


def find_known_files(connection: PipelineConnection, query: FindKnownFiles) -> dict[int, KnownFile]:
    """What is known of the files of a lane."""
    rows = _rows_of_kind(connection, query.lane, FILE)
    return known_files((row[2], row[4]) for row in rows)


def _rows_of_kind(connection: PipelineConnection, lane: int, kind: str) -> list[Row]:
    """Rows of no tenant, by id."""
    found: list[Row] = []
    after = ""
    while rows := connection.fetch("page_baseline", (lane, kind, "", after, "", None, STEP)):
        found += rows
        after = rows[-1][2]
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
            found.update({(row[0], row[1], row[2], row[3]): StoredRow(row[4], row[5]) for row in rows})
        return found

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        """Those of these holds that are stored, or that a later entry tells of."""
        keys = columns(holds, 2)
        stored = self._fetch("find_stored_holds", (self._lane, *keys))
        return {(row[0], row[1]) for row in (*stored, *self._fetch("find_told_holds", (self._lane, *keys, behind)))}

    def measure(self) -> tuple[int, int]:
        """How many rows a total counts, and the sum of their checksums."""
        rows, checksums = self._fetch("measure_baseline", (self._lane,))[0]
        return rows, checksums


def stored_rows(
    connection: PipelineConnection,
    lane: int,
    tenant: str | None,
    after: RowKey | None,
    limit: int,
    kinds: Sequence[str] = KINDS,
) -> list[Row]:
    """Up to `limit` rows behind a key, kind by kind, with their checksums."""
    found: list[Row] = []
    for kind in kinds if after is None else kinds[kinds.index(after[0]) :]:
        behind = after[1:] if after is not None and kind == after[0] else (tenant or "", "", "")
        found += connection.fetch("page_baseline", (lane, kind, *behind, tenant, limit - len(found)))
        if len(found) >= limit:
            break
    return found


def baseline_rows(connection: PipelineConnection, lane: int) -> Iterator[tuple[BaselineRow, int]]:
    """Every row of a lane's baseline, with its checksum, in the order of `STORED_KINDS`."""
    after: RowKey | None = None
    while rows := stored_rows(connection, lane, None, after, STEP, STORED_KINDS):
        yield from ((BaselineRow(*row[:6]), row[6]) for row in rows)
        after = rows[-1][:4]


def baseline_entry(
    connection: PipelineConnection, archived: ArchivedLane, tenant: str, subject: str, after: int
) -> list[JournalRow]:
    """The row of a lane's baseline that stands for a subject's archived entries, if the reader has not seen them all."""
    if after >= archived.through:
        return []
    keys = columns(list(subject_keys(tenant, subject)), 4)
    for row in connection.fetch("load_baseline", (archived.lane, *keys)):
        text = encode_entry(entry_of_row(BaselineRow(*row[:5]), archived.slot))
        return [JournalRow(archived.through, text, archived.lane, archived.place)]
    return []


def check_archived(row: Row) -> Iterator[Difference]:
    """What is known about an archived lane matches its checksum."""
    expected = archived_checksum(ArchivedLane(*row[:6]))
    if row[6] != expected:
        yield Difference("archived", str(row[0]), "crc", str(row[6]), str(expected))


def check_baselines(connection: PipelineConnection, query: CheckBaselines) -> list[Difference]:
    """What is wrong with the baselines by themselves."""

    def each() -> Iterator[Difference]:
        for row in connection.fetch("read_archived"):
            yield from check_archived(row)
            yield from check_baseline(ArchivedLane(*row[:6]), baseline_rows(connection, row[0]))

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
