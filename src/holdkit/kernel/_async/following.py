"""Following the journal: a place in it that only moves on, and is checked each time, so that no entry is ever skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from ...core.codec import decode_entry, digest
from ...core.commands import PutRecord
from ...core.reading import FindEnd, FindRecord, JournalRow, ReadJournal
from ...errors import CursorLost, EngineError, Overloaded, VersionConflict
from ..cursor import decode_cursor, encode_cursor
from ..surface import JournalEntry
from ..workers import AsyncSignal
from .desk import AsyncDesk

CURSORS = "~cursor"
PAGE = 500


class AsyncFollower:
    """Reads one tenant's journal from a place on: the number of an entry, and the digest of what it looked like."""

    def __init__(self, desk: AsyncDesk, tenant: str, name: str | None = None) -> None:
        self._desk, self._tenant, self._name = desk, tenant, name
        self._seq, self._seen = 0, ""
        self._version = 0
        self.at_end = False
        """Whether the last page reached the end of the journal."""

    async def begin(self, after: str | None) -> None:
        """Take up the place kept under our name, else the one given, else the beginning."""
        self._desk.submitter.check()
        if self._name is not None:
            kept = await self._desk.submitter.read(FindRecord((self._tenant, CURSORS, self._name)))
            if kept is not None:
                self._version = kept.version
                after = msgspec.json.decode(kept.body, type=str)
        if after is not None:
            self._seq, self._seen = decode_cursor(after)
            await self._check_place()

    async def page(self, limit: int) -> list[JournalEntry]:
        """The next entries, and move on behind them; perhaps none although more follow (see `at_end`): some are hidden."""
        end = await self._desk.submitter.read(FindEnd())
        self.at_end = end.seq == self._seq
        if self.at_end:
            self._check_seen(end)
            return []
        rows = await self._desk.submitter.read(ReadJournal(self._tenant, self._seq, limit))
        await self._check_place()  # after the read: what was read is of the journal that has our place
        self.at_end = len(rows) < limit
        last = rows[-1] if rows and (not self.at_end or rows[-1].seq > end.seq) else end
        self._seq, self._seen = last.seq, digest(last.text)
        return [entry for entry in map(_entry, rows) if not _own(entry)]

    async def follow(self, stop: AsyncSignal | None, wait: bool, poll: float) -> AsyncIterator[JournalEntry]:
        """Page after page until the kernel closes, `stop` does, or (without `wait`) the journal ends."""
        committed = self._desk.submitter.committed
        while not self._over(stop):
            count = committed.count
            fresh = await self.page(PAGE)
            for entry in fresh:
                yield entry
                if self._over(stop):
                    return
            if fresh and self._name is not None:
                await self._keep_place()
            if self.at_end and not wait:
                return
            if self.at_end:
                await committed.wait(count, poll)

    def _over(self, stop: AsyncSignal | None) -> bool:
        return self._desk.submitter.committed.closed or (stop is not None and stop.closed)

    async def _check_place(self) -> None:
        """Our entry must still be what it was when we saw it."""
        if self._seq:
            rows = await self._desk.submitter.read(ReadJournal(None, self._seq - 1, 1))
            self._check_seen(rows[0] if rows else JournalRow(0, ""))

    def _check_seen(self, row: JournalRow) -> None:
        if self._seq and (row.seq != self._seq or digest(row.text) != self._seen):
            raise CursorLost(
                f"entry {self._seq} is no longer what this cursor saw: the journal was cut back or is another one; "
                "start anew, from the beginning or from cursor()"
            )

    async def _keep_place(self) -> None:
        body = msgspec.json.encode(encode_cursor(self._seq, self._seen)).decode()
        name = self._name or ""
        command = PutRecord(tenant=self._tenant, kind=CURSORS, id=name, body=body, if_version=self._version)
        try:
            done = await self._desk.do(command, faces=True)
        except Overloaded:
            return  # kept with the next page
        except VersionConflict:
            raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
        except EngineError:
            if self._desk.submitter.committed.closed:
                return
            raise
        assert done.record is not None
        self._version = done.record.version


async def end_of_journal(desk: AsyncDesk) -> str:
    """A cursor behind everything that is in the journal now."""
    end = await desk.submitter.read(FindEnd())
    return encode_cursor(end.seq, digest(end.text))


def _entry(row: JournalRow) -> JournalEntry:
    return JournalEntry(row, decode_entry(row.text))


def _own(entry: JournalEntry) -> bool:
    """Our own bookkeeping: a follower that saw its cursor move would move it again, for ever."""
    return entry.entry.record is not None and entry.entry.record.kind.startswith("~")
