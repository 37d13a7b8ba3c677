"""The journal of an engine that keeps its tables in memory: what it must provide, and the queries about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, Final, Protocol, TypeAlias

from msgspec import structs

from ...core.archived import FindArchived, ReadBaseline, ReadRewritten
from ...core.audit import Numbered
from ...core.audit_rows import Difference, Folded
from ...core.baseline import ArchivedLane, BaselineRow
from ...core.model import Key
from ...core.pages import Page, page_of
from ...core.reading import (
    ROW_BYTES,
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

WhileFolded: TypeAlias = Callable[[Folded], Iterator[Numbered | Difference]]
"""Entries, and what is wrong with them, from a source that may look at what was folded so far."""

COUNTED: Final = 1_000
"""Entries that one step counts, because everybody waits meanwhile."""


class Journal(Protocol):
    """Where entries are kept and read from."""

    last_seq: int
    permanent: bool
    """Whether every entry is kept for good."""

    @property
    def first_seq(self) -> int:
        """The number of the first entry that is kept, or would be."""
        ...

    @property
    def archived(self) -> ArchivedLane | None:
        """How far it is archived, if it is."""
        ...

    @property
    def rewritten(self) -> Mapping[int, str]:
        """Archived entries that an erasure has rewritten and whose files do not have them yet."""
        ...

    def read_baseline(self, query: ReadBaseline, /) -> Page[BaselineRow]:
        """What stands for the archived entries."""
        ...

    def forget(self, holds: Iterable[Key], /) -> None:
        """Drop what is kept for these holds: they were removed from the tables."""
        ...

    def after(self, seq: int, tenant: str | None, /) -> Iterator[JournalRow]:
        """Entries after a sequence number, of one tenant or of all."""
        ...

    def about(self, tenant: str, subject: str, seq: int, /) -> Iterator[JournalRow]:
        """The entries about a subject after a sequence number."""
        ...

    def touching(self, tenant: str, pool: str, seq: int, /) -> Iterator[JournalRow]:
        """Entries after a sequence number that changed a pool."""
        ...

    def at(self, seq: int, /) -> JournalRow | None:
        """The entry with this sequence number, if there is one."""
        ...

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        ...

    def whole(self) -> Iterator[Numbered]:
        """Every entry, for `verify`."""
        ...


def count_entries(journal: Journal, query: CountEntries) -> EntryCount:
    """A step of counting the journal, if it keeps every entry."""
    found = dict[str, tuple[int, int]]()
    after = query.after.get(0, 0)
    if not journal.permanent:
        return EntryCount({}, {0: journal.last_seq}, False)
    limit = min(query.limit, COUNTED)  # everybody waits meanwhile
    rows = list(islice(journal.after(after, None), limit))
    for row in rows:
        tenant = entry_of(row).tenant
        count, size = found.get(tenant, (0, 0))
        found[tenant] = (count + 1, size + len(row.text.encode()) + ROW_BYTES)
    return EntryCount(found, {0: rows[-1].seq if rows else after}, len(rows) == limit)


def read_journal(journal: Journal, query: ReadJournal) -> Page[JournalRow]:
    """Entries after a sequence number; there is one lane."""
    rows = journal.after(query.after.get(0, 0), query.tenant)
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def read_history(journal: Journal, query: ReadHistory) -> Page[JournalRow]:
    """Entries about a subject."""
    rows = journal.about(query.tenant, query.subject, query.after.get(0, 0))
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def read_pool_history(journal: Journal, query: ReadPoolHistory) -> Page[JournalRow]:
    """Entries that changed a pool."""
    rows = journal.touching(query.tenant, query.pool, query.after.get(0, 0))
    return page_of(rows, row_bytes, query.limit, query.max_bytes)


def search_journal(journal: Journal, query: SearchJournal) -> FoundEntries:
    """Entries that fit, in either direction; few at a time, because everybody waits meanwhile."""
    query = structs.replace(query, max_scanned=min(query.max_scanned, COUNTED))

    def look(_lane: int, above: int, upto: int, limit: int) -> Page[JournalRow]:
        if query.subject is not None and query.tenant is not None:
            rows = journal.about(query.tenant, query.subject, above)
        else:
            rows = journal.after(above, query.tenant)
        found = [row for row in takewhile(lambda row: row.seq <= upto, rows) if fits_entry(entry_of(row), query)]
        return page_of(reversed(found) if query.newest_first else found, row_bytes, limit, query.max_bytes)

    return search_lanes(query, {0: (journal.first_seq, journal.last_seq)} if journal.last_seq else {}, look)


def find_entries(journal: Journal, query: FindEntries) -> list[JournalRow]:
    """Single entries, by their positions."""
    rows = [journal.at(seq) for lane, seq in sorted(query.positions) if lane == 0]
    return [row for row in rows if row is not None]


def find_ends(journal: Journal, _query: FindEnds) -> list[JournalRow]:
    """The last entry."""
    end = journal.end()
    return [] if end is None else [end]


def find_archived(journal: Journal, _query: FindArchived) -> list[ArchivedLane]:
    """How far the journal is archived."""
    return [] if journal.archived is None else [journal.archived]


def read_baseline(journal: Journal, query: ReadBaseline) -> Page[BaselineRow]:
    """What stands for the archived entries."""
    return journal.read_baseline(query)


def read_rewritten(journal: Journal, _query: ReadRewritten) -> dict[int, str]:
    """What archive files do not have yet."""
    return dict(journal.rewritten)


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
}
