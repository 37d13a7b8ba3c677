"""Export: a journal as JSON lines, to be imported into another engine. A header, one line per entry, and a seal.

An export has everything up to one moment, of all tenants and lanes, or of one tenant. It contains owner hashes, no owner tokens.
The answers that are kept for retries are not part of it.

Nothing that happens to one tenant depends on another's entries, so one tenant's entries are a whole journal: numbered anew in each
lane, they can be imported and verified by themselves. What an operator keeps about a tenant (its API keys, its quota) and the
changes of limits belong to the default tenant, and are not among them; the header has the limits in force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from ..core.codec import digest
from ..core.reading import FindEnds, JournalRow, ReadGeneration, ReadJournal, entry_of
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
    tenant: str | None = None
    """Whose entries these are; None: those of all tenants."""


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


def export(engine: Engine, progress: Progress | None = None, *, tenant: str | None = None) -> Iterator[bytes]:
    """Every line, each with its line feed: of all tenants, or of one. The end is fixed when the export begins. The journal is read
    in pages; for one tenant it is read twice, because the header has the number of its entries."""
    ends = {row.lane: row.seq for row in engine.read(FindEnds())}
    total = sum(ends.values()) if tenant is None else sum(1 for _ in _rows(engine, ends, tenant))
    hasher = hashlib.blake2b(digest_size=16)
    generation = engine.read(ReadGeneration())
    header = Header("export", FORMAT, engine.lanes, total, generation, stored_form(engine.limits), tenant)
    for done, line in enumerate(_exported(engine, ends, header)):
        hasher.update(line)
        yield line
        if progress is not None:
            progress(done, total)
    yield _encode(Seal(total, hasher.hexdigest()))


def _exported(engine: Engine, ends: dict[int, int], header: Header) -> Iterator[bytes]:
    yield _encode(header)
    numbers: dict[int, int] = {}
    for row in _rows(engine, ends, header.tenant):
        number = numbers[row.lane] = numbers.get(row.lane, 0) + 1
        yield _entry(row, number)


def _rows(engine: Engine, ends: dict[int, int], tenant: str | None) -> Iterator[JournalRow]:
    """The rows up to the ends. Pages have the entries of all tenants: not every engine has an index by tenant and number."""
    seen: dict[int, int] = {}
    left = sum(ends.values())
    while left:
        rows = engine.read(ReadJournal(None, dict(seen), PAGE))
        if not rows:
            raise CursorLost("the journal was cut back while it was exported: begin anew")
        for row in rows:
            seen[row.lane] = row.seq
            if row.seq <= ends.get(row.lane, 0):
                left -= 1
                if tenant is None or entry_of(row).tenant == tenant:
                    yield row


def _entry(row: JournalRow, number: int) -> bytes:
    return _encode(ExportedEntry(row.lane, number, digest(row.text), msgspec.Raw(row.text.encode())))


def _encode(document: Struct) -> bytes:
    return msgspec.json.encode(document) + b"\n"
