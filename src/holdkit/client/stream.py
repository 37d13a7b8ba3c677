"""The stream of events as one follower reads it: its cursor, what it has seen of each lane, and the connection."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from msgspec.structs import replace

from ..core.entries import Action
from ..kernel.follower_state import CursorStore, OnGeneration
from ..wire.fields import encode
from ..wire.journal import EntryAnswer
from .answers import read_entry


class StreamCursor:
    """Where a follower is. The server sends a cursor with the last event of each packet, so after a broken
    connection some events come again; they are skipped."""

    def __init__(self, cursor: str | None) -> None:
        self.cursor = cursor
        self._ahead: set[str] = set()
        """Entries that were seen, and that the cursor does not cover yet (`identity_of`)."""
        self._packet: list[EntryAnswer] = []
        """The entries that came since the stream's last cursor."""
        self._next_cursor: str | None = None
        self._partial = b""

    def begin(self, cursor: str) -> None:
        """Set where to begin, if nothing was read yet."""
        if self.cursor is None:
            self.cursor = cursor

    def is_new(self, entry: EntryAnswer) -> bool:
        """Return whether this entry is new, and mark it as seen. Positions have no order, but what comes again lies behind the cursor, so
        only what the cursor does not cover must be remembered."""
        identity = identity_of(entry)
        if identity in self._ahead:
            return False
        self._ahead.add(identity)
        return True

    def move(self, cursor: str, covered: Iterable[EntryAnswer]) -> None:
        """Move to a cursor that covers these entries too."""
        self.cursor = cursor
        self._ahead.difference_update(map(identity_of, covered))

    def entries(self, packet: bytes) -> Iterator[EntryAnswer]:
        """Yield the new entries in a packet of the stream."""
        for line in self.lines(packet):
            if (entry := self.parse(line)) is not None:
                yield entry

    def lines(self, packet: bytes) -> Iterator[str]:
        """Yield the lines that end in this packet. Only a line feed ends a line: httpx would also split at characters that are text in
        JSON."""
        *whole, self._partial = (self._partial + packet).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()

    def parse(self, line: str) -> EntryAnswer | None:
        """Return the entry in a line of the stream, if it is new. The cursor moves with the event it belongs to, not before: the
        connection may break between the two lines."""
        if line.startswith("id: "):
            self._next_cursor = line[4:]
        elif line.startswith("data: "):
            entry = read_entry(line[6:]) if line.startswith('data: {"position"') else None
            new = entry is not None and self.is_new(entry)
            if entry is not None:
                self._packet.append(entry)
            if self._next_cursor is not None:
                self.move(self._next_cursor, self._packet)
                self._packet, self._next_cursor = [], None
            if entry is not None and new:
                return entry if entry.cursor else replace(entry, cursor=self.cursor or "")
        return None

    def restart(self) -> None:
        """Begin a new stream after the last one has ended, perhaps in the middle of an event."""
        self._next_cursor, self._partial, self._packet = None, b"", []


def identity_of(entry: EntryAnswer) -> str:
    """Return a text that recognises an entry when it comes again. All rows of a baseline have one position, so their content tells them
    apart."""
    if entry.action != Action.JOURNAL_BASELINE:
        return entry.position
    return encode(replace(entry, cursor="")).decode()


class LocalState(NamedTuple):
    """What a named follower stores in its own process."""

    store: CursorStore | None = None
    on_generation: OnGeneration | None = None


class StreamHandle:
    """A stream that one thread or task reads and another may close."""

    def __init__(self) -> None:
        self.closed = False
        self._socket: Any = None

    def attach(self, answer: httpx.Response) -> None:
        """Keep the socket of the stream that has begun, so that `close` can end it; end it now if it was closed meanwhile."""
        stream = answer.extensions.get("network_stream")
        self._socket = None if stream is None else stream.get_extra_info("socket")
        if self.closed:
            self.close()

    def close(self) -> None:
        """End it: the reader sees the end at once."""
        self.closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class NewFile:
    """A file that only its owner can read, and that appears under its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        self._unfinished, self._out = Path(name), os.fdopen(descriptor, "wb")

    def write(self, part: bytes) -> None:
        """Add to it."""
        self._out.write(part)

    def finish(self) -> None:
        """Give the complete file its name."""
        self._out.close()
        self._unfinished.rename(self._path)

    def discard(self) -> None:
        """Remove it, unless it is complete."""
        self._out.close()
        self._unfinished.unlink(missing_ok=True)
