"""A load generator that costs little itself: keep-alive connections on uvloop, minimal parsing of answers.

What it costs is taken from a server on the same machine, and a faster server would be punished for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, TypeAlias
from uuid import uuid4

import uvloop

from ..rows import BenchFailed

_LENGTH: Final = b"content-length: "


class Wire(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._host, self._port = host, port
        self.name = uuid4().hex
        """For retry keys that no other connection has."""
        self._head = (
            f"\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n".encode()
        )
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    async def open(self) -> None:
        """Connect."""
        self._loop = asyncio.get_running_loop()
        self._transport, _ = await self._loop.create_connection(lambda: self, self._host, self._port)

    def post(self, path: str, body: bytes, retry_key: str) -> Awaitable[bytes]:
        """One request and its body back; anything but success stops the bench."""
        self._answer = self._loop.create_future()
        self._transport.write(
            b"POST %b HTTP/1.1%bIdempotency-Key: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (path.encode(), self._head, retry_key.encode(), len(body), body)
        )
        return self._answer

    def data_received(self, data: bytes) -> None:
        """Complete the request once the whole answer is there."""
        self._received += data
        received, waiting = self._received, self._answer
        end = received.find(b"\r\n\r\n") + 4
        if end < 4 or waiting is None or waiting.done():
            return
        head = received[:end].lower()
        length = head.find(_LENGTH)
        if length < 0:
            waiting.set_exception(BenchFailed(f"an answer without a length: {head[:200]!r}"))
            return
        length += len(_LENGTH)
        end_of_body = end + int(head[length : head.index(b"\r", length)])
        if len(received) < end_of_body:
            return
        self._received, self._answer = b"", None
        if received.startswith(b"HTTP/1.1 2"):
            waiting.set_result(received[end:end_of_body])
        else:
            waiting.set_exception(BenchFailed(f"{received[:40]!r} {received[end : end + 300]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """A request that waits for its answer fails."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BenchFailed(f"the server closed the connection: {exc}"))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


Turn: TypeAlias = Callable[[Wire, int, int], Awaitable[None]]
"""One iteration, given the connection, its number, and the number of the iteration."""


def load(port: int, keys: list[str], connections: int, seconds: float, turn: Turn) -> tuple[float, list[float]]:
    """Iterations per second, and the duration of each, in order: every connection repeats its requests until the time is over."""
    return uvloop.run(_load(port, keys, connections, seconds, turn))


async def _load(port: int, keys: list[str], connections: int, seconds: float, turn: Turn) -> tuple[float, list[float]]:
    wires = [Wire("127.0.0.1", port, keys[number % len(keys)]) for number in range(connections)]
    for wire in wires:
        await wire.open()
    times: list[float] = []
    began = perf_counter()

    async def work(name: int, wire: Wire) -> None:
        number = 0
        while (at := perf_counter()) - began < seconds:
            await turn(wire, name, number)
            times.append(perf_counter() - at)
            number += 1

    await asyncio.gather(*[work(name, wire) for name, wire in enumerate(wires)])
    took = perf_counter() - began
    for wire in wires:
        wire.close()
    return len(times) / took, sorted(times)
