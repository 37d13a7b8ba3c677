"""Rows of statistics in PostgreSQL, in transactions of their own, which lock no pool. On one server only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import astuple

from ...core.model import Slot
from ..rollups import RollupPosition, RollupRow
from .connections import PipelineConnection
from .driver import BEGIN, COMMIT, ROLLBACK
from .rows import columns
from .transactions import Transactions


class PostgresRollups:
    """The rows of one schema."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def load_position(self) -> RollupPosition:
        return next((RollupPosition(*row) for row in self._ask("load_rollup_position")), RollupPosition())

    def store(self, rows: Iterable[RollupRow], position: RollupPosition) -> bool:
        """Store rows and position. If the connection is lost during COMMIT, the attempt is repeated. If the transaction did commit, the
        repetition finds another version and returns False: the writer then reads the position again."""
        values = [astuple(row) for row in rows]
        named = (position.version, position.cursor)
        moved = ("move_rollup_position", named) if position.version else ("insert_rollup_position", named[1:])

        def work(connection: PipelineConnection) -> bool:
            _, versions = connection.execute((BEGIN, moved))
            if not versions:
                connection.execute((ROLLBACK,))
                return False
            connection.execute((("store_rollups", columns(values, 4)), COMMIT))
            return True

        return self._transactions.read(work)

    def load(self, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        return [RollupRow(*row) for row in self._ask("load_rollups", tenant, series, since, until, limit)]

    def load_interval(self, tenant: str, at: Slot) -> list[RollupRow]:
        return [RollupRow(*row) for row in self._ask("load_rollup_interval", tenant, at)]

    def prune(self, keep: int, limit: int) -> int:
        return len(self._ask("prune_rollups", keep - 1, limit))

    def drop(self, tenant: str) -> None:
        self._ask("drop_rollups", tenant)

    def _ask(self, name: str, *values: Any) -> list[Any]:
        return self._transactions.read(lambda connection: connection.fetch(name, values))
