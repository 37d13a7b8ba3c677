"""Many hostile clients at a time, and honest ones beside them.

A hostile client may send a little now and then, and never takes an answer. It is over when the proxy has closed its connection.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tests.integration.proxies.conftest import Proxied
from tests.support.threads import PATIENCE

CLOSED = select.POLLRDHUP | select.POLLHUP | select.POLLERR
ROUND = 200
"""Milliseconds between two parts that a slow client sends."""


class Crowd(Struct, frozen=True):
    """Clients of one kind: their connections, and what each sends again and again; nothing if that is empty."""

    kind: str
    wires: Sequence[socket.socket]
    drip: bytes = b""

    def start(self, first: bytes) -> Crowd:
        """Send what comes first; what the proxy does not take at once is not sent."""
        for wire in self.wires:
            wire.setblocking(False)
            with contextlib.suppress(OSError):
                wire.send(first)
        return self


def play(crowds: Sequence[Crowd]) -> Iterator[int]:
    """Let all clients continue until the proxy has closed each connection; fail if it leaves one open.

    Each round yields the number of open connections.
    """
    open_wires = {wire.fileno(): (wire, crowd) for crowd in crowds for wire in crowd.wires}
    watched = select.poll()
    for number in open_wires:
        watched.register(number, select.POLLRDHUP)
    for _ in range(int(PATIENCE * 1000 / ROUND)):
        for number, event in watched.poll(ROUND):
            if event & CLOSED:
                watched.unregister(number)
                del open_wires[number]
        if not open_wires:
            return
        for wire, crowd in open_wires.values():
            with contextlib.suppress(OSError):  # the next round sees that it is closed
                if crowd.drip:
                    wire.send(crowd.drip)
        yield len(open_wires)
    raise AssertionError(f"still open: {sorted({crowd.kind for _, crowd in open_wires.values()})}")


@contextlib.contextmanager
def honest_clients(proxied: Proxied, pool: str) -> Iterator[list[int]]:
    """Newcomers that make a hold each, one after the other, until the context ends: the statuses of their answers."""
    with proxied.server.client() as http:
        assert http.post("/v1/pools", json={"id": pool, "total": 1_000_000}).status_code == 201
    statuses: list[int] = []
    over = threading.Event()

    def come() -> None:
        while not over.is_set():
            with proxied.client() as http:
                op = f"{pool}-{len(statuses)}"
                answer = http.post("/v1/holds", json={"pool": pool, "ttl": 600}, headers={"Idempotency-Key": op})
                statuses.append(answer.status_code)

    coming = threading.Thread(target=come, daemon=True)
    coming.start()
    try:
        yield statuses
    finally:
        over.set()
        coming.join(PATIENCE)
    assert not coming.is_alive(), "an honest client waits for its answer"
    assert statuses
    assert set(statuses) == {201}
