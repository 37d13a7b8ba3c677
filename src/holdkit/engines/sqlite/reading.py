"""Reads: one function per query, from committed state only.

Never shows a due leg as held, never writes, never waits for a writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, Final

import msgspec

from ...core.archived import CheckBaselines, FindArchived, FindKnownFiles, ReadBaseline, ReadRewritten
from ...core.model import Record, Slot
from ...core.pages import Page, page_of, record_bytes
from ...core.reading import (
    ROW_BYTES,
    CountAhead,
    CountEntries,
    CountRows,
    EntryCount,
    FindAvailable,
    FindEnds,
    FindEntries,
    FindHold,
    FindHolds,
    FindPool,
    FindPools,
    FindRecord,
    JournalRow,
    ListHolds,
    ListKinds,
    ListPools,
    ListRecords,
    ListTenants,
    ListUsage,
    NextDeadline,
    Query,
    ReadClock,
    ReadGeneration,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    RowCount,
    Survey,
    TakeSurvey,
    row_bytes,
)
from ...core.searching import FoundEntries, ListAccounts, ListEntities, ListLine, SearchJournal
from ..journal_search import Texts, find_touching, search_lanes, written
from .archived_reading import (
    archived_lane,
    baseline_entry,
    check_baselines,
    find_archived,
    find_known_files,
    read_baseline,
    read_rewritten,
)
from .hold_reading import count_ahead, find_hold, find_holds, list_accounts, list_entities, list_holds, list_line
from .pool_reading import (
    At,
    find_available,
    find_pool,
    find_pools,
    list_pools,
    list_usage,
    next_deadline,
)
from .rows import GENERATION


def answer(at: At, query: Query[Any]) -> Any:
    """Answer any query."""
    return _ANSWERS[type(query)](at, query)


def find_record(at: At, query: FindRecord) -> Record | None:
    """Return a record."""
    return next((Record(*row) for row in at.driver.ask("load_record", query.key)), None)


def list_records(at: At, query: ListRecords) -> Page[Record]:
    """Return a page of records of one kind."""
    rows = at.driver.each("read_records", (query.tenant, query.kind, query.after, query.limit))
    return page_of(starmap(Record, rows), record_bytes, query.limit, query.max_bytes)


def list_tenants(at: At, query: ListTenants) -> list[str]:
    """Return a page of tenants that have pools."""
    return [tenant for (tenant,) in at.driver.ask("read_tenants", (query.after, query.limit))]


def list_kinds(at: At, query: ListKinds) -> list[str]:
    """Return a page of kinds of records."""
    return [kind for (kind,) in at.driver.ask("read_kinds", (query.tenant, query.after, query.limit))]


def count_rows(at: At, query: CountRows) -> RowCount:
    """Count one step of a table."""
    after: tuple[str, ...] = (query.after,)
    if query.table == "records":
        after = msgspec.json.decode(query.after, type=tuple[str, str]) if query.after else ("", "")
    ((rows, size, last, live),) = at.driver.ask(f"measure_{query.table}", (query.tenant, *after, query.limit))
    return RowCount(rows, size + ROW_BYTES * rows, last if rows == query.limit else None, live)


def count_entries(at: At, query: CountEntries) -> EntryCount:
    """Count one step of the journal."""
    after = max(query.after.get(0, 0), archived_lane(at.driver).through)  # nothing is left of what is archived
    last = max([after, *(end.seq for end in find_ends(at, FindEnds()))])
    upto = min(after + query.limit, last)
    rows = at.driver.ask("measure_journal", (after, upto))
    found = {tenant: (count, size + ROW_BYTES * count) for tenant, count, size in rows}
    return EntryCount(found, {0: upto}, upto < last)


def read_journal(at: At, query: ReadJournal) -> Page[JournalRow]:
    """Return entries after a number of the one lane."""
    after = query.after.get(0, 0)
    if query.tenant is None:
        return _entries(at, query.limit, query.max_bytes, "read_journal", (after, query.limit))
    parameters = (query.tenant, after, query.limit)
    return _entries(at, query.limit, query.max_bytes, "read_journal_of_tenant", parameters)


def _entries(
    at: At, limit: int | None, max_bytes: int | None, name: str, parameters: Sequence[Any]
) -> Page[JournalRow]:
    """Return a page of entries. Fetches their rows one by one, so that those that do not fit are never in memory."""
    if max_bytes is None:
        rows = [JournalRow(*row) for row in at.driver.ask(name, parameters)]
        return Page(rows, more=len(rows) == limit)
    return page_of(starmap(JournalRow, at.driver.each(name, parameters)), row_bytes, limit, max_bytes)


def read_history(at: At, query: ReadHistory) -> Page[JournalRow]:
    """Return the entries about one subject."""
    after = query.after.get(0, 0)
    first = baseline_entry(at.driver, query.tenant, query.subject, after)
    most = -1 if query.limit is None else query.limit
    rows = _entries(at, query.limit, query.max_bytes, "read_history", (query.tenant, query.subject, after, most))
    return page_of([*first, *rows], row_bytes, query.limit, query.max_bytes) if first else rows


def read_pool_history(at: At, query: ReadPoolHistory) -> Page[JournalRow]:
    """Return entries that touched a pool."""
    name = written(query.pool)

    def look(after: int, upto: int) -> Page[JournalRow]:
        parameters = (after, upto, query.tenant, name, query.limit)
        return _entries(at, query.limit, query.max_bytes, "read_naming", parameters)

    after, last = query.after.get(0, 0), sum(end.seq for end in find_ends(at, FindEnds()))
    first = baseline_entry(at.driver, query.tenant, query.pool, after)
    after = max(after, archived_lane(at.driver).through)
    return find_touching(query, after, last, look, first)


def search_journal(at: At, query: SearchJournal) -> FoundEntries:
    """Find entries that fit, in either direction."""
    back = "_back" if query.newest_first else ""

    def look(_lane: int, above: int, upto: int, limit: int) -> Page[JournalRow]:
        name = f"search_entries{back}" if query.subject is None or query.tenant is None else f"search_subject{back}"
        parameters = {"above": above, "upto": upto, "tenant": query.tenant, "limit": limit}
        more = Texts.of(query)._asdict() if name.startswith("search_entries") else {"subject": query.subject}
        found = starmap(JournalRow, at.driver.each(name, {**parameters, **more}))
        return page_of(found, row_bytes, limit, query.max_bytes)

    first, last = at.driver.ask("read_first")[0][0], find_ends(at, FindEnds())
    return search_lanes(query, {0: (first, last[0].seq)} if last else {}, look)


def find_entries(at: At, query: FindEntries) -> list[JournalRow]:
    """Return single entries, by their positions."""
    seqs = [seq for lane, seq in sorted(query.positions) if lane == 0]
    return [JournalRow(*row) for seq in seqs for row in at.driver.ask("read_entry", (seq,))]


def find_ends(at: At, _: FindEnds) -> list[JournalRow]:
    """Return the last entry."""
    return [JournalRow(*row) for row in at.driver.ask("read_end")]


def read_clock(at: At, _query: ReadClock) -> Slot:
    """Return the machine's clock, or the injected one."""
    return at.now


def read_generation(at: At, _query: ReadGeneration) -> str:
    """Return the generation that the file stores."""
    rows = at.driver.ask("find_setting", (GENERATION,))
    return str(msgspec.json.decode(rows[0][0])) if rows else ""


def take_survey(at: At, _: TakeSurvey) -> Survey:
    """Measure how much there is."""
    (pools,), (live,) = at.driver.ask("count_pools")[0], at.driver.ask("count_live_holds", (at.now,))[0]
    ends, oldest = find_ends(at, FindEnds()), at.driver.ask("oldest_due", (at.now,))[0][0]
    latest = at.driver.ask("latest_slot")[0][0]
    entries = ends[0].seq - archived_lane(at.driver).through if ends else 0
    return Survey(pools, live, entries, oldest, at.now, latest)


_ANSWERS: Final[dict[type[Any], Callable[[At, Any], Any]]] = {
    FindPool: find_pool,
    FindPools: find_pools,
    FindAvailable: find_available,
    ListPools: list_pools,
    FindHold: find_hold,
    FindHolds: find_holds,
    ListHolds: list_holds,
    ListEntities: list_entities,
    ListAccounts: list_accounts,
    CountAhead: count_ahead,
    ListLine: list_line,
    NextDeadline: next_deadline,
    ListUsage: list_usage,
    FindRecord: find_record,
    ReadClock: read_clock,
    ReadGeneration: read_generation,
    ListRecords: list_records,
    ListTenants: list_tenants,
    ListKinds: list_kinds,
    CountRows: count_rows,
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
    TakeSurvey: take_survey,
}
