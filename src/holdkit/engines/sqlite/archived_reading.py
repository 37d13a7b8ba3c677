"""What readers of an archived journal ask: how far it is archived, and the rows of the baseline."""

from __future__ import annotations

from ...core.archived import FindArchived, ReadBaseline, ReadRewritten
from ...core.baseline import ENTRY, KINDS, ArchivedLane, BaselineRow, RowKey, entry_of_row, subject_keys
from ...core.codec import encode_entry
from ...core.pages import Page
from ...core.reading import JournalRow
from .driver import Driver, Row
from .pool_reading import At

NOTHING = ArchivedLane(0, 0, 0, "", "")


def archived_lane(driver: Driver) -> ArchivedLane:
    """How far the journal is archived."""
    rows = driver.ask("read_archived")
    return lane_of_row(rows[0]) if rows else NOTHING


def lane_of_row(row: Row) -> ArchivedLane:
    """A row of the table."""
    return ArchivedLane(*row[:6])


def find_archived(at: At, _: FindArchived) -> list[ArchivedLane]:
    """How far each lane is archived."""
    return [lane_of_row(row) for row in at.driver.ask("read_archived")]


def read_baseline(at: At, query: ReadBaseline) -> Page[BaselineRow]:
    """A page of the baseline, kind by kind."""
    if archived_lane(at.driver).through != query.through:
        return Page()
    return Page(page_rows(at.driver, query.tenant, query.after, query.limit))


def read_rewritten(at: At, _: ReadRewritten) -> dict[int, str]:
    """Archived entries that an erasure has rewritten and whose files do not have them yet."""
    found: dict[int, str] = {}
    after = ""
    while rows := at.driver.ask(
        "page_baseline", {"kind": ENTRY, "tenant": "", "id": after, "part": "", "limit": 1_000}
    ):
        found.update({int(row[2]): row[4] for row in rows})
        after = rows[-1][2]
    return found


def page_rows(driver: Driver, tenant: str | None, after: RowKey | None, limit: int) -> list[BaselineRow]:
    """Up to `limit` rows behind a key."""
    return [BaselineRow(*row[:6]) for row in stored_rows(driver, tenant, after, limit)]


def stored_rows(driver: Driver, tenant: str | None, after: RowKey | None, limit: int) -> list[Row]:
    """The same as they are stored, with their checksums."""
    found: list[Row] = []
    name = "page_baseline" if tenant is None else "page_baseline_of_tenant"
    for kind in KINDS if after is None else KINDS[KINDS.index(after[0]) :]:
        behind = after[1:] if after is not None and kind == after[0] else (tenant or "", "", "")
        parameters = dict(zip(("tenant", "id", "part"), behind, strict=True), kind=kind, limit=limit - len(found))
        found += driver.ask(name, parameters)
        if len(found) >= limit:
            break
    return found


def baseline_entry(driver: Driver, tenant: str, subject: str, after: int) -> list[JournalRow]:
    """The row of the baseline that stands for a subject's archived entries, if the reader has not seen them all."""
    archived = archived_lane(driver)
    if after >= archived.through:
        return []
    for key in subject_keys(tenant, subject):
        for row in driver.ask("find_baseline", key):
            text = encode_entry(entry_of_row(BaselineRow(*row), archived.slot))
            return [JournalRow(archived.through, text, 0, archived.place)]
    return []
