"""The archive as users read it: entries that have left a database, with cursors from which a follower continues in the database."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from heapq import merge

from ..core.personal import text_digest
from ..core.reading import JournalRow, entry_of, touches
from ..engines.archive_files import ArchiveDirectory, read_head
from ..engines.journal_search import written as encode_text
from ..errors import CursorLost
from .journal import JournalEntry, journal_entry
from .pages import Positions, decode_cursor, is_baseline_mark


class JournalArchive:
    """The files that `holdkit admin archive` has written to a directory. Opens no database, and changes nothing."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = ArchiveDirectory(directory)

    def entries(self, *, after: str | None = None, tenant: str | None = None) -> Iterator[JournalEntry]:
        """Yield every archived entry behind the cursor `after`, or from the beginning: of one tenant, or of all; in order within each
        lane, and the lanes merged by time. `journal.follow(after=entry.cursor)` continues behind the last one. (If only entries of
        other tenants follow the cursor, only `entries` without `tenant` gives a cursor to continue from.)

        Raises `CursorLost` if the archive has another entry than the cursor saw, and `EngineError` if a file is damaged or missing.
        """
        read: Positions = {} if after is None else decode_cursor(after)
        files = self._directory.files()
        generation = read_head(files[-1]).generation if files else ""
        lanes = [self._lane(lane, read) for lane in sorted({file.lane for file in files})]
        last: JournalRow | None = None
        """The last entry that was asked for: its cursor is behind those of other tenants that follow it."""
        for row in merge(*lanes, key=lambda row: entry_of(row).slot):
            wanted = tenant is None or entry_of(row).tenant == tenant
            if wanted and last is not None:
                yield journal_entry(last, read, 0, generation)
            last = row if wanted else last
            read = {**read, row.lane: (row.seq, text_digest(row.text))}
        if last is not None:
            yield journal_entry(last, read, 0, generation)

    def about(self, tenant: str, subject: str, after: Positions, through: Mapping[int, int]) -> Iterator[JournalRow]:
        """Yield the archived entries about a hold, a record (kind/id) or a pool behind these positions, lane by lane; those of a pool
        include all that moved its units. `through` is the last archived entry of each lane: later entries of a file are of an archive run
        that was killed, or of a history that a restore has lost."""
        wanted = encode_text(subject)
        for lane, last in sorted(through.items()):
            for row in self._lane(lane, after, last):
                if wanted in row.text:
                    entry = entry_of(row)
                    about = entry.subject == subject and not entry.part
                    if entry.tenant == tenant and (about or touches(entry, subject)):
                        yield row

    def _lane(self, lane: int, positions: Positions, upto: int | None = None) -> Iterator[JournalRow]:
        """Yield a lane's entries behind a cursor. A cursor in a baseline has not read the entries for which the baseline stands."""
        seq, seen = positions.get(lane, (0, ""))
        for row in self._directory.rows(lane, max(0, seq - 1), upto):
            if row.seq > seq:
                yield row
            elif seen and text_digest(row.text) != seen:
                if is_baseline_mark(seen):
                    yield from self._directory.rows(lane, 0, upto)
                    return
                raise CursorLost(
                    f"entry {seq} of lane {lane} in the archive {self._directory.path} is not what this cursor saw: the archive is of "
                    "another database, or of this one before it was restored",
                    position=(lane, seq),
                )

    def __repr__(self) -> str:
        return f"<JournalArchive {self._directory.path}>"
