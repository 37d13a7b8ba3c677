"""One request to a receiver, on a connection of its own: opened, used once, aborted.

Nothing outlives the exchange: no pool in which attempts of others wait, no cookies, no connection whose certificate was checked
for another name. There are no redirects, no proxies from the environment and no compression. The exchange reads only the head of
the answer, at most 16 KiB. Each step has a timeout, and the whole has one that no step exceeds.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, TypeAlias

import certifi
import h11

from ..settings import Webhooks
from .addresses import Target

MAX_HEAD: Final = 16 * 1024
"""Bytes of an answer up to the end of its headers."""
MAX_INTERIM: Final = 10
"""Interim answers (1xx) before the real one."""

Failure: TypeAlias = Literal[
    "target_refused",
    "lookup_failed",
    "lookup_timed_out",
    "connect_failed",
    "connect_timed_out",
    "tls_failed",
    "send_timed_out",
    "answer_timed_out",
    "closed",
    "malformed",
]


class ExchangeFailed(Exception):
    """There was no answer."""

    def __init__(self, outcome: Failure, why: str) -> None:
        super().__init__(why)
        self.outcome: Failure = outcome


@asynccontextmanager
async def within(seconds: float, ends: float, outcome: Failure, why: str) -> AsyncIterator[None]:
    """Raise `ExchangeFailed` if the step takes longer than `seconds`, or than `ends`, the whole attempt's end by the event loop's clock."""
    try:
        async with asyncio.timeout_at(min(asyncio.get_running_loop().time() + seconds, ends)):
            yield
    except TimeoutError:
        raise ExchangeFailed(outcome, why) from None


def certificates() -> ssl.SSLContext:
    """Trust the system's certificate authorities, those in SSL_CERT_FILE, and those that certifi brings."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


async def post(
    target: Target, headers: dict[str, str], body: bytes, tls: ssl.SSLContext | None, limits: Webhooks, ends: float
) -> int:
    """Send one request and return the status of the answer. Raise `ExchangeFailed` if there is none."""
    async with within(limits.connect_timeout, ends, "connect_timed_out", "no connection in time"):
        reader, writer = await _connect(target, tls)
    try:
        async with within(limits.send_timeout, ends, "send_timed_out", "the receiver did not read the request in time"):
            parser = await _send(writer, target, headers, body)
        async with within(limits.seconds, ends, "answer_timed_out", "no answer in time"):
            return await _status(reader, parser)
    finally:
        writer.transport.abort()  # at once, whatever the other side does, and also when we are cancelled


async def _connect(target: Target, tls: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = target.host if tls is not None else None
    try:
        return await asyncio.open_connection(target.address, target.port, ssl=tls, server_hostname=name, limit=MAX_HEAD)
    except ssl.SSLCertVerificationError as failed:
        raise ExchangeFailed("tls_failed", f"the certificate is not valid: {failed.verify_message}") from None
    except ssl.SSLError:
        raise ExchangeFailed("tls_failed", "the TLS handshake failed") from None
    except OSError as failed:
        why = "the connection was refused" if isinstance(failed, ConnectionRefusedError) else "no connection"
        raise ExchangeFailed("connect_failed", why) from None


async def _send(writer: asyncio.StreamWriter, target: Target, headers: dict[str, str], body: bytes) -> h11.Connection:
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    fields = [("Host", target.authority), *headers.items(), ("Content-Length", str(len(body))), ("Connection", "close")]
    request = h11.Request(method="POST", target=target.path, headers=fields)
    head = parser.send(request) or b""
    writer.write(head + (parser.send(h11.Data(body)) or b"") + (parser.send(h11.EndOfMessage()) or b""))
    with suppress(OSError):  # the receiver may have answered before it closed
        await writer.drain()
    return parser


async def _status(reader: asyncio.StreamReader, parser: h11.Connection) -> int:
    for _ in range(MAX_INTERIM):
        try:
            while (event := parser.next_event()) is h11.NEED_DATA:
                parser.receive_data(await reader.read(MAX_HEAD))
        except OSError:
            raise ExchangeFailed("closed", "the receiver closed the connection without an answer") from None
        except h11.RemoteProtocolError:
            closed = parser.their_state is h11.ERROR and parser.trailing_data == (b"", True)
            why = "the receiver closed the connection without an answer" if closed else "the answer is not HTTP/1.1"
            raise ExchangeFailed("closed" if closed else "malformed", why) from None
        if isinstance(event, h11.Response):
            return event.status_code
        if not isinstance(event, h11.InformationalResponse):
            break
    raise ExchangeFailed("malformed", "the answer is not HTTP/1.1")
