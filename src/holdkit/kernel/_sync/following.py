# Generated from ../_async/following.py by tools/gen_sync.py: do not edit.
"""Following the journal: a place in it that only moves on, and is checked each time, so that no entry is ever skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...core.codec import digest
from ...core.entries import Action
from ...core.model import Key
from ...core.reading import FindEnds, FindEntries, JournalRow, Query, ReadGeneration, ReadJournal, ReadPoolHistory
from ...errors import CursorLost, EngineError
from ..cursor import Place, decode_cursor, encode_cursor
from ..follower_state import CursorStore, OnGeneration
from ..results import JournalEntry
from ..workers import Signal
from .executor import Executor
from .named_follower import NamedPlace
from .remembered import Remembered

PAGE = 500


class Follower:
    """Reads the journal of one tenant, or of all (None), or one pool's history, from a place on: in each lane an entry's
    number, and the digest of what it looked like."""

    def __init__(
        self,
        executor: Executor,
        tenant: str | None,
        name: str | None = None,
        *,
        pool: Key | None = None,
        store: CursorStore | None = None,
        on_generation: OnGeneration | None = None,
    ) -> None:
        self._executor, self._tenant, self._pool = executor, tenant, pool
        self._named: NamedPlace | None = None
        if name is not None:
            self._named = NamedPlace(executor, tenant, name)
            self._remembered = Remembered(executor, (tenant, name), store, on_generation)
        self._place: Place = {}
        self.generation = ""
        """Of the journal, when it was last looked at."""
        self.at_end = False
        """Whether the last page reached the end of the journal."""

    def begin(self, after: str | None) -> None:
        """Take up the place kept under our name, else the one given, else the beginning."""
        self._executor.check_open()
        kept = None if self._named is None else self._named.begin()
        after = after if kept is None else kept.cursor
        if after is not None:
            self._place = decode_cursor(after)
        if self._named is not None:
            self.generation = self._executor.read(ReadGeneration())
            self._remembered.compare(kept, encode_cursor(self._place, self.generation), self.generation)
        if after is not None:
            self._check_place()

    def page(self, limit: int) -> list[JournalEntry]:
        """The next entries, and move on behind them; perhaps none although more follow (see `at_end`): some are hidden."""
        ends = self._executor.read(FindEnds())
        seen = {lane: seq for lane, (seq, _) in self._place.items()}
        self.at_end = {end.lane: end.seq for end in ends} == seen
        if self.at_end:
            self._check_seen(ends)
            return []
        rows = self._executor.read(self._behind(seen, limit))
        self._check_place()  # after the read: what was read is of the journal that has our place
        self.generation = self._executor.read(ReadGeneration())
        self.at_end = len(rows) < limit
        entries = self._told(rows)
        if self.at_end:  # nothing of ours was left out, so up to the ends from before the read the rest is hidden
            behind = (end for end in ends if end.seq > self._place.get(end.lane, (0, ""))[0])
            self._place = {**self._place, **{end.lane: (end.seq, digest(end.text)) for end in behind}}
        shown = [entry for entry in entries if not _own(entry)]
        if shown and self._named is not None:
            self._remembered.note(encode_cursor(self._place, self.generation))
        return shown

    def _behind(self, seen: Mapping[int, int], limit: int) -> Query[list[JournalRow]]:
        if self._pool is None:
            return ReadJournal(self._tenant, seen, limit)
        return ReadPoolHistory(*self._pool, seen, limit)

    def _told(self, rows: Iterable[JournalRow]) -> list[JournalEntry]:
        """Rows as entries, each with the place it was read from, which moves on behind them."""
        entries: list[JournalEntry] = []
        last: JournalRow | None = None
        now = self._executor.now()
        for row in rows:
            if last is not None and last.lane != row.lane:
                self._move_behind(last)
            entries.append(JournalEntry(row, self._place, now, self.generation))
            last = row
        if last is not None:
            self._move_behind(last)
        return entries

    def _move_behind(self, row: JournalRow) -> None:
        """A new dict, and only where a run of one lane ends: the entries of the run share the old one."""
        self._place = {**self._place, row.lane: (row.seq, digest(row.text))}

    def follow(self, stop: Signal | None, wait: bool, poll: float) -> Iterator[JournalEntry]:
        """Page after page until the kernel closes, `stop` does, or (without `wait`) the journal ends."""
        committed = self._executor.committed
        if wait:
            self._executor.listen()
        while not self._over(stop):
            count = committed.count
            try:
                fresh = self.page(PAGE)
            except EngineError:
                if committed.closed:  # in the midst of the page
                    return
                raise
            for entry in fresh:
                yield entry
                if self._over(stop):
                    return
            if fresh:
                self.keep_place()
            if self.at_end and not wait:
                return
            if self.at_end:
                committed.wait(count, poll)

    def _over(self, stop: Signal | None) -> bool:
        return self._executor.committed.closed or (stop is not None and stop.closed)

    def _check_place(self) -> None:
        """Our entries must still be what they were when we saw them."""
        positions = tuple((lane, seq) for lane, (seq, seen) in self._place.items() if seen)
        if positions:
            self._check_seen(self._executor.read(FindEntries(positions)))

    def _check_seen(self, rows: Iterable[JournalRow]) -> None:
        there = {row.lane: row for row in rows}
        for lane, (seq, seen) in self._place.items():
            row = there.get(lane)
            if seen and (row is None or row.seq != seq or digest(row.text) != seen):
                which = f"entry {seq} of lane {lane}" if self._executor.engine.lanes > 1 else f"entry {seq}"
                raise CursorLost(
                    f"{which} is no longer what this cursor saw: the journal was cut back or is another one; "
                    "start anew, from the beginning or from cursor()"
                )

    def keep_place(self, behind: JournalEntry | None = None) -> None:
        """Write our place down under our name, if we have one: where the last page ended, or behind one of its entries."""
        if self._named is None:
            return
        try:
            self._named.keep(encode_cursor(self._place, self.generation) if behind is None else behind.cursor)
        except EngineError:
            if not self._executor.committed.closed:
                raise


def end_of_journal(executor: Executor, back: int = 0) -> str:
    """A cursor behind everything that is in the journal now, or so many entries earlier in each lane."""
    rows = executor.read(FindEnds())
    if back:
        earlier = tuple((row.lane, row.seq - back) for row in rows if row.seq > back)
        rows = executor.read(FindEntries(earlier)) if earlier else []
    generation = executor.read(ReadGeneration())
    return encode_cursor({row.lane: (row.seq, digest(row.text)) for row in rows}, generation)


def _own(entry: JournalEntry) -> bool:
    """Our own bookkeeping: a follower that saw its cursor move would move it again, for ever."""
    record = entry.entry.record if entry.action is Action.RECORD_PUT else None
    return record is not None and record.kind.startswith("~")
