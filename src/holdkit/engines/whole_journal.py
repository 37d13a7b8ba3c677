"""Shared by the jobs that read most of a journal: progress, tables that may not fit into memory, the history of one pool,
and where seals are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from ..core.pages import Page, page_of
from ..core.reading import JournalRow, ReadPoolHistory, entry_of, row_bytes, touches
from ..core.seals import Seal
from ..errors import EngineError

T = TypeVar("T")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much of how much is done, from the thread that does it. If it raises, the job ends there: it has changed nothing,
and releases what it holds."""
OFTEN: Final = 1_000
"""Steps between two reports."""


class Meter:
    """Counts the steps of a long job, and reports them now and then."""

    def __init__(self, tell: Progress | None, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def over(self, steps: Iterator[T]) -> Iterator[T]:
        """The same steps, counted."""
        tell = self._tell
        if tell is None:
            return steps
        return self._counted(steps, tell)

    def _counted(self, steps: Iterator[T], tell: Progress) -> Iterator[T]:
        for step in steps:
            self._done += 1
            if self._done % OFTEN == 0:
                tell(min(self._done, self._total), self._total)
            yield step

    def watch(self, steps: Iterator[T]) -> Iterator[T]:
        """The same steps, not counted; every so many of them the count so far is reported, so that a job can be ended here too."""
        return steps if self._tell is None else self._watched(steps, self._tell)

    def _watched(self, steps: Iterator[T], tell: Progress) -> Iterator[T]:
        for number, step in enumerate(steps, 1):
            if number % OFTEN == 0:
                tell(min(self._done, self._total), self._total)
            yield step

    def finish(self) -> None:
        """Report that all is done, however many steps there were."""
        if self._tell is not None:
            self._tell(self._total, self._total)


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
        """A new table with rows of a kind that msgspec can encode; its keys are tuples of so many texts or whole numbers."""
        self._tables += 1
        return SpillTable(self, f"t{self._tables}", kind, width)

    def connection(self) -> sqlite3.Connection:
        """The temporary database, made when it is first needed."""
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
        """The row as it is now."""
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
        """Every row, in order of the keys; the table must not change meanwhile."""
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


SPAN: Final = 20_000
"""Entries that one statement looks through, so that none takes long however long the journal is."""

Look: TypeAlias = Callable[[int, int], Page[JournalRow]]
"""Rows whose text names the pool: behind a number, up to a number; a page of them."""


def written(pool: str) -> str:
    """How an entry's text names a pool."""
    return msgspec.json.encode(pool).decode()


def find_touching(
    query: ReadPoolHistory, after: int, last: int, look: Look, first: Sequence[JournalRow] = ()
) -> Page[JournalRow]:
    """The first entries of a lane behind `after` that touched the pool; before them what stands for those that are archived."""

    def touching(after: int) -> Iterator[JournalRow]:
        yield from first
        while after < last:
            upto = min(after + SPAN, last)
            rows = look(after, upto)
            yield from (row for row in rows if touches(entry_of(row), query.pool))
            after = rows[-1].seq if rows.more else upto

    return page_of(touching(after), row_bytes, query.limit, query.max_bytes)


class SealStore(Protocol):
    """The engine can keep the seals of its journal (`holdkit.core.seals`). It stores them, and does not know what they say."""

    def last_seals(self) -> dict[int, Seal]:
        """The last seal of each lane that has any."""
        ...

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """A lane's seals whose first entry has a number above `after`, in order."""
        ...

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """A lane's entries after a number, in order, with the numbers and texts that are stored."""
        ...

    def rewrites(self) -> int:
        """How often an erasure has rewritten entries: asked before they are read."""
        ...

    def add_seal(self, seal: Seal, rewrites: int) -> bool:
        """Store a seal, durably, unless there is one that begins with the same entry; whether it is this one that is stored."""
        ...
