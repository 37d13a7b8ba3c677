"""Hostile bytes: 4xx only, no traceback, nothing written, and the server goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdkit.server import Settings
from holdkit.server.settings import Connections, Rates, Requests, Upkeep
from tests.support.servers import QUICK, InProcessApp, LiveServer, in_process_app, live_server
from tests.support.threads import PATIENCE

SHORT_TIMEOUT = Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0), requests=Requests(body_timeout=0.3))

BODIES: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "body_not_json"),
    ("not json", b"{", "body_not_json"),
    ("two values", b'{"id":"a","total":1}{}', "body_not_json"),
    ("an array", b"[]", "invalid_request"),
    ("a key twice", b'{"id":"a","total":1,"id":"b"}', "field_twice"),
    ("a key twice, escaped", b'{"id":"a","total":1,"\\u0069d":"b"}', "field_twice"),
    ("a key twice, deep", b'{"id":"a","total":1,"reason":{"x":1,"x":2}}', "field_twice"),
    ("an unknown field", b'{"id":"a","total":1,"tenant":"other"}', "invalid_request"),
    ("NaN", b'{"id":"a","total":NaN}', "body_not_json"),
    ("infinity", b'{"id":"a","total":Infinity}', "body_not_json"),
    ("a float", b'{"id":"a","total":1.5}', "invalid_request"),
    ("a boolean", b'{"id":"a","total":true}', "invalid_request"),
    ("text for a number", b'{"id":"a","total":"1"}', "invalid_request"),
    ("a negative total", b'{"id":"a","total":-1}', "invalid_request"),
    ("a huge total", b'{"id":"a","total":9007199254740992}', "invalid_request"),
    ("a number of 5,000 digits", b'{"id":"a","total":' + b"9" * 5000 + b"}", "body_not_json"),
    ("a lone surrogate", b'{"id":"\\ud800","total":1}', "body_not_json"),
    ("a NUL", b'{"id":"a\\u0000","total":1}', "invalid_request"),
    ("a raw NUL", b'{"id":"a\x00","total":1}', "body_not_json"),
    ("a control character", b'{"id":"a\\u001b[2J","total":1}', "invalid_request"),
    ("a blank id", b'{"id":" ","total":1}', "invalid_request"),
    ("a long id", b'{"id":"' + b"x" * 513 + b'","total":1}', "invalid_request"),
    ("a reserved id", b'{"id":"~a","total":1}', "invalid_request"),
    ("not UTF-8", b'{"id":"\xff","total":1}', "body_not_json"),
    ("a byte order mark", b'\xef\xbb\xbf{"id":"a","total":1}', "body_not_json"),
    ("deep", b'{"id":"a","total":1,"reason":' + b"[" * 41 + b"]" * 41 + b"}", "body_too_deep"),
    ("very deep", b"[" * 100_000, "body_too_deep"),
    ("brackets in text", b'{"id":"a","total":1,"reason":"' + b"[" * 2000 + b'"}', "invalid_request"),
    ("too large", b'{"id":"a","total":1,"reason":"' + b"x" * 300_000 + b'"}', "body_too_large"),
]


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*row[1:], id=row[0]) for row in BODIES])
def test_a_bad_body_is_refused_and_nothing_is_written(body: bytes, reason: str, caplog: Any) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            answer = await here.call(
                "POST", "/v1/pools", content=body, headers={"Content-Type": "application/json; charset=utf-8"}
            )
            assert answer.json()["reason"] == reason, answer.text
            assert 400 <= answer.status_code < 500
            assert answer.json()["effect"] == "none"
            assert (await here.call("GET", "/v1/pools")).json()["items"] == []

    caplog.set_level(logging.WARNING)
    asyncio.run(main())
    assert not caplog.records


def test_fields_are_named() -> None:
    async def main() -> None:
        async with in_process_app() as here:

            async def told(body: Any) -> tuple[str, str]:
                problem = (await here.call("POST", "/v1/holds", body, op="a")).json()
                return problem["field"], problem["code"]

            assert await told({"pool": "a", "quantity": 0, "ttl": 60}) == ("quantity", "quantity_out_of_range")
            assert await told({"pool": "a"}) == ("ttl", "ttl_required")
            assert await told({"pool": "a", "ttl": "soon"}) == ("ttl", "ttl_malformed")
            assert await told({"pool": "a", "ttl": 60, "mode": 1}) == ("mode", "field_unknown")
            assert await told({"legs": [{"quantity": 1}], "ttl": 60}) == ("pool", "pool_required")
            assert await told({"legs": [{"pool": "a", "item": "b"}], "ttl": 60}) == ("pool", "pool_ambiguous")
            assert await told({"legs": [{"item": "b", "quantity": 2}], "ttl": 60}) == ("legs", "quantity_unused")
            assert await told({"legs": [{"pool": 1}], "ttl": 60}) == ("legs[0].pool", "field_malformed")
            assert await told({"pool": "a", "deadline": "2030-01-01T00:00:00"}) == ("deadline", "field_malformed")
            assert await told({"pool": "a", "ttl": 60, "actor": "me"}) == ("actor", "actor_malformed")
            assert await told({"pool": "a", "legs": [], "ttl": 60}) == ("legs", "legs_ambiguous")
            assert await told({"ttl": 60}) == ("pool", "pool_required")
            assert await told({"legs": [{"pool": "a"}, {"pool": "a"}], "ttl": 60}) == ("legs", "pool_twice")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/v1/pools?limit=0", 400, "invalid_request"),
        ("/v1/pools?limit=1001", 400, "invalid_request"),
        ("/v1/pools?limit=x", 400, "invalid_request"),
        ("/v1/pools?limit=1&limit=2", 400, "query_malformed"),
        ("/v1/pools?colour=red", 400, "invalid_request"),
        ("/v1/pools?prefix=%FF", 400, "query_malformed"),
        ("/v1/pools?prefix=%00", 400, "invalid_request"),
        ("/v1/pools?" + "a" * 9000, 414, "query_too_long"),
        ("/v1/pools?" + "&".join(f"a{n}=1" for n in range(30)), 400, "query_malformed"),
        ("/v1/holds?state=gone", 400, "invalid_request"),
        ("/v1/holds/xyz", 400, "invalid_request"),
        ("/v1/pools/%FF", 400, "path_malformed"),
        ("/v1/pools/%00", 400, "path_malformed"),
        ("/v1/pools/" + "x" * 600, 400, "invalid_request"),
        ("/v1/journal?after=hkc2.%21", 400, "invalid_request"),
        ("/v1/nothing", 404, "not_found"),
        ("/v1/pools/a/b/c", 404, "not_found"),
        ("/v1/../../etc/passwd", 404, "not_found"),
        ("/%2e%2e/%2e%2e/etc/passwd", 404, "not_found"),
        ("/static.py", 404, "not_found"),
    ],
)
def test_a_bad_address_is_refused(path: str, status: int, reason: str) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            answer = await here.call("GET", path)
            assert (answer.status_code, answer.json()["reason"]) == (status, reason)

    asyncio.run(main())


def test_methods_types_and_headers() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            wrong = await here.call("DELETE", "/v1/pools")
            assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")
            form = await here.call("POST", "/v1/pools", content=b"id=a", headers={"Content-Type": "text/plain"})
            assert (form.status_code, form.json()["reason"]) == (415, "content_type_unknown")
            wide = await here.call("GET", "/v1/pools", headers={"X-Filler": "x" * 20_000})
            assert (wide.status_code, wide.json()["reason"]) == (431, "headers_too_large")
            key = await here.key("admin")
            twice = [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]
            double = await here.http.get("/v1/pools", headers=twice)
            assert (double.status_code, double.json()["reason"]) == (400, "header_twice")
            assert (await here.call("HEAD", "/v1/pools")).content == b""
            odd = await here.call("GET", "/v1/pools", headers={"X-Request-Id": "a b<script>"})
            assert "script" not in odd.headers["x-request-id"]
            mine = await here.call("GET", "/v1/pools", headers={"X-Request-Id": "req-7"})
            assert mine.headers["x-request-id"] == "req-7"
            many = {"commands": [{"type": "expire", "id": "0" * 32, "op": str(n)} for n in range(1001)]}
            batch = await here.call("POST", "/v1/batch", many)
            assert (batch.status_code, batch.json()["reason"]) == (400, "invalid_request")

    asyncio.run(main())


def test_one_poisonous_command_refuses_its_batch_and_writes_nothing() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            poisons: list[Any] = [
                {"type": "hold", "pool": "a", "ttl": 60, "quantity": 0},
                {"type": "hold", "pool": "a", "ttl": 60, "actor": "me"},
                {"type": "hold", "pool": "a", "ttl": "soon"},
                {"type": "explode"},
                {},
                7,
            ]
            for poison in poisons:
                commands = [{"type": "create_pool", "id": "a", "total": 1}, poison]
                answer = await here.call("POST", "/v1/batch", {"commands": commands}, op="k")
                assert answer.status_code == 400, answer.text
            assert (await here.call("GET", "/v1/pools")).json()["items"] == []
            corrected = {"commands": [{"type": "create_pool", "id": "a", "total": 1}]}
            assert (await here.call("POST", "/v1/batch", corrected, op="k")).status_code == 200, (
                "nonsense settled the key"
            )

    asyncio.run(main())


def test_a_key_that_asks_too_often_is_turned_away_before_any_work() -> None:
    async def main() -> None:
        async with in_process_app(settings=Settings(rates=Rates(key=0.001, key_burst=3))) as here:
            other = await here.key("read")
            for status in (201, 409, 409, 429, 429):
                answer = await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
                assert answer.status_code == status
                if status == 429:
                    assert answer.json()["reason"] == "rate_exceeded"
                    assert int(answer.headers["retry-after"]) >= 1
            malformed = await here.call("POST", "/v1/pools", content=b"{", headers={"Content-Type": "application/json"})
            assert malformed.status_code == 429, "the body was read first"
            assert (await here.call("GET", "/v1/pools", key=other)).status_code == 200

    asyncio.run(main())


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(settings=QUICK) as running:
        yield running


def raw(server: LiveServer, payload: bytes, *, finish: bool = False) -> bytes:
    """All that the server answers to these bytes, until it closes or has nothing more to say."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(payload)
        if finish:
            wire.shutdown(socket.SHUT_WR)
        told = b""
        while True:
            try:
                part = wire.recv(65_536)
            except (TimeoutError, ConnectionResetError):
                return told
            if not part:
                return told
            told += part
            head, _, body = told.partition(b"\r\n\r\n")
            length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
            if length and len(body) >= int(length[0].split()[1]):
                return told


def head(server: LiveServer, method: str = "POST", path: str = "/v1/pools", *more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {server.admin}", *more, "", ""]
    return "\r\n".join(lines).encode("latin-1")


JSON = "Content-Type: application/json"
CORPUS: list[tuple[str, list[str], bytes, bytes]] = [
    ("a chunk of no size", ["Transfer-Encoding: chunked"], b"zz\r\n{}\r\n0\r\n\r\n", b" 400 "),
    ("a chunk of negative size", ["Transfer-Encoding: chunked"], b"-5\r\n{}\r\n0\r\n\r\n", b" 400 "),
    ("an endless chunk", ["Transfer-Encoding: chunked"], b"50000\r\n" + b"x" * 0x50000 + b"\r\n0\r\n\r\n", b" 413 "),
    ("two lengths", ["Content-Length: 2", "Content-Length: 3"], b"{}", b" 400 "),
    ("a length of letters", ["Content-Length: abc"], b"{}", b" 400 "),
    ("a negative length", ["Content-Length: -1"], b"{}", b" 400 "),
    ("a huge length", ["Content-Length: 99999999999999"], b"{}", b" 413 "),
    ("a header of 100 KiB", ["X-A: " + "a" * 100_000], b"", b" 4"),
    ("a NUL in a header", ["X-A: a\x00b"], b"", b" 400 "),
    ("a header without a colon", ["nonsense"], b"", b" 400 "),
    ("a header over two lines", ["X-A: a", " b", "Content-Length: 2"], b"{}", b" 4"),
]


@pytest.mark.parametrize(("more", "body", "status"), [pytest.param(*row[1:], id=row[0]) for row in CORPUS])
def test_bytes_that_are_not_a_request(server: LiveServer, more: list[str], body: bytes, status: bytes) -> None:
    told = raw(server, head(server, "POST", "/v1/pools", JSON, *more) + body)
    assert told.startswith(b"HTTP/1.1" + status), told[:200]
    assert b"Traceback" not in told
    with server.client() as http:
        assert http.get("/v1/pools").json()["items"] == []


@pytest.mark.parametrize(
    ("more", "body"),
    [("Content-Length: 100", b'{"id":'), ("Transfer-Encoding: chunked", b"5\r\n{")],
    ids=["a body", "a chunked body"],
)
def test_a_body_that_stops(more: str, body: bytes) -> None:
    with live_server(settings=SHORT_TIMEOUT) as server:
        told = raw(server, head(server, "POST", "/v1/pools", JSON, more) + body)
        assert told.startswith(b"HTTP/1.1 408 "), told[:200]
        assert b"Traceback" not in told
        with server.client() as http:
            assert http.get("/v1/pools").json()["items"] == []


@pytest.mark.parametrize(
    "payload",
    [
        b"\x00" * 64,
        b"GET\r\n\r\n",
        b"GET /v1/pools HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_bytes_of_another_protocol(server: LiveServer, payload: bytes) -> None:
    told = raw(server, payload, finish=True)
    assert told == b"" or told.startswith(b"HTTP/1.1 4")
    assert b"Traceback" not in told


def test_a_caller_who_hangs_up_halfway_leaves_nothing_behind(server: LiveServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
        wire.sendall(head(server, "POST", "/v1/pools", JSON, "Content-Length: 50") + b'{"id": "half"')
    with server.client() as http:
        assert http.get("/v1/pools").json()["items"] == []


HALF = b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


@pytest.mark.parametrize("payload", [b"", b"GET /li", HALF])
def test_a_request_that_does_not_arrive_loses_its_connection(payload: bytes) -> None:
    with live_server(settings=Settings(connections=Connections(receive_timeout=0.2))) as server:
        raw_answer = raw(server, payload)
        assert raw_answer == b"" or raw_answer.startswith(b"HTTP/1.1 401")
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire:
            wire.sendall(payload)
            with contextlib.suppress(ConnectionResetError):
                while wire.recv(65_536):
                    pass  # until the server hangs up


def test_empty_lines_after_a_request_keep_no_connection_open() -> None:
    with (
        live_server(settings=Settings(connections=Connections(receive_timeout=0.2, keep_alive=0.2))) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.recv(65_536).startswith(b"HTTP/1.1 200")
        wire.sendall(b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert wire.recv(65_536) == b""


def test_headers_without_an_end_are_refused_before_they_fill_the_memory(server: LiveServer) -> None:
    told = raw(server, b"GET /livez HTTP/1.1\r\nX-A: " + b"a" * (4 * QUICK.requests.max_headers))
    assert told.startswith(b"HTTP/1.1 431 ")


def test_text_of_strangers_comes_back_as_text() -> None:
    corpus = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "{{7*7}}", "'; --"]

    async def main() -> None:
        async with in_process_app() as here:
            for n, nasty in enumerate(corpus):
                made = await here.call("POST", "/v1/pools", {"id": nasty, "total": 1})
                assert made.status_code == 201
                held = {"pool": nasty, "ttl": 60, "reason": nasty, "metadata": {nasty: nasty}, "entity": nasty}
                hold = await here.call("POST", "/v1/holds", held, op=str(n))
                assert hold.headers["content-type"] == "application/json"
                assert hold.headers["x-content-type-options"] == "nosniff"
                assert json.loads(hold.text)["metadata"] == {nasty: nasty}

    asyncio.run(main())


def test_the_stand_itself(server: LiveServer) -> None:
    """The corpus would pass against a server that refuses everything: this one does not."""
    told = raw(server, head(server, "POST", "/v1/pools", JSON, "Content-Length: 22") + b'{"id":"ok", "total":1}')
    assert told.startswith(b"HTTP/1.1 201"), told
    assert InProcessApp is not None


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        (b'{"a": [[]]}', 3),
        (b'{"a": "[[[[", "b": []}', 2),
        (b'{"a": "]]]]", "b": [[[]]]}', 4),
        (b'{"a": "\\"[[", "b": []}', 2),
        (b'{"a": "\\\\", "b": [{}]}', 3),
        (b"[]", 1),
        (b"7", 0),
    ],
)
def test_depth_counts_brackets_outside_of_strings(body: bytes, depth: int) -> None:
    from holdkit.server.decoding import _depth

    assert _depth(body) == depth


@pytest.mark.parametrize("id", ["~budgets/\x01", "~budgets/" + "x" * 512, "~rates/\x1b"])
def test_a_window_that_no_engine_could_have_is_not_looked_for(id: str) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            answer = await here.call("POST", "/v1/windows/read", {"pools": [id]}, key="read")
            assert (answer.status_code, answer.json()["field"]) == (400, "pool")

    asyncio.run(main())


@pytest.mark.parametrize("field", ["opens", "closes"])
def test_a_time_of_a_window_without_its_zone_is_named(field: str) -> None:
    async def main() -> None:
        async with in_process_app() as here:
            leg = {"pool": "~rates/x", "create_with_total": 1, field: "2026-01-01T00:00:00"}
            body = {"commands": [{"type": "consume", "legs": [leg]}]}
            answer = await here.call("POST", "/v1/windows", body, op="k")
            assert (answer.status_code, answer.json()["field"]) == (400, f"commands[0].legs[0].{field}")

    asyncio.run(main())
