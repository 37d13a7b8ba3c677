"""Erase a person from archive files: find what they say of the person, and rewrite it.

Theory of operation. Files and database cannot change in one moment. So a transaction that rewrites a hold, with its row in the baseline
and those of its entries that are kept, also stores the text that its archived entries have from then on (`core.baseline.ENTRY`). `verify`
and `export` compare files with the database; they read these texts in place of those in the files, so that both agree at every moment. At
the end each file is written anew with them, under its own name (temp, sync, rename, sync directory), with new checksums and with new
salts in the seals behind the runs; only then are the stored texts removed. *Killed anywhere*, the command finds the stored texts when it
is run again, and continues. No erased value is in them.

*Files that know more.* A database that was restored to before an erasure still has a baseline with what the files have lost. Nothing can
be erased there: rows and files would never agree again. So the run changes nothing unless the files contain everything that the baseline
says of the person (`check_baseline`).

A file may go beyond the last archived entry, if an archive run was killed: what is rewritten in the journal is stored for it too, because
the next run compares both. If its entries are others than those of the journal, it is of before a restore, and nothing is erased.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, structs

from ..core.baseline import HOLD, POOL, RECORD, TALLY, ArchivedLane, BaselineRow, KnownFile, RowKey, decode_row
from ..core.codec import decode_entry
from ..core.entries import Entry
from ..core.new_names import entry_of_hold
from ..core.personal import Path, fields, replaced, text_digest
from ..core.reading import JournalRow
from ..core.seals import decode_seal, encode_seal, erased
from ..errors import EngineError
from .archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    ArchiveEnd,
    ArchiveFile,
    archived_entry,
    read_archive_file,
    read_head,
    read_whole_file,
    rows_of,
    write_archive_file,
)
from .known_files import end_differences, file_differences, refusal
from .progress import Progress

PAGE: Final = 1_000
"""Entries of the journal that are read at a time."""

Texts: TypeAlias = Mapping[int, str]
"""Of a lane: the texts of entries that were rewritten, by number."""


class Whose(Struct, frozen=True, gc=False):
    """What an erasure reads of an entry's text: its tenant and its subject."""

    subject: str
    tenant: str = ""


_whose: Final = msgspec.json.Decoder(Whose)


class ErasableArchive:
    """Read and rewrite the files of one archive for an erasure. The caller's lock keeps other writers and archive runs out."""

    def __init__(
        self,
        directory: ArchiveDirectory,
        lanes: Iterable[ArchivedLane],
        rewritten: Callable[[int], Texts],
        baseline: Callable[[str, ArchivedLane], Iterator[BaselineRow]],
        journal: Callable[[int, int, int], Iterable[JournalRow]],
        known: Callable[[int], Mapping[int, KnownFile]],
        progress: Progress | None = None,
    ) -> None:
        self._directory, self._progress = directory, progress
        self._baseline, self._journal = baseline, journal
        self.lanes = {one.lane: one for one in lanes}
        self._files = directory.files()
        self._reach = {file.lane: file.last for file in self._files}
        self.rewritten: dict[int, dict[int, str]] = {
            lane: dict(rewritten(lane)) for lane in sorted({*self.lanes, *(file.lane for file in self._files)})
        }
        """By lane: what is rewritten, and not in its file yet."""
        self._known = {lane: known(lane) for lane in self.rewritten}
        self._naming: dict[tuple[str, ...], dict[int, list[JournalRow]]] = {}
        self._about: dict[str, list[JournalRow]] = {}
        self._check()

    def _check(self) -> None:
        """Read everything: a file that is missing, damaged or of another database is named before anything is changed."""
        done, total = 0, sum(file.entries for file in self._files)
        for file in self._files:
            known, pending, through = self._known[file.lane], self.rewritten[file.lane], self.through(file.lane)
            kept = self._digests(file)
            different = [*file_differences(file, known, pending, through)]
            for line in read_whole_file(file):
                if isinstance(line, ArchivedEntry):
                    self._check_entry(file, line.row, kept)
                elif isinstance(line, ArchiveEnd):
                    different += end_differences(file, line, known, pending)
            if different:
                advice = "Put back the files of that time, and give the same command again; nothing was erased"
                raise refusal(self._directory, different[0], advice)
            done += file.entries
            self._report(done, total)
        for archived in self.lanes.values():
            reached = 0
            for file in self._files:
                if file.lane == archived.lane and file.first <= reached + 1:
                    reached = max(reached, file.last)
            if reached < archived.through:
                raise EngineError(
                    f"the archive {self._directory.path} has no file with entry {reached + 1} of lane {archived.lane}: the files are "
                    "incomplete, or of another database; nothing was erased"
                )

    def _check_entry(self, file: ArchiveFile, row: JournalRow, kept: Iterator[str]) -> None:
        """Check that the last archived entry is the one known, and that an entry still in the journal is equal there."""
        archived = self.lanes.get(row.lane)
        if archived is not None and row.seq == archived.through and text_digest(row.text) != archived.digest:
            raise EngineError(
                f"{file.path} has another entry {row.seq} of lane {row.lane} than was archived: the directory is of another "
                "database, or of this one before it was restored; nothing was erased"
            )
        if row.seq > self.through(row.lane) and next(kept, "") != text_digest(row.text):
            raise EngineError(
                f"{file.path} has another entry {row.seq} of lane {row.lane} than the journal: it is of another database, or of "
                "this one before it was restored. Move it away: it is no part of this archive; nothing was erased"
            )

    def _digests(self, file: ArchiveFile) -> Iterator[str]:
        """Yield the digests of the entries behind the archived ones that both journal and file have; stop at the first gap in the
        journal."""
        reached = max(file.first - 1, self.through(file.lane))
        while reached < file.last:
            before = reached
            for row in self._journal(file.lane, reached, min(PAGE, file.last - reached)):
                if row.seq != reached + 1:
                    return
                reached = row.seq
                yield text_digest(row.text)
            if reached == before:
                return

    def check_baseline(self, tenant: str, holds: Collection[str], texts: Sequence[str]) -> None:
        """Raise if the baseline tells of these holds, or names one of these texts, where the files do not: they were erased after the
        database, as it is now, was copied."""
        every = (row for lane in self.lanes.values() for row in self._baseline(tenant, lane))
        rows = [row for row in every if (row.kind == HOLD and row.id in holds) or any(one in row.body for one in texts)]
        if not rows:
            return
        self.collect(tenant, {row.id for row in rows if row.kind == HOLD})
        named = [row for one in self.lanes.values() for row in self.naming(tenant, texts, one.lane, 0, one.through)]
        put = {key for row in named for key, _ in put_by(decode_entry(row.text))}
        for row in rows:
            if not (self._tell(row) if row.kind == HOLD else row.key in put):
                raise EngineError(
                    f"{self._directory.path} does not have what the database says of {row.kind} {row.id!r}: the files were erased after "
                    "the copy was made from which this database was restored. Put back the files of that time, and give the same "
                    "command again; nothing was erased"
                )

    def _tell(self, row: BaselineRow) -> bool:
        """Return whether the archived entries about a hold have every personal value that its row has."""
        told: set[str] = set()
        for one in self.about(row.tenant, [row.id]):
            told.update(fields(decode_entry(one.text)).values())
        return told.issuperset(fields(entry_of_hold(decode_row(HOLD, row.body))).values())

    def _report(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    def through(self, lane: int) -> int:
        """Return the last entry of a lane that has left the journal."""
        return self.lanes[lane].through if lane in self.lanes else 0

    def has(self, lane: int, seq: int) -> bool:
        """Return whether a file has this entry, archived or about to be."""
        return seq <= self._reach.get(lane, 0)

    # Finding

    def rows(self) -> Iterator[JournalRow]:
        """Yield every entry that has left the journal, as it is now, in order of lane and number."""
        for file in self._files:
            through, texts = self.through(file.lane), self.rewritten[file.lane]
            for row in rows_of(file) if file.first <= through else ():
                if row.seq <= through:
                    yield JournalRow(row.seq, texts.get(row.seq, row.text), row.lane)

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:
        """Return a tenant's archived entries in a span of numbers that contain any of these texts. Reads the files once for all spans."""
        key = (tenant, *texts)
        if key not in self._naming:
            found: dict[int, list[JournalRow]] = {}
            self._naming[key] = found
            for row in self.rows():
                if any(text in row.text for text in texts) and _whose.decode(row.text).tenant == tenant:
                    found.setdefault(row.lane, []).append(row)
        return [self.now(row) for row in self._naming[key].get(lane, ()) if after < row.seq <= upto]

    def collect(self, tenant: str, subjects: Collection[str]) -> None:
        """Read the files once, for the entries about these subjects."""
        new = {subject for subject in subjects if subject not in self._about}
        if not new:
            return
        self._about.update({subject: [] for subject in new})
        for row in self.rows():
            whose = _whose.decode(row.text)
            if whose.tenant == tenant and whose.subject in new:
                self._about[whose.subject].append(row)

    def about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Return the archived entries about these subjects."""
        self.collect(tenant, subjects)
        return [self.now(row) for subject in dict.fromkeys(subjects) for row in self._about[subject]]

    def now(self, row: JournalRow) -> JournalRow:
        """Return a row with its rewritten text, if it has one."""
        return JournalRow(row.seq, self.rewritten[row.lane].get(row.seq, row.text), row.lane)

    # Rewriting

    def write(self, forget: Callable[[int, Sequence[int], tuple[int, KnownFile] | None], None]) -> None:
        """Write each file anew that does not have what is rewritten. `forget` then removes the stored texts of its entries, and stores
        what is to be known of the file by the number of its first entry."""
        for lane, texts in self.rewritten.items():
            for file in self._files:
                numbers = [seq for seq in texts if file.lane == lane and file.first <= seq <= file.last]
                if numbers:
                    lines = _rewritten(file, texts)
                    _, known = write_archive_file(self._directory.path, read_head(file), lines)
                    before = self._known[lane].get(file.first)
                    after = None if before is None else (file.first, structs.replace(known, place=before.place))
                    forget(lane, sorted(numbers), after)
                    for seq in numbers:
                        del texts[seq]
                    self._report(0, 0)


def put_by(entry: Entry) -> list[tuple[RowKey, object]]:
    """Return the rows of the baseline that an entry puts, without its hold."""
    found: list[tuple[RowKey, object]] = []
    for effect in entry.effects:
        pool, tally = effect.pool, effect.tally
        found.append(((POOL, pool.tenant, pool.id, ""), pool))
        if tally is not None:
            found.append(((TALLY, pool.tenant, pool.id, tally.account), tally))
    if entry.record is not None:
        record = entry.record
        found.append(((RECORD, record.tenant, record.id, record.kind), record))
    return found


def _rewritten(file: ArchiveFile, texts: Texts) -> Iterator[ArchivedLine]:
    """Yield the lines of a file, with these texts, and with the seals over them."""
    changed: list[tuple[int, Entry, list[Path]]] = []
    for line in read_archive_file(file):
        if isinstance(line, ArchivedEntry):
            text = texts.get(line.seq, line.text)
            if text != line.text:
                before = decode_entry(line.text)
                changed.append((line.seq, before, replaced(before, decode_entry(text))))
            yield line if text == line.text else archived_entry(JournalRow(line.seq, text, line.lane))
            continue
        if changed:
            seal = decode_seal(line.seal)
            for seq, entry, which in changed:
                seal = erased(seal, seq, entry, which)
            line, changed = ArchivedSeal(msgspec.Raw(encode_seal(seal))), []
        yield line
