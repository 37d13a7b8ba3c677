"""Rows of statistics in the SQLite file: written in transactions of the writer, read on a connection of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
        """How far the journal is counted."""
        self._check()
        with self._readers.one() as driver:
            rows = driver.ask("load_rollup_position")
        return RollupPosition(*rows[0]) if rows else RollupPosition()

    def store(self, rows: Iterable[RollupRow], position: RollupPosition | None = None) -> bool:
        """Write these rows in one transaction, if the position has the version that was seen."""
        self._check()
        values = [astuple(row) for row in rows]
        return self._writer.run(lambda _: _store(values, position)).written > 0

    def load(self, step: int, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        """The rows of one series in a time, by time."""
        self._check()
        with self._readers.one() as driver:
            return [RollupRow(*row) for row in driver.ask("load_rollups", (step, tenant, series, since, until, limit))]

    def load_last(self, step: int, tenant: str, series: str, before: Slot) -> RollupRow | None:
        """The last row of one series from the journal before some time."""
        self._check()
        with self._readers.one() as driver:
            rows = driver.ask("load_last_rollup", (step, tenant, series, before))
        return RollupRow(*rows[0]) if rows else None

    def prune(self, step: int, before: Slot, limit: int) -> int:
        """Delete rows that begin before some time, the oldest first."""
        self._check()
        return self._writer.run(lambda _: _delete(Statement("prune_rollups", (step, before, limit)))).written

    def drop(self, tenant: str) -> None:
        """Delete all rows of a tenant."""
        self._check()
        self._writer.run(lambda _: _delete(Statement("drop_rollups", (tenant,))))


def _store(values: list[tuple[object, ...]], position: RollupPosition | None) -> Script[Written]:
    """A run after a commit in doubt that did take place finds another version, and reports that it lost: its writer then reads
    the position again."""
    if position is not None:
        [stored] = yield (Statement("load_rollup_position"),)
        if (stored[0][0] if stored else 0) != position.version:
            return Written()
        yield (Statement("store_rollup_position", (position.version + 1, position.body)),)
    yield (Statement("store_rollups", values, many=True),)
    return Written(len(values) + 1)


def _delete(statement: Statement) -> Script[Written]:
    [gone] = yield (statement,)
    return Written(len(gone))
