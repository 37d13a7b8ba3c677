"""Following the journal: a cursor that only moves forward, and is checked at each step, so that no entry is ever skipped."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping

from ...core.archived import FindArchived
from ...core.model import Key
from ...core.pages import Page
from ...core.personal import text_digest
from ...core.reading import (
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadGeneration,
    ReadJournal,
    ReadPoolHistory,
)
from ...errors import CursorLost, EngineError, Overloaded, plain
from ..follower_state import (
    CursorStore,
    OnGeneration,
    is_overdue,
)
from ..journal import JournalEntry, journal_entries, visible
from ..pages import Positions, decode_cursor, encode_cursor
from ..workers import AsyncSignal
from .baselines import AsyncBaselineReading, another_entry, archived_there, read_to_show, rows_read
from .executor import AsyncExecutor
from .named_following import AsyncNamedFollower

log = logging.getLogger("holdkit")

PAGE = 500


class AsyncFollower:
    """Reads the journal of one tenant, or of all (None), or the history of one pool, page by page. For each lane it knows the
    number and the digest of the last entry that it has read."""

    def __init__(
        self,
        executor: AsyncExecutor,
        tenant: str | None,
        name: str | None = None,
        *,
        pool: Key | None = None,
        store: CursorStore | None = None,
        on_generation: OnGeneration | None = None,
        include_reserved: bool = False,
        durable: bool = False,
    ) -> None:
        """`durable`: a page is as durable as the writes of commands, because its reader acts on it. Else it is a plain read."""
        self._executor, self._tenant, self._pool = executor, tenant, pool
        self._include_reserved, self._durable = include_reserved, durable
        self._named = None if name is None else AsyncNamedFollower(executor, tenant, name, store, on_generation)
        self._positions: Positions = {}
        self._proved: Positions = {}
        """Those of the last page that was shown. Beyond them we have passed over hidden entries, and a failover may take these back."""
        self.generation = ""
        """Of the journal, when it was last read."""
        self._baselines: list[AsyncBaselineReading] = []
        """Lanes whose baseline is still to be read; nothing else is read before."""
        self.at_end = False
        """Whether the last page reached the end of the journal."""
        self._turned_away = False
        """Whether the last page could not be read, and nothing is wrong."""

    async def begin(self, after: str | None, *, reads_on: bool = True) -> None:
        """Begin behind the cursor that is saved under our name, else behind `after`, else at the beginning. With `reads_on` off, the
        entries that follow may be archived."""
        self._executor.check_open()
        saved = None if self._named is None else await self._named.begin()
        after = after if saved is None else saved.cursor
        if after is not None:
            self._positions = decode_cursor(after)
        if self._named is not None:
            self.generation = await self._executor.read(ReadGeneration())
            await self._named.compare(saved, encode_cursor(self._positions, self.generation), self.generation)
        if reads_on:
            await self._enter_archive()
        self._proved = self._positions
        await self._check_positions()

    async def page(self, limit: int, max_bytes: int | None = None) -> Page[JournalEntry]:
        """Return the next entries, and move behind them: at most `limit`, and about `max_bytes`, or what the executor allows. The page may
        be empty although more follow (see `at_end`): some entries are hidden. Raise `Overloaded` while standbys do not confirm a durable
        page: the next call reads it again."""
        try:
            return await self._page(limit, max_bytes)
        except CursorLost as lost:
            if self._baselines or lost.archived_to is not None or not self._durable or self._positions == self._proved:
                raise
        self._positions, self.at_end = self._proved, False  # what was taken back was never shown
        return Page()

    async def _page(self, limit: int, max_bytes: int | None) -> Page[JournalEntry]:
        if self._baselines:
            return await self._baseline_page(limit)
        ends = await self._executor.read(FindEnds())
        seen = {lane: seq for lane, (seq, _) in self._positions.items()}
        self.at_end = {end.lane: end.seq for end in ends} == seen
        if self.at_end:
            await self._check_seen(ends)
            return Page()
        query = self._query(seen, limit, max_bytes or self._executor.page_bytes)
        rows = await read_to_show(self._executor, query, durable=self._durable)
        await self._check_positions()  # after the read: so what was read belongs to the journal that has our positions
        before, self.generation = self.generation, await self._executor.read(ReadGeneration())
        unchecked = {
            row.lane for row in (*rows, *ends) if row.seq > 1 and not self._positions.get(row.lane, (0, ""))[1]
        }
        if unchecked and await self._enter_archive():  # archived before we came to read it
            return await self._baseline_page(limit)
        self.at_end = not rows.more
        shown = Page(visible(self._entries(rows), self._include_reserved), more=rows.more, size=rows.size)
        if rows:
            self._proved = self._positions
        if shown and self._named is not None:
            await self._named.remember(self.cursor())
        if self.at_end and before in ("", self.generation):  # else the ends may be those of a primary that was replaced
            # no entry of ours is missing in the page: up to the ends from before, the rest is hidden
            behind = (end for end in ends if end.seq > self._positions.get(end.lane, (0, ""))[0])
            self._positions = {**self._positions, **{end.lane: (end.seq, text_digest(end.text)) for end in behind}}
        return shown

    async def _enter_archive(self) -> bool:
        """Find the baselines to read, at the very beginning or in the middle of them; return whether there are any. Raise `CursorLost` if a
        lane is archived behind our position there; a lane that our cursor does not name is at its beginning."""
        if self._pool is not None:  # a pool's history begins with its own row
            return False
        at_beginning = not self._positions
        for archived in await self._executor.read(FindArchived()):
            seq, seen = self._positions.get(archived.lane, (0, ""))
            rows = 0 if at_beginning else rows_read(archived, seq, seen)
            if rows is not None:
                self._baselines.append(AsyncBaselineReading(archived, rows, durable=self._durable))
        self._positions = {**self._positions, **{one.archived.lane: one.position for one in self._baselines}}
        return bool(self._baselines)

    async def _baseline_page(self, limit: int) -> Page[JournalEntry]:
        """Return the next rows of a baseline as entries."""
        reading, before = self._baselines[0], self._positions
        entries = await reading.entries(self._executor, self._tenant, limit, before, self.generation)
        if not entries:
            del self._baselines[0]
        self._proved = self._positions = {
            **before,
            reading.archived.lane: reading.position if entries else reading.end,
        }
        self.at_end = False
        shown = Page(visible(entries, self._include_reserved), more=True)
        if shown and self._named is not None:
            await self._named.remember(self.cursor())
        return shown

    def cursor(self) -> str:
        """Return the cursor after everything that was read."""
        return encode_cursor(self._positions, self.generation)

    def _query(self, seen: Mapping[int, int], limit: int, max_bytes: int | None) -> Query[Page[JournalRow]]:
        if self._pool is None:
            return ReadJournal(self._tenant, seen, limit, max_bytes)
        return ReadPoolHistory(*self._pool, seen, limit, max_bytes)

    def _entries(self, rows: Iterable[JournalRow]) -> list[JournalEntry]:
        """Return rows as entries, each with the positions at which it was read; move behind them."""
        entries, self._positions = journal_entries(rows, self._positions, self._executor.now(), self.generation)
        return entries

    async def follow(self, stop: AsyncSignal | None, wait: bool, poll: float) -> AsyncIterator[JournalEntry]:
        """Yield entries until the kernel closes, `stop` is closed, or (without `wait`) the journal ends."""
        committed = self._executor.committed
        if wait:
            self._executor.listen()
        while not self._ended(stop):
            count = committed.count
            try:
                fresh = await (self._page_or_rest(count, poll) if wait else self.page(PAGE))
            except EngineError:
                if committed.closed:  # while the page was read
                    return
                raise
            for entry in fresh:
                yield entry
                if self._ended(stop):
                    return
            if fresh or self.overdue():
                await self.save_cursor()
            if self.at_end and not wait:
                return
            if self.at_end:
                await committed.wait(count, poll)

    async def _page_or_rest(self, count: int, poll: float) -> Page[JournalEntry]:
        """Return the next page. If we were turned away, rest and return an empty page instead: the page is read again."""
        try:
            page = await self.page(PAGE)
        except Overloaded as later:
            if not self._turned_away:
                log.warning("a follower waits: %s", plain(later), extra={"event": "follower_waits"})
            self._turned_away, self.at_end = True, False
            await self._executor.committed.wait(count, min(poll, later.retry_after))
            return Page()
        self._turned_away = False
        return page

    def _ended(self, stop: AsyncSignal | None) -> bool:
        return self._executor.closed or (stop is not None and stop.closed)

    async def _check_positions(self) -> None:
        """Check that the entries at our positions are still what they were when we read them."""
        wanted = tuple((lane, seq) for lane, (seq, seen) in self._positions.items() if seen)
        if wanted:
            await self._check_seen(await self._executor.read(FindEntries(wanted)))

    async def _check_seen(self, rows: Iterable[JournalRow]) -> None:
        there = {row.lane: row for row in rows}
        for lane, (seq, seen) in self._positions.items():
            row = there.get(lane)
            if seen and (row is None or row.seq != seq or text_digest(row.text) != seen):
                if await archived_there(self._executor, lane, seq, seen):
                    continue
                raise another_entry(self._executor, lane, seq)

    def overdue(self) -> bool:
        """Return whether we are at the end, and entries of others behind the old cursor saved under our name may be archived soon."""
        saved = None if self._named is None else self._named.saved
        return self.at_end and is_overdue(saved, self.cursor(), self._executor.now())

    async def save_cursor(self, behind: JournalEntry | None = None) -> None:
        """Save our cursor under our name, if we have one: behind the last page, or behind one of its entries."""
        if self._named is None:
            return
        try:
            await self._named.save(self.cursor() if behind is None else behind.cursor)
        except EngineError:
            if not self._executor.closed:
                raise


async def end_of_journal(executor: AsyncExecutor, back: int = 0) -> str:
    """Return a cursor behind the last entry of the journal, or `back` entries earlier in each lane, but never within the archived
    entries."""
    rows = await executor.read(FindEnds())
    first = dict[int, tuple[int, str]]()
    if back:
        first = {one.lane: (one.through, one.digest) for one in await executor.read(FindArchived())}
        earlier = tuple((row.lane, row.seq - back) for row in rows if row.seq > back)
        rows = await executor.read(FindEntries(earlier)) if earlier else []
    generation = await executor.read(ReadGeneration())
    return encode_cursor({**first, **{row.lane: (row.seq, text_digest(row.text)) for row in rows}}, generation)
