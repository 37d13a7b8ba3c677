"""Archiving: old entries leave the journal for files (`holdkit.engines.archive_files`), and a baseline stands for them.

Theory of operation. For each lane, and for one file after the other:

1. entries are read from behind the last archived one, while they are older than asked for and the engine lets them go, and written to
   a file, which gets its name only when it is whole and on disk;
2. in transactions of at most a thousand entries they are folded into the lane's baseline and deleted, and `through` moves on.

How many entries a transaction takes, and when the run rests, is the matter of its pace (`holdkit.engines.archive_pace`).

At every moment each entry is in the journal, in a whole file, or in both. A run that is killed during 1 leaves a file under a temporary
name, which the next run removes. Killed between the two, or during 2, it leaves a whole file that goes beyond `through`: the next run
compares that file with the journal, entry by entry. If none of its entries has left the journal, it is removed, and written anew; else the
run continues to delete from there. A file whose entries are not those of the journal is of another history, for example of before a
restore: then nothing is deleted.

Before any entry leaves, the existing files are compared with their sizes and checksums in the database (`holdkit.kernel.archive_check`).

*Progress* may raise (Ctrl-C does): that ends the run between two steps, as a kill would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import Final

import msgspec
from msgspec import Struct

from ..core.audit_rows import Difference
from ..core.baseline import ArchivedLane, KnownFile
from ..core.model import Slot
from ..core.reading import JournalRow, ReadClock, ReadGeneration, entry_of
from ..core.seals import RUN, Seal
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
from ..errors import CursorLost, EngineError, Overloaded
from .archive_check import ArchiveCheck, WrittenFile
from .one_line import summary

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
    """The result of a run of archiving."""

    entries: int
    """Entries that have left the journal."""
    files: tuple[str, ...]
    """The files that were written, or that a run before had written, in the order of their entries."""
    place: str
    """The directory."""

    __repr__ = summary


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
        return _Run(engine, archiver, directory, before, progress).all_lanes()


def verify(
    engine: Engine, progress: Progress | None = None, directory: str | os.PathLike[str] | None = None
) -> Iterator[Difference]:
    """Yield every difference; with the files in a directory in place of the baseline."""
    if directory is None:
        return engine.verify(progress)
    archiving = engine.capabilities.archive
    if archiving is None:
        raise invalid("archive", "archive_unsupported", NO_ARCHIVE)
    return _verify_files(engine, archiving, ArchiveDirectory(directory), progress)


def _verify_files(
    engine: Engine, archiving: Archiving, directory: ArchiveDirectory, progress: Progress | None
) -> Iterator[Difference]:
    """Yield every difference. The database is read as it is at one moment, the files as they are later. An erasure, of this process or of
    another, counts its transactions (`SealStore.rewrites`), and changes a file only behind them. So a difference counts only if that number
    has not changed since before the read; else the comparison begins anew."""
    store = engine.capabilities.seals
    assert store is not None, "engines that archive have seals"
    for _ in range(ATTEMPTS):
        before, told, check = store.rewrites(), False, ArchiveCheck(engine, directory)
        try:
            with closing(archiving.verify_with(check.rows, progress)) as of_rows:
                for difference in chain(check.differences(), of_rows):
                    if store.rewrites() != before:
                        break
                    told = True
                    yield difference
                else:
                    return
        except CursorLost:
            pass  # an erasure rewrites a file
        except EngineError:
            if told or store.rewrites() == before:
                raise
        if told:
            break
    raise Overloaded(
        "an erasure rewrites the journal and its archive while they are compared: verify them when it has ended",
        retry_after=10.0,
    )


def archived_entries(engine: Engine, directory: str | os.PathLike[str]) -> ArchivedEntries:
    """Return the reader that an export uses in place of the baseline: the entries of the files, as an erasure leaves them."""
    files = ArchiveDirectory(directory)
    files.files()  # raises if there is no such directory
    return ArchiveCheck(engine, files).rows


def _lines(rows: Iterable[JournalRow], runs: Mapping[int, Seal]) -> Iterator[ArchivedLine]:
    """Yield the lines of a file: entries, and behind each sealed run its seal."""
    for row in rows:
        yield archived_entry(row)
        if row.seq in runs:
            yield ArchivedSeal(msgspec.Raw(msgspec.json.encode(runs[row.seq])))


class _Run:
    """One run."""

    def __init__(
        self, engine: Engine, archiver: Archiver, directory: ArchiveDirectory, before: Slot, progress: Progress | None
    ) -> None:
        self._seals, self._lanes = engine.capabilities.seals, engine.lanes
        self._generation = engine.read(ReadGeneration())
        self._pace = archiver.pace
        self._archiver, self._directory, self._before = archiver, directory, before
        self._check = ArchiveCheck(engine, directory)
        self._progress = progress
        self._done, self._total = 0, 0
        self._files: list[str] = []

    def all_lanes(self) -> ArchiveReport:
        """Archive one lane after the other."""
        lanes = self._archiver.lanes()
        self._total = sum(max(0, lane.upto - lane.archived.through) for lane in lanes)
        self._check.refuse_differences()
        leaving = [lane for lane in lanes if any(self._leaving(lane, lane.archived.through))]
        newest = [self._check.newest(lane.archived, self._rest) for lane in leaving]
        archived = {lane.archived.lane: lane.archived for lane in lanes}
        for lane, file in zip(leaving, newest, strict=True):
            archived[lane.archived.lane] = self._lane(lane, file)
        for one in archived.values():
            if one.through:
                self._archiver.tidy(one)
        if self._progress is not None:
            self._progress(self._total, self._total)
        return ArchiveReport(self._done, tuple(self._files), str(self._directory.path))

    def _lane(self, lane: ArchivableLane, newest: WrittenFile | None) -> ArchivedLane:
        """Archive a lane, file by file."""
        archived = lane.archived
        left = self._left_behind(lane, newest)
        while (following := next(left, None) or self._next_file(lane, archived.through)) is not None:
            file, known = following
            rows = self._may_leave(lane, self._giving_way(rows_of(file, archived.through)))
            while step := list(islice(rows, self._pace.entries)):
                self._compare(file, step)
                archived = self._archiver.drop(archived, step, file.first, known)
                self._done += len(step)
                self._report()
            self._files.append(file.path.name)
            if archived.through < file.last:
                break  # the rest must stay
        return archived

    def _left_behind(self, lane: ArchivableLane, newest: WrittenFile | None) -> Iterator[WrittenFile]:
        """Yield the files whose entries have not left, or only the first of them: of a killed run, or of a time behind that to which the
        database was restored. One that cannot be used as it is, because an entry of it must stay or has been sealed since, is removed with
        those behind it: the journal has all of their entries."""
        number, through = lane.archived.lane, lane.archived.through
        left = []
        if newest is not None and newest.file.last > through:
            left.append(newest)
            through = newest.file.last
        useless: list[ArchiveFile] = []
        for file in self._directory.files(number):
            if file.first <= lane.archived.through:
                continue
            if file.first != through + 1:
                raise EngineError(
                    f"{file.path} has entries from {file.first} on, but lane {number} is archived through {through}: the directory is "
                    "of another database, or of this one before it was restored; archive to another directory"
                )
            known, through = self._compared(lane, file), file.last
            if known is None or useless:
                useless.append(file)
            else:
                left.append(WrittenFile(file, known))
        for file in reversed(useless):
            self._directory.remove(file)
        return iter(left)

    def _compared(self, lane: ArchivableLane, file: ArchiveFile) -> KnownFile | None:
        """Compare a file whose entries are all still in the journal with them. Return what to store about it; None if it cannot be used."""
        step: list[JournalRow] = []
        must_stay = False

        def compare(row: JournalRow) -> None:
            nonlocal must_stay
            step.append(row)
            must_stay = must_stay or next(self._may_leave(lane, (row,)), None) is None
            if len(step) == STEP or row.seq == file.last:
                self._compare(file, step)
                step.clear()
                self._rest()

        content = self._check.read(file, compare)
        is_sealed = self._seals is not None and lane.archived.lane in self._seals.last_seals()
        cut = is_sealed and file.last not in content.seals
        return None if must_stay or cut or self._check.wrong_seal(file, file.last, content.seals) else content.known

    def _next_file(self, lane: ArchivableLane, through: int) -> WrittenFile | None:
        """Write the file whose entries leave next; None if there is nothing to archive."""
        number = lane.archived.lane
        rows = list(islice(self._giving_way(self._leaving(lane, through)), MAX_ENTRIES))
        runs = {} if self._seals is None else self._runs(number, through, rows)
        if runs is not None and runs:
            rows = rows[: max(runs) - through]
        if not rows or runs is None:
            return None
        head = ArchiveHead("archive", FORMAT, self._lanes, number, rows[0].seq, rows[-1].seq, self._generation)
        return WrittenFile(*write_archive_file(self._directory.path, head, _lines(self._giving_way(rows), runs)))

    def _runs(self, lane: int, through: int, rows: list[JournalRow]) -> dict[int, Seal] | None:
        """Return the seals of the runs that are wholly among these entries, by their last entry: where a lane has seals, whole runs leave.
        Empty if the lane has no seal, None if no whole run may leave."""
        assert self._seals is not None
        last = self._seals.last_seals().get(lane)
        if last is None or not rows:
            return {}
        found = self._seals.read_seals(lane, max(0, through - RUN), MAX_ENTRIES) if last.last > through else []
        return {seal.last: seal for seal in found if through < seal.last <= rows[-1].seq} or None

    def _leaving(self, lane: ArchivableLane, through: int) -> Iterator[JournalRow]:
        """Yield the next entries of a lane that may leave the journal."""
        while rows := self._archiver.read(lane.archived.lane, through, STEP):
            following = (row for number, row in enumerate(rows, through + 1) if row.seq == number)
            for row in self._may_leave(lane, following):
                yield row
                through = row.seq
            if through < rows[-1].seq:
                return

    def _may_leave(self, lane: ArchivableLane, rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
        """Yield entries up to the first that must stay: it is too young, the newest, or a kept operation record refers to it."""
        before = self._before if lane.before is None else min(self._before, lane.before)
        for row in rows:
            if row.seq > lane.upto or entry_of(row).slot >= before:
                return
            yield row

    def _giving_way(self, rows: Iterable[JournalRow]) -> Iterator[JournalRow]:
        """Yield the rows, give way to other work between any two of them, and report progress, which may end the run, now and then."""
        give_way = self._pace.give_way
        for number, row in enumerate(rows, 1):
            give_way()
            yield row
            if number % STEP == 0:
                self._report()

    def _rest(self) -> None:
        self._pace.give_way()
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def _compare(self, file: ArchiveFile, step: Iterable[JournalRow]) -> None:
        """Check that the file has the entries that are about to be deleted."""
        there = list(step)
        found = self._archiver.read(file.lane, there[0].seq - 1, len(there))
        for mine, theirs in zip(there, [*found, *[None] * len(there)], strict=False):
            if theirs is None or (mine.seq, mine.text) != (theirs.seq, theirs.text):
                raise EngineError(
                    f"{file.path} has another entry {mine.seq} of lane {file.lane} than the journal: the directory is of another "
                    "database, or of this one before it was restored; archive to another directory"
                )
