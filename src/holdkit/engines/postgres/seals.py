"""Seals on PostgreSQL: rows of a table of their own, in the lane of the entries that they cover."""

from __future__ import annotations

from ...core.reading import JournalRow
from ...core.seals import Seal, seal_of, seal_row
from .compact_entries import journal_row
from .connections import PipelineConnection
from .database import Database
from .driver import BEGIN, COMMIT, ROLLBACK, Statement
from .journal_reading import Reader
from .statements import with_lock_timeout
from .transactions import Transactions


class PostgresSeals:
    """The seals of one schema."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database, self._transactions = database, transactions

    def last_seals(self) -> dict[int, Seal]:
        rows = self._transactions.read(lambda connection: connection.fetch("last_seals"))
        return {seal.lane: seal for seal in map(seal_of, rows)}

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """Return seals behind a number."""
        rows = self._transactions.read(lambda connection: connection.fetch("read_seals", (lane, after, limit)))
        return [seal_of(row) for row in rows]

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """Return entries behind a number."""
        options = self._database.options(wait_for_locks=True)

        def work(connection: PipelineConnection) -> list[JournalRow]:
            rows = Reader(connection, options).fetch("read_journal", ([lane], [after], None, limit, None))
            return [journal_row(row) for row in rows]

        return self._transactions.read(work)

    def rewrites(self) -> int:
        """Return how often an erasure has rewritten entries."""
        ((rewrites,),) = self._transactions.read(lambda connection: connection.fetch("read_rewrites"))
        return int(rewrites)

    def add_seal(self, seal: Seal, rewrites: int) -> bool:
        """Store a seal. Return False if entries were rewritten meanwhile, or another seal begins with the same entry. While the setting is
        locked, no erasure rewrites entries. If the answer is lost, the seal is sent again, and the second attempt finds the first."""
        wait_ms = self._database.options(wait_for_locks=True).wait_ms

        def work(connection: PipelineConnection) -> bool:
            waits: tuple[Statement, ...] = (("set_lock_timeout", (wait_ms,)),)
            if self._database.distributed:
                waits = (("propagate_settings", ()), (with_lock_timeout(int(wait_ms))[0], ()))
            *_, ((stored_rewrites,),) = connection.execute((BEGIN, *waits, ("lock_rewrites", ())))
            if stored_rewrites != rewrites:
                connection.execute((ROLLBACK,))
                return False
            connection.execute((("add_seal", seal_row(seal)), COMMIT))
            rows = connection.fetch("read_seals", (seal.lane, seal.first - 1, 1))
            return any(stored.digest == seal.digest for stored in map(seal_of, rows))

        return self._transactions.read(work)
