"""A proxy that understands PostgreSQL's messages, and cuts the line before one of them, or inside of it. Changes nothing else."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Literal, Self, TypeAlias

Side: TypeAlias = Literal["client", "server"]
"""Who speaks."""
Cut: TypeAlias = tuple[Side, int, int]
"""At the n-th message of a side, after so many of its bytes."""


class Proxy:
    """Listens on a port of its own. Counts messages while armed; the line it cut is gone, later ones are left alone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._cut: Cut | None = None
        self._stall = False
        self._armed = False
        self.sizes: dict[Side, list[int]] = {"client": [], "server": []}
        """Of the messages since it was armed."""
        self.fired = threading.Event()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Cut every line that is open now."""
        for each in tuple(self._open):
            hang_up(each)

    def arm(self, cut: Cut | None = None, *, stall: bool = False) -> None:
        """Count from now on; cut at a message, or (`stall`) let nothing through any more."""
        with self._lock:
            self.sizes = {"client": [], "server": []}
            self._cut, self._stall, self._armed = cut, stall, True
            self.fired.clear()

    def disarm(self) -> None:
        """Let everything through."""
        with self._lock:
            self._armed, self._cut = False, None

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {client, server}
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink, side in ((client, server, "client"), (server, client, "server")):
                    threading.Thread(target=self._forward, args=(source, sink, side), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, side: Side) -> None:
        first = side == "client"
        with suppress(OSError, EOFError):
            while True:
                message = read_message(source, typed=not first)
                first = False
                passed = self._passes(side, len(message))
                if passed is None:
                    sink.sendall(message)
                    continue
                sink.sendall(message[:passed])
                if self._stall:
                    return  # both ends stay open, and hear nothing more
                break
        hang_up(source)
        hang_up(sink)

    def _passes(self, side: Side, size: int) -> int | None:
        """How many bytes of this message still pass, if the line ends here."""
        with self._lock:
            if not self._armed:
                return None
            self.sizes[side].append(size)
            if self._cut is None or self._cut[:2] != (side, len(self.sizes[side])):
                return 0 if self._stall and self.fired.is_set() else None
            passed = self._cut[2]
            self.fired.set()
            self._cut = None
            return passed


def read_message(source: socket.socket, *, typed: bool) -> bytes:
    """One message; the first of a client has no type."""
    head = read_exactly(source, 5 if typed else 4)
    (length,) = struct.unpack("!I", head[-4:])
    return head + read_exactly(source, length - 4)


def read_exactly(source: socket.socket, count: int) -> bytes:
    """All of it, or EOFError."""
    found = b""
    while len(found) < count:
        some = source.recv(count - len(found))
        if not some:
            raise EOFError
        found += some
    return found


def hang_up(line: socket.socket) -> None:
    """What was passed on before still arrives."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
