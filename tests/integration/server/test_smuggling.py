"""Requests that two parsers read differently: refused, and nothing after them on the connection is read as a request.

A proxy that sees one request where the server sees two lets its client speak in the name of others. So every ambiguous request ends
its connection; a smuggled request, which each of these carries, must have no effect.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.support import ambiguous_requests as attacks
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        with running.client() as http:
            attacks.make_prey(http)
        yield running


def send(server: LiveServer, *packets: bytes) -> bytes:
    """Return what the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        return attacks.send(wire, packets)


def units_taken(server: LiveServer) -> int:
    with server.client() as http:
        return attacks.units_taken(http)


def test_the_second_request_gets_through_after_a_request_that_is_not_ambiguous() -> None:
    """The canary of all others."""
    with live_server() as server:
        with server.client() as http:
            attacks.make_prey(http)
        fine = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers = send(server, fine + attacks.second_request(server.admin) + attacks.LAST)
        assert attacks.statuses(answers) == [b"200", b"201", b"200"]
        assert units_taken(server) == 1


def test_the_corpus_keeps_its_kinds() -> None:
    assert len(attacks.REFUSED) + len(attacks.hidden("")) >= 130


@pytest.mark.parametrize("first", [pytest.param(value, id=name) for name, value in attacks.REFUSED.items()])
def test_an_ambiguous_request_ends_its_connection(server: LiveServer, first: bytes) -> None:
    alone = send(server, first)
    assert attacks.statuses(alone) == [b"400"]
    assert b'"reason":"request_malformed"' in alone
    assert b"connection: close" in alone
    second = attacks.second_request(server.admin)
    for packets in ([first + second], [first, second], [first[:-1], first[-1:] + second]):
        answers = send(server, *packets)
        assert attacks.statuses(answers) == [b"400"] or answers == b""  # a reset may overtake the answer
    assert units_taken(server) == 0


@pytest.mark.parametrize("name", attacks.hidden(""))
def test_a_request_that_hides_another_is_read_as_one(server: LiveServer, name: str) -> None:
    """A proxy removes headers that its clients may not send, for instance, and does not look at trailers."""
    first, expected = attacks.hidden(server.admin)[name]
    half = len(first) // 2
    for packets in ([first + attacks.LAST], [first, attacks.LAST], [first[:half], first[half:] + attacks.LAST]):
        assert attacks.statuses(send(server, *packets)) == expected
    assert units_taken(server) == 0


def test_requests_byte_by_byte_are_read_like_others(server: LiveServer) -> None:
    for name in ("a key in a trailer", "a request in a chunk", "a body after an upgrade to HTTP/2"):
        first, expected = attacks.hidden(server.admin)[name]
        answers = send(server, *[first[at : at + 1] for at in range(len(first))], attacks.LAST)
        assert attacks.statuses(answers) == expected
    assert units_taken(server) == 0


def test_what_follows_a_malformed_request_is_ignored_and_answers_before_it_are_sent(server: LiveServer) -> None:
    fine = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    malformed = attacks.REFUSED["a length with chunks"]
    answers = send(server, fine * 3 + malformed + attacks.second_request(server.admin))
    assert attacks.statuses(answers) == [b"200"] * 3
    assert units_taken(server) == 0


@pytest.mark.parametrize("split", [False, True])
def test_an_upgrade_is_ignored_and_its_body_is_read(split: bool) -> None:
    """As clients send it that would like HTTP/2. The body must be the request's, and never the next request."""
    with live_server() as server:
        with server.client() as http:
            attacks.make_prey(http)
        head, body = attacks.second_request(server.admin).split(b"\r\n\r\n")
        head += b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        answers = send(server, *([head, body, attacks.LAST] if split else [head + body + attacks.LAST]))
        assert attacks.statuses(answers) == [b"201", b"200"]
        assert units_taken(server) == 1
        answer = httpx.get(f"{server.url}/livez", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
        assert answer.status_code == 200


def test_a_request_whose_rest_is_malformed_has_one_answer(server: LiveServer) -> None:
    """A second one would answer the next request that a proxy sends on this connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(attacks.CHUNKED + b"2\r\n{")
        refused = wire.recv(65_536)
        assert attacks.statuses(refused) == [b"401"]
        assert attacks.statuses(attacks.send(wire, [b"nonsense"])) == []


def test_a_malformed_body_ends_the_request_that_waits_for_it(server: LiveServer) -> None:
    head, _ = attacks.second_request(server.admin).split(b"\r\n\r\n")
    chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(chunked + b"\r\n\r\n2\r\n{")
        with server.client() as http:
            wait_until(lambda: http.get("/v1/stats").json()["in_work"] == 2)
            assert attacks.statuses(attacks.send(wire, [b"nonsense"])) == [b"400"]
            wait_until(lambda: http.get("/v1/stats").json()["in_work"] == 1)
    assert units_taken(server) == 0
