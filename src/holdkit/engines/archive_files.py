"""Archive files: runs of journal entries that have left their database, or are about to, as compressed JSON lines with checksums.

A file has consecutive entries of one lane, and its name says which: ``lane-0003-000000000001-000000100000.jsonl.gz``. Its lines:

- the head (`ArchiveHead`): lane, first and last number, the generation of the journal, how many lanes that has;
- one line per entry (`ArchivedEntry`): the same line as in an export, with the number that the entry has in its lane;
- behind the last entry of a sealed run, its seal (`ArchivedSeal`), whose content this module does not read;
- the end (`ArchiveEnd`): how many entries there are, and the SHA-256 of all lines before it.

A file gets its name only when it is whole and synced (`write_archive_file`), so a process that is killed leaves a file under a temporary
name at most; the next writer removes it. A file is replaced in the same way: a reader that has the old one open keeps reading it. Reading
checks everything, and raises `EngineError` with the file and the line. A writer locks the directory first (`ArchiveDirectory.taken`).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from ..core.baseline import KnownFile
from ..core.codec import decode_entry, digest
from ..core.entries import Entry
from ..core.reading import JournalRow
from ..core.validation import invalid
from ..errors import EngineError
from .durability import sync_path

FORMAT: Final = 1
MAX_ENTRIES: Final = 100_000
"""Entries of one file."""
LONGEST: Final = 16 << 20
"""Bytes of one line: a hold of a thousand legs fits."""
LEVEL: Final = 5
"""Of the compression: a tenth larger than the best, in half the time."""
_NAME: Final = re.compile(r"lane-(\d{4,5})-(\d{12,})-(\d{12,})\.jsonl\.gz")
_UNFINISHED: Final = re.compile(r"\.lane-.*\.unfinished")


class ArchiveHead(Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="head"):
    """The first line."""

    holdkit: str
    format: int
    lanes: int
    lane: int
    first: int
    last: int
    generation: str


class ArchivedEntry(Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="entry"):
    """An entry: its position, the digest that cursors know it by, and its text."""

    lane: int
    seq: int
    digest: str
    entry: msgspec.Raw

    @property
    def text(self) -> str:
        """The entry as JSON text, exactly as it was in the journal."""
        return bytes(self.entry).decode()

    @property
    def row(self) -> JournalRow:
        """As an engine returns it."""
        return JournalRow(self.seq, self.text, self.lane)


class ArchivedSeal(Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="seal"):
    """The seal of the run that ends here."""

    seal: msgspec.Raw


class ArchiveEnd(Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="end"):
    """The last line."""

    entries: int
    sha256: str


ArchivedLine: TypeAlias = ArchivedEntry | ArchivedSeal
_lines: Final = msgspec.json.Decoder(ArchivedEntry | ArchivedSeal | ArchiveEnd)
_head: Final = msgspec.json.Decoder(ArchiveHead)


def archived_entry(row: JournalRow) -> ArchivedEntry:
    """Return the line of an entry."""
    return ArchivedEntry(row.lane, row.seq, digest(row.text), msgspec.Raw(row.text.encode()))


class ArchiveFile(Struct, frozen=True, order=True):
    """A whole file, as its name describes it. In order of lane and number."""

    lane: int
    first: int
    last: int
    path: Path

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return self.last - self.first + 1

    @property
    def size(self) -> int:
        """Its bytes."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise EngineError(f"cannot read {self.path}: {error.strerror or error}") from error


def file_name(lane: int, first: int, last: int) -> str:
    """Return the name of a file."""
    return f"lane-{lane:04d}-{first:012d}-{last:012d}.jsonl.gz"


def write_archive_file(
    directory: Path, head: ArchiveHead, lines: Iterable[ArchivedLine]
) -> tuple[ArchiveFile, KnownFile]:
    """Write a file, or replace the one of the same name: a temporary name, sync, rename, sync the directory. The lines must be the
    entries that the head announces, in order, each seal behind its run. Return the file, and what the database is to know of it."""
    path = directory / file_name(head.lane, head.first, head.last)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".unfinished", dir=directory)
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as out:
                sha256 = _write(out, head, lines)
            sync_path(draft)
            size = draft.stat().st_size
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_path(directory)
    except OSError as error:
        raise EngineError(f"cannot write {path}: {error.strerror or error}") from error
    return ArchiveFile(head.lane, head.first, head.last, path), KnownFile(head.last, size, sha256, str(directory))


def _write(out: gzip.GzipFile, head: ArchiveHead, lines: Iterable[ArchivedLine]) -> str:
    """Write every line; return their SHA-256."""
    hasher, expected = hashlib.sha256(), head.first

    def put(line: Struct) -> None:
        data = msgspec.json.encode(line) + b"\n"
        hasher.update(data)
        out.write(data)

    put(head)
    for line in lines:
        if isinstance(line, ArchivedEntry):
            assert (line.lane, line.seq) == (head.lane, expected), "entries are written in order"
            expected += 1
        put(line)
    assert expected == head.last + 1, "all the announced entries are written"
    out.write(msgspec.json.encode(ArchiveEnd(head.last - head.first + 1, hasher.hexdigest())) + b"\n")
    return hasher.hexdigest()


def read_head(file: ArchiveFile) -> ArchiveHead:
    """Return the head of a file."""
    with _opened(file) as stream:
        return _decoded_head(file, stream.readline(LONGEST))


def read_whole_file(file: ArchiveFile) -> Iterator[ArchivedLine | ArchiveEnd]:
    """Yield every line behind the head, each checked by itself. Yield the end last, and only if the whole file checks."""
    with _opened(file) as stream:
        hasher, expected, number = hashlib.sha256(), file.first, 1
        line = stream.readline(LONGEST)
        _decoded_head(file, line)
        hasher.update(line)
        while True:
            number += 1
            line = stream.readline(LONGEST)
            found = _decoded(file, line, number)
            if isinstance(found, ArchiveEnd):
                break
            if isinstance(found, ArchivedEntry):
                if (found.lane, found.seq) != (file.lane, expected) or digest(found.text) != found.digest:
                    raise damaged(file, f"line {number} is not entry {expected} as it was written")
                expected += 1
            hasher.update(line)
            yield found
        if (found.entries, found.sha256) != (file.entries, hasher.hexdigest()) or expected != file.last + 1:
            raise damaged(file, "its checksum does not fit its lines")
        if stream.read(1):
            raise damaged(file, "lines follow its last one")
    yield found


def read_archive_file(file: ArchiveFile) -> Iterator[ArchivedLine]:
    """Yield the entries and seals of a file; reads and checks the whole file."""
    for line in read_whole_file(file):
        if not isinstance(line, ArchiveEnd):
            yield line


def rows_of(file: ArchiveFile, after: int = 0) -> Iterator[JournalRow]:
    """Yield the entries of a file behind a number; reads and checks the whole file."""
    for line in read_archive_file(file):
        if isinstance(line, ArchivedEntry) and line.seq > after:
            yield line.row


def decoded(row: JournalRow) -> Entry:
    """Decode the entry of an archived row, or raise `EngineError`."""
    try:
        return decode_entry(row.text)
    except msgspec.DecodeError as error:
        raise EngineError(f"entry {row.seq} of lane {row.lane} in the archive is not an entry: {error}") from None


def damaged(file: ArchiveFile, what: str) -> EngineError:
    """Return the error for a file that does not check."""
    return EngineError(f"{file.path} is damaged: {what}; restore it from a copy of the archive")


@contextmanager
def _opened(file: ArchiveFile) -> Iterator[gzip.GzipFile]:
    try:
        with gzip.open(file.path, "rb") as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(file, str(error)) from error


def _decoded_head(file: ArchiveFile, line: bytes) -> ArchiveHead:
    try:
        head = _head.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(file, f"its first line is not the head of an archive file: {error}") from None
    if head.holdkit != "archive" or head.format != FORMAT:
        raise EngineError(f"{file.path} has format {head.format}; this release knows {FORMAT}")
    if (head.lane, head.first, head.last) != (file.lane, file.first, file.last):
        raise damaged(file, "it was renamed: its head names other entries")
    return head


def _decoded(file: ArchiveFile, line: bytes, number: int) -> ArchivedLine | ArchiveEnd:
    if not line.endswith(b"\n"):
        raise damaged(file, f"it ends in line {number}" if len(line) < LONGEST else f"line {number} is too long")
    try:
        found: ArchivedLine | ArchiveEnd = _lines.decode(
            line.decode()
        )  # as text: msgspec leaves the bytes of an entry unchecked
        return found
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(file, f"line {number} is not a line of an archive: {error}") from None


class ArchiveDirectory:
    """The files of one archive."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given: object = path
        if not isinstance(given, str | os.PathLike) or "\0" in str(given) or not str(given):
            raise invalid("archive", "directory_malformed", "must be the path of a directory, as text or a path object")
        self.path = Path(path).absolute()

    def files(self, lane: int | None = None) -> list[ArchiveFile]:
        """Return the whole files, in order of lane and number."""
        try:
            names = [entry.name for entry in os.scandir(self.path) if entry.is_file()]
        except OSError as error:
            raise EngineError(f"cannot read the archive {self.path}: {error.strerror or error}") from error
        found = [(match, name) for name in names if (match := _NAME.fullmatch(name)) is not None]
        every = [ArchiveFile(int(match[1]), int(match[2]), int(match[3]), self.path / name) for match, name in found]
        named = [file for file in every if file.path.name == file_name(file.lane, file.first, file.last)]
        return sorted(file for file in named if lane is None or file.lane == lane)

    def lanes(self) -> list[int]:
        """Return the numbers of the lanes that have files here, in order."""
        return sorted({file.lane for file in self.files()})

    def reading(self, lane: int, after: int = 0, upto: int | None = None) -> Iterator[tuple[ArchiveFile, int]]:
        """Yield the files to read for a lane's entries behind a number, each with the number behind which to read it. Raise `EngineError`
        if entries are missing in between or, if `upto` is given, up to that number."""
        reached = after
        for file in self.files(lane):
            if file.last <= reached or (upto is not None and reached >= upto):
                continue
            if file.first > reached + 1:
                raise self.missing(lane, reached + 1)
            yield file, reached
            reached = file.last
        if upto is not None and reached < upto:
            raise self.missing(lane, reached + 1)

    def missing(self, lane: int, seq: int) -> EngineError:
        """Return the error for an entry that no file has."""
        return EngineError(
            f"the archive {self.path} has no file with entry {seq} of lane {lane}: the files are incomplete, or of another database"
        )

    def rows(self, lane: int, after: int = 0, upto: int | None = None) -> Iterator[JournalRow]:
        """Yield a lane's entries behind a number, in order, without a gap; up to `upto`, if given, where all of them must be there."""
        for file, reached in self.reading(lane, after, upto):
            for row in rows_of(file, reached):
                if upto is None or row.seq <= upto:
                    yield row

    def remove(self, file: ArchiveFile) -> None:
        """Remove a file, durably."""
        try:
            file.path.unlink()
        except OSError as error:
            raise EngineError(f"cannot remove {file.path}: {error.strerror or error}") from error
        sync_path(self.path)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Create the directory if it is missing, lock it for a writer of this process, and remove the temporary files that a killed
        process left. Raise `EngineError` if another process writes there."""
        import fcntl  # not on Windows, where everything else here works

        try:
            self.path.mkdir(mode=0o700, parents=False, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise EngineError(f"cannot use {self.path} as an archive: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise EngineError(f"another process writes into the archive {self.path}: wait until it ends") from error
            for entry in self.path.iterdir():
                if _UNFINISHED.fullmatch(entry.name):
                    entry.unlink()
            yield
        finally:
            os.close(descriptor)
