"""A load generator that costs little itself: keep-alive connections, requests built once, minimal parsing of answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from time import perf_counter
from typing import Final

from ..rows import BenchFailed

_length: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Wire:
    """One connection."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._host, self._port, self._key = host, port, key
        self._number = 0

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=2**22)

    async def post(self, path: str, body: bytes, retry_key: str) -> bytes:
        """One request and its body back; anything but success stops the bench."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
            f"Idempotency-Key: {retry_key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        told = await self._reader.readuntil(b"\r\n\r\n")
        match = _length.search(told)
        if match is None:
            raise BenchFailed(f"an answer without a length: {told[:200]!r}")
        answer = await self._reader.readexactly(int(match[1]))
        if not told.startswith(b"HTTP/1.1 2"):
            raise BenchFailed(f"{path}: {told[:40]!r} {answer[:300]!r}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def load(
    port: int, key: str, connections: int, seconds: float, turn: Callable[[Wire, int, int], object]
) -> tuple[float, list[float]]:
    """Iterations per second, and the duration of each: every connection repeats its requests until the time is over."""
    wires = [Wire("127.0.0.1", port, key) for _ in range(connections)]
    for wire in wires:
        await wire.open()
    times: list[float] = []
    began = perf_counter()

    async def work(name: int, wire: Wire) -> None:
        number = 0
        while perf_counter() - began < seconds:
            at = perf_counter()
            await turn(wire, name, number)  # type: ignore[misc]
            times.append(perf_counter() - at)
            number += 1

    await asyncio.gather(*[work(name, wire) for name, wire in enumerate(wires)])
    took = perf_counter() - began
    for wire in wires:
        wire.close()
    return len(times) / took, sorted(times)
