"""One request to a receiver: what it sends, what it makes of answers that are none, and that it always ends and closes."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdkit.server.settings import Webhooks
from holdkit.server.webhooks.addresses import Target
from holdkit.server.webhooks.exchange import ExchangeFailed, certificates, post
from tests.support.certificates import MadeCertificate
from tests.support.threads import PATIENCE

LIMITS = Webhooks(connect_timeout=0.3, send_timeout=0.3, seconds=0.5)
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawReceiver:
    """A server that does what it likes with a connection."""

    def __init__(self) -> None:
        self.port = 0
        self.ended = asyncio.Event()
        """The connection was closed by us."""
        self.request = b""


@asynccontextmanager
async def receiver(behaves: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawReceiver]:
    made = RawReceiver()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if behaves is not silent:
                made.request = await reader.readuntil(b"\r\n\r\n")
            await behaves(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()
            made.ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Accepts, and reads on without an answer."""
    while await reader.read(65_536):
        pass


async def closes(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    return None


def says(text: bytes) -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        await reader.read()

    return behave


def repeats(text: bytes, begins: bytes = b"") -> Behaviour:
    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begins)
        while True:
            writer.write(text)
            await writer.drain()
            await asyncio.sleep(0)  # as long as the socket takes it, `drain` lets nobody else run

    return behave


async def drips(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte now and then: each arrives in time, the whole never does."""
    for byte in b"HTTP/1.1 200 OK\r\n" + b"x" * 1_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


def ends() -> float:
    return asyncio.get_running_loop().time() + LIMITS.seconds


async def sent(
    made: RawReceiver, *, body: bytes = b"{}", tls: ssl.SSLContext | None = None, host: str = "localhost"
) -> Any:
    """The status, or the outcome of the failure; the connection is closed in any case."""
    target = Target("127.0.0.1", made.port, tls is not None, host, f"{host}:{made.port}", "/hook?a=b")
    try:
        async with asyncio.timeout(PATIENCE):
            return await post(target, {"webhook-id": "1"}, body, tls, LIMITS, ends())
    except ExchangeFailed as failed:
        return failed.outcome
    finally:
        if made.port:
            async with asyncio.timeout(PATIENCE):
                await made.ended.wait()


@pytest.mark.parametrize(
    ("behaves", "expected"),
    [
        (says(b"HTTP/1.1 204 No Content\r\n\r\n"), 204),
        (says(b"HTTP/1.0 200 OK\r\n\r\n"), 200),
        (says(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), 200),
        (says(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"), 302),
        (repeats(b"x" * 65_536, b"HTTP/1.1 200 OK\r\n\r\n"), 200),
        (repeats(b"X-More: header\r\n", b"HTTP/1.1 200 OK\r\n"), "malformed"),
        (repeats(b"HTTP/1.1 100 Continue\r\n\r\n"), "malformed"),
        (says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), "malformed"),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "malformed"),
        (says(b"HTTP/1.1 2000 OK\r\n\r\n"), "malformed"),
        (closes, "closed"),
        (silent, "answer_timed_out"),
        (drips, "answer_timed_out"),
    ],
)  # fmt: skip
def test_of_an_answer_the_status_counts(behaves: Behaviour, expected: int | str) -> None:
    async def main() -> None:
        async with receiver(behaves) as made:
            assert await sent(made) == expected

    asyncio.run(main())


def test_a_receiver_that_reads_nothing_ends_the_attempt() -> None:
    async def main() -> None:
        checked = asyncio.Event()

        async def unread(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await checked.wait()

        async with receiver(unread) as made:
            made.ended.set()  # it does not notice
            assert await sent(made, body=b"x" * 20_000_000) == "send_timed_out"
            checked.set()

    asyncio.run(main())


def test_an_answer_before_the_body_was_read_counts() -> None:
    async def main() -> None:
        async with receiver(says(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")) as made:
            assert await sent(made, body=b"x" * 1_000) == 413

    asyncio.run(main())


def test_the_request_carries_what_it_must_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async def main() -> None:
        async with receiver(says(b"HTTP/1.1 204 X\r\nSet-Cookie: a=b\r\n\r\n")) as made:
            assert await sent(made, body=b"{}") == 204
            first, *headers = made.request.decode().rstrip().split("\r\n")
            assert first == "POST /hook?a=b HTTP/1.1"
            assert sorted(headers) == [
                "Connection: close", "Content-Length: 2", f"Host: localhost:{made.port}", "webhook-id: 1",
            ]  # fmt: skip

    asyncio.run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        async with receiver(closes) as made:
            pass
        target = Target("127.0.0.1", made.port, False, "localhost", "localhost", "/")
        with pytest.raises(ExchangeFailed, match="refused") as failed:
            await post(target, {}, b"{}", None, LIMITS, ends())
        assert failed.value.outcome == "connect_failed"

    asyncio.run(main())


@pytest.mark.parametrize("way", ["trusted", "unknown", "other_name", "silent"])
def test_certificates_are_checked_for_the_name_in_the_url(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_certificate = MadeCertificate(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made_certificate.certificate, made_certificate.private_key)
    if way != "unknown":
        monkeypatch.setenv("SSL_CERT_FILE", os.fspath(made_certificate.certificate))
    expected = {"trusted": 204, "unknown": "tls_failed", "other_name": "tls_failed", "silent": "connect_timed_out"}

    async def main() -> None:
        behaves = silent if way == "silent" else says(b"HTTP/1.1 204 X\r\n\r\n")
        async with receiver(behaves, None if way == "silent" else serving) as made:
            host = "elsewhere.example" if way == "other_name" else "localhost"
            if way in ("unknown", "other_name"):
                made.ended.set()  # the handshake fails before the receiver is asked
            assert await sent(made, tls=certificates(), host=host) == expected[way]

    asyncio.run(main())
