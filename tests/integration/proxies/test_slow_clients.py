"""Clients that are silent, slow to send or slow to read: the proxy ends each of them, and the server works for others all the while."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import holdkit.server
from tests.integration.proxies.conftest import Proxied, Tally
from tests.integration.proxies.hostile_clients import Crowd, honest_clients, play
from tests.support.proxies import Proxy
from tests.support.threads import wait_until

ASSET = max((Path(holdkit.server.__file__).parent / "static/assets").iterdir(), key=lambda path: path.stat().st_size)
HEAD = b"GET /assets/%s HTTP/1.1\r\nHost: localhost\r\n" % ASSET.name.encode()
ANSWERS = 400
"""Pipelined requests: their answers are more than the kernel takes, and they are more than a proxy reads ahead. (What it has not read
when it closes makes the kernel say so to a client that reads nothing.)"""
BODY = b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: 80\r\n\r\n{"
ROOM = 4096
"""Bytes that the kernel receives for a client that reads nothing."""


@contextlib.contextmanager
def connections(
    proxy: Proxy, count: int, *, tls: bool = True, room: int | None = None
) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        connect = proxy.connect_tls if tls else proxy.connect
        yield [stack.enter_context(connect(room=room)) for _ in range(count)]


def test_each_is_cut_off_and_newcomers_are_served(proxied: Proxied, tally: Tally) -> None:
    """All kinds at once. nginx waits for a whole body before the server sees anything; Caddy does not, and the server itself ends the
    request. A body that arrives byte by byte is complete in the end, and then malformed."""
    proxy, bearer = proxied.proxy, b"Authorization: Bearer %s\r\n" % proxied.server.admin.encode()
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        crowds = [
            Crowd("silent", enter(connections(proxy, 300, tls=False))),
            Crowd("begun handshakes", enter(connections(proxy, 50, tls=False))).start(b"\x16\x03\x01"),
            Crowd("silent after the handshake", enter(connections(proxy, 50))),
            Crowd("heads byte by byte", enter(connections(proxy, 50)), b"a").start(HEAD + b"X-A: "),
            Crowd("bodies byte by byte", enter(connections(proxy, 25)), b" ").start(BODY + bearer + LENGTH),
            Crowd("bodies that stop", enter(connections(proxy, 25))).start(BODY + bearer + LENGTH),
            Crowd("bodies without a key that stop", enter(connections(proxy, 25))).start(BODY + LENGTH),
            Crowd("readers that take nothing", enter(connections(proxy, 20, room=ROOM))).start(
                (HEAD + b"\r\n") * ANSWERS
            ),
        ]
        most_working = 0
        with honest_clients(proxied, "beside the slow"):
            for _ in play(crowds):
                most_working = max(most_working, proxied.working)
    wait_until(lambda: proxied.working == 0)
    with proxied.server.client() as http:
        pools = [pool["id"] for pool in http.get("/v1/pools").json()["items"]]
    assert pools == ["beside the slow"]
    if proxy.program == "nginx":
        assert most_working < 25, "the server worked on requests whose bodies had not arrived"
    for crowd in crowds:
        tally(crowd.kind, len(crowd.wires), 0)
