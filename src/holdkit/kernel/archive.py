"""Archiving: old entries leave the journal for files (`holdkit.engines.archive_files`), and a baseline stands for them.

Theory of operation. For each lane, and for one file after the other:

1. entries are read from behind the last archived one, while they are older than asked for and the engine lets them go, and written to
   a file, which gets its name only when it is whole and on disk;
2. in transactions of at most a thousand entries they are folded into the lane's baseline and deleted, and `through` moves on.

How many entries a transaction takes, and when the run rests, is the matter of its pace (`holdkit.engines.archive_pace`).

At every moment each entry is in the journal, in a whole file, or in both. A run that is killed during 1 leaves a file under a temporary
name, which the next run removes. Killed during 2, it leaves a whole file that goes beyond `through`: the next run compares that file
with the journal, entry by entry, and goes on deleting from there. A file whose entries are not those of the journal is of another
history, for example of before a restore: then nothing is deleted.

*Progress* may raise (Ctrl-C does): that ends the run between two steps, as a kill would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from ..core.archived import ReadRewritten
from ..core.audit_rows import Difference
from ..core.model import Slot
from ..core.reading import JournalRow, ReadClock, ReadGeneration, entry_of
from ..core.seals import Seal
from ..core.validation import invalid
from ..engines.archive_files import (
    FORMAT,
    MAX_ENTRIES,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    ArchiveFile,
    ArchiveHead,
    archived_entry,
    rows_of,
    write_archive_file,
)
from ..engines.archiving import STEP, ArchivableLane, ArchivedEntries, Archiver, Archiving
from ..engines.port import Engine
from ..engines.progress import Progress
from ..engines.seal_store import SealStore
from ..errors import EngineError, Overloaded

ATTEMPTS: Final = 5
"""How often files and database are compared while erasures change both."""
NO_ARCHIVE = (
    "this engine cannot archive its journal: it keeps none for good, or its tables are distributed; archive a SQLite file or tables on "
    "one server"
)

UNFINISHED = (
    "an erasure has begun and has not ended, and what it has not found yet must not leave for a file: wait until it ends or, if it was "
    "interrupted, give the same erase command again; then archive"
)


class ArchiveReport(Struct, frozen=True):
    """What a run of archiving has done."""

    entries: int
    """Entries that have left the journal."""
    files: tuple[str, ...]
    """The files that were written, or that a run before had written, in the order of their entries."""
    place: str
    """The directory."""


def archive(
    engine: Engine,
    before: Slot,
    to: str | os.PathLike[str],
    progress: Progress | None = None,
    calls: Callable[[], int] | None = None,
) -> ArchiveReport:
    """Move the entries that are older than a slot, of all tenants, to files in a directory. `calls` counts those that threads of this
    process make meanwhile."""
    archiving = engine.capabilities.archive
    if archiving is None:
        raise invalid("url", "archive_unsupported", NO_ARCHIVE)
    if before > engine.read(ReadClock()):
        raise invalid("before", "before_in_future", "must not be in the future")
    directory = ArchiveDirectory(to)
    erasing = engine.capabilities.erasure
    with directory.taken(), archiving.archiver() as archiver:
        if erasing is not None and erasing.unfinished():
            raise EngineError(UNFINISHED)
        if calls is not None:
            archiver.pace.watch(calls)
        run = _Run(archiver, directory, engine.read(ReadGeneration()), engine.lanes, before, progress,
                   engine.capabilities.seals)  # fmt: skip
        return run.all_lanes()


def verify(
    engine: Engine, progress: Progress | None = None, directory: str | os.PathLike[str] | None = None
) -> Iterator[Difference]:
    """Every difference; with the files in a directory in place of the baseline."""
    if directory is None:
        return engine.verify(progress)
    archiving = engine.capabilities.archive
    if archiving is None:
        raise invalid("archive", "archive_unsupported", NO_ARCHIVE)
    return _verify_files(engine, archiving, archived_entries(engine, directory), progress)


def _verify_files(
    engine: Engine, archiving: Archiving, files: ArchivedEntries, progress: Progress | None
) -> Iterator[Difference]:
    """Every difference. The database is read as it is at one moment, the files as they are later. An erasure, of this process or of another,
    counts its transactions (`SealStore.rewrites`), and changes a file only behind them. So a difference that is found while that number is
    still what it was before is one; else the comparison begins anew."""
    store = engine.capabilities.seals
    assert store is not None, "engines that archive have seals"
    for _ in range(ATTEMPTS):
        before, told = store.rewrites(), False
        with closing(archiving.verify_with(files, progress)) as found:
            for difference in found:
                if store.rewrites() != before:
                    break
                told = True
                yield difference
            else:
                return
        if told:
            break
    raise Overloaded(
        "an erasure rewrites the journal and its archive while they are compared: verify them when it has ended",
        retry_after=10.0,
    )


def archived_entries(engine: Engine, directory: str | os.PathLike[str]) -> ArchivedEntries:
    """What `verify` folds in place of the baseline: the entries of the files and, where an erasure has not come to rewrite these yet, what it
    will write there."""
    files = ArchiveDirectory(directory)
    files.files()  # raises if there is no such directory

    def rows(lane: int, upto: int) -> Iterator[JournalRow]:
        texts = engine.read(ReadRewritten(lane))
        for row in files.rows(lane, 0, upto):
            yield row if row.seq not in texts else JournalRow(row.seq, texts[row.seq], lane)

    return rows


def _lines(rows: Iterable[JournalRow], runs: Mapping[int, Seal]) -> Iterator[ArchivedLine]:
    """The lines of a file: entries, and behind each sealed run its seal."""
    for row in rows:
        yield archived_entry(row)
        if row.seq in runs:
            yield ArchivedSeal(msgspec.Raw(msgspec.json.encode(runs[row.seq])))


class _Run:
    """One run."""

    def __init__(
        self,
        archiver: Archiver,
        directory: ArchiveDirectory,
        generation: str,
        lanes: int,
        before: Slot,
        progress: Progress | None,
        seals: SealStore | None,
    ) -> None:
        self._seals = seals
        self._pace = archiver.pace
        self._archiver, self._directory, self._before = archiver, directory, before
        self._generation, self._lanes = generation, lanes
        self._progress = progress
        self._done, self._total = 0, 0
        self._files: list[str] = []

    def all_lanes(self) -> ArchiveReport:
        """One lane after the other."""
        lanes = self._archiver.lanes()
        self._total = sum(max(0, lane.upto - lane.archived.through) for lane in lanes)
        for lane in lanes:
            self._lane(lane)
        if self._progress is not None:
            self._progress(self._total, self._total)
        return ArchiveReport(self._done, tuple(self._files), str(self._directory.path))

    def _lane(self, lane: ArchivableLane) -> None:
        archived = lane.archived
        while (file := self._next_file(lane, archived.through)) is not None:
            rows = self._giving_way(rows_of(file, archived.through))
            while step := list(islice(rows, self._pace.entries)):
                self._compare(file, step)
                archived = self._archiver.drop(archived, step, str(self._directory.path))
                self._done += len(step)
                if self._progress is not None:
                    self._progress(min(self._done, self._total), self._total)
            self._files.append(file.path.name)
        if archived.through:
            self._archiver.tidy(archived)

    def _next_file(self, lane: ArchivableLane, through: int) -> ArchiveFile | None:
        """The file whose entries leave next: one that a run before has left, or a new one; None if there is nothing to archive."""
        number = lane.archived.lane
        for file in self._directory.files(number):
            if file.first <= through + 1 <= file.last:
                self._compare_all(file, through)
                return file
            if file.first > through + 1:
                raise EngineError(
                    f"{file.path} has entries from {file.first} on, but lane {number} is archived through {through}: the directory is "
                    "of another database, or of this one before it was restored; archive to another directory"
                )
        rows = list(islice(self._giving_way(self._leaving(lane, through)), MAX_ENTRIES))
        runs = {} if self._seals is None else self._runs(number, through, rows)
        if runs is not None and runs:
            rows = rows[: max(runs) - through]
        if not rows or runs is None:
            return None
        head = ArchiveHead("archive", FORMAT, self._lanes, number, rows[0].seq, rows[-1].seq, self._generation)
        return write_archive_file(self._directory.path, head, _lines(self._giving_way(rows), runs))

    def _runs(self, lane: int, through: int, rows: list[JournalRow]) -> dict[int, Seal] | None:
        """The seals of the runs that are wholly among these entries, by their last entry: where a lane has seals, whole runs leave.
        Empty if the lane has no seal, None if no whole run may leave."""
        assert self._seals is not None
        last = self._seals.last_seals().get(lane)
        if last is None or not rows:
            return {}
        found = self._seals.read_seals(lane, through, MAX_ENTRIES) if last.last > through else []
        return {seal.last: seal for seal in found if seal.last <= rows[-1].seq} or None

    def _leaving(self, lane: ArchivableLane, through: int) -> Iterator[JournalRow]:
        """The entries of a lane that are old enough, up to the first that is not."""
        before = self._before if lane.before is None else min(self._before, lane.before)
        while rows := self._archiver.read(lane.archived.lane, through, STEP):
            for row in rows:
                if row.seq != through + 1 or row.seq > lane.upto or entry_of(row).slot >= before:
                    return
                through = row.seq
                yield row

    def _giving_way(self, rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
        """The same rows; others get their time between any two of them, and the run can be ended there now and then."""
        give_way = self._pace.give_way
        for number, row in enumerate(rows, 1):
            give_way()
            yield row
            if number % STEP == 0 and self._progress is not None:
                self._progress(min(self._done, self._total), self._total)

    def _compare_all(self, file: ArchiveFile, through: int) -> None:
        """Compare a file that another run has left before any of its entries leaves the journal. Its end may be of a history that a
        restore has lost: then none may leave for it."""
        rows = self._giving_way(rows_of(file, through))
        while step := list(islice(rows, STEP)):
            self._compare(file, step)

    def _compare(self, file: ArchiveFile, step: Iterable[JournalRow]) -> None:
        """What is about to be deleted must be what the file has."""
        there = list(step)
        found = self._archiver.read(file.lane, there[0].seq - 1, len(there))
        for mine, theirs in zip(there, [*found, *[None] * len(there)], strict=False):
            if theirs is None or (mine.seq, mine.text) != (theirs.seq, theirs.text):
                raise EngineError(
                    f"{file.path} has another entry {mine.seq} of lane {file.lane} than the journal: the directory is of another "
                    "database, or of this one before it was restored; archive to another directory"
                )
