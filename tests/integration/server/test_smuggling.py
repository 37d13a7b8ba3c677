"""Requests that two parsers read differently: refused, and nothing after them on the connection is read as a request.

A proxy that sees one request where the server sees two lets its client speak in the name of others. So every ambiguous request ends
its connection; a smuggled request, which each of these carries, must have no effect.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until

FIRST = b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = FIRST + b"Transfer-Encoding: chunked\r\n\r\n"
AMBIGUOUS = {
    "a length with chunks": FIRST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks with a length": FIRST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": FIRST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "one length twice": FIRST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "a list of lengths": FIRST + b"Content-Length: 0, 0\r\n\r\n",
    "a length with a sign": FIRST + b"Content-Length: +0\r\n\r\n",
    "a hexadecimal length": FIRST + b"Content-Length: 0x0\r\n\r\n",
    "an overflowing length": FIRST + b"Content-Length: 18446744073709551616\r\n\r\n",
    "an empty length": FIRST + b"Content-Length: \r\n\r\n",
    "a space before the colon": FIRST + b"Content-Length : 0\r\n\r\n",
    "an unknown coding": FIRST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": FIRST + b"Transfer-Encoding: identity\r\n\r\n",
    "two codings": FIRST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked is not last": FIRST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": FIRST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a vertical tab": FIRST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    "a folded header": FIRST + b"X-A: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a folded coding": FIRST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "bare line feeds": FIRST.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n",
    "one bare line feed": FIRST + b"X-A: a\nContent-Length: 0\r\n\r\n",
    "a bare carriage return": FIRST + b"X-A: a\rContent-Length: 0\r\n\r\n",
    "a NUL": FIRST + b"X-A: a\0\r\nContent-Length: 0\r\n\r\n",
    "no colon": FIRST + b"nonsense\r\nContent-Length: 0\r\n\r\n",
    "no name": FIRST + b": a\r\nContent-Length: 0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x0\r\n\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-1\r\n\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"0 \r\n\r\n0\r\n\r\n",
    "an overflowing chunk size": CHUNKED + b"10000000000000000\r\n\r\n",
    "a chunk size with a bare line feed": CHUNKED + b"0\n\r\n",
    "a chunk extension with a bare line feed": CHUNKED + b"0;a\n\r\n",
    "a chunk that is longer than its size": CHUNKED + b"1\r\nxy\r\n0\r\n\r\n",
    "a length in a trailer": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"GET /livez\r\n\r\n",
    "HTTP/2.0": b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "HTTP/1.2": b"GET /livez HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        yield running


def read_all(wire: socket.socket) -> bytes:
    told = b""
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(65_536):
            told += part
    return told


def send(server: LiveServer, *packets: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        for packet in packets:
            with contextlib.suppress(ConnectionError):
                wire.sendall(packet)
        return read_all(wire)


def statuses(told: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", told)


def smuggled(server: LiveServer, name: str) -> bytes:
    body = b'{"id": "%s", "total": 1}' % name.encode()
    return (
        b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (server.admin.encode(), len(body), body)
    )


def pools(server: LiveServer) -> list[str]:
    with server.client() as http:
        return [pool["id"] for pool in http.get("/v1/pools").json()["items"]]


@pytest.mark.parametrize("first", [pytest.param(value, id=name) for name, value in AMBIGUOUS.items()])
@pytest.mark.parametrize("packets", [1, 2])
def test_an_ambiguous_request_ends_its_connection(server: LiveServer, first: bytes, packets: int) -> None:
    second = smuggled(server, "smuggled")
    told = send(server, first + second) if packets == 1 else send(server, first, second)
    assert told.startswith(b"HTTP/1.1 400 ") or told == b""  # a reset may overtake the answer
    assert len(statuses(told)) <= 1
    if packets == 1:
        assert b'"reason":"request_malformed"' in told
        assert b"connection: close" in told
    assert pools(server) == []


def test_what_follows_a_malformed_request_is_ignored_and_answers_before_it_are_sent(server: LiveServer) -> None:
    fine = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    told = send(server, fine * 3 + AMBIGUOUS["a length with chunks"] + smuggled(server, "smuggled"))
    assert statuses(told) == [b"200"] * 3
    assert pools(server) == []


def test_a_trailer_is_no_header(server: LiveServer) -> None:
    """A proxy removes headers that its clients may not send, and does not look at trailers."""
    body = b'{"id": "trailed", "total": 1}'
    key = b"Authorization: Bearer %s\r\n" % server.admin.encode()
    asked = CHUNKED + b"%x\r\n%s\r\n0\r\n%sConnection: close\r\n\r\n" % (len(body), body, key)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(asked)
        assert wire.recv(65_536).startswith(b"HTTP/1.1 401 ")
    assert pools(server) == []


@pytest.mark.parametrize("split", [False, True])
def test_an_upgrade_is_ignored_and_its_body_is_read(split: bool) -> None:
    """As clients send it that would like HTTP/2. The body must be the request's, and never the next request."""
    with live_server() as server:
        asked = smuggled(server, "asked")
        head, body = asked.split(b"\r\n\r\n")
        head += b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"
        second = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        packets = [head + b"\r\n\r\n", body, second] if split else [head + b"\r\n\r\n" + body + second]
        told = send(server, *packets)
        assert statuses(told) == [b"201", b"200"]
        assert pools(server) == ["asked"]
        answer = httpx.get(f"{server.url}/livez", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
        assert answer.status_code == 200


def test_a_malformed_body_ends_the_request_that_waits_for_it(server: LiveServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(
            CHUNKED.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer %s\r\n\r\n" % server.admin.encode()) + b"2\r\n{"
        )
        with server.client() as http:
            wait_until(lambda: http.get("/v1/stats").json()["in_work"] == 2)
            wire.sendall(b"nonsense")
            assert read_all(wire).startswith(b"HTTP/1.1 400 ")
            wait_until(lambda: http.get("/v1/stats").json()["in_work"] == 1)
    assert pools(server) == []
