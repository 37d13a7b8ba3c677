"""Where a follower is: its cursor, and what it has seen of each lane; and the line it listens on. Neither sync nor async."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
from msgspec.structs import replace

from ..kernel.follower_state import CursorStore, OnGeneration
from .wire import RemoteEntry, read_entry


class StreamCursor:
    """Ids of the stream come with the last event of each packet: after a break some events come again, and are passed over."""

    def __init__(self, cursor: str | None) -> None:
        self.cursor = cursor
        self._seen: dict[int, int] = {}
        self._next_cursor: str | None = None
        self._partial = b""

    def begin(self, cursor: str) -> None:
        """Where to begin, if nothing has come yet."""
        if self.cursor is None:
            self.cursor = cursor

    def is_new(self, entry: RemoteEntry) -> bool:
        """Whether this entry comes for the first time; from now on it does not."""
        lane, seq = entry.position.lane, entry.position.seq
        if seq <= self._seen.get(lane, 0):
            return False
        self._seen[lane] = seq
        return True

    def entries(self, packet: bytes) -> Iterator[RemoteEntry]:
        """What a packet of the stream tells, as far as that is new."""
        for line in self.lines(packet):
            if (entry := self.parse(line)) is not None:
                yield entry

    def lines(self, packet: bytes) -> Iterator[str]:
        """The lines that a packet ends. Only a line feed ends one: httpx would also cut at signs that are text in JSON."""
        *whole, self._partial = (self._partial + packet).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()

    def parse(self, line: str) -> RemoteEntry | None:
        """What a line of the stream tells, if that is new. The cursor moves with the event that it belongs to, not before:
        a connection may break between the two."""
        if line.startswith("id: "):
            self._next_cursor = line[4:]
        elif line.startswith("data: "):
            entry = read_entry(line[6:]) if line.startswith('data: {"position"') else None
            if self._next_cursor is not None:
                self.cursor, self._next_cursor = self._next_cursor, None
            if entry is not None and self.is_new(entry):
                return entry if entry.cursor else replace(entry, cursor=self.cursor or "")
        return None

    def restart(self) -> None:
        """The last stream has ended, perhaps in the middle of an event."""
        self._next_cursor, self._partial = None, b""


class LocalState(NamedTuple):
    """What a named follower has outside of the server."""

    store: CursorStore | None = None
    on_generation: OnGeneration | None = None


class StreamHandle:
    """The end of a stream that waits for what comes; another thread or task may hang up."""

    def __init__(self) -> None:
        self.closed = False
        self._socket: Any = None

    def attach(self, answer: httpx.Response) -> None:
        """The stream has begun."""
        stream = answer.extensions.get("network_stream")
        self._socket = None if stream is None else stream.get_extra_info("socket")
        if self.closed:
            self.close()

    def close(self) -> None:
        """End it: who reads there sees the end at once."""
        self.closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
