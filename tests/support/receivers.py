"""Receivers of webhooks on real sockets: good ones, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.support.threads import PATIENCE

HANG: Final = 0
"""As an answer: take the request, and never answer it."""


async def eventually(done: Callable[[], bool]) -> None:
    """Wait for a condition that nothing announces."""
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.to_thread(time.sleep, 0.01)


class Receivers:
    """One port with many receivers, told apart by path. What a path answers is planned; 204 if nothing is."""

    def __init__(self) -> None:
        self.plans: dict[str, Callable[[dict[str, Any]], int]] = {}
        """By path: the status for an event, or `HANG`."""
        self.headers: dict[str, bytes] = {}
        """By path: more headers of the answer."""
        self.taken: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        """Path, headers and event of the requests that were answered 204."""
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.open = 0
        self.port = 0
        self._news = asyncio.Condition()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def subjects(self, path: str) -> list[str]:
        """What a path has taken, in order."""
        return [event["subject"] for at, _, event in self.taken if at == path]

    async def until(self, done: Callable[[], bool], seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(done)

    async def changed(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            self.open -= 1
            writer.close()
            await self.changed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:]) if value}
        event = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.seen.append((path, event))
        await self.changed()
        status = self.plans[path](event) if path in self.plans else 204
        if status == HANG:
            await reader.read()  # until the sender closes
            return
        if status == 204:
            self.taken.append((path, headers, event))
        more = self.headers.get(path, b"")
        writer.write(b"HTTP/1.1 %d X\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n" % (status, more))
        await writer.drain()


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    """Receivers on loopback."""
    found = Receivers()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, backlog=500)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
