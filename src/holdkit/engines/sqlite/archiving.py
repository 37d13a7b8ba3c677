"""Archiving of an SQLite file: entries leave the journal, and what they have led to becomes rows of the baseline.

What a step needs is read and computed before its transaction, which only compares, writes and deletes: so writers wait for a short time,
which the pace of the run bounds (`archive_pace`). Checkpoints are turns of their own, and more frequent than those of batches, so that
each is short too. Whether others write meanwhile is seen on a connection that does nothing else: SQLite counts the commits of all others
for it. A lock on a file beside the database keeps other changes of the baseline out, and each transaction checks that `through` is what
it was. The pages of deleted rows are used again for new ones; the file does not shrink.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from time import perf_counter
from typing import Final

import msgspec

from ...core.baseline import ArchivedLane, KnownFile, hold_may_leave
from ...core.model import Key
from ...core.reading import JournalRow
from ..archive_pace import Pace
from ..archiving import (
    STEP,
    ArchivableLane,
    Step,
    archived_checksum,
    moved_meanwhile,
    row_checksum,
    step_of,
    step_without,
    under_way,
)
from .archived_reading import NOTHING, SqliteBaseline, archived_lane, lanes_of
from .driver import Script, Statement
from .readers import Readers
from .writer import Writer
from .writing import Written

CHECKPOINT: Final = 500
"""About how long a run lets the WAL grow before a checkpoint: some milliseconds' worth."""


class SqliteArchiver:
    """One run. `watch` is for this run alone, so that it has one connection at a time."""

    step = STEP

    def __init__(self, readers: Readers, writer: Writer, watch: Readers) -> None:
        self._readers, self._writer, self._watch = readers, writer, watch
        self.pace = Pace(self.step)
        self._version = self._read_version()

    def lanes(self) -> list[ArchivableLane]:
        """Return the one lane."""
        with self._readers.one() as driver:
            ((last_seq, *_),) = driver.ask("load_head")
            ((referred,),) = driver.ask("first_referred")
            head = last_seq or 0
            upto = head - 1 if referred is None else min(head, referred) - 1
            return [ArchivableLane(archived_lane(driver), upto)]

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        assert lane == 0, "there is one lane"
        with self._readers.one() as driver:
            return [JournalRow(*row) for row in driver.ask("read_journal", (after, limit))]

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], first: int, file: KnownFile) -> ArchivedLane:
        """Fold and delete these entries."""
        with self._readers.one() as driver:
            step = step_of(archived, rows, first, file, SqliteBaseline(driver))
        self._write(archived, step, len(rows))
        return step.archived

    def tidy(self, archived: ArchivedLane) -> None:
        """Page through the holds of the baseline; remove those that nothing needs."""
        after: Key | None = ("", "")
        while after is not None:
            limit = self.pace.entries
            with self._readers.one() as driver:
                rows = driver.ask("page_unneeded", (*after, limit))
                unneeded = [(tenant, id) for tenant, id, body, needed in rows if not needed and hold_may_leave(body)]
                step = step_without(archived, unneeded, SqliteBaseline(driver)) if unneeded else None
            if step is not None:
                self._write(archived, step, len(unneeded))
                archived = step.archived
            self.pace.give_way()
            after = next(((tenant, id) for tenant, id, *_ in rows[-1:]), None) if len(rows) == limit else None

    def _write(self, before: ArchivedLane, step: Step, entries: int) -> None:
        """Run one transaction, then a checkpoint if it is due; rest behind each."""
        script, begun = _Transaction(before, step), 0.0

        def begin(_: bool) -> Script[Written]:
            nonlocal begun
            begun = perf_counter()
            return script.run()

        self.pace.give_way()
        others = self._read_version() != self._version
        self._writer.run(begin, checkpoint=False)
        self.pace.blocked(perf_counter() - begun, entries, others=others)
        self.pace.blocked(self._writer.tidy(pages=CHECKPOINT))
        self._version = self._read_version()

    def _read_version(self) -> int:
        """Return a number that changes when another connection commits."""
        with self._watch.one() as driver:
            version: int = driver.tell("pragma data_version")[0][0]
        return version


class _Transaction:
    """Compare, write the baseline, delete the entries, move on. What it writes is computed beforehand."""

    def __init__(self, before: ArchivedLane, step: Step) -> None:
        self._before = before
        self._row = (*msgspec.structs.astuple(step.archived), archived_checksum(step.archived))
        self._statements = [Statement("put_archived", self._row)]
        if step.put:
            put = [(0, *key, body, row_checksum(0, key, body)) for key, body in sorted(step.put)]
            self._statements.append(Statement("put_baseline", put, many=True))
        if step.remove:
            self._statements.append(Statement("delete_baseline", [(0, *key) for key in step.remove], many=True))
        through = step.archived.through
        if through > before.through:
            self._statements.append(Statement("delete_entries", (before.through, through)))
        self._written = max(1, len(step.put) + len(step.remove) + through - before.through)

    def run(self) -> Script[Written]:
        """Run the step as a script."""
        (rows,) = yield (Statement("read_archived"),)
        if next(lanes_of(rows), NOTHING) != self._before:
            raise moved_meanwhile(0)
        yield tuple(self._statements)
        return Written(self._written, ("archived", self._row))


@contextmanager
def archiver(path: str, readers: Readers, writer: Writer) -> Iterator[SqliteArchiver]:
    """Lock the file beside the database and run. The file is never removed: removing it could take away another process's lock."""
    import fcntl  # as the engine itself: see FairWriteLock

    descriptor = os.open(f"{path}-archive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise under_way(path) from error
        with closing(readers.separate()) as watch:
            yield SqliteArchiver(readers, writer, watch)
    finally:
        os.close(descriptor)
