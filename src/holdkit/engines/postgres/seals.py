"""Seals on PostgreSQL: rows of a table of their own, in the lane of the entries that they cover."""

from __future__ import annotations

from ...core.reading import JournalRow
from ...core.seals import Seal, seal_of, seal_row
from .compact_entries import journal_row
from .connections import PipelineConnection
from .database import Database
from .driver import BEGIN, COMMIT
from .journal_reading import Reader
from .transactions import Transactions


class PostgresSeals:
    """The seals of one schema."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database, self._transactions = database, transactions

    def last_seals(self) -> dict[int, Seal]:
        """The last seal of each lane."""
        rows = self._transactions.read(lambda connection: connection.fetch("last_seals"))
        return {row[0]: seal_of(row) for row in rows}

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """Seals behind a number."""
        rows = self._transactions.read(lambda connection: connection.fetch("read_seals", (lane, after, limit)))
        return [seal_of(row) for row in rows]

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """Entries behind a number."""
        options = self._database.options(wait_for_locks=True)

        def work(connection: PipelineConnection) -> list[JournalRow]:
            rows = Reader(connection, options).fetch("read_journal", ([lane], [after], None, limit, None))
            return [journal_row(row) for row in rows]

        return self._transactions.read(work)

    def add_seal(self, seal: Seal) -> bool:
        """Store a seal, unless there is one that begins with the same entry. It may be sent twice, if the answer is lost: the second
        time it finds itself."""

        def work(connection: PipelineConnection) -> bool:
            connection.execute((BEGIN, ("add_seal", seal_row(seal)), COMMIT))
            rows = connection.fetch("read_seals", (seal.lane, seal.first - 1, 1))
            return bool(rows) and seal_of(rows[0]).digest == seal.digest

        return self._transactions.read(work)
