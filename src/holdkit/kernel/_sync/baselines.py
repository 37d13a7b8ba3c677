# Generated from ../_async/baselines.py by tools/gen_sync.py: do not edit.
"""The pages that a follower gets, read durably; the baseline of a lane whose first entries are archived, page by page; and cursors that
stand at archived entries.

A reader that begins at the very beginning gets the baseline of every archived lane. From its first entry on its cursor names
all of these lanes, those whose baseline is still to be read too. So if a cursor does not name a lane, its reader has not read the lane's
beginning: if entries of that lane were archived since, the reader has missed them, and gets `CursorLost`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...core.archived import FindArchived, ReadBaseline
from ...core.baseline import ArchivedLane, BaselineRow, RowKey, entry_of_row
from ...core.codec import encode_entry
from ...core.entries import Entry
from ...core.reading import JournalRow, Query
from ...errors import CursorLost, EngineError, OutcomeUnknown, Overloaded
from ..journal import JournalEntry, journal_entry
from ..pages import Positions, baseline_mark, is_baseline_mark, rows_behind
from .executor import Executor

T = TypeVar("T")

PAGE = 1_000
NOT_CONFIRMED = "no standby has confirmed these entries yet, and a failover could take them back, so followers are not shown them: try again"


def read_to_show(executor: Executor, query: Query[T], *, durable: bool) -> T:
    """Read rows that a follower is about to show, as durably as a command writes if `durable`. Raise `Overloaded` if they cannot be shown
    now."""
    try:
        return executor.read(query, durable=durable)
    except OutcomeUnknown as unknown:
        raise Overloaded(NOT_CONFIRMED, retry_after=1.0) from unknown


class BaselineReading:
    """The position of a follower within one baseline."""

    def __init__(self, archived: ArchivedLane, behind: int, *, durable: bool = False) -> None:
        """Read baselines; `durable` if a follower shows the rows."""
        self.archived, self._durable = archived, durable
        self.behind = 0
        """Rows that were read."""
        self._skip = behind
        self._after: RowKey | None = None

    @property
    def position(self) -> tuple[int, str]:
        """The position behind the rows that were read."""
        return self.archived.through, baseline_mark(self.archived.edition, self._skip + self.behind)

    @property
    def end(self) -> tuple[int, str]:
        """The position behind the whole baseline."""
        return self.archived.through, self.archived.digest

    def entries(
        self, executor: Executor, tenant: str | None, limit: int, before: Positions, generation: str
    ) -> list[JournalEntry]:
        """Return the next rows as entries; none at the end."""
        archived = self.archived
        rows = self.page(executor, tenant, limit)
        found = []
        for number, row in enumerate(rows, self.behind - len(rows) + 1):
            text = encode_entry(_entry_of(row, archived))
            as_entry = JournalRow(archived.through, text, archived.lane, archived.place)
            mark = baseline_mark(archived.edition, number)
            found.append(journal_entry(as_entry, before, executor.now(), generation, mark))
        return found

    def page(self, executor: Executor, tenant: str | None, limit: int) -> list[BaselineRow]:
        """Return the next rows; none at the end. Raises `CursorLost` if further entries were archived meanwhile."""
        while self._skip:
            skipped = self._read(executor, tenant, min(self._skip, PAGE))
            if not skipped:
                return []
            self._skip -= len(skipped)
        return self._read(executor, tenant, limit)

    def _read(self, executor: Executor, tenant: str | None, limit: int) -> list[BaselineRow]:
        lane, through = self.archived.lane, self.archived.through
        rows = executor.read(ReadBaseline(tenant, lane, through, self._after, limit))
        if self.archived not in read_to_show(executor, FindArchived(), durable=self._durable and bool(rows)):
            raise CursorLost(
                "entries were archived while the baseline was read: start anew, from the beginning",
                position=(lane, through),
                archived_to=self.archived.place,
            )
        if rows:
            self._after = rows[-1].key
            self.behind += len(rows)
        return list(rows)


def _entry_of(row: BaselineRow, archived: ArchivedLane) -> Entry:
    """Return a row as an entry. Raise `EngineError` if the row is damaged, or a tally whose pool has no row."""
    try:
        return entry_of_row(row, archived.slot)
    except msgspec.DecodeError as error:
        raise EngineError(
            f"the baseline of lane {archived.lane}, which stands for the archived entries, is damaged: "
            "run `holdkit admin verify`, which names the rows, and restore a backup"
        ) from error


def rows_read(archived: ArchivedLane, seq: int, seen: str) -> int | None:
    """Return how many rows of a lane's baseline a cursor has behind it, None if it stands behind all of them. Raise `CursorLost` if
    entries behind the cursor were archived."""
    rows = rows_behind(seen, archived.edition) if seq == archived.through and seen != archived.digest else None
    outdated = seq == archived.through and rows is None and seen != archived.digest and is_baseline_mark(seen)
    if seq < archived.through or outdated:
        first = 1 if is_baseline_mark(seen) else seq + 1
        raise CursorLost(
            f"entry {first} of lane {archived.lane} and those behind it, through entry {archived.through}, were archived to "
            f"{archived.place}: read on there with holdkit.journal.JournalArchive, then follow behind the last entry that it gives",
            position=(archived.lane, first),
            archived_to=archived.place,
        )
    return rows


def archived_there(executor: Executor, lane: int, seq: int, seen: str) -> bool:
    """Return whether a cursor stands exactly behind the last archived entry, or in the baseline. Raise `CursorLost` if entries behind it
    were archived."""
    for archived in executor.read(FindArchived()):
        if archived.lane == lane and seq <= archived.through:
            return rows_read(archived, seq, seen) is not None or seen == archived.digest
    return False


def another_entry(executor: Executor, lane: int, seq: int) -> CursorLost:
    """Return the error for a cursor whose entry is not there, or is another one."""
    which = f"entry {seq} of lane {lane}" if executor.engine.lanes > 1 else f"entry {seq}"
    return CursorLost(
        f"{which} is no longer what this cursor saw: the journal was cut back or is another one; "
        "start anew, from the beginning or from journal.cursor()",
        position=(lane, seq),
    )
