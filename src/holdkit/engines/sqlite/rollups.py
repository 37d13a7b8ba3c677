"""Rows of statistics in the SQLite file: written in transactions of the writer, read on a connection of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import astuple

from ...core.model import Slot
from ..rollups import RollupPosition, RollupRow
from .driver import Script, Statement
from .readers import Readers
from .writer import Writer
from .writing import Written


class SqliteRollups:
    """The rows of one file."""

    def __init__(self, writer: Writer, readers: Readers, check: Callable[[], None]) -> None:
        self._writer, self._readers, self._check = writer, readers, check

    def load_position(self) -> RollupPosition:
        return next((RollupPosition(*row) for row in self._ask("load_rollup_position")), RollupPosition())

    def store(self, rows: Iterable[RollupRow], position: RollupPosition) -> bool:
        self._check()
        values = [astuple(row) for row in rows]
        return self._writer.run(lambda _: _store(values, position)).written > 0

    def load(self, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        return [RollupRow(*row) for row in self._ask("load_rollups", tenant, series, since, until, limit)]

    def load_interval(self, tenant: str, at: Slot) -> list[RollupRow]:
        return [RollupRow(*row) for row in self._ask("load_rollup_interval", tenant, at)]

    def prune(self, keep: int, limit: int) -> int:
        return self._delete(Statement("prune_rollups", (keep - 1, limit)))

    def drop(self, tenant: str) -> None:
        self._delete(Statement("drop_rollups", (tenant,)))

    def _ask(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        self._check()
        with self._readers.one() as driver:
            return driver.ask(name, values)

    def _delete(self, statement: Statement) -> int:
        self._check()
        return self._writer.run(lambda _: _delete(statement)).written


def _store(values: list[tuple[object, ...]], position: RollupPosition) -> Script[Written]:
    """Store rollups at a position. Run again after a commit in doubt that took place, it finds another version and reports that it lost:
    its writer then reads the position again."""
    [rows] = yield (Statement("load_rollup_position"),)
    stored = next((RollupPosition(*row) for row in rows), RollupPosition())
    if stored.version != position.version:
        return Written()
    yield (Statement("store_rollup_position", (position.version + 1, position.cursor)),)
    yield (Statement("store_rollups", values, many=True),)
    return Written(len(values) + 1)


def _delete(statement: Statement) -> Script[Written]:
    [deleted] = yield (statement,)
    return Written(len(deleted))
