"""Carrying a journal from one engine to another, as JSON lines: a header, one line per entry, a last line that seals it.

What is exported is everything up to one moment, all tenants and lanes. It has owner hashes in it, no owner tokens; answers
kept for retries stay behind. An import reads a line at a time, takes all of them or none, and names the line that is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from ..core.codec import decode_entry, digest
from ..core.entries import Entry
from ..core.import_ import Carried
from ..core.lanes import MAX_LANES
from ..core.limits import limit_value
from ..core.model import Limits
from ..core.reading import FindEnds, JournalRow, ReadGeneration, ReadJournal
from ..core.validation import invalid
from ..engines.port import Engine
from ..engines.settings import stored_form
from ..errors import CursorLost, InvalidRequest

FORMAT: Final = 2
PAGE: Final = 1_000
LONGEST: Final = 16 << 20
"""Bytes of a line: a hold of a thousand legs fits."""

CARRIED: Final = ("retention", "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "max_legs")
"""Limits that a new engine takes over."""

Progress = Callable[[int, int], None]
"""Told how many entries of how many are done."""


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    holdkit: str
    format: int
    lanes: int
    entries: int
    generation: str
    """Which life of its journal this is of; an import begins another one."""
    limits: dict[str, int | None]
    """Those that change meaning."""


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry: where it stood, the digest that cursors know it by, and its text."""

    lane: int
    seq: int
    digest: str
    entry: msgspec.Raw


class Seal(Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: how many entries there are, and a hash of all lines before it."""

    sealed: int
    hash: str


def export(engine: Engine, progress: Progress | None = None) -> Iterator[bytes]:
    """Every line, each with its line feed; the end is fixed when it begins."""
    ends = {row.lane: row.seq for row in engine.read(FindEnds())}
    total = sum(ends.values())
    hasher = hashlib.blake2b(digest_size=16)
    generation = engine.read(ReadGeneration())
    header = Header("export", FORMAT, engine.lanes, total, generation, stored_form(engine.limits))
    for done, line in enumerate(_lines(engine, ends, header)):
        hasher.update(line)
        yield line
        if progress is not None:
            progress(done, total)
    yield _encode(Seal(total, hasher.hexdigest()))


def _lines(engine: Engine, ends: dict[int, int], header: Header) -> Iterator[bytes]:
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
                yield _line(row)


def _line(row: JournalRow) -> bytes:
    return _encode(Line(row.lane, row.seq, digest(row.text), msgspec.Raw(row.text.encode())))


def _encode(document: Struct) -> bytes:
    return msgspec.json.encode(document) + b"\n"


class Import:
    """Reads an export; `header` first, then `carried()`."""

    def __init__(self, lines: Iterable[bytes], progress: Progress | None = None) -> None:
        self._lines = iter(lines)
        self._progress = progress
        self._hasher = hashlib.blake2b(digest_size=16)
        self.header = _header(self._next())

    def limits(self, defaults: Limits) -> Limits:
        """The defaults, but what holds may be is as it was where the journal was written. Bounds of tables are the engine's."""
        carried = {name: self.header.limits[name] for name in CARRIED}
        for name, value in carried.items():
            limit_value(name, value)
        return structs.replace(defaults, **carried)

    def carried(self) -> Iterator[Carried]:
        """Every entry, checked as far as a line can be by itself and by those before it; raises behind the last one unless
        the seal fits."""
        last: dict[int, int] = {}
        for number in range(2, self.header.entries + 2):
            raw = self._next()
            line = _decode(raw, Line, number)
            if line.seq != last.get(line.lane, 0) + 1 or not 0 <= line.lane < MAX_LANES:
                raise _bad(
                    number, "entry_out_of_order", f"is entry {line.seq} of lane {line.lane}, which does not come next"
                )
            last[line.lane] = line.seq
            yield Carried(number, _entry(line, number))
            if self._progress is not None:
                self._progress(number - 1, self.header.entries)
        number = self.header.entries + 2
        expected = self._hasher.hexdigest()
        seal = _decode(self._next(), Seal, number)
        if (seal.sealed, seal.hash) != (self.header.entries, expected):
            raise _bad(number, "seal_broken", "does not fit: a line before it was changed, lost or added")
        if next(self._lines, b"").strip():
            raise _bad(number + 1, "line_malformed", "comes behind the last one")

    def _next(self) -> bytes:
        line = next(self._lines, None)
        if line is None:
            raise invalid("file", "export_cut", "ends before its last line: it is not whole")
        self._hasher.update(line)
        return line


def _header(line: bytes) -> Header:
    header: Header = _decode(line, Header, 1)
    if header.holdkit != "export" or header.entries < 0:
        raise _bad(1, "header_malformed", "is not the first line of an export")
    if header.format != FORMAT:
        raise _bad(1, "format_unknown", f"says format {header.format}; this release knows {FORMAT}")
    if set(header.limits) != set(stored_form(Limits())) or None in map(header.limits.get, CARRIED):
        raise _bad(1, "header_malformed", "names other limits than this release knows")
    return header


def _decode(line: bytes, kind: type[Any], number: int) -> Any:
    if len(line) > LONGEST:
        raise _bad(number, "line_too_long", f"is longer than {LONGEST} bytes")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(number, "line_malformed", f"is not what belongs here: {error}") from None


def _entry(line: Line, number: int) -> Entry:
    text = bytes(line.entry)
    try:
        if digest(text.decode()) != line.digest:
            raise _bad(number, "digest_wrong", "was changed: its digest does not fit")
        return decode_entry(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(number, "line_malformed", f"has no entry: {error}") from None


def _bad(number: int, code: str, words: str) -> InvalidRequest:
    return invalid(f"line {number}", code, words)
