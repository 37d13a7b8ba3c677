"""Ambiguous requests through a proxy: it may refuse them or read them, but the server must see the requests that the proxy has seen.

What a proxy does to every request that it sees is the measure. Both remove the header that names the actor, and the server believes
its proxy: an entry of the journal by this actor is a request that the proxy has not seen. And an answer to such a request would be
given to the next client whose request takes that connection, so honest clients ask for pools of their own all the while.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.integration.proxies.conftest import BEHIND_PROXY, Proxied, Tally
from tests.support import ambiguous_requests as attacks
from tests.support.servers import live_server
from tests.support.threads import PATIENCE

ACTOR = "boss"
CLIENTS = 16
"""Hostile clients at a time: some wait until the proxy gives up on their body."""
CODINGS = [
    b"Transfer-Encoding: chunked",
    b"transfer-encoding:chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: chunked ",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding: \x0cchunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunkedx",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding: chunked\0",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding\t: chunked",
    b" Transfer-Encoding: chunked",
    b"Transfer-Encoding:\r\n chunked",
    b"X-A: a\r\n Transfer-Encoding: chunked",
    b"X-A: a\nTransfer-Encoding: chunked",
    b"X-A: a\rTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\nX-A: a",
    b"Transfer_Encoding: chunked",
    b"Transfer-Encoding\0: chunked",
    b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
    b"Connection: Content-Length",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked",
    b"Expect: 100-continue\r\nTransfer-Encoding: chunked",
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"Content_Length: 0",
    b"Content-Length : 0",
    b"Content-Length: +5",
    b"Content-Length: 0,5",
]
"""Headers that give a request a second framing, for one parser at least."""


@pytest.fixture(scope="module")
def prey(proxied: Proxied) -> Proxied:
    with proxied.server.client() as http:
        attacks.make_prey(http)
        for number in range(CLIENTS):
            assert http.post("/v1/pools", json={"id": f"own-{number}", "total": 1}).status_code == 201
    return proxied


def second_request(key: str, number: int) -> bytes:
    """A request that names its actor, and is no retry of another."""
    plain = attacks.second_request(key)
    named = plain.replace(b"Host: localhost\r\n", b"Host: localhost\r\nX-Forwarded-User: %s\r\n" % ACTOR.encode())
    return named.replace(b"Idempotency-Key: smuggled", b"Idempotency-Key: smuggled-%d" % number)


def smuggled(http: httpx.Client) -> int:
    """How many entries of the journal are by the actor that no proxy lets through."""
    answer = http.get("/v1/journal", params={"actor": f"user:{ACTOR}", "limit": 1000})
    return len(answer.json()["items"])


def ask_for_own_pool(proxied: Proxied, number: int) -> None:
    name = f"own-{number % CLIENTS}"
    with proxied.client() as http:
        for _ in range(2):
            assert http.get(f"/v1/pools/{name}").json()["id"] == name


def send_all(prey: Proxied, clients: list[list[bytes]]) -> None:
    """Send what each hostile client has, and an honest client after each."""

    def attack(number: int) -> None:
        with prey.proxy.connect_tls() as wire, contextlib.suppress(ssl.SSLError):
            attacks.send(wire, clients[number])
        ask_for_own_pool(prey, number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert len(list(pool.map(attack, range(len(clients)), timeout=PATIENCE))) == len(clients)


def test_a_request_that_the_proxy_has_not_seen_would_be_noticed(prey: Proxied) -> None:
    """The canary of the tests below: the same request, sent past the proxy."""
    with live_server(settings=BEHIND_PROXY) as server, server.client() as http:
        attacks.make_prey(http)
        with socket.create_connection(("127.0.0.1", server.port)) as wire:
            attacks.send(wire, [second_request(server.admin, 0), attacks.LAST])
        assert smuggled(http) == 1


def test_the_server_sees_the_requests_that_the_proxy_sees(prey: Proxied, tally: Tally) -> None:
    key, numbers = prey.server.admin, itertools.count()
    clients: list[list[bytes]] = []
    for first in attacks.REFUSED.values():
        clients.append([first + second_request(key, next(numbers)) + attacks.LAST])
        clients.append([first, second_request(key, next(numbers)), attacks.LAST])
    send_all(prey, clients)
    with prey.server.client() as http:
        through = smuggled(http)
    tally("ambiguous requests", len(clients), through)
    assert through == 0


def test_a_request_that_hides_another_has_no_other_effect(prey: Proxied, tally: Tally) -> None:
    hidden = [first for first, _ in attacks.hidden(prey.server.admin).values()]
    clients = [[first + attacks.LAST] for first in hidden] + [[first, attacks.LAST] for first in hidden]
    with prey.server.client() as http:
        before = attacks.units_taken(http)
        send_all(prey, clients)
        through = attacks.units_taken(http) - before
    tally("hidden requests", len(clients), through)
    assert through == 0


def test_two_framings_of_one_request_hide_no_other(prey: Proxied, tally: Tally) -> None:
    """Each spelling of a coding beside a length, both ways: the second request is a body for one of the two, and a request for the other."""
    key, numbers = prey.server.admin, itertools.count(10_000)
    clients: list[list[bytes]] = []
    for coding in CODINGS:
        for head in (b"%s\r\nContent-Length: %d", b"Content-Length: %d\r\n%s"):
            second = second_request(key, next(numbers))
            for length, body in (
                (len(second) + 5, b"0\r\n\r\n" + second),
                (len(b"%x\r\n" % len(second)), b"%x\r\n%s\r\n0\r\n\r\n" % (len(second), second)),
            ):
                values = (coding, length) if head.startswith(b"%s") else (length, coding)
                clients.append([attacks.FIRST + head % values + b"\r\n\r\n" + body + attacks.LAST])
    send_all(prey, clients)
    with prey.server.client() as http:
        through = smuggled(http)
    tally("requests with two framings", len(clients), through)
    assert through == 0
