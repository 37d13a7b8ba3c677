"""Seals of a log: one file beside the segments, a JSON line for each. Only appended to, or replaced as a whole.

A line without its line feed was never acknowledged: opening the log cuts it off. A line that is not a seal was changed by hand: it is
left out, and the chain has a gap there, which `verify --seals` reports.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Final, TypeAlias

import msgspec

from ...core.reading import JournalRow
from ...core.seals import Seal, decode_seal, encode_seal
from ...errors import EngineError
from .disk import Disk, File
from .journal import LogJournal

FILE: Final = "seals.jsonl"

ReplaceFile: TypeAlias = Callable[[Disk, str, list[bytes]], None]
"""Writes a file anew, under its name."""


class LogSeals:
    """The seals of one log. Its engine serialises what writes."""

    def __init__(self, disk: Disk, journal: LogJournal) -> None:
        self._disk, self._journal = disk, journal
        self._file: File | None = None
        self._seals: list[Seal] = []
        self.lock = Lock()
        """Whoever adds a seal, or rewrites what is sealed, has it."""
        self._rewrites = 0

    def open(self) -> None:
        """Read what is there."""
        if FILE not in self._disk.names():
            return
        self._file = file = self._disk.open(FILE)
        data = file.read(0, file.size())
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.cut(whole)
        for line in data[:whole].splitlines():
            try:
                self._seals.append(decode_seal(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue

    def last_seals(self) -> dict[int, Seal]:
        """The last seal."""
        return {0: self._seals[-1]} if self._seals else {}

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """Seals behind a number."""
        return [seal for seal in self._seals if seal.lane == lane and seal.first > after][:limit]

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """Entries behind a number."""
        if lane:
            return []
        rows = self._journal.after(after, None)
        return [row for row, _ in zip(rows, range(limit), strict=False)]

    def rewrites(self) -> int:
        """How often an erasure has rewritten entries, since the log was opened."""
        return self._rewrites

    def over(self, numbers: Iterable[int]) -> dict[int, Seal]:
        """The seals over these entries, by number."""
        lasts = [seal.last for seal in self._seals]
        found = {}
        for number in numbers:
            at = bisect_left(lasts, number)
            if at < len(lasts) and self._seals[at].first <= number:
                found[number] = self._seals[at]
        return found

    def replace(self, seals: Iterable[Seal]) -> None:
        """Seals over entries that were rewritten take the place of those before. The file is written by `write`."""
        new = {seal.first: seal for seal in seals}
        self._seals = [new.get(seal.first, seal) for seal in self._seals]
        self._rewrites += 1

    def write(self, rewritten: Callable[[Iterator[bytes]], list[bytes]], replace: ReplaceFile) -> None:
        """Write the file anew, with other lines."""
        with self.lock:
            if self._file is None:
                return
            data = self._file.read(0, self._file.size())
            replace(self._disk, FILE, rewritten(iter(data.splitlines())))
            self._file.close()
            self._file = self._disk.open(FILE)

    def add_seal(self, seal: Seal, rewrites: int) -> bool:
        """Append a seal, unless there is one that begins with the same entry, or entries were rewritten meanwhile."""
        with self.lock:
            return rewrites == self._rewrites and self._add(seal)

    def _add(self, seal: Seal) -> bool:
        if self._seals and self._seals[-1].first >= seal.first:
            return seal in self._seals
        try:
            file = self._file
            if file is None:
                file = self._file = self._disk.create(FILE)
                self._disk.sync()
            size = file.size()
            try:
                file.append(encode_seal(seal) + b"\n")
                file.sync()
            except OSError:
                file.cut(size)
                raise
        except OSError as error:
            raise EngineError(f"{self._disk.name}: the seal could not be written: {error}; the log is whole") from error
        self._seals.append(seal)
        return True

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
