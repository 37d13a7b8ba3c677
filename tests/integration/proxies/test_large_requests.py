"""Bodies and heads that are too large: each client reads why, whether it announces a length or sends chunks, and none sends on for ever."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.integration.proxies.conftest import Proxied, Tally
from tests.integration.proxies.hostile_clients import Crowd, honest_clients, play
from tests.support.threads import PATIENCE

CLIENTS = 20
PART = b" " * 100_000


def head(proxied: Proxied, framing: str) -> bytes:
    return (
        f"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {proxied.server.admin}\r\n"
        f"Content-Type: application/json\r\n{framing}\r\n\r\n"
    ).encode()


def body(size: int, chunked: bool) -> Iterator[bytes]:
    for _ in range(size // len(PART)):
        yield b"%x\r\n%s\r\n" % (len(PART), PART) if chunked else PART
    if chunked:
        yield b"0\r\n\r\n"


def send_too_much(proxied: Proxied, size: int, chunked: bool) -> bytes:
    """Send as much of a body as the proxy takes before anything is read; return the status of the answer."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    with proxied.proxy.connect_tls() as wire:
        with contextlib.suppress(OSError):
            wire.sendall(head(proxied, framing))
            for part in body(size, chunked):
                wire.sendall(part)
        return read_status(wire)


def read_status(wire: socket.socket) -> bytes:
    """The status of the answer; empty if the connection ends before."""
    with contextlib.suppress(OSError):
        return wire.recv(12)[9:]
    return b""


def test_each_client_is_told_that_its_body_is_too_large(proxied: Proxied, tally: Tally) -> None:
    kinds = [(size, chunked) for size in (300_000, 3_000_000) for chunked in (False, True)] * CLIENTS
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda kind: send_too_much(proxied, *kind), kinds, timeout=PATIENCE))
    tally("bodies that are too large", len(kinds), len(kinds) - statuses.count(b"413"))
    assert statuses == [b"413"] * len(kinds)


def test_a_head_that_is_too_large_ends_at_the_proxy(proxied: Proxied, tally: Tally) -> None:
    refused = 0
    for _ in range(CLIENTS):
        with proxied.proxy.connect_tls() as wire:
            with contextlib.suppress(OSError):
                wire.sendall(
                    head(proxied, "Content-Length: 0\r\nConnection: close")[:-2]
                    + b"X-A: "
                    + b"a" * 100_000
                    + b"\r\n\r\n"
                )
            answer = b""
            with contextlib.suppress(OSError):
                while part := wire.recv(65_536):
                    answer += part
        assert b"application/problem+json" not in answer, "the server was asked"
        refused += answer[9:12] == {"nginx": b"400", "caddy": b"431"}[proxied.proxy.program]
    tally("heads that are too large", CLIENTS, CLIENTS - refused)
    assert refused == CLIENTS


def test_a_client_that_continues_to_send_is_cut_off(proxied: Proxied, tally: Tally) -> None:
    with contextlib.ExitStack() as stack:
        crowds = [
            Crowd(framing, [stack.enter_context(proxied.proxy.connect_tls()) for _ in range(CLIENTS)], part).start(
                head(proxied, framing)
            )
            for framing, part in (
                ("Content-Length: 1000000000", PART),
                ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (len(PART), PART)),
            )
        ]
        with honest_clients(proxied, "beside the large"):
            for _ in play(crowds):
                pass
    tally("bodies without end", 2 * CLIENTS, 0)
