"""Archiving of an SQLite file: entries leave the journal, and what they have led to becomes rows of the baseline.

What a step needs is read before its transaction, which only compares, writes and deletes: so writers wait for a short time, a
thousand entries' worth. Nobody else changes the baseline meanwhile: a lock on a file beside the database sees to that, and each
transaction checks that `through` is what it was. The pages of deleted rows are used again for new ones; the file does not shrink.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from ...core.baseline import HOLD, ArchivedLane, RowKey, hold_may_leave
from ...core.model import Key
from ...core.reading import JournalRow
from ..archiving import (
    STEP,
    ArchivableLane,
    Step,
    archived_checksum,
    moved_meanwhile,
    row_checksum,
    step_of,
    under_way,
)
from .archived_reading import NOTHING, archived_lane, lane_of_row
from .driver import Script, Statement
from .reading import Readers
from .rows import keys_json
from .script import ScriptResult
from .writer import Writer


class SqliteArchiver:
    """One run."""

    step = STEP

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._readers, self._writer = readers, writer

    def lanes(self) -> list[ArchivableLane]:
        """The one lane."""
        with self._readers.one() as driver:
            head = driver.ask("load_head")[0][0] or 0
            referred = driver.ask("first_referred")[0][0]
            upto = head - 1 if referred is None else min(head, referred) - 1
            return [ArchivableLane(archived_lane(driver), upto)]

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """The next entries."""
        assert lane == 0, "there is one lane"
        with self._readers.one() as driver:
            return [JournalRow(*row) for row in driver.ask("read_journal", (after, limit))]

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], place: str) -> ArchivedLane:
        """Fold and delete these entries."""
        with self._readers.one() as driver:

            def load(keys: Sequence[RowKey]) -> Mapping[RowKey, str]:
                return {
                    (row[0], row[1], row[2], row[3]): row[4] for row in driver.ask("load_baseline", (keys_json(keys),))
                }

            def still_needed(holds: Sequence[Key], behind: int) -> Collection[Key]:
                return {(row[0], row[1]) for row in driver.ask("find_needed", (keys_json(holds), behind))}

            step = step_of(archived, rows, place, load, still_needed)
        self._writer.run(lambda _: _write(archived, step))
        return step.archived

    def tidy(self, archived: ArchivedLane) -> None:
        """Page through the holds of the baseline; remove those that nothing needs."""
        after: Key | None = ("", "")
        while after is not None:
            with self._readers.one() as driver:
                rows = driver.ask("page_unneeded", (*after, STEP))
            gone: list[RowKey] = [(HOLD, row[0], row[1], "") for row in rows if not row[3] and hold_may_leave(row[2])]
            if gone:
                changed = msgspec.structs.replace(archived, edition=archived.edition + 1)
                step = Step(changed, [], gone)
                self._writer.run(lambda _, before=archived, step=step: _write(before, step))  # type: ignore[misc]
                archived = changed
            after = (rows[-1][0], rows[-1][1]) if len(rows) == STEP else None


def _write(before: ArchivedLane, step: Step) -> Script[ScriptResult]:
    """One transaction: compare, write the baseline, delete the entries, move on."""
    (found,) = yield (Statement("read_archived"),)
    if (lane_of_row(found[0]) if found else NOTHING) != before:
        raise moved_meanwhile(0)
    row = (*msgspec.structs.astuple(step.archived), archived_checksum(step.archived))
    statements = [Statement("put_archived", row)]
    if step.put:
        put = [(0, *key, body, row_checksum(0, key, body)) for key, body in step.put]
        statements.append(Statement("put_baseline", put, many=True))
    if step.remove:
        statements.append(Statement("delete_baseline", [(0, *key) for key in step.remove], many=True))
    if step.archived.through > before.through:
        statements.append(Statement("delete_entries", (before.through, step.archived.through)))
    yield tuple(statements)
    written = len(step.put) + len(step.remove) + step.archived.through - before.through
    return ScriptResult([], 0, max(1, written), ("archived", row))


@contextmanager
def archiver(path: str, readers: Readers, writer: Writer) -> Iterator[SqliteArchiver]:
    """A run, while the file beside the database is locked. (It stays there: whoever removed it could take away another's lock.)"""
    import fcntl  # as the engine itself: see FairWriteLock

    descriptor = os.open(f"{path}-archive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise under_way(path) from error
        yield SqliteArchiver(readers, writer)
    finally:
        os.close(descriptor)
