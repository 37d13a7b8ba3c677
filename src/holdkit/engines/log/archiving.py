"""Archiving of a log: a baseline takes the place of the oldest entries, and segments that have nothing else are removed.

Theory of operation. What was archived is replayed into tables of the archiver's own, from the baseline before: entry by entry they are
what the engine's tables were then. They are written as the next baseline (`baseline.py`). Once that is durable, the entries have left: the
engine takes the new baseline, and forgets and removes the segments whose entries are all behind it. Entries that share a segment, or a
frame, with kept ones stay in the file until the rest of it is archived too; nobody sees them.

*Killed* before the baseline has its name, nothing has happened; behind that, opening the log finds the new one, and removes what it
replaces. *Writers* do not wait for the replay, nor for the file, but for the moment in which the engine takes it. The archiver's tables need
as much memory as the engine's own, while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from ...core.baseline import ArchivedLane
from ...core.bounds import Limits
from ...core.personal import text_digest
from ...core.reading import JournalRow, entry_of
from ...errors import EngineError
from ..archive_files import MAX_ENTRIES
from ..archive_pace import Pace
from ..archiving import ArchivableLane, moved_meanwhile
from .baseline import FORMAT, BaselineHead, LogBaseline, rows_of, write_baseline
from .disk import Disk
from .journal import LogJournal
from .log import Log
from .replaying import ArchivedTables

NOTHING: Final = ArchivedLane(0, 0, 0, "", "")


class LogArchiver:
    """One run. `referred` gives the first entry that a recorded answer refers to, `take` puts the engine on a new baseline."""

    step = MAX_ENTRIES
    """A baseline is a whole file: it is written once for each archive file."""

    def __init__(
        self,
        disk: Disk,
        log: Log,
        journal: LogJournal,
        created: Limits,
        randomness: Callable[[int], bytes],
        *,
        referred: Callable[[], int | None],
        take: Callable[[LogBaseline], None],
    ) -> None:
        self._disk, self._log, self._journal, self._randomness = disk, log, journal, randomness
        self._created, self._referred, self._take = created, referred, take
        self._behind: ArchivedTables | None = None
        self.pace = Pace(self.step, self.step)

    def lanes(self) -> list[ArchivableLane]:
        """The one lane."""
        last, referred = self._journal.last_seq, self._referred()
        return [
            ArchivableLane(self._journal.archived or NOTHING, (last if referred is None else min(last, referred)) - 1)
        ]

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """The next entries."""
        assert lane == 0, "there is one lane"
        return list(islice(self._journal.after(after, None), limit))

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], place: str) -> ArchivedLane:
        """Write the baseline that stands behind these entries, and remove the segments that nothing else is in."""
        if (self._journal.archived or NOTHING) != archived:
            raise moved_meanwhile(0)
        behind = self._behind = self._behind or ArchivedTables(self._log, self._created, self._journal.baseline)
        last = rows[-1]
        behind.advance(last.seq, self.pace.give_way)
        slot = max(archived.slot, *(entry_of(row).slot for row in rows))
        after = ArchivedLane(0, last.seq, slot, text_digest(last.text), place)
        needed = self._log.segment_of(behind.after_frame + 1).header.segment
        head = BaselineHead(
            FORMAT,
            self._log.log_id,
            needed,
            behind.after_frame,
            behind.chain.hex(),
            behind.tables.last_slot,
            after,
            0,
            0,
        )
        try:
            tables = behind.tables
            answers = list(tables.operations.values())
            name = write_baseline(self._disk, head, rows_of(tables), answers, self._randomness)
            self._take(LogBaseline(self._disk, name))
        except OSError as error:
            raise EngineError(f"{self._disk.name}: no baseline could be written: {error}; the log is whole") from error
        return after

    def tidy(self, archived: ArchivedLane) -> None:
        """Nothing to do: a baseline is what the tables were, and retention has dropped from it what it had dropped then."""
