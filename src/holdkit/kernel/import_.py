"""Import: an export becomes the journal of a new engine, all of it or nothing. A new file appears only when it is complete."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import structs

from ..core.bounds import Limits
from ..core.codec import decode_entry, digest
from ..core.entries import Entry
from ..core.import_ import Carried
from ..core.lanes import MAX_LANES
from ..core.model import MAX_SLOT
from ..core.validation import invalid
from ..engines.durability import sync_path
from ..engines.settings import BEFORE, stored_form
from ..errors import EngineError, InvalidRequest
from .export import ADOPTED, FORMAT, LONGEST, ExportedEntry, Header, Progress, Seal
from .opening import open_engine

NO_IMPORT = (
    "this engine cannot import: it forgets everything when it closes, or its tables are distributed and cannot be locked "
    "as a whole; import into a file, or into tables on one server"
)


class Import:
    """Reads an export, line by line: `header` first, then `carried()`. An error names the line that is wrong."""

    def __init__(self, lines: Iterable[bytes], progress: Progress | None = None) -> None:
        self._input = iter(lines)
        self._progress = progress
        self._hasher = hashlib.blake2b(digest_size=16)
        self.header = _header(self._next())

    def limits(self) -> Limits:
        """Return the defaults, but the limits of holds are those of the exported journal, also if an older version allowed what `BOUNDS` no
        longer does. Bounds of tables are the engine's."""
        carried = {name: self.header.limits[name] for name in ADOPTED}
        for name, value in carried.items():
            if type(value) is not int or not 0 <= value <= MAX_SLOT:
                raise _bad(1, f"{name}_malformed", f"has a {name} that is no whole number from 0 to {MAX_SLOT}")
        return structs.replace(Limits(), **carried)

    def carried(self) -> Iterator[Carried]:
        """Yield every entry, checked by itself and against those before it. After the last one it raises if the seal does not fit."""
        last: dict[int, int] = {}
        for number in range(2, self.header.entries + 2):
            raw = self._next()
            line = _decode(raw, ExportedEntry, number)
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
        if next(self._input, b"").strip():
            raise _bad(number + 1, "line_malformed", "comes behind the last one")

    def _next(self) -> bytes:
        line = next(self._input, None)
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
    header = structs.replace(header, limits={**BEFORE, **header.limits})
    if set(header.limits) != set(stored_form(Limits())) or None in map(header.limits.get, ADOPTED):
        raise _bad(1, "header_malformed", "names other limits than this release knows")
    return header


def _decode(line: bytes, kind: type[Any], number: int) -> Any:
    if len(line) > LONGEST:
        raise _bad(number, "line_too_long", f"is longer than {LONGEST} bytes")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(number, "line_malformed", f"is not what belongs here: {error}") from None


def _entry(line: ExportedEntry, number: int) -> Entry:
    text = bytes(line.entry)
    try:
        if digest(text.decode()) != line.digest:
            raise _bad(number, "digest_wrong", "was changed: its digest does not fit")
        return decode_entry(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(number, "line_malformed", f"has no entry: {error}") from None


def _bad(number: int, code: str, words: str) -> InvalidRequest:
    return invalid(f"line {number}", code, words)


def import_journal(url: str, export: Import, *, verify: bool = True) -> None:
    """Import into the empty engine behind a URL. A new file adopts the limits of holds that the export names."""
    scheme, _, rest = url.partition(":///")
    path = Path(unquote(rest)).absolute()
    if scheme == "sqlite" and not path.exists():
        with staged(path) as made:
            _receive(f"sqlite:///{quote(str(made))}", export, export.limits(), verify)
            if Path(f"{made}-wal").exists():
                raise EngineError(f"cannot import into {path}: its write-ahead log could not be emptied")
    else:
        _receive(url, export, None, verify)


def _receive(url: str, export: Import, limits: Limits | None, verify: bool) -> None:
    engine = open_engine(url, limits=limits)
    try:
        target = engine.capabilities.import_
        if target is None:
            raise invalid("url", "import_unsupported", NO_IMPORT)
        target.receive(export.carried(), verify=verify)
    finally:
        engine.close()


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Make a path in a temporary directory beside `path`, on the same disk. After the block sync its content and rename it to `path`; after
    an error remove it. A killed process leaves a directory whose name shows its origin."""
    if not path.parent.is_dir():
        raise EngineError(f"cannot make {path}: the directory {path.parent} does not exist; create it first")
    directory = Path(tempfile.mkdtemp(prefix=f".{path.name}.unfinished-", dir=path.parent))
    try:
        made = directory / path.name
        yield made
        sync_path(made)
        made.rename(path)
        sync_path(path.parent)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
