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


class Place:
    """Ids of the stream come with the last event of each packet: after a break some events come again, and are passed over."""

    def __init__(self, cursor: str | None) -> None:
        self.cursor = cursor
        self._seen: dict[int, int] = {}
        self._coming: str | None = None
        self._torn = b""

    def begin(self, cursor: str) -> None:
        """Where to begin, if nothing has come yet."""
        if self.cursor is None:
            self.cursor = cursor

    def fresh(self, entry: RemoteEntry) -> bool:
        """Whether this entry comes for the first time; from now on it does not."""
        lane, seq = entry.position.lane, entry.position.seq
        if seq <= self._seen.get(lane, 0):
            return False
        self._seen[lane] = seq
        return True

    def told(self, packet: bytes) -> Iterator[RemoteEntry]:
        """What a packet of the stream tells, as far as that is new."""
        for line in self.lines(packet):
            if (entry := self.read(line)) is not None:
                yield entry

    def lines(self, packet: bytes) -> Iterator[str]:
        """The lines that a packet ends. Only a line feed ends one: httpx would also cut at signs that are text in JSON."""
        *whole, self._torn = (self._torn + packet).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode()

    def read(self, line: str) -> RemoteEntry | None:
        """What a line of the stream tells, if that is new. The cursor moves with the event that it belongs to, not before:
        a connection may break between the two."""
        if line.startswith("id: "):
            self._coming = line[4:]
        elif line.startswith("data: "):
            entry = read_entry(line[6:]) if line.startswith('data: {"position"') else None
            if self._coming is not None:
                self.cursor, self._coming = self._coming, None
            if entry is not None and self.fresh(entry):
                return entry if entry.cursor else replace(entry, cursor=self.cursor or "")
        return None

    def broken(self) -> None:
        """The last stream has ended, perhaps in the middle of an event."""
        self._coming, self._torn = None, b""


class Outside(NamedTuple):
    """What a named follower has outside of the server."""

    store: CursorStore | None = None
    on_generation: OnGeneration | None = None


class Receiver:
    """The end of a stream that waits for what comes; another thread or task may hang up."""

    def __init__(self) -> None:
        self.closed = False
        self._socket: Any = None

    def lift(self, answer: httpx.Response) -> None:
        """The stream has begun."""
        stream = answer.extensions.get("network_stream")
        self._socket = None if stream is None else stream.get_extra_info("socket")
        if self.closed:
            self.hang_up()

    def hang_up(self) -> None:
        """End it: who reads there sees the end at once."""
        self.closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
