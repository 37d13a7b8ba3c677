"""Tables that may not fit into memory, for jobs that read a whole journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import msgspec

from ..errors import EngineError

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

MEMORY_LIMIT = 12 * 2**20
"""Bytes of changed rows that one table keeps in memory before it writes them to the temporary database. It also keeps the rows that
it wrote last, so it takes up to twice as much."""
PAGES: Final = 16 * 2**10
"""KiB of the database that SQLite keeps in memory."""
OVERHEAD: Final = 300
"""Bytes that a row takes in memory besides its encoding: its key and its entry in the dictionary."""
_GONE: Final = b""
_encode: Final = msgspec.msgpack.Encoder().encode


class Spill:
    """A temporary database for tables that may not fit into memory; close it when they are no longer needed."""

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = MEMORY_LIMIT if memory_limit is None else memory_limit
        self._connection: sqlite3.Connection | None = None
        self._tables = 0

    def table(self, kind: Any, width: int) -> SpillTable[Any, Any]:
        """Create a table with rows of a kind that msgspec can encode; its keys are tuples of `width` texts or whole numbers."""
        self._tables += 1
        return SpillTable(self, f"t{self._tables}", kind, width)

    def connection(self) -> sqlite3.Connection:
        """Return the temporary database, created at first use."""
        if self._connection is None:
            self._connection = connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            for pragma in ("temp_store = file", "page_size = 16384", f"cache_size = -{PAGES}", "journal_mode = off",
                           "synchronous = off", "locking_mode = exclusive"):  # fmt: skip
                connection.execute(f"pragma {pragma}").fetchall()
            connection.execute("begin")
        return self._connection

    def close(self) -> None:
        """Give back memory and disk; closing twice is quiet."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SpillTable(Generic[K, V]):
    """Rows by key: the latest in memory, the others in the temporary database."""

    def __init__(self, spill: Spill, name: str, kind: Any, width: int) -> None:
        self._spill, self._name = spill, name
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._columns = [f"k{number}" for number in range(width)]
        self._recent: dict[K, bytes] = {}
        self._before: dict[K, bytes] = {}  # on disk already
        self._weight = 0
        self._spilled = False

    def get(self, key: K) -> V | None:
        """Return the row as it is now."""
        raw = self._recent.get(key)
        if raw is None:
            raw = self._before.get(key)
        if raw is None and self._spilled:
            raw = self._find(key)
        if not raw:
            return None
        row: V = self._decode(raw)
        return row

    def put(self, key: K, row: V | None) -> None:
        """Write or (with None) remove a row."""
        raw = _GONE if row is None else _encode(row)
        self._recent[key] = raw
        self._weight += len(raw) + OVERHEAD
        if self._weight > self._spill.memory_limit:
            self._write()

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield every row, in order of the keys; the table must not change meanwhile."""
        decode = self._decode
        for key, raw in self._read() if self._spilled else sorted(self._recent.items()):
            if raw:
                yield key, decode(raw)

    # The disk

    def _write(self) -> None:
        columns, marks = ", ".join(self._columns), ", ".join("?" * (len(self._columns) + 1))
        with _disk_trouble():
            connection = self._spill.connection()
            if not self._spilled:
                connection.execute(f"create table {self._name} ({columns}, row, primary key ({columns})) without rowid")
                self._spilled = True
            rows = [(*key, raw) for key, raw in sorted(self._recent.items())]  # in order: most go to the same pages
            connection.executemany(f"insert or replace into {self._name} values ({marks})", rows)
        self._before, self._recent, self._weight = self._recent, {}, 0

    def _find(self, key: K) -> bytes | None:
        where = " and ".join(f"{column} = ?" for column in self._columns)
        with _disk_trouble():
            found = self._spill.connection().execute(f"select row from {self._name} where {where}", key).fetchone()
        return None if found is None else found[0]

    def _read(self) -> Iterator[tuple[K, bytes]]:
        self._write()
        self._before = {}
        columns = ", ".join(self._columns)
        with _disk_trouble():
            rows = self._spill.connection().execute(f"select row, {columns} from {self._name} order by {columns}")
            for raw, *key in rows:
                yield tuple(key), raw  # type: ignore[misc]  # as many columns as the key is wide


@contextmanager
def _disk_trouble() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise EngineError(
            f"the temporary file could not be used: {error}; it needs about as much room as the journal: name a directory "
            "that has it with SQLITE_TMPDIR"
        ) from error
