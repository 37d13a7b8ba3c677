"""Reads: one function per query, from committed state only.

Never shows a due leg as held, never writes, never waits for a writer. `ListHolds` walks holds in id order, except where
an index answers it: by entity, and by pool for those still held (through the outstanding legs).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap
from threading import Lock
from typing import Any, Final

import msgspec

from ...core.model import Record, Slot, State, StoredHold
from ...core.pages import Page, hold_bytes, page_of, record_bytes
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
from ...core.seen import seen_hold
from ...errors import EngineError
from ..whole_journal import find_touching, written
from .driver import Driver, Row
from .opening import connect, error_from_sqlite
from .pool_reading import (
    At,
    by_tenant,
    count_waiting_before,
    find_available,
    find_pool,
    find_pools,
    list_pools,
    list_usage,
    next_deadline,
)
from .rows import GENERATION, hold_of, record_of

KEPT = 8
"""Idle connections kept for the next read."""


class Readers:
    """A connection pool that grows with the number of concurrent reads, and keeps a few connections."""

    def __init__(self, path: str, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._idle: list[Driver] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[Driver]:
        """A connection for the duration of the block."""
        driver = self._take()
        try:
            yield driver
        except sqlite3.Error as error:
            self._drop(driver)
            raise error_from_sqlite(self._path, error) from error
        except BaseException:
            self._drop(driver)
            raise
        self._give(driver)

    def close(self) -> None:
        """Close the idle connections now, the others when their read is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for driver in idle:
            self._drop(driver)

    def _take(self) -> Driver:
        with self._lock:
            if self._closed:
                raise EngineError(f"{self._path} is closed")
            if self._idle:
                return self._idle.pop()
        connection = connect(self._path, self._seconds)
        driver = Driver(connection)
        try:
            driver.tell("pragma query_only = on")
        except sqlite3.Error as error:
            connection.close()
            raise error_from_sqlite(self._path, error) from error
        return driver

    def _give(self, driver: Driver) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT:
                self._idle.append(driver)
                return
        self._drop(driver)

    def _drop(self, driver: Driver) -> None:
        with suppress(sqlite3.Error):
            driver.connection.close()


def answer(at: At, query: Query[Any]) -> Any:
    """Answer any query."""
    return _ANSWERS[type(query)](at, query)


def _slot(row: Row, at: At) -> Slot:
    """The latest of the clock and the last slots of a hold's pools."""
    return max(at.now, row[23] or at.now, row[24] or at.now)


def _hold(row: Row, at: At) -> StoredHold | None:
    return seen_hold(hold_of(row), at.limits, _slot(row, at))


def find_hold(at: At, query: FindHold) -> StoredHold | None:
    """One hold as it looks now: at the latest of the clock and its pools' last slots."""
    rows = at.driver.ask("read_hold", query.key)
    return _hold(rows[0], at) if rows else None


def find_holds(at: At, query: FindHolds) -> list[StoredHold | None]:
    """Several holds, in the order asked."""
    rows = [row for some in by_tenant(query.keys) for row in at.driver.ask("read_holds_by_id", some)]
    found = {(row[0], row[1]): _hold(row, at) for row in rows}
    return [found.get(key) for key in query.keys]


def list_holds(at: At, query: ListHolds) -> Page[StoredHold]:
    """Holds by id, in the state they show now."""
    name = "read_holds"
    parameters: dict[str, Any] = {"tenant": query.tenant, "after": query.after}
    parameters["state"] = query.state and query.state.value
    if query.entity is not None:
        name, parameters = "read_holds_of_entity", {**parameters, "entity": query.entity}
    elif query.pool is not None and query.state in (State.HELD, State.WAITING):
        name = "read_holds_of_pool"
        parameters = {"tenant": query.tenant, "after": query.after, "pool": query.pool, "now": at.now}
    return page_of(_wanted(at.driver.each(name, parameters), query, at), hold_bytes, query.limit, query.max_bytes)


def _wanted(rows: Iterable[Row], query: ListHolds, at: At) -> Iterator[StoredHold]:
    for row in rows:
        hold = _hold(row, at)
        if hold is None or (query.state is not None and hold.state is not query.state):
            continue
        if query.pool is None or any(leg.pool == query.pool for leg in hold.legs):
            yield hold


def count_ahead(at: At, query: CountAhead) -> int | None:
    """How many wait in front of a hold; None if it does not wait."""
    rows = at.driver.ask("read_hold", query.key)
    hold = _hold(rows[0], at) if rows else None
    if hold is None or hold.state is not State.WAITING:
        return None
    return count_waiting_before(at, hold, _slot(rows[0], at), query.limit)


def find_record(at: At, query: FindRecord) -> Record | None:
    """One record."""
    rows = at.driver.ask("load_record", query.key)
    return record_of(rows[0]) if rows else None


def list_records(at: At, query: ListRecords) -> Page[Record]:
    """A page of records of one kind."""
    rows = at.driver.each("read_records", (query.tenant, query.kind, query.after, query.limit))
    return page_of(map(record_of, rows), record_bytes, query.limit, query.max_bytes)


def list_tenants(at: At, query: ListTenants) -> list[str]:
    """A page of tenants that have pools."""
    return [tenant for (tenant,) in at.driver.ask("read_tenants", (query.after, query.limit))]


def list_kinds(at: At, query: ListKinds) -> list[str]:
    """A page of kinds of records."""
    return [kind for (kind,) in at.driver.ask("read_kinds", (query.tenant, query.after, query.limit))]


def count_rows(at: At, query: CountRows) -> RowCount:
    """A step of counting one table."""
    after: tuple[str, ...] = (query.after,)
    if query.table == "records":
        after = msgspec.json.decode(query.after, type=tuple[str, str]) if query.after else ("", "")
    ((rows, size, last, live),) = at.driver.ask(f"measure_{query.table}", (query.tenant, *after, query.limit))
    return RowCount(rows, size + ROW_BYTES * rows, last if rows == query.limit else None, live)


def count_entries(at: At, query: CountEntries) -> EntryCount:
    """A step of counting the journal."""
    after = query.after.get(0, 0)
    last = max([after, *(end.seq for end in find_ends(at, FindEnds()))])
    upto = min(after + query.limit, last)
    rows = at.driver.ask("measure_journal", (after, upto))
    found = {tenant: (count, size + ROW_BYTES * count) for tenant, count, size in rows}
    return EntryCount(found, {0: upto}, upto < last)


def read_journal(at: At, query: ReadJournal) -> Page[JournalRow]:
    """Entries after a number of the one lane."""
    after = query.after.get(0, 0)
    if query.tenant is None:
        return _entries(at, query.limit, query.max_bytes, "read_journal", (after, query.limit))
    parameters = (query.tenant, after, query.limit)
    return _entries(at, query.limit, query.max_bytes, "read_journal_of_tenant", parameters)


def _entries(
    at: At, limit: int | None, max_bytes: int | None, name: str, parameters: Sequence[Any]
) -> Page[JournalRow]:
    """A page of entries. Their rows are fetched one by one: those that do not fit are never in memory."""
    if max_bytes is None:
        rows = [JournalRow(*row) for row in at.driver.ask(name, parameters)]
        return Page(rows, more=len(rows) == limit)
    return page_of(starmap(JournalRow, at.driver.each(name, parameters)), row_bytes, limit, max_bytes)


def read_history(at: At, query: ReadHistory) -> Page[JournalRow]:
    """The entries about one subject."""
    most = -1 if query.limit is None else query.limit
    parameters = (query.tenant, query.subject, query.after.get(0, 0), most)
    return _entries(at, query.limit, query.max_bytes, "read_history", parameters)


def read_pool_history(at: At, query: ReadPoolHistory) -> Page[JournalRow]:
    """Entries that touched a pool."""
    name = written(query.pool)

    def look(after: int, upto: int) -> Page[JournalRow]:
        parameters = (after, upto, query.tenant, name, query.limit)
        return _entries(at, query.limit, query.max_bytes, "read_naming", parameters)

    last = sum(end.seq for end in find_ends(at, FindEnds()))
    return find_touching(query, query.after.get(0, 0), last, look)


def find_entries(at: At, query: FindEntries) -> list[JournalRow]:
    """Single entries, by their positions."""
    seqs = [seq for lane, seq in sorted(query.positions) if lane == 0]
    return [JournalRow(*row) for seq in seqs for row in at.driver.ask("read_entry", (seq,))]


def find_ends(at: At, _: FindEnds) -> list[JournalRow]:
    """The last entry."""
    return [JournalRow(*row) for row in at.driver.ask("read_end")]


def read_clock(at: At, _query: ReadClock) -> Slot:
    """The machine's clock, or the injected one."""
    return at.now


def read_generation(at: At, _query: ReadGeneration) -> str:
    """The generation that the file stores."""
    rows = at.driver.ask("find_setting", (GENERATION,))
    return str(msgspec.json.decode(rows[0][0])) if rows else ""


def take_survey(at: At, _: TakeSurvey) -> Survey:
    """How much there is."""
    (pools,), (live,) = at.driver.ask("count_pools")[0], at.driver.ask("count_live_holds", (at.now,))[0]
    ends, oldest = find_ends(at, FindEnds()), at.driver.ask("oldest_due", (at.now,))[0][0]
    latest = at.driver.ask("latest_slot")[0][0]
    return Survey(pools, live, ends[0].seq if ends else 0, oldest, at.now, latest)


_ANSWERS: Final[dict[type[Any], Callable[[At, Any], Any]]] = {
    FindPool: find_pool,
    FindPools: find_pools,
    FindAvailable: find_available,
    ListPools: list_pools,
    FindHold: find_hold,
    FindHolds: find_holds,
    ListHolds: list_holds,
    CountAhead: count_ahead,
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
    FindEntries: find_entries,
    FindEnds: find_ends,
    TakeSurvey: take_survey,
}
