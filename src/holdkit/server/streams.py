"""Event streams: the journal as server-sent events, or summaries of changes. Both end when the server stops.

A stream reads the journal at its client's pace; nothing is queued. A client that reads nothing for `streams.timeout` seconds
is disconnected, and continues with `Last-Event-ID`.

A stream lasts longer than the check that admitted it. So each time the API keys are refreshed, the request of every open stream is
checked again as if it had just come: with the secret that it was sent with, which may be an old one whose grace is over. A stream
that would be refused says `bye`. If it cannot, because its client takes nothing, the server cuts it off a moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError

from ..core.model import Pool
from ..core.reading import ReadGeneration
from ..core.validation import invalid
from ..errors import CursorLost, Overloaded
from ..kernel._async.following import AsyncFollower
from ..kernel.results import JournalEntry
from ..wire.fields import ShowPosition, encode
from ..wire.journal import EventsQuery, entry_answer
from ..wire.pools import pool_answer
from ..wire.problems import Problem
from ..wire.stats import Bye, Hello, Summary
from .fairness import Shares
from .feed import Feed
from .http_settings import KIB
from .large_answers import LARGE
from .request import CLOSE_CONNECTION, Message, Request, Send

if TYPE_CHECKING:
    from .application import Running

log = logging.getLogger("holdkit.server")

PAGE: Final = 200
"""Entries sent together. Only the last one carries an id, so a client that reconnects may get up to this many again."""
PACKET: Final = 256 * KIB
"""Bytes of entries sent together, about: every stream may have as many in memory while its client takes them."""
POLL: Final = 0.5
PING_EVERY: Final = "Holdkit-Ping-Every"
"""The header of a stream that says after how many seconds it gives a sign of life, at the latest."""
FAREWELL: Final = 0.5
"""Seconds that a stream whose caller would no longer be admitted gets to say so."""


def sse(event: str, data: bytes, id: str | None = None) -> bytes:
    """Encode one event. Encoded JSON contains no line breaks."""
    head = f"event: {event}\n" if id is None else f"event: {event}\nid: {id}\n"
    return head.encode() + b"data: " + data + b"\n\n"


class Stream:
    """One open stream."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.refused: Problem | None = None
        """Why its caller would no longer be admitted."""
        self.cut_off = asyncio.timeout(None)
        """Around the whole stream."""

    @property
    def bye(self) -> bytes | None:
        """Return the last event, if the stream is to end."""
        if self.refused is not None:
            return sse("bye", encode(Bye(reason=self.refused.reason)))
        return sse("bye", b"{}") if self.request.running.stopping.is_set() else None


class Streams:
    """The open streams of this process."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.shares = Shares(running.bounds.streams, divided=not running.settings.open)
        self._open: set[Stream] = set()

    @contextmanager
    def opened(self, request: Request) -> Iterator[Stream]:
        """Open a stream while the block runs; raise the 503 if there are too many."""
        caller = request.caller
        if not self.shares.take(caller.tenant, caller.id):
            detail = "too many event streams are open, or your API key or tenant has its share of them: retry later"
            raise Problem(503, "streams_too_many", detail, retry_after=5)
        stream = Stream(request)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)
            self.shares.release(caller.tenant, caller.id)

    def end_refused(self) -> None:
        """End the streams whose callers would no longer be admitted."""
        ended = False
        for stream in self._open:
            if stream.refused is None and (refused := self._refusal(stream.request)) is not None:
                stream.refused, ended = refused, True
                stream.cut_off.reschedule(asyncio.get_running_loop().time() + FAREWELL)
        if ended:
            self.wake()

    def _refusal(self, request: Request) -> Problem | None:
        try:
            self._running.admission.allowed(request.headers, request.operation)
        except Problem as refused:
            return refused
        return None

    def wake(self) -> None:
        """Wake all streams: some are to end."""
        self._running.kernel._executor.committed.notify()
        self._running.feeds.wake()
        self._running.places.wake()


async def events(request: Request, send: Send) -> None:
    """Answer with a stream of entries or summaries."""
    await stream_events(request, send, _content)


async def stream_events(
    request: Request, send: Send, begin: Callable[[Stream], Awaitable[AsyncGenerator[bytes, None]]]
) -> None:
    """Answer with a stream that lasts until its content ends, the client disconnects or is too slow, its API key stops counting, or
    the server stops. `begin` may refuse before the stream begins."""
    with request.running.streams.opened(
        request
    ) as stream:  # before the first await: else many at once would pass the check
        try:
            async with stream.cut_off:
                await _send(request, await begin(stream), send)
        except TimeoutError:
            if not stream.cut_off.expired():
                raise
            log.warning(
                "stream %s cut off: its API key no longer counts, and its client reads nothing",
                request.id,
                extra={"event": "stream_cut_off", "request_id": request.id},
            )
            await _close_connection(request)


async def _content(stream: Stream) -> AsyncGenerator[bytes, None]:
    request = stream.request
    query: EventsQuery = request.query
    if query.kind == "entries":
        return await entries(stream, _last_seen(request) or query.after, of_all=query.all_tenants)
    if query.all_tenants:
        raise invalid("all_tenants", "summary_of_one", "a summary covers the pools of one tenant: use kind=entries")
    return summaries(stream, request.running.feeds.get(request.kernel, request.caller.tenant))


async def _send(request: Request, content: AsyncGenerator[bytes, None], send: Send) -> None:
    limits = request.running.settings.streams
    open_still = False

    async def forward(message: Message) -> None:
        nonlocal open_still
        await send(message)
        open_still = message["type"] == "http.response.start" or bool(message.get("more_body"))

    try:
        async with aclosing(content):
            response = EventSourceResponse(
                content,
                ping=limits.ping_every,
                send_timeout=limits.timeout,
                headers=dict([*request.running.plain_headers(request), (PING_EVERY, f"{limits.ping_every:g}")]),
            )
            await response(request.scope, request.receive, forward)
        if open_still:  # the server stopped in the middle of the stream
            await send({"type": "http.response.body", "body": b""})
    except SendTimeoutError:
        log.warning(
            "stream %s dropped: its client read nothing for %g s",
            request.id,
            limits.timeout,
            extra={"event": "stream_dropped", "request_id": request.id, "seconds": limits.timeout},
        )
        await _close_connection(request)
    except OSError:
        pass  # the client is gone
    except Exception:  # the answer has started: the error can only be logged
        log.exception("stream %s failed", request.id, extra={"event": "stream_failed", "request_id": request.id})


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


async def entries(stream: Stream, after: str | None, *, of_all: bool = False) -> AsyncGenerator[bytes, None]:
    """Yield entries as they are committed, after a cursor or from now on. Check the cursor before the stream begins."""
    request, kernel = stream.request, stream.request.kernel
    follower = AsyncFollower(kernel._executor, None if of_all else request.caller.tenant, durable=True)
    began = request.caller.cursor(after or None) or await kernel.journal.cursor()
    await follower.begin(began)
    return _entries(stream, follower, began, of_all)


async def _entries(stream: Stream, follower: AsyncFollower, began: str, of_all: bool) -> AsyncGenerator[bytes, None]:
    request = stream.request
    committed = request.kernel._executor.committed
    request.kernel._executor.listen()
    generation, positions = await request.kernel._executor.read(ReadGeneration()), request.caller.positions
    yield sse("hello", encode(Hello(server_time=request.now(), generation=generation)), positions.show(began))
    while stream.bye is None and not committed.closed:
        count = committed.count
        try:
            page = await follower.page(PAGE, PACKET)
        except CursorLost:
            yield sse("lost", b"{}")
            return
        except Overloaded as later:  # the stream stays open, and says nothing
            await committed.wait(count, later.retry_after)
            continue
        if page:
            last = positions.cursor_behind(page[-1])
            packet = partial(_packet, page, positions.position, last, of_all)
            yield packet() if page.size < LARGE else await request.running.large_answers.off_loop(packet)
        if follower.at_end:
            await committed.wait(count, POLL)
    yield stream.bye or sse("bye", b"{}")


def _packet(page: list[JournalEntry], show: ShowPosition, last: str, of_all: bool) -> bytes:
    """Encode entries as events; only the last one has an id."""
    sent = [sse(one.action, encode(entry_answer(one, show, "", with_tenant=of_all))) for one in page[:-1]]
    sent.append(sse(page[-1].action, encode(entry_answer(page[-1], show, last, with_tenant=of_all)), last))
    return b"".join(sent)


async def summaries(stream: Stream, feed: Feed) -> AsyncGenerator[bytes, None]:
    """Yield summaries of changes, at most a few per second: changed pools as they are now, and entries counted by action."""
    request = stream.request
    feed.watchers += 1
    try:
        await feed.ready.wait()
        tick, epoch, seen = feed.tick, feed.epoch, Counter(feed.actions)
        yield sse("summary", encode(_summary(request, feed, [], [], {}, reset=True)))
        while stream.bye is None:
            await feed.wait(tick, 5.0)
            reset, epoch = feed.epoch != epoch or tick < feed.forgotten, feed.epoch
            pools, removed, tick = feed.since(tick)
            actions = {name: count - seen[name] for name, count in sorted(feed.actions.items()) if count != seen[name]}
            seen = Counter(feed.actions)
            yield sse("summary", encode(_summary(request, feed, pools, removed, actions, reset=reset)))
            await asyncio.sleep(request.running.settings.streams.summary_every)
        yield stream.bye or sse("bye", b"{}")
    finally:
        feed.watchers -= 1


def _summary(
    request: Request, feed: Feed, pools: list[Pool], removed: list[str], actions: dict[str, int], *, reset: bool
) -> Summary:
    return Summary(
        sums=feed.sums.document(),
        complete=feed.complete,
        pools=[pool_answer(pool) for pool in pools],
        removed=removed,
        actions=actions,
        reset=reset,
        server_time=request.now(),
    )
