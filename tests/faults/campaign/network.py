"""A TCP proxy that can go silent, as a network does that was cut: connections stay open, nothing passes in either direction,
new ones are not answered. Healed, it passes on what was waiting. Understands nothing of what it carries.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Link:
    """Stands before one server, on a port of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self._passing = threading.Event()
        self._passing.set()
        self._closed = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> None:
        """Nothing passes any more."""
        self._passing.clear()

    def heal(self) -> None:
        """What was waiting goes on its way."""
        self._passing.set()

    def close(self) -> None:
        """End every connection."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._passing.set()
        for each in tuple(self._open):
            hang_up(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        self._open.add(client)
        self._passing.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            self._forget(client)
            return
        self._open.add(server)
        for each in (client, server):
            with suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._forward, args=(server, client), daemon=True)
        back.start()
        self._forward(client, server)
        back.join()
        self._forget(client, server)

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._passing.wait()
                sink.sendall(data)
        self._passing.wait()  # that somebody hung up is not heard through a cut either
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _forget(self, *ends: socket.socket) -> None:
        for each in ends:
            self._open.discard(each)
            hang_up(each)


def hang_up(line: socket.socket) -> None:
    """Both directions."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
