"""Event streams: the journal as server-sent events, or summaries of what changed. Both end when the server stops.

A stream reads the journal at its client's pace; nothing is queued. A client that reads nothing for `stream_timeout` seconds
is disconnected, and continues with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError

from ..core.validation import invalid
from ..errors import CursorLost
from ..kernel._async.following import AsyncFollower
from ..wire.fields import encode
from ..wire.journal import EventsQuery, entry_answer
from ..wire.pools import pool_answer
from .feed import Feed
from .problems import Problem
from .request import CLOSE_CONNECTION, Message, Request, Send

log = logging.getLogger("holdkit.server")

PAGE: Final = 200
"""Entries sent together. Only the last one carries an id, so a client that reconnects may get up to this many again."""
POLL: Final = 0.5


def sse(event: str, data: bytes, id: str | None = None) -> bytes:
    """One event. Encoded JSON contains no line breaks."""
    head = f"event: {event}\n" if id is None else f"event: {event}\nid: {id}\n"
    return head.encode() + b"data: " + data + b"\n\n"


async def events(request: Request, send: Send) -> None:
    """Answer with a stream that lasts until the client disconnects, is too slow, or the server stops."""
    running = request.running
    if running.streams >= running.settings.max_streams:
        raise Problem(503, "streams_too_many", "too many event streams are open: retry later", retry_after=5)
    running.streams += 1  # before the first await: many requests at once would all pass the check
    try:
        query: EventsQuery = request.query
        if query.kind == "summary":
            if query.all_tenants:
                raise invalid(
                    "all_tenants", "summary_of_one", "a summary covers the pools of one tenant: use kind=entries"
                )
            content = summaries(request, running.feeds.get(request.kernel, request.caller.tenant))
        else:
            content = await entries(request, _last_seen(request) or query.after, of_all=query.all_tenants)
        await _send(request, content, send)
    finally:
        running.streams -= 1


async def _send(request: Request, content: AsyncGenerator[bytes, None], send: Send) -> None:
    settings = request.running.settings
    open_still = False

    async def forward(message: Message) -> None:
        nonlocal open_still
        await send(message)
        open_still = message["type"] == "http.response.start" or bool(message.get("more_body"))

    try:
        async with aclosing(content):
            response = EventSourceResponse(
                content,
                ping=settings.ping_every,
                send_timeout=settings.stream_timeout,
                headers=dict(request.running.plain_headers(request)),
            )
            await response(request.scope, request.receive, forward)
        if open_still:  # the server stopped in the middle of the stream
            await send({"type": "http.response.body", "body": b""})
    except SendTimeoutError:
        log.warning("stream %s dropped: its client read nothing for %g s", request.id, settings.stream_timeout)
        await _close_connection(request)
    except OSError:
        pass  # the client is gone
    except Exception:  # the answer has started: the error can only be logged
        log.exception("stream %s failed", request.id)


async def _close_connection(request: Request) -> None:
    """Close the connection of a client that reads nothing. (Under another ASGI server, that server has to close it.)"""
    close = request.scope.get("state", {}).get(CLOSE_CONNECTION)
    if close is not None:
        close()
        while (await request.receive())["type"] != "http.disconnect":
            pass


def _last_seen(request: Request) -> str | None:
    raw = request.headers.get(b"last-event-id")
    return raw.decode("latin-1") if raw else None


async def entries(request: Request, after: str | None, *, of_all: bool = False) -> AsyncGenerator[bytes, None]:
    """Entries as they are committed, after a cursor or from now on. The cursor is checked before the stream begins."""
    kernel = request.kernel
    follower = AsyncFollower(kernel.executor, None if of_all else request.caller.tenant)
    began = after or await kernel.cursor()
    await follower.begin(began)
    return _entries(request, follower, began, of_all)


async def _entries(request: Request, follower: AsyncFollower, began: str, of_all: bool) -> AsyncGenerator[bytes, None]:
    running = request.running
    committed = request.kernel.executor.committed
    request.kernel.executor.listen()
    generation = await request.kernel.generation()
    yield sse("hello", encode({"server_time": request.now(), "generation": generation}), began)
    while not running.stopping.is_set() and not committed.closed:
        count = committed.count
        try:
            page = await follower.page(PAGE)
        except CursorLost:
            yield sse("lost", b"{}")
            return
        if page:
            last = page[-1].cursor
            sent = [sse(one.action, encode(entry_answer(one, "", with_tenant=of_all))) for one in page[:-1]]
            sent.append(sse(page[-1].action, encode(entry_answer(page[-1], last, with_tenant=of_all)), last))
            yield b"".join(sent)
        if follower.at_end:
            await committed.wait(count, POLL)
    yield sse("bye", b"{}")


async def summaries(request: Request, feed: Feed) -> AsyncGenerator[bytes, None]:
    """Summaries of what changed, at most a few per second: pools as they are now, and entries counted by action."""
    running = request.running
    feed.watchers += 1
    try:
        await feed.ready.wait()
        tick, epoch, seen = feed.tick, feed.epoch, Counter(feed.actions)
        yield sse("summary", encode({"sums": feed.sums.fields(), "complete": feed.complete, "pools": [], "removed": [],
                                     "actions": {}, "reset": True, "server_time": request.now()}))  # fmt: skip
        while not running.stopping.is_set():
            await feed.wait(tick, 5.0)
            reset, epoch = feed.epoch != epoch or tick < feed.forgotten, feed.epoch
            pools, removed, tick = feed.since(tick)
            actions = {name: count - seen[name] for name, count in sorted(feed.actions.items()) if count != seen[name]}
            seen = Counter(feed.actions)
            summary = {
                "sums": feed.sums.fields(),
                "complete": feed.complete,
                "pools": [pool_answer(pool) for pool in pools],
                "removed": removed,
                "actions": actions,
                "reset": reset,
                "server_time": request.now(),
            }
            yield sse("summary", encode(summary))
            await asyncio.sleep(running.settings.summary_every)
        yield sse("bye", b"{}")
    finally:
        feed.watchers -= 1
