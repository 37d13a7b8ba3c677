"""The files of an archive against what the database knows of them.

Theory of operation. The transaction in which entries of a file leave the journal also stores the file's size and checksum (`KnownFile`).
So a file that was damaged, swapped, or put back from before an erasure differs from what the database knows, even if all checksums in it
were computed anew. Three readers compare:

- a run of archiving, before any entry leaves, compares the names, heads and sizes of all files. In the newest file of each lane, which
  the next file continues, it compares every line and the seals;
- `verify`, `export` and an erasure compare every line of each file that they read.

An erasure writes a file anew, and then stores its size and checksum. Until then the database has the texts that the file is to get
(`ReadRewritten`), so a file with such texts is not compared. Older releases stored nothing about their files; these are compared by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from ..core.archived import FindArchived, FindKnownFiles, ReadRewritten
from ..core.audit_rows import Difference
from ..core.baseline import ArchivedLane, KnownFile
from ..core.personal import text_digest
from ..core.reading import JournalRow
from ..core.seals import RUN, Seal, decode_seal
from ..engines.archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedSeal,
    ArchiveEnd,
    ArchiveFile,
    damaged,
    file_name,
    read_head,
    read_whole_file,
)
from ..engines.known_files import difference, end_differences, file_differences, has_any, refusal
from ..engines.port import Engine
from ..errors import CursorLost

MOST_SEALS: Final = 100_000
"""Seals of one file at most: it has no more entries."""


class WrittenFile(NamedTuple):
    """A file, and the facts to store about it."""

    file: ArchiveFile
    known: KnownFile


class Content(NamedTuple):
    """The content of a file, as it was read."""

    known: KnownFile
    seals: Mapping[int, Seal]
    """By the last entry of their runs."""


class ArchiveCheck:
    """The files of one directory."""

    def __init__(self, engine: Engine, directory: ArchiveDirectory) -> None:
        self._engine, self._directory = engine, directory
        self._archived = {one.lane: one for one in engine.read(FindArchived())}

    # Names, heads and sizes

    def differences(self) -> Iterator[Difference]:
        """Yield every file that is missing, is no part of this archive, or has another size. Raises `EngineError` if the first line of one
        is not that of the file which its name says."""
        # before the files are listed: of each file that is known then, the list has the name, whatever is archived meanwhile
        known_by_lane = {lane: self._engine.read(FindKnownFiles(lane)) for lane in self._archived}
        by_lane: dict[int, list[ArchiveFile]] = {lane: [] for lane in self._archived}
        for file in self._directory.files():
            head = read_head(file)
            if head.lanes != self._engine.lanes or file.lane >= self._engine.lanes:
                yield difference(file, "lanes", head.lanes, self._engine.lanes)
            else:
                by_lane.setdefault(file.lane, []).append(file)
        for lane, files in sorted(by_lane.items()):
            known = known_by_lane.get(lane, {})
            pending = self._engine.read(ReadRewritten(lane))
            for file in files:
                yield from self._unless_rewritten(
                    file, known, file_differences(file, known, pending, self._through(lane))
                )
            here, there = str(self._directory.path), {file.first for file in files}
            places = {here, *(one.place for first, one in known.items() if first in there)}
            for first, one in sorted(known.items()):  # of a directory that was moved here, all files must have come
                if first not in there and one.place in places:
                    yield Difference("archive", file_name(lane, first, one.last), "file", "missing", "there")
            archived = self._archived.get(lane)
            if archived is not None and not files and not known and archived.place == here:
                yield Difference("archive", file_name(lane, 1, archived.through), "file", "missing", "there")

    def _through(self, lane: int) -> int:
        return self._archived[lane].through if lane in self._archived else 0

    # Content

    def rows(self, lane: int, upto: int) -> Iterator[JournalRow | Difference]:
        """Yield the archived entries of a lane as an erasure leaves them, and the differences of their files. Raise `CursorLost` if an
        erasure rewrites a file meanwhile."""
        pending, known = self._engine.read(ReadRewritten(lane)), self._engine.read(FindKnownFiles(lane))
        for file, after in self._directory.reading(lane, 0, upto):
            found = [*file_differences(file, known, pending, self._through(lane))]
            for line in read_whole_file(file):
                if isinstance(line, ArchivedEntry):
                    if after < line.seq <= upto:
                        yield JournalRow(line.seq, pending.get(line.seq, line.text), lane)
                elif isinstance(line, ArchiveEnd):
                    found += end_differences(file, line, known, pending)
            yield from self._unless_rewritten(file, known, found)

    def _unless_rewritten(
        self, file: ArchiveFile, known: Mapping[int, KnownFile], found: Iterable[Difference]
    ) -> Iterator[Difference]:
        """Yield the differences of a file, unless an erasure has changed the file, or what is stored about it, since that was read."""
        for one in found:
            pending = self._engine.read(ReadRewritten(file.lane))
            now = self._engine.read(FindKnownFiles(file.lane))
            if now.get(file.first) != known.get(file.first) or has_any(file, pending):
                raise CursorLost(f"an erasure rewrites {file.path} while it is read: begin anew when it has ended")
            yield one

    def refuse_differences(self) -> None:
        """Raise `EngineError` for the first file whose name, head or size differs from the database."""
        for found in self.differences():
            advice = "Restore it from a copy of the archive, or archive to another directory; nothing was archived"
            raise refusal(self._directory, found, advice)

    def newest(self, archived: ArchivedLane, rest: Callable[[], None]) -> WrittenFile | None:
        """Return the file with the last entry of a lane that has left, once every line of it was compared; None if the directory has no
        file of the lane. Calls `rest` now and then."""
        files = [file for file in self._directory.files(archived.lane) if file.first <= archived.through]
        if not files:
            return None
        *_, (file, _) = self._directory.reading(archived.lane, files[0].first - 1, archived.through)

        def compare(row: JournalRow) -> None:
            if row.seq % 100 == 0:
                rest()
            if row.seq == archived.through and text_digest(row.text) != archived.digest:
                raise damaged(file, f"entry {row.seq} is not the one that was archived")

        content, known = self.read(file, compare), self._engine.read(FindKnownFiles(file.lane)).get(file.first)
        if known is not None and known.sha256 != content.known.sha256:
            raise damaged(file, "its lines are not those that were archived, although its checksums fit them")
        wrong = self.wrong_seal(file, archived.through, content.seals)
        if wrong is not None:
            raise damaged(file, wrong)
        return WrittenFile(file, content.known)

    def read(self, file: ArchiveFile, compare: Callable[[JournalRow], None]) -> Content:
        """Read a whole file, and have each of its entries compared."""
        seals: dict[int, Seal] = {}
        sha256 = ""
        for line in read_whole_file(file):
            if isinstance(line, ArchivedSeal):
                seal = _seal(file, line)
                seals[seal.last] = seal
            elif isinstance(line, ArchiveEnd):
                sha256 = line.sha256
            else:
                compare(line.row)
        return Content(KnownFile(file.last, file.size, sha256, str(self._directory.path)), seals)

    def wrong_seal(self, file: ArchiveFile, upto: int, copies: Mapping[int, Seal]) -> str | None:
        """Return what is wrong with the seals of a file: each sealed run that ends in it, up to a number, must be followed by its seal."""
        store = self._engine.capabilities.seals
        assert store is not None, "engines that archive have seals"
        stored = store.read_seals(file.lane, max(0, file.first - RUN), MOST_SEALS)
        last = min(file.last, upto)
        expected = {seal.last: seal for seal in stored if file.first <= seal.last <= last}
        for end in sorted({*expected, *(one for one in copies if one <= last)}):
            if expected.get(end) != copies.get(end):
                what = "is missing" if end not in copies else "is not that of the database"
                return f"the seal of the run that ends with entry {end} {what}"
        return None


def _seal(file: ArchiveFile, line: ArchivedSeal) -> Seal:
    try:
        return decode_seal(line.seal)
    except msgspec.DecodeError as error:
        raise damaged(file, f"a seal in it is none: {error}") from None
