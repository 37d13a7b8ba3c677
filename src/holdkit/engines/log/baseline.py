"""The baseline of a log: the tables behind the entries that have left it for archive files. Unlike a snapshot it decides: the segments
before it are gone.

A file ``0000000000000042.baseline`` is named after the last archived entry. Its frames are the head, the rows of the baseline in the order
in which they are read, and the recorded answers. It stands behind exactly that entry, which may be in the middle of a frame: the tables
then have the frame's first entries, and the rest of it (its other entries, its recorded answers, what it pruned) is replayed.

Temp, sync, rename, sync directory: only then may segments be removed. The newest file counts. One that does not check is damage, and
opening is refused. Rows are found by the first key of each frame, so that little of it is kept in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from ...core.archived import ReadBaseline
from ...core.baseline import (
    FLOOR,
    FLOOR_ID,
    HOLD,
    KINDS,
    POOL,
    RECORD,
    TALLY,
    ArchivedLane,
    BaselineRow,
    RowKey,
    encode_row,
    entry_of_row,
    subject_keys,
)
from ...core.codec import encode_entry
from ...core.model import Pool, Record, Slot, StoredHold
from ...core.outcomes import Operation
from ...core.outstanding import Tally
from ...core.pages import Page
from ...core.reading import JournalRow
from ...errors import EngineError
from ..resident.tables import Tables
from .disk import Disk, File, Reading
from .segments import Frame, decode_frame, encode_frame
from .snapshots import Chunk, tables_of

PREAMBLE: Final = b"HOLDBASE"
START: Final = len(PREAMBLE) + 16
ROWS: Final = 1_000
"""Rows, or recorded answers, of one frame."""
FORMAT: Final = 1
DRAFT: Final = ".new"
"""How the names of files end that are not finished."""

Order: TypeAlias = tuple[int, str, str, str]
Row: TypeAlias = tuple[str, str, str, str, str]
"""Kind, tenant, id, part, body."""


class BaselineHead(Struct, frozen=True, forbid_unknown_fields=True):
    """What a baseline says of itself."""

    format: int
    log_id: str
    segment: int
    """The first segment that is needed."""
    after_frame: int
    """The last frame that is in the tables as a whole."""
    chain: str
    """The digest of all frames up to that one (see `segments.chained`)."""
    last_slot: Slot
    archived: ArchivedLane
    rows: int
    operations: int


_head: Final = msgspec.json.Decoder(BaselineHead)
_rows: Final = msgspec.msgpack.Decoder(list[Row])
_operations: Final = msgspec.msgpack.Decoder(list[Operation])
_pool: Final = msgspec.json.Decoder(Pool)
_hold: Final = msgspec.json.Decoder(StoredHold)
_record: Final = msgspec.json.Decoder(Record)
_tally: Final = msgspec.json.Decoder(Tally)
_encode: Final = msgspec.msgpack.Encoder().encode


def baseline_name(through: int) -> str:
    """Names sort as numbers do."""
    return f"{through:016d}.baseline"


def newest_name(names: Iterable[str]) -> str | None:
    """The file that counts."""
    return max((name for name in names if name.endswith(".baseline")), default=None)


def order(key: RowKey) -> Order:
    """Rows are in this order."""
    return (KINDS.index(key[0]), *key[1:])


def rows_of(tables: Tables) -> list[Row]:
    """Every row, in order."""
    found: list[Row] = [
        *((FLOOR, tenant, FLOOR_ID, "", encode_row(fence)) for tenant, fence in tables.fence_floors.items()),
        *((POOL, *key, "", encode_row(pool)) for key, pool in tables.pools.items()),
        *((TALLY, *key, encode_row(tally)) for key, tally in tables.tallies.items()),
        *((HOLD, *key, "", encode_row(hold)) for key, hold in tables.holds.items()),
        *((RECORD, key[0], key[2], key[1], encode_row(record)) for key, record in tables.records.items()),
    ]
    return sorted(found, key=lambda row: order(row[:4]))


def write_baseline(
    disk: Disk,
    head: BaselineHead,
    rows: list[Row],
    operations: list[Operation],
    randomness: Callable[[int], bytes],
    *,
    draft: bool = False,
) -> str:
    """Write the file that stands behind an archived entry; durable when this returns its name. The head's numbers of rows are set. As a
    draft it keeps a temporary name: to be read, until the next one is written."""
    head = msgspec.structs.replace(head, rows=len(rows), operations=len(operations))
    name = baseline_name(head.archived.through)
    new = name + DRAFT
    if new in disk.names():
        disk.remove(new)
    file_id = randomness(16)
    file = disk.create(new)
    try:
        file.append(PREAMBLE + file_id)
        offset = START
        for number, body in enumerate((msgspec.json.encode(head), *_bodies(rows), *_bodies(operations))):
            frame = encode_frame(file_id, offset, number, 0, body)
            file.append(frame)
            offset += len(frame)
        file.sync()
    finally:
        file.close()
    if draft:
        return new
    disk.rename(new, name)
    disk.sync()
    return name


def _bodies(rows: list[Row] | list[Operation]) -> Iterator[bytes]:
    for start in range(0, len(rows), ROWS):
        yield _encode(rows[start : start + ROWS])


class LogBaseline:
    """An open baseline file."""

    def __init__(self, disk: Reading, name: str) -> None:
        self.name, self._where = name, f"{disk.name}/{name}"
        self.file: File = disk.open(name)
        try:
            data = self.file.read(0, self.file.size())
            self._file_id = data[len(PREAMBLE) : START]
            self._places: list[tuple[int, int]] = []
            self._firsts: list[Order] = []
            """Of each frame with rows: the first key."""
            self.head = self._open(data)
        except BaseException:
            self.file.close()
            raise

    def _open(self, data: bytes) -> BaselineHead:
        bodies: list[bytes] = []
        offset = START if data[: len(PREAMBLE)] == PREAMBLE else len(data)
        while offset < len(data):
            frame = decode_frame(self._file_id, data, offset)
            if frame is None or frame.number != len(bodies):
                raise self._damaged(offset)
            bodies.append(frame.body)
            self._places.append((offset, frame.end))
            offset = frame.end
        if not bodies:
            raise self._damaged(0)
        try:
            head = _head.decode(bodies[0])
        except msgspec.DecodeError as error:
            raise EngineError(f"{self._where} was written by another version of Holdkit: {error}") from None
        if head.format != FORMAT or baseline_name(head.archived.through) != self.name.removesuffix(DRAFT):
            raise EngineError(
                f"{self._where} says it is of format {head.format}, behind entry {head.archived.through}: it was renamed, or another "
                "version of Holdkit wrote it"
            )
        if len(bodies) != 1 + -(-head.rows // ROWS) + -(-head.operations // ROWS):
            raise self._damaged(offset)
        self._firsts = [order(_rows.decode(body)[0][:4]) for body in bodies[1 : 1 + -(-head.rows // ROWS)]]
        return head

    def _damaged(self, offset: int) -> EngineError:
        return EngineError(
            f"{self._where} is damaged at offset {offset}: the entries before it are archived, and their state is not known without it. "
            "Nothing was changed; restore the file from a copy"
        )

    @property
    def archived(self) -> ArchivedLane:
        """How far the log is archived."""
        return self.head.archived

    def tables(self) -> Tables:
        """The tables as they were behind the last archived entry."""
        frames = range(1, len(self._places))
        chunks = (
            _chunk(_rows.decode(self._body(number)))
            if number <= len(self._firsts)
            else Chunk(operations=_operations.decode(self._body(number)))
            for number in frames
        )
        return tables_of(self.head.last_slot, chunks)

    def raw_rows(self) -> Iterator[Row]:
        """Every row as it is stored."""
        for number in range(1, 1 + len(self._firsts)):
            yield from _rows.decode(self._body(number))

    def operations(self) -> Iterator[Operation]:
        """Every recorded answer."""
        for number in range(1 + len(self._firsts), len(self._places)):
            yield from _operations.decode(self._body(number))

    def rows(self, after: RowKey | None = None) -> Iterator[BaselineRow]:
        """Rows in order, behind one of them."""
        behind = None if after is None else order(after)
        start = 0 if behind is None else max(0, bisect_right(self._firsts, behind) - 1)
        for number in range(start, len(self._firsts)):
            for row in _rows.decode(self._body(1 + number)):
                if behind is None or order(row[:4]) > behind:
                    yield self._row(row)

    def find(self, key: RowKey) -> BaselineRow | None:
        """One row."""
        row = self._find(key)
        return None if row is None else self._row(row)

    def page(self, query: ReadBaseline) -> Page[BaselineRow]:
        """A page of rows."""
        if query.lane or query.through != self.archived.through:
            return Page()
        found = (row for row in self.rows(query.after) if query.tenant is None or row.tenant == query.tenant)
        return Page(islice(found, query.limit))

    def entry_about(self, tenant: str, subject: str) -> JournalRow | None:
        """The row that stands for a subject's archived entries."""
        for key in subject_keys(tenant, subject):
            row = self.find(key)
            if row is not None:
                archived = self.archived
                return JournalRow(archived.through, encode_entry(entry_of_row(row, archived.slot)), 0, archived.place)
        return None

    def _row(self, row: Row) -> BaselineRow:
        pool = self._find((POOL, row[1], row[2], "")) if row[0] == TALLY else None
        return BaselineRow(*row, None if pool is None else pool[4])

    def _find(self, key: RowKey) -> Row | None:
        number = bisect_right(self._firsts, order(key))
        return next((row for row in _rows.decode(self._body(number)) if row[:4] == key), None) if number else None

    def _body(self, number: int) -> bytes:
        start, end = self._places[number]
        try:
            frame: Frame | None = decode_frame(self._file_id, self.file.read(start, end - start), start, base=start)
        except OSError as error:
            raise EngineError(f"{self._where} could not be read at offset {start}: {error}") from error
        if frame is None:
            raise self._damaged(start)
        return frame.body


def _chunk(rows: list[Row]) -> Chunk:
    """Rows as those of a snapshot."""
    chunk = Chunk([], [], [], [], [], [])
    for kind, tenant, id, part, body in rows:
        if kind == POOL:
            chunk.pools.append(_pool.decode(body))
        elif kind == HOLD:
            chunk.holds.append(_hold.decode(body))
        elif kind == RECORD:
            chunk.records.append(_record.decode(body))
        elif kind == TALLY:
            chunk.tallies.append(((tenant, id, part), _tally.decode(body)))
        else:
            chunk.fence_floors.append((tenant, int(body)))
    return chunk


def stale_names(names: Iterable[str], baseline: LogBaseline) -> list[str]:
    """The files that a baseline makes superfluous: older baselines and snapshots, and the segments before the first that is needed."""
    head, mine = baseline.head, baseline.name.removesuffix(DRAFT)
    found = [name for name in names if name.endswith(".baseline") and name != mine]
    found += [name for name in names if name.endswith(".snapshot") and int(name[:16]) < head.after_frame]
    return [*found, *(name for name in names if name.endswith(".log") and int(name[:8]) < head.segment)]
