"""The queries about the journal in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

from msgspec import structs

from ...core.archived import CheckBaselines, FindArchived, FindKnownFiles, ReadBaseline, ReadRewritten
from ...core.audit_rows import Difference
from ...core.baseline import ArchivedLane, BaselineRow, KnownFile
from ...core.pages import Page, page_of
from ...core.reading import (
    CountEntries,
    EntryCount,
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    entry_of,
    row_bytes,
)
from ...core.searching import FoundEntries, SearchJournal, fits_entry
from ..journal_search import search_lanes
from .journal import Journal

MAX_SCANNED: Final = 1_000
"""Entries that one step of a search looks at, because everybody waits meanwhile."""


def count_entries(journal: Journal, _query: CountEntries) -> EntryCount:
    """Count nothing: the oldest entries leave this journal by themselves."""
    return EntryCount({}, {0: journal.last_seq}, False)


def read_journal(journal: Journal, query: ReadJournal) -> Page[JournalRow]:
    """Return entries after a sequence number; there is one lane."""
    rows = journal.after(query.after.get(0, 0), query.tenant)
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def read_history(journal: Journal, query: ReadHistory) -> Page[JournalRow]:
    """Return entries about a subject."""
    rows = journal.about(query.tenant, query.subject, query.after.get(0, 0))
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def read_pool_history(journal: Journal, query: ReadPoolHistory) -> Page[JournalRow]:
    """Return entries that changed a pool."""
    rows = journal.touching(query.tenant, query.pool, query.after.get(0, 0))
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def search_journal(journal: Journal, query: SearchJournal) -> FoundEntries:
    """Find entries that fit, in either direction; few at a time, because every other call waits meanwhile."""
    query = structs.replace(query, max_scanned=min(query.max_scanned, MAX_SCANNED))

    def look(_lane: int, above: int, upto: int, limit: int) -> Page[JournalRow]:
        if query.subject is not None and query.tenant is not None:
            rows = journal.about(query.tenant, query.subject, above)
        else:
            rows = journal.after(above, query.tenant)
        found = [row for row in takewhile(lambda row: row.seq <= upto, rows) if fits_entry(entry_of(row), query)]
        return page_of(reversed(found) if query.newest_first else found, row_bytes, limit, query.max_bytes)

    return search_lanes(query, {0: (journal.first_seq, journal.last_seq)} if journal.last_seq else {}, look)


def find_entries(journal: Journal, query: FindEntries) -> list[JournalRow]:
    """Return single entries, by their positions."""
    rows = [journal.at(seq) for lane, seq in sorted(query.positions) if lane == 0]
    return [row for row in rows if row is not None]


def find_ends(journal: Journal, _query: FindEnds) -> list[JournalRow]:
    """Return the last entry."""
    end = journal.end()
    return [] if end is None else [end]


def find_archived(_journal: Journal, _query: FindArchived) -> list[ArchivedLane]:
    """Return none: no entry leaves this journal for an archive."""
    return []


def read_baseline(_journal: Journal, _query: ReadBaseline) -> Page[BaselineRow]:
    """Return none: no entry is archived."""
    return Page()


def read_rewritten(_journal: Journal, _query: ReadRewritten) -> dict[int, str]:
    """Return none: there are no archive files."""
    return {}


def find_known_files(_journal: Journal, _query: FindKnownFiles) -> dict[int, KnownFile]:
    """Return none: there are no archive files."""
    return {}


def check_baselines(_journal: Journal, _query: CheckBaselines) -> list[Difference]:
    """Return none: there is no archive."""
    return []


JOURNAL_ANSWERS: Final[dict[type[Query[Any]], Callable[[Journal, Any], Any]]] = {
    CountEntries: count_entries,
    ReadJournal: read_journal,
    ReadHistory: read_history,
    ReadPoolHistory: read_pool_history,
    SearchJournal: search_journal,
    FindEntries: find_entries,
    FindEnds: find_ends,
    FindArchived: find_archived,
    ReadBaseline: read_baseline,
    ReadRewritten: read_rewritten,
    FindKnownFiles: find_known_files,
    CheckBaselines: check_baselines,
}
