"""What uvicorn's protocol on httptools lacks: strict requests, deadlines for clients, and refusals that are problem documents.

A reverse proxy stands at the edge: it ends TLS, counts the connections of each client, and waits for those that are slow. The guard
keeps what only the application can keep, because a proxy must never see other requests than the server does.

httptools refuses most ambiguous requests: `Content-Length` with `Transfer-Encoding`, or twice, or not a number; folded headers;
bare line feeds; bad chunk sizes. The guard adds:

- It ignores trailers. httptools would append them to the headers, which the proxy has filtered.
- It refuses a transfer coding other than `chunked`, one in HTTP/1.0, versions other than 1.0 and 1.1, CONNECT, and HTTP/1.1
  without `Host`.
- It bounds the bytes of an unfinished head or trailer, which httptools collects without a limit, and the number of pipelined
  requests.
- It ignores `Upgrade`, as RFC 9110 allows. httptools cannot: it drops the body of such a request, and would read what follows as
  the next request. So the guard gives the head, without these headers, to a new parser, and what follows after it.

A malformed request ends its connection. If earlier requests have no answer yet, these answers are sent first, and the malformed
request gets none: its answer would end up in the middle of theirs.

No connection has a timer: the server calls `check` for each of them a few times per shortest deadline. A client must send a whole
request within `receive_timeout`. It must take what is written to it: if the unsent bytes do not fall by `MIN_PROGRESS` within
`write_timeout`, the connection is aborted, in every state. While writing is paused or the transport is closing, nothing is added
to the unsent bytes, so their number can only fall; otherwise growth leaves the running deadline as it is, and only
`resume_writing` (most of it was taken) begins a new one. A closing TLS transport reports no unsent bytes although the socket below
it has some; therefore closing itself has this deadline.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..wire.problems import Problem, problem_body
from .bounds import bounds_of
from .request import CLOSE_CONNECTION, WRITE_ANSWER, Headers
from .settings import Settings

log = logging.getLogger("holdkit.server")

MIN_PROGRESS: Final = 16 * 1024
"""Bytes that a client must take within the write timeout, unless it takes all."""
PIECE_BYTES: Final = 16 * 1024
"""Bytes that the parser gets at a time, so that a bound is checked before much more is parsed; and up to which a body is joined with
its head."""
REPORT_SECONDS: Final = 10.0
"""Seconds between two warnings about refused and dropped clients."""
CLOSE: Final = (b"connection", b"close")
MALFORMED: Final = Problem(400, "request_malformed", "this is not a well-formed HTTP/1.1 request")
TOO_LARGE: Final = Problem(431, "headers_too_large", "the request line and headers are too large")
OVERLOADED: Final = Problem(503, "overloaded", "the server has too many connections: retry later", retry_after=1.0)


class Malformed(Exception):
    """Raised within the parser, which then stops."""


class Clients:
    """What the connections of one server share: their bounds and their counters."""

    def __init__(self, settings: Settings) -> None:
        self.limits = settings.connections
        self.max_open = bounds_of(settings).connections
        self.max_head_bytes = settings.requests.max_headers + settings.requests.max_query
        self.check_seconds = min(1.0, min(self.limits.receive_timeout, self.limits.write_timeout) / 4)
        self.refused = self.dropped = 0
        self.draining = False
        self._reported, self._report_at = (0, 0), 0.0

    def report(self, now: float, open_connections: int) -> None:
        """Log that clients were refused or dropped, if there are new ones."""
        counted = (self.refused, self.dropped)
        if counted == self._reported or now < self._report_at:
            return
        self._reported, self._report_at = counted, now + REPORT_SECONDS
        log.warning(
            "since the start: %d connections refused, %d clients disconnected because they read nothing; %d are open",
            *counted,
            open_connections,
            extra={"event": "connections_ended", "refused": counted[0], "dropped": counted[1], "open": open_connections},
        )  # fmt: skip


class Unsent:
    """The bytes that a client has not taken yet: how many they were at the last progress, and when that was."""

    def __init__(self) -> None:
        self._progress: tuple[int, float] | None = None

    def reset(self) -> None:
        """Note that the client has taken most of the bytes."""
        self._progress = None

    def is_stuck(self, unsent: int, now: float, seconds: float) -> bool:
        """Return whether the client has made no progress within `seconds`."""
        if self._progress is None or unsent <= self._progress[0] - MIN_PROGRESS:
            self._progress = unsent, now
        self._progress = max(self._progress[0], unsent), self._progress[1]
        return now - self._progress[1] > seconds


class Guard(HttpToolsProtocol):
    """One connection."""

    def __init__(self, clients: Clients, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.clients = clients
        self._since = self.loop.time()
        """When the current request began to arrive, or the connection became idle."""
        self._arriving: Literal["head", "body"] | None = None
        self._working: RequestResponseCycle | None = None
        self._head_bytes, self._refused, self._unsent = 0, False, Unsent()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {CLOSE_CONNECTION: self.cut}
        if len(self.connections) > self.clients.max_open:
            self.clients.refused += 1
            self._refuse(OVERLOADED)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError) and exc.errno == errno.ETIMEDOUT:  # the kernel's deadline for a reader came first
            self.clients.dropped += 1
        self.cut()
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close the connection at once, and end the request that is being answered: uvicorn ends only the last of a pipeline."""
        if self._working is not None:
            self._working.disconnected = True
            self._working.message_event.set()
        self.transport.abort()

    def check(self, now: float) -> None:
        """Enforce the deadlines."""
        limits, unsent = self.clients.limits, self.transport.get_write_buffer_size()
        if unsent or self.transport.is_closing():
            if self._unsent.is_stuck(unsent, now, limits.write_timeout):
                self.clients.dropped += 1
                self.transport.abort()
            return
        self._unsent.reset()
        is_sending = self._arriving or self.cycle is None
        seconds = limits.receive_timeout if is_sending else limits.keep_alive
        if now - self._since > seconds and not self.flow.read_paused and (is_sending or self.cycle.response_complete):
            self.transport.abort()  # to close would wait for the client's end of TLS

    def resume_writing(self) -> None:
        self._unsent.reset()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self._parse(data[start : start + PIECE_BYTES])

    def _parse(self, data: bytes) -> None:
        if self._refused:
            return
        is_continued = self._arriving is not None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            head = head_without_upgrade(self.parser, self.url, self.headers)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.data_received(head + data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(MALFORMED)
        else:
            self._head_bytes += len(data) if is_continued else 0
            if self._arriving and self._head_bytes > self.clients.max_head_bytes:
                self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self.clients.limits.max_pipelined:
            raise Malformed
        super().on_message_begin()
        self._arriving, self._since, self._head_bytes = "head", self.loop.time(), 0

    def on_headers_complete(self) -> None:
        if not is_unambiguous(self.parser, self.headers):
            raise Malformed
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            self._arriving, self.headers = "body", []  # so that trailers become no headers
            self.cycle.keep_alive = self.cycle.keep_alive and not self.clients.draining

    def on_body(self, body: bytes) -> None:
        self._head_bytes = (
            -PIECE_BYTES
        )  # between parts of a body, chunk extensions and trailers are bounded like a head
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._working = cycle
        cycle.scope["state"][WRITE_ANSWER] = partial(write_answer, cycle)
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        if self._arriving == "body":  # otherwise it is an upgrade, whose head is parsed again
            self._arriving, self._since = None, self.loop.time()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()  # uvicorn starts a timer here; `check` has the deadlines
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())

    def _refuse(self, problem: Problem) -> None:
        """End the connection: after the answers that are under way, or with this one."""
        self._refused, in_body = True, self._arriving == "body"
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete and (self.pipeline or not in_body):
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if not in_body or not cycle.response_started:  # a request has one answer, even if the rest of it is malformed
            self.transport.write(raw_problem(problem))
        self.transport.close()


def is_unambiguous(parser: httptools.HttpRequestParser, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether the head of a request, which httptools has accepted, has one reading only."""
    has_host = has_coding = False
    for name, value in headers:
        if name == b"host":
            has_host = True
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                return False
            has_coding = True
    if parser.get_method() == b"CONNECT":
        return False
    return has_host if parser.get_http_version() == "1.1" else parser.get_http_version() == "1.0" and not has_coding


def head_without_upgrade(
    parser: httptools.HttpRequestParser, target: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """Return the head of a request as it was sent, without the headers that ask for another protocol."""
    line = b"%b %b HTTP/%b\r\n" % (parser.get_method(), target, parser.get_http_version().encode())
    kept = [b"%b: %b\r\n" % header for header in headers if header[0] not in (b"connection", b"upgrade")]
    return b"".join((line, *kept, b"\r\n"))


def write_answer(cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> bool:
    """Write a whole answer, as uvicorn's `send` does with two messages. That writes head and body separately, which is a system
    call each, and searches every header twice. Refuses if the client has to take earlier answers first, for which `send` waits."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_started:
        return False
    lines = [STATUS_LINE[status], *[b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]]
    if CLOSE in headers:
        cycle.keep_alive = False
    elif not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    head = b"".join(lines)
    if head.count(b"\n") != len(lines):  # a line break in a header would begin another one
        raise ValueError("a header contains a line break")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    if len(body) <= PIECE_BYTES:
        cycle.transport.write(b"%b\r\n%b" % (head, body))
    else:  # one system call too, without a copy of a file for every client that asks for it and reads slowly
        cycle.transport.writelines((head + b"\r\n", body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def raw_problem(problem: Problem) -> bytes:
    """Return the bytes of an answer that the connection itself sends, before there is a request; it is closed afterwards."""
    moment = datetime.now(UTC)
    body = problem_body(problem, secrets.token_hex(8), moment)
    head = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        f"date: {format_datetime(moment, usegmt=True)}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "connection: close",
    ]
    if problem.retry_after is not None:
        head.append(f"retry-after: {max(1, round(problem.retry_after))}")
    return "\r\n".join((*head, "", "")).encode() + body
