"""HTTP on one connection: uvicorn's protocol on httptools, with the bounds, timeouts and refusals that it lacks.

`connections.py` has the theory of operation: the states of a connection, its bounds and its timeouts. This is the part that
knows HTTP. It reads requests strictly, for a proxy in front of the server must never see other requests than the server does.

httptools refuses most of what is ambiguous: `Content-Length` with `Transfer-Encoding`, or twice, or not a number; folded
headers; bare line feeds; bad chunk sizes. This protocol adds the rest:

- It ignores trailers, which httptools would append to the headers, where no proxy has seen and filtered them.
- It refuses a transfer coding other than `chunked`, one in HTTP/1.0, versions other than 1.0 and 1.1, CONNECT, and HTTP/1.1
  without `Host`.
- It bounds the bytes of an unfinished head, which httptools collects without a limit, and the number of pipelined requests,
  each of which costs a few kilobytes while it waits.
- It ignores `Upgrade`, as RFC 9110 allows. httptools cannot: it drops the body of such a request, and would read the rest of
  it as the next request. So the protocol gives the head, without these headers, to a new parser, and what follows after it.

An answer that ends the connection while its request is still arriving (a body that is too large or too slow) is followed by a
moment in which the rest is received and dropped: to close with bytes unread would reset the connection, and a client or proxy that
is still sending would never see the answer.

A malformed request ends its connection. If earlier requests have no answer yet, these answers are sent first, and nothing is
said about the malformed one: an answer to it would end up in the middle of theirs.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..wire.problems import Problem, problem_body
from .request import CLOSE_CONNECTION, WRITE_ANSWER, Headers

if TYPE_CHECKING:
    from .connections import Listener

PIECE: Final = 16 * 1024
"""Bytes that the parser gets at a time, so that a bound is checked before much more is parsed."""
MIN_PROGRESS: Final = 16 * 1024
"""Bytes that a client must take within the write timeout, unless it takes all."""
LINGER: Final = 2.0
"""Seconds for which the rest of a request is received after the last answer."""
LINGER_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the rest that are received."""
CLOSE: Final = (b"connection", b"close")
MALFORMED: Final = Problem(400, "request_malformed", "this is not a well-formed HTTP/1.1 request")
TOO_LARGE: Final = Problem(431, "headers_too_large", "the request line and headers are too large")


class Malformed(Exception):
    """Raised within the parser, which then stops."""


class Connection(HttpToolsProtocol):
    """One connection, from its first byte (with TLS: from the end of its handshake)."""

    def __init__(self, listener: Listener, address: str) -> None:
        super().__init__(listener.config, listener.state, {}, listener.loop)
        self.listener, self.address = listener, address
        self.since = listener.now
        """When the current request began to arrive, or the connection became idle."""
        self._in_head = self._in_message = False
        self._head = 0
        self.made = self._closed = self._answered = self._ignoring = False
        self._chunked = self._has_host = self._upgrading = False
        self._working: RequestResponseCycle | None = None
        self._unsent: int | None = None
        self._unsent_since = 0.0
        self._lingers_until: float | None = None
        self._linger_bytes = LINGER_BYTES
        requests = listener.settings.requests
        self._max_head = requests.max_headers + requests.max_query
        self._max_pipelined = listener.limits.max_pipelined

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to receive the first request."""
        super().connection_made(transport)
        self.made = True
        self.app_state = {CLOSE_CONNECTION: transport.abort}
        self.since = self.listener.now
        self.listener.idle[self] = None
        if self.listener.closed:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the slot back, and tell the request that is being answered. uvicorn tells only the last one that was pipelined;
        the first would write to a closed connection."""
        self._release()
        self.pipeline.clear()
        if self._working is not None:
            self._working.disconnected = True
            self._working.message_event.set()
        super().connection_lost(exc)

    def evict(self) -> None:
        """Close an idle connection at once, and give its slot back now."""
        self._release()
        self.transport.abort()

    def _release(self) -> None:
        self.listener.idle.pop(self, None)
        if not self._closed:
            self._closed = True
            self.listener.release(self.address)

    def check(self, now: float) -> None:
        """Enforce the timeouts. Called a few times per shortest timeout."""
        limits, transport = self.listener.limits, self.transport
        unsent, closing = transport.get_write_buffer_size(), transport.is_closing()
        if not unsent and not closing:
            self._unsent = None
            if self._lingers_until is not None:
                if now > self._lingers_until:
                    transport.close()
            elif self._in_message:
                if not self.flow.read_paused and now - self.since > limits.receive_timeout:
                    transport.abort()
            elif self in self.listener.idle and now - self.since > self._idle_timeout:
                transport.close()
        elif self._unsent is None or unsent <= self._unsent - MIN_PROGRESS:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > limits.write_timeout:
            self.listener.dropped += 1
            transport.abort()
        else:
            self._unsent = max(self._unsent, unsent)

    @property
    def _idle_timeout(self) -> float:
        limits = self.listener.limits
        return limits.keep_alive if self._answered else limits.receive_timeout

    def resume_writing(self) -> None:
        """Most of what was unsent has been taken."""
        self._unsent = None
        super().resume_writing()

    # Requests

    def data_received(self, data: bytes) -> None:
        """Parse, in pieces."""
        if self._lingers_until is not None:
            self._linger_bytes -= len(data)
            if self._linger_bytes < 0:
                self.transport.close()
            return
        if len(data) <= PIECE:
            self._parse(data)
            return
        for start in range(0, len(data), PIECE):
            self._parse(data[start : start + PIECE])

    def _parse(self, data: bytes) -> None:
        if self._ignoring:
            return
        continued = self._in_head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._continue_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(MALFORMED)
        else:
            if continued and self._in_head:
                self._head += len(data)
                if self._head > self._max_head:
                    self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= self._max_pipelined:
            raise Malformed
        super().on_message_begin()
        self._in_head = self._in_message = True
        self._chunked = self._has_host = False
        self._head = 0
        self.since = self.listener.now

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; not a trailer."""
        if not self._in_head:
            return
        name = name.lower()
        if name == b"host":
            self._has_host = True
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise Malformed
            self._chunked = True
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Start the request, unless it is ambiguous."""
        parser = self.parser
        version = parser.get_http_version()
        fine = self._has_host if version == "1.1" else version == "1.0" and not self._chunked
        if not fine or parser.get_method() == b"CONNECT":
            raise Malformed
        if parser.should_upgrade():
            self._upgrading = True
            return
        super().on_headers_complete()
        self._in_head = False
        self.listener.idle.pop(self, None)
        if self.listener.draining:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._working = cycle
        cycle.scope["state"][WRITE_ANSWER] = partial(write_answer, cycle, self._end)
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """The whole request has arrived."""
        if self._upgrading:
            return
        self._in_message = False
        super().on_message_complete()
        if self.cycle.response_complete:
            self._become_idle()

    def on_response_complete(self) -> None:
        """Start the next request that has arrived. Without uvicorn's timer: `check` has the timeouts."""
        self.server_state.total_requests += 1
        self._answered = True
        if self.transport.is_closing() or self._lingers_until is not None:
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._become_idle()

    def _end(self) -> None:
        """Close the connection after its last answer; first receive the rest of a request that is still arriving."""
        if not self._in_message:
            self.transport.close()
            return
        self._lingers_until = self.listener.now + LINGER
        self.pipeline.clear()
        self.flow.resume_reading()
        self._become_idle()  # so that it makes room for others
        if self.transport.can_write_eof():  # the client sees the end of the answer at once
            self.transport.write_eof()

    def _become_idle(self) -> None:
        self.since = self.listener.now
        self.listener.idle[self] = None

    def _continue_without_upgrade(self, rest: bytes) -> None:
        self._upgrading = False
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode(), b"\r\n"]
        for name, value in self.headers:
            if name not in (b"connection", b"upgrade"):
                head += (name, b": ", value, b"\r\n")
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(b"".join((*head, b"\r\n", rest)))

    def _refuse(self, problem: Problem) -> None:
        """End the connection: after the answers that are under way, or with this one."""
        self._ignoring = True
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or (not self.pipeline and self._in_message and not self._in_head):
            if cycle is not None and not cycle.response_complete:  # it waits for a body whose rest is malformed
                if cycle.response_started:
                    self.transport.close()
                    return
                cycle.disconnected = True
                cycle.message_event.set()
            self.transport.write(raw_problem(problem))
            self.transport.close()
        else:
            cycle.keep_alive = False
            self.flow.pause_reading()


def write_answer(
    cycle: RequestResponseCycle, end: Callable[[], None], status: int, headers: Headers, body: bytes
) -> bool:
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
    if len(body) <= PIECE:
        cycle.transport.write(b"%b\r\n%b" % (head, body))
    else:  # one system call too, without a copy of a file for every client that asks for it and reads slowly
        cycle.transport.writelines((head + b"\r\n", body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        end()
    cycle.on_response()
    return True


def raw_problem(problem: Problem) -> bytes:
    """The bytes of an answer that the connection itself sends, before there is a request; it is closed afterwards."""
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
