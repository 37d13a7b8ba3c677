"""Places in line as server-sent events: each stream follows one hold until units are offered to it, or it has ended.

Theory of operation. One reader of the journal serves all of these streams of a process; it runs while there are any. It decodes of
each entry only the hold and the lines that it concerns, and wakes their streams. A stream that is woken reads its hold; if
a hold in its line was served or left, it also counts the holds ahead, at most every `EVERY` seconds, because the time for that
grows with the count. So a stream costs nothing while nothing happens to its line, and little while much does.

Nothing is missed: a stream registers before it reads its hold for the first time, and the reader wakes all streams when it begins,
and when entries may have escaped it. A deadline that passes has no entry: the stream looks at the deadline. An entry of another process
may come without a notification: the stream looks every `RECHECK` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Struct

from ..core.model import SECOND, Key, State, StoredHold
from ..core.reading import JournalRow
from ..kernel._async.executor import AsyncExecutor
from ..kernel.results import Hold
from ..wire.fields import encode
from ..wire.holds import hold_now, place_answer
from .journal_watch import JournalWatch
from .request import Request, Send
from .streams import Stream, sse, stream_events

EVERY: Final = 2.0
"""Seconds between two places that a stream sends."""
RECHECK: Final = 5.0
"""Seconds after which a stream reads its hold, whether or not it was woken."""
SHORTEST: Final = 0.05
"""Seconds between two reads, if nothing wakes it: around the deadline, because the clock that is known here can be ahead of the
store's."""


class _Pool(Struct):
    id: str


class _Effect(Struct):
    pool: _Pool
    waiting: int = 0


class _Entry(Struct):
    """The fields of an entry that are decoded."""

    subject: str
    tenant: str = ""
    effects: tuple[_Effect, ...] = ()


_entry: Final = msgspec.json.Decoder(_Entry)


class Watcher:
    """One stream, as the reader of the journal knows it."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.line_moved = True
        """Whether a hold in the line was served or left since the stream last counted the holds ahead."""

    async def wait(self, seconds: float) -> None:
        """Wait for news, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            pass


class PlaceWatch:
    """Wakes the streams of places of this process."""

    def __init__(self, executor: AsyncExecutor) -> None:
        self._executor = executor
        self._holds: dict[Key, set[Watcher]] = {}
        self._lines: dict[Key, set[Watcher]] = {}
        self._reading: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, hold: StoredHold) -> Iterator[Watcher]:
        """Register a watcher of a hold and its line while the block runs."""
        watcher = Watcher()
        line = self._executor.line_watch.add(hold)  # has the line fed when units become free by themselves
        registered = ((self._holds, hold.key), (self._lines, (hold.tenant, hold.legs[0].pool)))
        for table, key in registered:
            table.setdefault(key, set()).add(watcher)
        if self._reading is None or self._reading.done():
            watch = JournalWatch(self._executor, self._take, "places in line")
            self._reading = asyncio.create_task(watch.run(), name="holdkit-places")
        try:
            yield watcher
        finally:
            self._executor.line_watch.remove(line)
            for table, key in registered:
                table[key].discard(watcher)
                if not table[key]:
                    del table[key]
            if not self._holds:
                self._reading.cancel()
                self._reading = None

    def wake(self) -> None:
        """Wake all streams: some are to end, or entries may have escaped the reader."""
        for watchers in self._lines.values():
            for watcher in watchers:
                watcher.line_moved = True
                watcher.news.set()

    def _take(self, rows: Sequence[JournalRow] | None) -> None:
        if rows is None:
            self.wake()
            return
        for row in rows:
            entry = _entry.decode(row.text)
            for watcher in self._holds.get((entry.tenant, entry.subject), ()):
                watcher.news.set()
            for effect in entry.effects:
                if effect.waiting >= 0:
                    continue
                for watcher in self._lines.get((entry.tenant, effect.pool.id), ()):
                    if not watcher.line_moved:
                        watcher.line_moved = True
                        watcher.news.set()


async def place_events(request: Request, send: Send) -> None:
    """Answer with the stream of one hold's place."""
    await stream_events(request, send, _content)


async def _content(stream: Stream) -> AsyncGenerator[bytes, None]:
    """Look the hold up before the stream begins, so that an unknown one is a 404."""
    return _places(stream, await stream.request.kernel.get(stream.request.hold_named))


async def _places(stream: Stream, hold: Hold) -> AsyncGenerator[bytes, None]:
    request, executor = stream.request, stream.request.kernel._executor
    with request.running.places.watching(hold.raw) as watcher:
        told: int | None = None
        told_at = float("-inf")
        while stream.bye is None:
            watcher.news.clear()
            row = await executor.find_hold(hold.raw.key)
            if row is None or row.state is not State.WAITING:
                yield _last(request, row)
                return
            wait = min(RECHECK, (row.leg_deadline - executor.now()) / SECOND)
            if watcher.line_moved:
                pause = told_at + EVERY - time.monotonic()
                if pause > 0:
                    wait = min(wait, pause)
                else:
                    watcher.line_moved = False
                    place = await request.kernel.place(row.id)
                    if place is not None and place != told:
                        told, told_at = place, time.monotonic()
                        yield sse("place", encode(place_answer(row, place, request.now(row.joined_at))))
            await watcher.wait(max(SHORTEST, wait))
        yield stream.bye


def _last(request: Request, row: StoredHold | None) -> bytes:
    """Return the last event: the hold as it is now."""
    if row is None:
        return sse("bye", b"{}")
    shown = hold_now(Hold(row), request.running.clock(), request.caller.show, secret=False)
    return sse("offered" if row.state is State.HELD else "ended", encode(shown))
