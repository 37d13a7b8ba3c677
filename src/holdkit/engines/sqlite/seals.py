"""Seals on SQLite: rows of a table of their own, written by the writer in transactions of their own."""

from __future__ import annotations

from collections.abc import Callable

from ...core.reading import JournalRow
from ...core.seals import Seal, seal_of, seal_row
from .driver import Driver, Script, Statement
from .readers import Readers
from .rows import REWRITES
from .writer import Writer
from .writing import Written


class SqliteSeals:
    """The seals of one file."""

    def __init__(self, writer: Writer, readers: Readers, check: Callable[[], None]) -> None:
        self._writer, self._readers, self._check = writer, readers, check

    def last_seals(self) -> dict[int, Seal]:
        """Return the last seal of each lane."""
        with self._readers.one() as driver:
            return {seal.lane: seal for seal in map(seal_of, driver.ask("last_seals"))}

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """Return seals behind a number."""
        with self._readers.one() as driver:
            return [seal_of(row) for row in driver.ask("read_seals", (lane, after, limit))]

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """Return entries behind a number."""
        if lane:
            return []
        with self._readers.one() as driver:
            return [JournalRow(seq, body) for seq, body in driver.ask("read_journal", (after, limit))]

    def rewrites(self) -> int:
        """Return how often an erasure has rewritten entries."""
        with self._readers.one() as driver:
            return rewrites_of(driver)

    def add_seal(self, seal: Seal, rewrites: int) -> bool:
        """Store a seal, unless there is one that begins with the same entry, or entries were rewritten meanwhile."""
        self._check()
        self._writer.run(lambda _: _add(seal) if rewrites_of(self._writer.driver) == rewrites else _nothing())
        with self._readers.one() as driver:
            return driver.ask("find_seal", (seal.lane, seal.first)) == [(seal.digest,)]


def rewrites_of(driver: Driver) -> int:
    """Return how often an erasure has rewritten entries."""
    return next((int(value) for (value,) in driver.ask("find_setting", (REWRITES,))), 0)


def _nothing() -> Script[Written]:
    yield ()
    return Written()


def _add(seal: Seal) -> Script[Written]:
    """Store a seal. Run again after a failed commit, it does no harm, so no check is needed whether the commit took place."""
    yield (Statement("add_seal", seal_row(seal)),)
    return Written(1)
