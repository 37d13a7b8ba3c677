"""The export of a tenant as a streamed answer: JSON lines, as `holdkit admin export --tenant` writes them.

The journal is read in pages on a thread of its own, and the next part is read when the client has taken the last one, so memory is
bounded however long the journal is. One export at a time runs in a process. An export that is cut short (the client is slow or
gone, the server stops, the storage fails) has no last line, and no import accepts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ..kernel.export import export
from ..wire.problems import Problem
from .request import CLOSE_CONNECTION, Request, Send
from .tenants import check_tenant

log = logging.getLogger("holdkit.server")

PART: Final = 256 * 1024
"""Bytes that are read and sent at a time, about."""


async def export_tenant(request: Request, send: Send) -> None:
    """Answer with a tenant's journal."""
    running, tenant = request.running, check_tenant(request.names[0])
    if running.exporting:
        raise Problem(503, "export_running", "another export is running: retry when it has ended", retry_after=5)
    running.exporting = True
    thread = ThreadPoolExecutor(1, thread_name_prefix="holdkit-export")
    lines = export(running.kernel._executor.engine, tenant=tenant)
    loop = asyncio.get_running_loop()
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        part = await loop.run_in_executor(thread, _part, lines)  # before the answer begins: an error is still a problem
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        headers += [(name.lower().encode(), value.encode()) for name, value in running.plain_headers(request)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while part and not gone.done() and not running.stopping.is_set():
                async with asyncio.timeout(running.settings.streams.timeout):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                part = await loop.run_in_executor(thread, _part, lines)
        except Exception:  # the answer has started: the error can only be logged, and the connection closed
            log.exception("export %s failed", request.id, extra={"event": "export_failed", "request_id": request.id})
        if part:
            _close_connection(request)
        else:
            await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        thread.shutdown(wait=False)
        running.exporting = False


def _part(lines: Iterator[bytes]) -> bytes:
    """Return the next lines; empty at the end."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= PART:
            break
    return b"".join(found)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _close_connection(request: Request) -> None:
    """Close the connection without the last chunk, so that the client sees that the answer was cut short."""
    close = request.scope.get("state", {}).get(CLOSE_CONNECTION)
    if close is not None:
        close()
