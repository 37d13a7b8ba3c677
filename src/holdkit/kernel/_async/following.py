"""Following the journal: a cursor that only moves forward, and is checked at each step, so that no entry is ever skipped; and the
state of a follower that has a name (see `follower_state`)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial

from ...core.archived import FindArchived
from ...core.commands import PutRecord
from ...core.model import Key, RecordKey
from ...core.pages import Page
from ...core.personal import text_digest
from ...core.reading import (
    FindEnds,
    FindEntries,
    FindRecord,
    JournalRow,
    Query,
    ReadClock,
    ReadGeneration,
    ReadJournal,
    ReadPoolHistory,
)
from ...core.validation import text
from ...errors import CursorLost, EngineError, OutcomeUnknown, Overloaded, VersionConflict, plain
from ..follower_state import (
    CURSORS,
    CURSORS_OF_ALL,
    MAX_NAME,
    CursorOwnership,
    CursorStore,
    OnGeneration,
    SavedCursor,
    advice_of,
    cursor_body,
    cut_back,
    entries_of,
    is_overdue,
    missing_entries,
    report_generation,
    saved_cursor,
)
from ..journal import (
    JournalEntry,
    Positions,
    decode_cursor,
    encode_cursor,
    generation_of,
    journal_entries,
    rows_behind,
    visible,
)
from ..workers import AsyncSignal
from .baselines import AsyncBaselineReading, another_entry, archived_there
from .executor import AsyncExecutor

log = logging.getLogger("holdkit")

PAGE = 500


class AsyncFollower:
    """Reads the journal of one tenant, or of all (None), or the history of one pool, page by page. It knows, for each lane, the
    number of the last entry it has read and the digest of what that looked like."""

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
        """`durable`: a page is as durable as what commands write, because somebody acts on it. Else it is a plain read."""
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

    async def begin(self, after: str | None) -> None:
        """Begin behind the cursor that is saved under our name, else behind the one given, else at the beginning."""
        self._executor.check_open()
        saved = None if self._named is None else await self._named.begin()
        after = after if saved is None else saved.cursor
        if after is not None:
            self._positions = decode_cursor(after)
        if self._named is not None:
            self.generation = await self._executor.read(ReadGeneration())
            await self._named.compare(saved, encode_cursor(self._positions, self.generation), self.generation)
        self._proved = self._positions
        await self._find_baselines()
        if after is not None:
            await self._check_positions()

    async def page(self, limit: int, max_bytes: int | None = None) -> Page[JournalEntry]:
        """The next entries, and move behind them: at most `limit`, and about `max_bytes`, or what the executor allows. May be empty
        although more follow (see `at_end`): some entries are hidden. Raise `Overloaded` while standbys do not confirm a durable page:
        the next call reads it again."""
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
        read = self._executor.read_to_show if self._durable else self._executor.read
        rows = await read(self._query(seen, limit, max_bytes or self._executor.page_bytes))
        await self._check_positions()  # after the read: so what was read belongs to the journal that has our positions
        before, self.generation = self.generation, await self._executor.read(ReadGeneration())
        unread = {row.lane for row in (*rows, *ends) if row.seq > 1} - self._positions.keys()
        if unread and await self._find_baselines():  # archived before we came to read it
            return await self._baseline_page(limit)
        self.at_end = not rows.more
        shown = Page(visible(self._entries(rows), self._include_reserved), more=rows.more, size=rows.size)
        if rows:
            self._proved = self._positions
        if shown and self._named is not None:
            await self._named.remember(self._cursor())
        if self.at_end and before in ("", self.generation):  # else the ends may be those of a primary that was replaced
            # no entry of ours is missing in the page: up to the ends from before, the rest is hidden
            behind = (end for end in ends if end.seq > self._positions.get(end.lane, (0, ""))[0])
            self._positions = {**self._positions, **{end.lane: (end.seq, text_digest(end.text)) for end in behind}}
        return shown

    async def _find_baselines(self) -> bool:
        """Find the lanes that are archived and of which nothing was read yet, or a part of the baseline."""
        if self._pool is not None:  # a pool's history begins with its own row
            return False
        for archived in await self._executor.read(FindArchived()):
            seq, mark = self._positions.get(archived.lane, (0, ""))
            behind = (
                rows_behind(mark, archived.edition) if seq == archived.through and mark != archived.digest else None
            )
            if not seq or behind is not None:
                self._baselines.append(AsyncBaselineReading(archived, behind or 0, durable=self._durable))
                self._positions = {lane: at for lane, at in self._positions.items() if lane != archived.lane}
        return bool(self._baselines)

    async def _baseline_page(self, limit: int) -> Page[JournalEntry]:
        """The next rows of a baseline as entries."""
        reading, before = self._baselines[0], self._positions
        entries = await reading.entries(self._executor, self._tenant, limit, before, self.generation)
        if not entries:
            del self._baselines[0]
            self._proved = self._positions = {**before, **reading.finished}
        self.at_end = False
        shown = Page(visible(entries, self._include_reserved), more=True)
        if shown and self._named is not None:
            await self._named.remember(self._cursor())
        return shown

    def _cursor(self) -> str:
        """The cursor behind what was read."""
        partly = self._baselines[0].partly if self._baselines else {}
        return encode_cursor({**self._positions, **partly}, self.generation)

    def _query(self, seen: Mapping[int, int], limit: int, max_bytes: int | None) -> Query[Page[JournalRow]]:
        if self._pool is None:
            return ReadJournal(self._tenant, seen, limit, max_bytes)
        return ReadPoolHistory(*self._pool, seen, limit, max_bytes)

    def _entries(self, rows: Iterable[JournalRow]) -> list[JournalEntry]:
        """Rows as entries, each with the positions at which it was read; moves behind them."""
        entries, self._positions = journal_entries(rows, self._positions, self._executor.now(), self.generation)
        return entries

    async def follow(self, stop: AsyncSignal | None, wait: bool, poll: float) -> AsyncIterator[JournalEntry]:
        """Entries until the kernel closes, `stop` is closed, or (without `wait`) the journal ends."""
        committed = self._executor.committed
        turned_away = False
        if wait:
            self._executor.listen()
        while not self._ended(stop):
            count = committed.count
            try:
                fresh = await self.page(PAGE)
            except EngineError:
                if committed.closed:  # while the page was read
                    return
                raise
            except Overloaded as later:
                if not wait:
                    raise
                if not turned_away:
                    log.warning("a follower waits: %s", plain(later), extra={"event": "follower_waits"})
                turned_away = True
                await committed.wait(count, min(poll, later.retry_after))
                continue
            turned_away = False
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

    def _ended(self, stop: AsyncSignal | None) -> bool:
        return self._executor.closed or (stop is not None and stop.closed)

    async def _check_positions(self) -> None:
        """The entries at our positions must still be what they were when we read them."""
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
        """Whether we are at the end, and the cursor under our name is so old that what is behind it, none of it ours, may be archived soon."""
        saved = None if self._named is None else self._named.saved
        return self.at_end and is_overdue(saved, self._cursor(), self._executor.now())

    async def save_cursor(self, behind: JournalEntry | None = None) -> None:
        """Save our cursor under our name, if we have one: behind the last page, or behind one of its entries."""
        if self._named is None:
            return
        try:
            await self._named.save(self._cursor() if behind is None else behind.cursor)
        except EngineError:
            if not self._executor.closed:
                raise


async def end_of_journal(executor: AsyncExecutor, back: int = 0) -> str:
    """A cursor behind everything that is in the journal now, or so many entries earlier in each lane: at the earliest behind what is
    archived."""
    rows = await executor.read(FindEnds())
    first = dict[int, tuple[int, str]]()
    if back:
        first = {one.lane: (one.through, one.digest) for one in await executor.read(FindArchived())}
        earlier = tuple((row.lane, row.seq - back) for row in rows if row.seq > back)
        rows = await executor.read(FindEntries(earlier)) if earlier else []
    generation = await executor.read(ReadGeneration())
    return encode_cursor({**first, **{row.lane: (row.seq, text_digest(row.text)) for row in rows}}, generation)


class AsyncNamedFollower:
    """The name of a follower: its saved cursor, which only one follower moves at a time, and what it was shown."""

    def __init__(
        self,
        executor: AsyncExecutor,
        tenant: str | None,
        name: str,
        store: CursorStore | None,
        on_generation: OnGeneration | None,
    ) -> None:
        self._executor, self._tenant, self._name = executor, tenant, name
        self._store, self._on_generation = store, on_generation
        self._ownership = CursorOwnership()
        self.saved: SavedCursor | None = None

    async def begin(self) -> SavedCursor | None:
        """The cursor to go on from, if one was saved."""
        now = await self._executor.read(ReadClock())
        saved = await find_cursor(self._executor, self._tenant, self._name)
        self._ownership.begin(saved, now)
        self.saved = saved
        return saved

    async def compare(self, saved: SavedCursor | None, begins: str, generation: str) -> None:
        """Raise `CursorLost` if entries are gone that were shown. Where nothing remembers what was shown, report a new
        generation."""
        here = self._executor.shown.load((self._tenant, self._name))
        outside = None if self._store is None else await self._executor.run_blocking(self._store.load)
        if outside is not None:
            await self._check_shown(outside, advice_of(self._store))
        if here is not None:
            await self._check_shown(here, advice_of(None))
        if here is None and outside is None and saved is not None:
            report_generation(self._name, generation_of(saved.cursor), generation, self._on_generation)
        if self._store is not None and outside is None:  # so that a store which cannot be written fails at once
            await self._executor.run_blocking(partial(self._store.save, begins))

    async def _check_shown(self, cursor: str, advice: str) -> None:
        shown, wanted = entries_of(cursor)
        found = await self._executor.read(FindEntries(wanted)) if wanted else []
        lost = missing_entries(shown, found, await self._executor.read(FindArchived()))
        if lost:
            # told once; an application's store forgets by itself
            self._executor.shown.forget((self._tenant, self._name))
            ends = {end.lane: end.seq for end in await self._executor.read(FindEnds())}
            raise cut_back(self._name, lost, ends, advice)

    async def remember(self, cursor: str) -> None:
        """What lies before this cursor is about to be shown."""
        if self._store is not None:
            await self._executor.run_blocking(partial(self._store.save, cursor))
        self._executor.shown.save((self._tenant, self._name), cursor)

    async def save(self, cursor: str) -> None:
        """Move the saved cursor. If that cannot be done now, or its outcome is unknown, it is left to the next time: an entry is
        shown twice rather than never. Raises `CursorLost` if another follower has this name."""
        for _ in range(2):  # once more if it met a write of its own
            ownership = self._ownership
            try:
                saved = await save_cursor(
                    self._executor, self._tenant, self._name, cursor, ownership.version, follower=ownership.follower
                )
            except (Overloaded, OutcomeUnknown):
                return
            except CursorLost:
                found = await find_cursor(self._executor, self._tenant, self._name)
                if found is None:
                    raise CursorLost(f"the cursor of the follower named {self._name!r} was removed") from None
                if not ownership.adopts(found):
                    raise
            else:
                ownership.done(saved.version)
                self.saved = saved
                return


async def find_cursor(executor: AsyncExecutor, tenant: str | None, name: str) -> SavedCursor | None:
    """The cursor under a name, if there is one yet."""
    return saved_cursor(await executor.read(FindRecord(_key(tenant, name))))


async def save_cursor(
    executor: AsyncExecutor,
    tenant: str | None,
    name: str,
    cursor: str,
    version: int,
    *,
    follower: str = "",
    op: str | None = None,
) -> SavedCursor:
    """Save a cursor in place of the version that was seen (0: there was none). Raises `CursorLost` if that has changed."""
    decode_cursor(cursor)
    owner, kind, id = _key(tenant, name)
    command = PutRecord(tenant=owner, kind=kind, id=id, body=cursor_body(cursor, follower), if_version=version, op=op)
    try:
        done = await executor.execute(command, faces=True)
    except VersionConflict:
        raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
    assert done.record is not None
    return SavedCursor(cursor, follower, done.record.version, done.record.slot)


def _key(tenant: str | None, name: str) -> RecordKey:
    """The record that has the cursor."""
    id = text(name, "name", MAX_NAME)
    return ("", CURSORS_OF_ALL, id) if tenant is None else (tenant, CURSORS, id)
