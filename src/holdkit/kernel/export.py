"""Export: a journal as JSON lines, to be imported into another engine. A header, one line per entry, and a seal.

An export has everything up to one moment, of all tenants and lanes, or of one tenant. It contains owner hashes, no tokens.
The answers that are kept for retries are not part of it.

Nothing that happens to one tenant depends on another's entries, so one tenant's entries are a whole journal: numbered anew in each
lane, they can be imported and verified by themselves. What an operator keeps about a tenant (its API keys, its quota) and the
changes of limits belong to the default tenant, and are not among them; the header has the limits in force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from ..core.archived import CheckBaselines, FindArchived, ReadBaseline
from ..core.audit_rows import Difference
from ..core.baseline import ArchivedLane, RowKey, entry_of_row
from ..core.codec import digest, encode_entry
from ..core.reading import FindEnds, JournalRow, ReadGeneration, ReadJournal, entry_of
from ..engines.archiving import ArchivedEntries
from ..engines.port import Engine
from ..engines.settings import stored_form
from ..errors import CursorLost, EngineError

FORMAT: Final = 2
PAGE: Final = 1_000
LONGEST: Final = 16 << 20
"""Bytes of one line: a hold of a thousand legs fits."""

ADOPTED: Final = ("retention", "retention_consumed", "min_ttl", "max_ttl", "max_claim_ttl", "max_lifetime", "max_legs")
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


def export(
    engine: Engine,
    progress: Progress | None = None,
    *,
    tenant: str | None = None,
    archive: ArchivedEntries | None = None,
) -> Iterator[bytes]:
    """Yield every line, each with its line feed: of all tenants, or of one. The end is fixed when the export begins. The journal is read in
    pages; for one tenant it is read twice, because the header has the number of its entries.

    If entries were archived, the export begins with the baseline that stands for them or, with `archive`, with those entries. Raises
    `EngineError` if rows of the baseline are missing or were changed, or a file was, and `CursorLost` if entries are archived or erased
    meanwhile: an export never has what was erased before its end."""
    seals = engine.capabilities.seals
    rewrites = None if seals is None else seals.rewrites()
    ends = {row.lane: row.seq for row in engine.read(FindEnds())}
    begins_with_baseline = archive is None and bool(engine.read(FindArchived()))
    if begins_with_baseline:
        _refuse_damaged_baseline(engine)
    several = tenant is not None or begins_with_baseline
    total = sum(1 for _ in _rows(engine, ends, tenant, archive)) if several else sum(ends.values())
    hasher = hashlib.blake2b(digest_size=16)
    generation = engine.read(ReadGeneration())
    header = Header("export", FORMAT, engine.lanes, total, generation, stored_form(engine.limits), tenant)
    for done, line in enumerate(_exported(engine, ends, header, archive)):
        hasher.update(line)
        yield line
        if progress is not None:
            progress(done, total)
    if seals is not None and seals.rewrites() != rewrites:
        raise CursorLost("an erasure has changed the journal while it was exported: begin anew")
    yield _encode(Seal(total, hasher.hexdigest()))


def _exported(engine: Engine, ends: dict[int, int], header: Header, archive: ArchivedEntries | None) -> Iterator[bytes]:
    yield _encode(header)
    numbers: dict[int, int] = {}
    for row in _rows(engine, ends, header.tenant, archive):
        number = numbers[row.lane] = numbers.get(row.lane, 0) + 1
        yield _entry(row, number)


def _rows(
    engine: Engine, ends: dict[int, int], tenant: str | None, archive: ArchivedEntries | None
) -> Iterator[JournalRow]:
    """Yield the rows up to the ends. Pages have the entries of all tenants: not every engine has an index by tenant and number."""
    lanes = engine.read(FindArchived())
    seen: dict[int, int] = {one.lane: one.through for one in lanes}
    for one in lanes:
        before = _baseline(engine, one, tenant) if archive is None else _of_files(archive(one.lane, one.through))
        yield from (row for row in before if tenant is None or entry_of(row).tenant == tenant)
    left = sum(ends.values()) - sum(seen.values())
    while left:
        rows = engine.read(ReadJournal(None, dict(seen), PAGE))
        for row in rows:
            if row.seq != seen.get(row.lane, 0) + 1:
                raise CursorLost("entries were archived while the journal was exported: begin anew")
            seen[row.lane] = row.seq
            if row.seq <= ends.get(row.lane, 0):
                left -= 1
                if tenant is None or entry_of(row).tenant == tenant:
                    yield row
        if not rows:
            raise CursorLost("the journal was cut back while it was exported: begin anew")


def _refuse_damaged_baseline(engine: Engine) -> None:
    """Raise `EngineError` if the baseline does not have the rows that it must have: without them the history would have no beginning."""
    for found in engine.read(CheckBaselines(1)):
        raise EngineError(
            f"the baseline, which stands for the archived entries, was damaged ({found}), so an export would lack a part of the history: "
            "restore a backup, or export with the archive's files (--archive DIR, archive=DIR); nothing was exported"
        )


def _of_files(rows: Iterable[JournalRow | Difference]) -> Iterator[JournalRow]:
    """Yield the archived entries; raises `EngineError` if a file is not what the database knows."""
    for row in rows:
        if isinstance(row, Difference):
            raise EngineError(
                f"the archive file {row.key} was changed or swapped ({row}): restore it from a copy of the archive; the export is not complete"
            )
        yield row


def _baseline(engine: Engine, archived: ArchivedLane, tenant: str | None) -> Iterator[JournalRow]:
    """Yield a lane's baseline as rows of the journal."""
    after: RowKey | None = None
    while rows := engine.read(ReadBaseline(tenant, archived.lane, archived.through, after, PAGE)):
        for row in rows:
            yield JournalRow(archived.through, encode_entry(entry_of_row(row, archived.slot)), archived.lane)
        after = rows[-1].key
    if archived not in engine.read(FindArchived()):
        raise CursorLost("entries were archived while the journal was exported: begin anew")


def _entry(row: JournalRow, number: int) -> bytes:
    return _encode(ExportedEntry(row.lane, number, digest(row.text), msgspec.Raw(row.text.encode())))


def _encode(document: Struct) -> bytes:
    return msgspec.json.encode(document) + b"\n"
