"""Runs of entries in archive files, for the check of their seals: one after the other, each file read once and checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.seals import Seal, decode_seal
from ..engines.archive_files import ArchivedEntry, ArchiveDirectory, ArchivedLine, read_archive_file


class ArchivedRuns:
    """The runs of one archive. Those of a lane are best asked for in order."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = ArchiveDirectory(directory)
        self._directory.files()  # raises if there is no such directory
        self._lane, self._reached = -1, 0
        self._lines: Iterator[ArchivedLine] = iter(())
        self._ahead: ArchivedLine | None = None
        """A line that was read and belongs to the next run."""

    def read(self, seal: Seal) -> tuple[list[tuple[int, Entry]], Seal | None]:
        """Return the entries of a run that the archive has, with their numbers, and the seal behind them, if there is one.
        Raise `EngineError` if a file is damaged, `msgspec.DecodeError` if a text is no entry."""
        if seal.lane != self._lane or seal.first <= self._reached:
            self._lane, self._ahead, self._lines = seal.lane, None, self._from(seal)
        self._reached = seal.last
        entries: list[tuple[int, Entry]] = []
        while (line := self._next()) is not None:
            if not isinstance(line, ArchivedEntry):
                if entries and entries[-1][0] == seal.last:
                    return entries, decode_seal(line.seal)
            elif line.seq > seal.last:
                self._ahead = line
                break
            elif line.seq >= seal.first:
                entries.append((line.seq, decode_entry(line.text)))
        return entries, None

    def _next(self) -> ArchivedLine | None:
        line, self._ahead = self._ahead, None
        return next(self._lines, None) if line is None else line

    def _from(self, seal: Seal) -> Iterator[ArchivedLine]:
        for file in self._directory.files(seal.lane):
            if file.last >= seal.first:
                yield from read_archive_file(file)
