"""Encode the seats of a section as records, in chunks. Pure functions, and a cache of the layouts made of them.

Theory of operation. A section has a *head*, the record `~section/<section>`, and *chunks*, records of kind `~seats` with a few hundred
seats each: a change of one seat writes one chunk, not the whole section. Every change replaces the head, only if the head is still in the
version that the change was made from, in the same transaction as the chunks; so changes of one section happen one after the other: when
two collide, the later one is made again. Each head has a random stamp. A process that reads the head, the chunks and the head again, and
finds the same stamp twice, has read the chunks of that head. The layout made of them is valid while the head has that stamp, in any
process, so a search reads one small record to know that its layout is up to date.

The head of a section without seats is kept: its version must never begin again, or a late change could be taken for a new one.
The head also remembers the last operations that changed it, so that the retry of one changes nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, zip_longest
from threading import Lock
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..core.commands import PutRecord
from ..core.model import Record
from ..core.validation import invalid
from .seating import Layout, Seat, location_of

SECTIONS: Final = "~section"
SEATS: Final = "~seats"
MAX_SEATS: Final = 10_000
"""Seats of one section."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of all chunks of a section."""
CHUNK_BYTES: Final = 32 * 1024
REMEMBERED: Final = 32
"""Operations that a head remembers."""
CACHED: Final = 200_000
"""Seats whose layouts are kept, of all sections together: about 100 MB."""


class Row(Struct, array_like=True, frozen=True):
    """A seat in its chunk."""

    id: str
    row: str
    number: int | str
    position: int
    rank: int | None
    kind: str


class Head(Struct, frozen=True):
    """What all chunks of a section have in common."""

    stamp: str = ""
    chunks: int = 0
    operations: tuple[str, ...] = ()
    """The digests of the last operations, oldest first."""


_encode: Final = msgspec.json.Encoder().encode
_head_of: Final = msgspec.json.Decoder(Head).decode
_rows_of: Final = msgspec.json.Decoder(tuple[Row, ...]).decode


def chunk_ids(section: str) -> str:
    """Return the beginning of the ids of a section's chunks: of one length, so that the chunks of no other section lie between them."""
    return hashlib.blake2b(section.encode(), digest_size=16, person=b"holdkit.seats").hexdigest() + "/"


def digest_of(op: str, verb: str, asked: Any) -> str:
    """Return what a head remembers of an operation."""
    return hashlib.blake2b(_encode([op, verb, asked]), digest_size=12).hexdigest()


def row_of(seat: Seat) -> Row:
    """Return a checked seat as it is stored."""
    return Row(seat.id, str(seat.row), seat.number, seat.position or 0, seat.rank, seat.kind)


class SeatMap:
    """The seats of one section as they are stored: made of the head's record and, if they are needed, of the chunks."""

    def __init__(self, section: str, record: Record | None, chunks: Sequence[Record] = ()) -> None:
        self.section = section
        self.version = 0 if record is None else record.version
        self.head = Head() if record is None else _head_of(record.body)
        self.chunks = [_rows_of(chunk.body) for chunk in chunks]

    @property
    def stamp(self) -> str:
        """Another one after every change."""
        return f"{self.version}/{self.head.stamp}"

    def layout(self) -> Layout:
        """Build the layout of the seats, ready to be searched."""
        return Layout([_seat_of(self.section, row) for row in chain(*self.chunks)])

    def with_change(self, put: Sequence[Seat], drop: Collection[str] = ()) -> list[tuple[Row, ...]] | None:
        """Return the chunks once these seats are put and dropped; None if nothing changes. Raise `InvalidRequest` if two seats would be
        in one place, or the section would be too large."""
        wanted = {seat.id: row_of(seat) for seat in put}
        fresh = dict(wanted)
        chunks: list[tuple[Row, ...]] = []
        for rows in self.chunks:
            chunks.append(tuple([row for row in rows if row.id not in drop and wanted.get(row.id, row) == row]))
            for row in chunks[-1]:
                fresh.pop(row.id, None)
        _fill(chunks, list(fresh.values()))
        self._check(chunks)
        while chunks and not chunks[-1]:
            chunks.pop()
        return None if chunks == self.chunks else chunks

    def _check(self, chunks: Sequence[tuple[Row, ...]]) -> None:
        found: dict[tuple[str, str, int], str] = {}
        for row in chain(*chunks):
            location = location_of(_seat_of(self.section, row))
            other = found.setdefault(location, row.id)
            if other != row.id:
                raise invalid(
                    "position",
                    "position_taken",
                    f"seats {other!r} and {row.id!r} would both be at position {row.position} of row {row.row!r} in section {self.section!r}",
                )
        if len(found) > MAX_SEATS:
            raise invalid("seats", "seats_too_many", f"section {self.section!r} would have {len(found)} seats, at most {MAX_SEATS} are allowed")  # fmt: skip
        if sum(len(_encode(rows)) for rows in chunks) > MAX_BYTES:
            raise invalid("seats", "seats_too_large", f"the seats of section {self.section!r} would take more than {MAX_BYTES} bytes")  # fmt: skip

    def writing(
        self, chunks: Sequence[tuple[Row, ...]], stamp: str, digest: str | None, fields: Mapping[str, Any]
    ) -> list[PutRecord]:
        """Return the commands that store these chunks, all or none: the head, then the chunks that differ."""
        operations = self.head.operations + (() if digest is None else (digest,))
        head = _encode(Head(stamp, len(chunks), operations[-REMEMBERED:])).decode()
        commands = [PutRecord(kind=SECTIONS, id=self.section, body=head, if_version=self.version, **fields)]
        begin = chunk_ids(self.section)
        for number, (before, after) in enumerate(zip_longest(self.chunks, chunks)):
            if before != after:
                body = None if after is None else _encode(after).decode()
                commands.append(PutRecord(kind=SEATS, id=f"{begin}{number:04}", body=body, **fields))
        return commands


def _seat_of(section: str, row: Row) -> Seat:
    return Seat(row.id, section, row.row, row.number, row.position, row.rank, row.kind)


def _fill(chunks: list[tuple[Row, ...]], fresh: Sequence[Row]) -> None:
    """Put seats into the first chunks that have room, and into new ones."""
    waiting = [*reversed(fresh)]
    number = 0
    while waiting:
        if number == len(chunks):
            chunks.append(())
        rows, size = [*chunks[number]], len(_encode(chunks[number]))
        while waiting and (not rows or size + len(_encode(waiting[-1])) < CHUNK_BYTES):
            size += len(_encode(waiting[-1])) + 1
            rows.append(waiting.pop())
        chunks[number] = tuple(rows)
        number += 1


class LayoutCache:
    """Layouts by tenant and section, each with the stamp that it was made of. Evicts the least recently used."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[tuple[str, str], tuple[str, Layout]] = OrderedDict()
        self._seats = 0

    def get(self, key: tuple[str, str], stamp: str) -> Layout | None:
        """Return the layout, if it is of this stamp."""
        with self._lock:
            found = self._found.get(key)
            if found is None or found[0] != stamp:
                return None
            self._found.move_to_end(key)
            return found[1]

    def put(self, key: tuple[str, str], stamp: str, layout: Layout) -> None:
        """Keep a layout."""
        with self._lock:
            before = self._found.pop(key, None)
            self._found[key] = (stamp, layout)
            self._seats += len(layout.seats) - (0 if before is None else len(before[1].seats))
            while self._seats > CACHED and len(self._found) > 1:
                _, (_, oldest) = self._found.popitem(last=False)
                self._seats -= len(oldest.seats)
