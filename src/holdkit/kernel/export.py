"""Export: a journal as JSON lines, to be imported into another engine. A header, one line per entry, and a seal.

An export has everything up to one moment, of all tenants and lanes. It contains owner hashes, no owner tokens. The answers that
are kept for retries are not part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from ..core.codec import digest
from ..core.reading import FindEnds, JournalRow, ReadGeneration, ReadJournal
from ..engines.port import Engine
from ..engines.settings import stored_form
from ..errors import CursorLost

FORMAT: Final = 2
PAGE: Final = 1_000
LONGEST: Final = 16 << 20
"""Bytes of one line: a hold of a thousand legs fits."""

ADOPTED: Final = ("retention", "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "max_legs")
"""Limits that a new engine adopts."""

Progress = Callable[[int, int], None]
"""Called with how many entries are done, and how many there are."""


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    holdkit: str
    format: int
    lanes: int
    entries: int
    generation: str
    """Of the journal that was exported; an import begins another one."""
    limits: dict[str, int | None]
    """Those that change what commands mean."""


class ExportedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry: its position, the digest that cursors know it by, and its text."""

    lane: int
    seq: int
    digest: str
    entry: msgspec.Raw


class Seal(Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: how many entries there are, and a hash of all lines before it."""

    sealed: int
    hash: str


def export(engine: Engine, progress: Progress | None = None) -> Iterator[bytes]:
    """Every line, each with its line feed. The end is fixed when the export begins."""
    ends = {row.lane: row.seq for row in engine.read(FindEnds())}
    total = sum(ends.values())
    hasher = hashlib.blake2b(digest_size=16)
    generation = engine.read(ReadGeneration())
    header = Header("export", FORMAT, engine.lanes, total, generation, stored_form(engine.limits))
    for done, line in enumerate(_entries(engine, ends, header)):
        hasher.update(line)
        yield line
        if progress is not None:
            progress(done, total)
    yield _encode(Seal(total, hasher.hexdigest()))


def _entries(engine: Engine, ends: dict[int, int], header: Header) -> Iterator[bytes]:
    yield _encode(header)
    seen: dict[int, int] = {}
    left = header.entries
    while left:
        rows = engine.read(ReadJournal(None, dict(seen), PAGE))
        if not rows:
            raise CursorLost("the journal was cut back while it was exported: begin anew")
        for row in rows:
            seen[row.lane] = row.seq
            if row.seq <= ends.get(row.lane, 0):
                left -= 1
                yield _entry(row)


def _entry(row: JournalRow) -> bytes:
    return _encode(ExportedEntry(row.lane, row.seq, digest(row.text), msgspec.Raw(row.text.encode())))


def _encode(document: Struct) -> bytes:
    return msgspec.json.encode(document) + b"\n"
