"""Rows of statistics in PostgreSQL, in transactions of their own, which lock no pool. On one server only."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import astuple

from ...core.model import Slot
from ..rollups import RollupPosition, RollupRow
from .connections import PipelineConnection
from .driver import BEGIN, COMMIT, ROLLBACK, Statement
from .rows import columns
from .transactions import Transactions


class PostgresRollups:
    """The rows of one schema. A connection that is lost during COMMIT is tried again: a row is replaced by itself, and a position
    that has moved already is reported as lost, so that its writer reads it again."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def load_position(self) -> RollupPosition:
        """How far the journal is counted."""
        rows = self._transactions.read(lambda connection: connection.fetch("load_rollup_position"))
        return next((RollupPosition(*row) for row in rows), RollupPosition())

    def store(self, rows: Iterable[RollupRow], position: RollupPosition | None = None) -> bool:
        """Write these rows in one transaction, if the position has the version that was seen."""
        values = [astuple(row) for row in rows]
        stored: list[Statement] = [("store_rollups", columns(values, 6))] if values else []

        def work(connection: PipelineConnection) -> bool:
            if position is None:
                connection.execute((BEGIN, *stored, COMMIT))
                return True
            _, moved = connection.execute((BEGIN, _moved(position)))
            if not moved:
                connection.execute((ROLLBACK,))
                return False
            connection.execute((*stored, COMMIT))
            return True

        return self._transactions.read(work)

    def load(self, step: int, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        """The rows of one series in a time, by time."""
        asked = (step, tenant, series, since, until, limit)
        rows = self._transactions.read(lambda connection: connection.fetch("load_rollups", asked))
        return [RollupRow(*row) for row in rows]

    def load_last(self, step: int, tenant: str, series: str, before: Slot) -> RollupRow | None:
        """The last row of one series from the journal before some time."""
        asked = (step, tenant, series, before)
        rows = self._transactions.read(lambda connection: connection.fetch("load_last_rollup", asked))
        return next((RollupRow(*row) for row in rows), None)

    def prune(self, step: int, before: Slot, limit: int) -> int:
        """Delete rows that begin before some time, the oldest first."""
        asked = (step, before, limit)
        return len(self._transactions.read(lambda connection: connection.fetch("prune_rollups", asked)))

    def drop(self, tenant: str) -> None:
        """Delete all rows of a tenant."""
        self._transactions.read(lambda connection: connection.fetch("drop_rollups", (tenant,)))


def _moved(position: RollupPosition) -> Statement:
    if position.version:
        return ("move_rollup_position", (position.version, position.body))
    return ("insert_rollup_position", (position.body,))
