"""Reads whose answer followers show: pages of the journal, and where each lane's archive ends.

A durable read is a plain one, unless commits wait for standbys; then it is proved, on connections of its own (`durable_reading`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from heapq import merge
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

from ...core.archived import FindArchived
from ...core.codec import decode_entry
from ...core.pages import page_of
from ...core.reading import JournalRow, Query, ReadJournal, row_bytes
from .archive_reading import archived_by_lane
from .compact_entries import journal_row
from .connections import PipelineConnection
from .database import Database
from .driver import Row, Statement
from .durable_reading import proof, proved
from .hold_reading import query_one
from .journal_reading import Reader, number
from .opening import DurabilityCheck
from .transactions import Transactions

T = TypeVar("T")

SHOWING: Final = 2
"""Connections for reads that followers are about to show, where commits wait for standbys."""
_LANE: Final = 2
"""The column of the lane, in the rows of entries."""


class Shown(NamedTuple):
    """The answer to a query."""

    answer: Any
    commit_waits: bool
    """Whether its rows say that commits wait for standbys: then only a durable answer may be shown."""


class ShownReads:
    """Answers these queries."""

    def __init__(self, database: Database, transactions: Transactions, durability: DurabilityCheck) -> None:
        self._database, self._transactions, self._durability = database, transactions, durability

    def read(self, query: Query[T], *, durable: bool) -> T:
        """Answer a query from committed state; if `durable`, from state that is as durable as what a command writes."""
        found = None
        if not (durable and self._durability.commit_waits):  # as last read; if that has changed, the rows say so
            found = self._transactions.read(partial(self._show, query, durable=False))
        if found is None or (durable and found.commit_waits):
            found = self._transactions.read_to_show(partial(self._show, query, durable=True))
        result: T = found.answer
        return result

    def _show(self, query: Query[Any], connection: PipelineConnection, *, durable: bool) -> Shown:
        self._database.keep_time(connection)
        reader = Reader(connection, self._database.options(wait_for_locks=True), durable)
        if isinstance(query, ReadJournal):
            return read_journal(reader, query)
        assert isinstance(query, FindArchived), f"nothing shows the answer to {type(query).__name__}"
        return find_archived(reader)


def _fetch(reader: Reader, name: str, parameters: Sequence[Any], lane: int) -> list[Row]:
    """Return the rows of a statement whose last column says whether commits wait for standbys. If they must be durable, prove them in the
    lanes of their column `lane`; an empty answer needs no proof."""
    script = reader.split(query_one(name, parameters))

    def proof_of(rows: list[Row]) -> Sequence[Statement]:
        return proof({row[lane] for row in rows} if reader.options.distributed else None) if rows else ()

    return reader.connection.run(proved(script, proof_of) if reader.durable else script)


def read_journal(reader: Reader, query: ReadJournal) -> Shown:
    """Return the entries after a position: in order within each lane, with the lanes merged by time."""
    number(reader)
    after, lanes = query.after, list(range(reader.lanes))
    if reader.options.distributed:  # only those with new entries
        lanes = [lane for lane, seq in reader.fetch("read_heads") if seq > after.get(lane, 0)]
    positions = [after.get(lane, 0) for lane in lanes]
    rows = _fetch(reader, "read_journal", (lanes, positions, query.tenant, query.limit, query.max_bytes), _LANE)
    page = page_of(_merged(rows), row_bytes, query.limit, query.max_bytes)
    return Shown(page, any(row[-1] for row in rows))


def _merged(rows: Iterable[Row]) -> list[JournalRow]:
    lanes = [[journal_row(row) for row in lane] for _, lane in groupby(rows, key=lambda row: row[_LANE])]
    if len(lanes) == 1:
        return lanes[0]
    return list(merge(*lanes, key=lambda row: decode_entry(row.text).slot))


def find_archived(reader: Reader) -> Shown:
    """Return where the archive of each lane ends; empty for distributed tables, which are not archived."""
    rows = [] if reader.options.distributed else _fetch(reader, "read_archived", (), 0)
    return Shown(list(archived_by_lane(rows).values()), any(row[-1] for row in rows))
