"""More clients than a proxy has room for."""

from __future__ import annotations

import contextlib
import re
import socket

import pytest

from tests.integration.proxies.conftest import Proxied, Tally
from tests.integration.proxies.hostile_clients import Crowd, honest_clients
from tests.integration.proxies.test_slow_clients import BODY, HEAD
from tests.support.proxies import SHIPPED, WORKER_CONNECTIONS
from tests.support.threads import wait_until

LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
FROM_ONE_ADDRESS = int(*re.findall(r"limit_conn clients (\d+);", SHIPPED["nginx"].read_text("utf-8")))


ALL = WORKER_CONNECTIONS
"""What nginx has room for."""


@pytest.mark.parametrize(
    ("kind", "count", "payload", "tls"),
    [
        ("idle: silent", ALL + 100, b"", False),
        ("idle: a begun handshake", ALL + 100, b"\x16\x03\x01", False),
        ("idle: between two requests", ALL + 100, LIVE, True),
        ("idle: an unfinished head", ALL - 100, HEAD, True),
        ("idle: a body that nobody waits for", FROM_ONE_ADDRESS - 10, BODY + b"Content-Length: 5000\r\n\r\n{", True),
    ],
    ids=["silent", "handshake", "between", "head", "body"],
)
def test_idle_clients_lock_nobody_out(
    proxied: Proxied, tally: Tally, kind: str, count: int, payload: bytes, tls: bool
) -> None:
    """nginx closes connections on which no request has begun for newcomers, so more of them than it has room for lock nobody out.
    Unfinished heads keep theirs for `client_header_timeout`: worker_connections must be larger than what they may be."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            wire = stack.enter_context(proxied.proxy.connect_tls() if tls else proxied.proxy.connect())
            Crowd(kind, [wire]).start(payload)
        with honest_clients(proxied, kind) as statuses:
            wait_until(lambda: len(statuses) >= 20)
    tally(kind, count, 0)


def status(proxied: Proxied, source: str) -> bytes:
    """The status of an answer to a client of this address."""
    with proxied.proxy.connect_tls(source=source) as wire:
        wire.sendall(LIVE)
        return wire.recv(12)[9:]


def test_one_address_gets_its_share_of_nginx(proxied: Proxied, tally: Tally) -> None:
    """Caddy cannot bound this, which its file says: it serves one address as long as it has descriptors."""
    count = FROM_ONE_ADDRESS + 50
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(proxied.proxy.connect_tls()) for _ in range(count)]
        Crowd("", wires).start(BODY + b"Content-Length: 5000\r\n\r\n{")
        refused: set[socket.socket] = set()
        if proxied.proxy.program == "nginx":

            def are_refused() -> bool:
                refused.update(wire for wire in wires if wire not in refused and is_refused(wire))
                return len(refused) == 50

            wait_until(are_refused)
            assert status(proxied, "127.0.0.1") == b"503"
        else:
            assert "connections of one client" in SHIPPED["caddy"].read_text("utf-8")
            assert status(proxied, "127.0.0.1") == b"200"
        assert status(proxied, "127.0.0.2") == b"200"
    tally("requests of one address beyond its share", 50, 50 - len(refused))


def is_refused(wire: socket.socket) -> bool:
    """Whether the proxy has answered a request whose body has not arrived."""
    with contextlib.suppress(OSError):
        return wire.recv(12) == b"HTTP/1.1 503"
    return False
