# Generated from ../_async/following.py by tools/gen_sync.py: do not edit.
"""Follows the journal over HTTP: pages up to its end, then the server's stream; after a broken connection, pages
again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import httpx

from ...errors import CursorLost, HoldkitError, InvalidRequest, OutcomeUnknown, Overloaded
from ...kernel.follower_state import CursorOwnership, SavedCursor, advice_of, cut_back, missing_in, report_generation
from ...kernel.journal import JournalEntry
from ...kernel.pages import decode_cursor, encode_cursor
from ...kernel.workers import Signal
from ...wire.journal import SEALED, CursorAnswer, EntryAnswer, EntryPage, KeptCursor, MoveCursor
from ..answers import ServerClock, entry_from, slot_of
from ..problems import LONGEST_PAUSE, NotAdmitted
from ..requests import path_of
from ..stream import LocalState, StreamCursor, StreamHandle
from .transport import RemoteCalls, Transport, retry_key

PAGE = 500

log = logging.getLogger("holdkit")

T = TypeVar("T")


def off_loop(work: Callable[[], T]) -> T:
    """Run blocking work, such as writing and syncing a file."""
    return work()


class RemoteFollower(RemoteCalls):
    """Reads entries after a cursor, none skipped and none twice. Under a name, the server stores the cursor."""

    def __init__(
        self,
        transport: Transport,
        clock: ServerClock,
        after: str | None,
        name: str | None = None,
        *,
        of_all: bool = False,
        local: LocalState | None = None,
    ) -> None:
        super().__init__(transport, clock)
        self.cursor, self.handle = StreamCursor(after), StreamHandle()
        self._name, self._ownership = name, CursorOwnership()
        self._kept, self._local = after, local or LocalState()
        self._whose: dict[str, Any] = {"all_tenants": "true"} if of_all else {}
        self._generation = ""
        """The generation of the journal in which the cursor under our name was made."""

    def _begin(self) -> None:
        """Begin at the cursor that is stored under the name, if there is one."""
        kept = None if self._name is None else self._find(self._name)
        self._ownership.begin(kept, self._clock())
        if kept is not None:
            self.cursor, self._kept = StreamCursor(kept.cursor), kept.cursor
        if self._name is not None:
            self._compare(self._name, kept)

    def _compare(self, name: str, kept: SavedCursor | None) -> None:
        """Compare with the cursor stored in this process: entries that were shown must still be in the journal."""
        store = self._local.store
        shown = None if store is None else off_loop(store.load)
        if shown is not None:
            try:
                self._get("/v1/journal", limit=1, after=shown, **self._whose)
            except CursorLost as lost:
                if lost.archived_to is not None:
                    raise
                raise self._cut_back(name, shown) from lost
        elif kept is not None:
            report_generation(name, self._generation, self.generation(), self._local.on_generation)
        if shown is None:
            self._note(self.cursor.cursor or encode_cursor({}))

    def _cut_back(self, name: str, shown: str) -> CursorLost:
        """Return the error for entries that were shown and are gone. Only an operator's key can tell how many: other cursors are sealed."""
        advice = advice_of(self._local.store)
        if shown.startswith(SEALED):
            return cut_back(name, [], {}, advice)
        ends = {lane: seq for lane, (seq, _) in decode_cursor(self.end()).items()}
        return cut_back(name, missing_in(shown, ends), ends, advice)

    def _note(self, cursor: str | None) -> None:
        """Store the cursor of entries that are about to be shown."""
        if self._local.store is not None and cursor is not None:
            off_loop(partial(self._local.store.save, cursor))

    def _find(self, name: str) -> SavedCursor | None:
        try:
            found: KeptCursor = self._heard("show_cursor", self._ask("show_cursor", name, **self._whose))
        except InvalidRequest as missing:
            if missing.code != "cursor_not_found":
                raise
            return None
        self._generation = found.generation
        return SavedCursor(found.cursor, found.follower, found.version, slot_of(found.at))

    def follow(self, wait: bool, *, from_now: bool = False) -> Iterator[JournalEntry]:
        """Yield entries until the stream or the client is closed or, without `wait`, until the journal ends."""
        try:
            self._begin()
            if from_now:
                self.cursor.begin(self.end())
            while not self._is_closed():
                page = self._page()
                for entry in page:
                    if self.cursor.is_new(entry):
                        yield entry_from(entry)
                if page:
                    self.cursor.move(page[-1].cursor, page)
                    self._keep()
                elif not wait:
                    return
                elif self.cursor.cursor is None:
                    self._begin_stream()
                else:
                    with self._packets() as packets:
                        for packet in packets:
                            for entry in self._entries(packet):
                                yield entry_from(entry)
                            self._keep()
        except HoldkitError:
            if not self._is_closed():  # in the middle of a request
                raise

    def _entries(self, packet: bytes) -> Iterable[EntryAnswer]:
        """Return the entries of a packet; if there is a local store, store their cursor before any is shown."""
        new = self.cursor.entries(packet)
        if self._local.store is None:
            return new
        entries = list(new)
        if entries:
            self._note(self.cursor.cursor)
        return entries

    def _page(self) -> list[EntryAnswer]:
        asked: dict[str, Any] = {"limit": PAGE, "after": self.cursor.cursor, "durable": "true", **self._whose}
        page: EntryPage = self._do("journal", **asked)
        if page.items:
            self._note(page.items[-1].cursor)
        return page.items

    def _begin_stream(self) -> None:
        """Begin the stream of an empty journal at its end, unless an entry was written meanwhile."""
        end = self.end()
        if not self._page():
            self.cursor.begin(end)

    @contextmanager
    def _packets(self) -> Iterator[Iterator[bytes]]:
        """Open the server's stream; when it breaks, even at once, wait until the server is ready again."""
        begun = False
        self.cursor.restart()
        try:
            with self._transport.stream(path_of("events"), self._whose, self.cursor.cursor, self.handle) as packets:
                begun = True
                yield packets
        except httpx.HTTPError:
            if not begun:
                yield _nothing()
        except Overloaded as full:  # the server has no stream for us now: read pages meanwhile, at a calm pace
            if begun:
                raise
            yield _nothing()
            self._transport.rest(min(full.retry_after, LONGEST_PAUSE))
        if not self._is_closed():
            self._ask("readyz")

    def _keep(self) -> None:
        """Store the cursor of a named follower that has moved, so that what it has read does not come again. If that
        fails or its outcome is unknown, the next page stores it."""
        if self._name is None or self.cursor.cursor == self._kept:
            return
        for _ in range(2):  # once more if it met a write of its own
            try:
                version = self._put(self._name)
            except (Overloaded, OutcomeUnknown):
                return
            except CursorLost:
                found = self._find(self._name)
                if found is None or not self._ownership.adopts(found):
                    raise
            else:
                self._kept = self.cursor.cursor
                self._ownership.done(version)
                return

    def _put(self, name: str) -> int:
        ownership = self._ownership
        body = MoveCursor(cursor=self.cursor.cursor or "", if_version=ownership.version, follower=ownership.follower)
        answer = self._transport.ask("PUT", path_of("move_cursor", name), body, op=retry_key(), params=self._whose)
        kept: KeptCursor = self._read("move_cursor", answer)
        return kept.version

    def end(self, back: int = 0) -> str:
        """Return a cursor after everything that is in the journal now, or `back` entries earlier in each lane."""
        end: CursorAnswer = self._do("cursor", back=back)
        return end.cursor

    def generation(self) -> str:
        """Return the present generation of the server's journal."""
        end: CursorAnswer = self._do("cursor")
        return end.generation

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._transport.closed

    def _is_closed(self) -> bool:
        return self.handle.closed or self.closed


def _nothing() -> Iterator[bytes]:
    packets: tuple[bytes, ...] = ()
    for packet in packets:
        yield packet


class StreamStop(Signal):
    """A signal to stop that also closes the stream that is being read."""

    def __init__(self, handle: StreamHandle) -> None:
        super().__init__()
        self._handle = handle

    def close(self) -> None:
        """Wake everything that waits for this signal, and stay closed."""
        super().close()
        self._handle.close()


class RemoteSource:
    """The entries that a listener gets from a server: continues where it was after a broken connection."""

    def __init__(self, follower: RemoteFollower) -> None:
        self._follower = follower
        self.stop: Signal = StreamStop(follower.handle)

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        return self._follower.closed

    def entries(self) -> Iterator[JournalEntry]:
        """Yield entries from where the listener left off. If the server does not admit the client, log that and end for good: no caller
        could catch an exception, and no later attempt would be admitted."""
        try:
            for entry in self._follower.follow(wait=True, from_now=self._follower.cursor.cursor is None):
                yield entry
        except NotAdmitted as refused:
            log.warning(
                "listener ends: the server no longer admits this client (%s)",
                refused.reason,
                extra={"event": "listener_ended", "reason": refused.reason},
            )
            self.end()

    def skip(self) -> None:
        """Continue with the entries that are written from now on."""
        self._follower.cursor = StreamCursor(None)

    def end(self) -> None:
        """Stop."""
        self.stop.close()
