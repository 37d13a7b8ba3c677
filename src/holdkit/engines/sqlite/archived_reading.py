"""What readers of an archived journal ask: how far it is archived, and the rows of the baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from ...core.archived import CheckBaselines, FindArchived, FindKnownFiles, ReadBaseline, ReadRewritten
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
from ..archiving import StoredRow, archived_checksum
from ..baseline_check import STORED_KINDS, check_baseline
from .driver import Driver, Row
from .pool_reading import At
from .rows import keys_json

NOTHING = ArchivedLane(0, 0, 0, "", "")


def archived_lane(driver: Driver) -> ArchivedLane:
    """Return how far the journal is archived."""
    return next(lanes_of(driver.ask("read_archived")), NOTHING)


def lanes_of(rows: Iterable[Row]) -> Iterator[ArchivedLane]:
    """Return the lanes of rows of `read_archived`."""
    return (ArchivedLane(*columns) for *columns, _ in rows)


def find_archived(at: At, _: FindArchived) -> list[ArchivedLane]:
    """Return how far each lane is archived."""
    return list(lanes_of(at.driver.ask("read_archived")))


def read_baseline(at: At, query: ReadBaseline) -> Page[BaselineRow]:
    """Return a page of the baseline, kind by kind."""
    if archived_lane(at.driver).through != query.through:
        return Page()
    return Page(page_rows(at.driver, query.tenant, query.after, query.limit))


def read_rewritten(at: At, query: ReadRewritten) -> dict[int, str]:
    """Return archived entries that an erasure has rewritten and whose files do not have them yet."""
    return {int(row.id): row.body for row in _rows_of_kind(at.driver, query.lane, ENTRY)}


def find_known_files(at: At, query: FindKnownFiles) -> dict[int, KnownFile]:
    """Return what is known of the files of the archive."""
    rows = _rows_of_kind(at.driver, query.lane, FILE)
    return known_files((row.id, row.body) for row in rows)


def _rows_of_kind(driver: Driver, lane: int, kind: str) -> list[BaselineRow]:
    """Return rows without a tenant, by id; none of a lane that only a foreign file names."""
    rows: list[BaselineRow] = []
    after = ""
    while not lane and (
        page := driver.ask("page_baseline", {"kind": kind, "tenant": "", "id": after, "part": "", "limit": 1_000})
    ):
        rows += [BaselineRow(*columns) for *columns, _ in page]
        after = rows[-1].id
    return rows


def check_archived(driver: Driver) -> Iterator[Difference]:
    """Check what is known about the archive against its checksum."""
    for *columns, crc in driver.ask("read_archived"):
        archived = ArchivedLane(*columns)
        expected = archived_checksum(archived)
        if crc != expected:
            yield Difference("archived", str(archived.lane), "crc", str(crc), str(expected))


def check_baselines(at: At, query: CheckBaselines) -> list[Difference]:
    """Check the baseline by itself."""
    driver = at.driver
    driver.tell("begin")
    try:
        archived = archived_lane(driver)
        rows = check_baseline(archived, baseline_rows(driver)) if archived.through else ()
        return list(islice(chain(check_archived(driver), rows), query.limit))
    finally:
        driver.tell("rollback")


class SqliteBaseline:
    """Read the baseline of an SQLite file before changing it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def load(self, keys: Sequence[RowKey]) -> Mapping[RowKey, StoredRow]:
        rows = self._driver.ask("load_baseline", (keys_json(keys),))
        return {(kind, tenant, id, part): StoredRow(body, crc) for kind, tenant, id, part, body, crc in rows}

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        return set(self._driver.ask("find_needed", (keys_json(holds), behind)))

    def measure(self) -> tuple[int, int]:
        rows, checksums = self._driver.ask("measure_baseline")[0]
        return rows, checksums


def page_rows(driver: Driver, tenant: str | None, after: RowKey | None, limit: int) -> list[BaselineRow]:
    """Return up to `limit` rows behind a key."""
    return [row for row, _ in stored_rows(driver, tenant, after, limit)]


def stored_rows(
    driver: Driver, tenant: str | None, after: RowKey | None, limit: int, kinds: Sequence[str] = KINDS
) -> list[tuple[BaselineRow, int]]:
    """Return up to `limit` rows behind a key, each with its checksum."""
    rows: list[tuple[BaselineRow, int]] = []
    name = "page_baseline" if tenant is None else "page_baseline_of_tenant"
    for kind in kinds if after is None else kinds[kinds.index(after[0]) :]:
        behind = after[1:] if after is not None and kind == after[0] else (tenant or "", "", "")
        parameters = dict(zip(("tenant", "id", "part"), behind, strict=True), kind=kind, limit=limit - len(rows))
        rows += [(BaselineRow(*columns), crc) for *columns, crc in driver.ask(name, parameters)]
        if len(rows) >= limit:
            break
    return rows


def baseline_rows(driver: Driver) -> Iterator[tuple[BaselineRow, int]]:
    """Yield every row of the baseline, with its checksum, in the order of `STORED_KINDS`."""
    after: RowKey | None = None
    while rows := stored_rows(driver, None, after, 1_000, STORED_KINDS):
        yield from rows
        last, _ = rows[-1]
        after = last.key


def baseline_entry(driver: Driver, tenant: str, subject: str, after: int) -> list[JournalRow]:
    """Return the row of the baseline that stands for a subject's archived entries, if the reader has not seen them all."""
    archived = archived_lane(driver)
    if after >= archived.through:
        return []
    for key in subject_keys(tenant, subject):
        for row in driver.ask("find_baseline", key):
            text = encode_entry(entry_of_row(BaselineRow(*row), archived.slot))
            return [JournalRow(archived.through, text, 0, archived.place)]
    return []
