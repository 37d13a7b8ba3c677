"""Connections under attack: readers that take nothing, clients that fall silent, too many of either, endless heads and pipelines.

Each attack was seen to succeed against the server without the bound that it names; the bounds are made small. What a proxy bounds
in front of the server, `tests/integration/proxies` attacks.
"""

from __future__ import annotations

import contextlib
import logging
import re
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdkit.server import Settings, uvicorn_server
from holdkit.server.bounds import bounds_of, raise_file_limit
from holdkit.server.guard import Guard
from holdkit.server.settings import Connections, Requests, Upkeep
from holdkit.server.static import FOLDER
from tests.support.certificates import MadeCertificate
from tests.support.servers import LiveServer, live_server
from tests.support.threads import PATIENCE, wait_until

ASSET = max((FOLDER / "assets").iterdir(), key=lambda path: path.stat().st_size)
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n%s\r\n{"


def begin_slow_requests(server: LiveServer, wires: list[socket.socket]) -> None:
    """Send on each connection a request whose body never ends, and wait until the server reads the bodies."""
    asked = SLOW % f"Authorization: Bearer {server.admin}\r\nExpect: 100-continue\r\n".encode()
    for wire in wires:
        wire.sendall(asked)
    for wire in wires:
        assert wire.recv(65_536).startswith(b"HTTP/1.1 100")


def settings(connections: Connections | None = None, **more: Any) -> Settings:
    bounds = connections or Connections()
    return Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0), connections=bounds, **more)


def connect(port: int, *, room: int | None = None) -> socket.socket:
    made = socket.socket()
    if room is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    made.settimeout(PATIENCE)
    made.connect(("127.0.0.1", port))
    return made


@contextlib.contextmanager
def sockets(port: int, count: int, **more: Any) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(port, **more)) for _ in range(count)]


def is_live(server: LiveServer, verify: ssl.SSLContext | bool = True) -> bool:
    """Whether a newcomer gets an answer."""
    try:
        return httpx.get(f"{server.url}/livez", timeout=PATIENCE, verify=verify).status_code == 200
    except httpx.TransportError:
        return False


def is_closed(wire: socket.socket) -> bool:
    """Read to the end; true if the server has closed the connection within a moment."""
    wire.settimeout(0.01)
    try:
        while wire.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("last", [b"keep-alive", b"close"])
@pytest.mark.parametrize("tls", [False, True])
def test_clients_that_read_nothing_are_disconnected(
    last: bytes, tls: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ask for more than the kernel buffers, and take nothing: while answers are under way, and while closing. The kernel has no
    deadline for them, as on a Unix socket."""
    monkeypatch.setattr(uvicorn_server, "bound_kernel", lambda _listening, _seconds: None)
    made = MadeCertificate(tmp_path)
    ask = f"GET /assets/{ASSET.name} HTTP/1.1\r\nHost: localhost\r\nConnection: ".encode()
    asked = (ask + b"keep-alive\r\n\r\n") * 39 + ask + last + b"\r\n\r\n"
    bounds = settings(Connections(write_timeout=0.3, max=8, max_pipelined=40))
    with live_server(settings=bounds, **(made.options if tls else {})) as server, contextlib.ExitStack() as stack:
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)
        for _ in range(8):
            wire = stack.enter_context(connect(server.port, room=4096))
            if tls:
                wire = stack.enter_context(made.trusted().wrap_socket(wire, server_hostname="localhost"))
            wire.sendall(asked)
        wait_until(lambda: is_live(server, made.trusted()))
        for _ in range(8):
            assert is_live(server, made.trusted())
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert "Traceback" not in caplog.text, "a request wrote to the closed connection"


def test_without_a_write_timeout_they_lock_everybody_out() -> None:
    """The canary of the test above."""
    asked = f"GET /assets/{ASSET.name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 17
    with live_server(settings=settings(Connections(write_timeout=3_600, max=8))) as server:
        with sockets(server.port, 8, room=4096) as readers:
            for wire in readers:
                wire.sendall(asked)
            for wire in readers:
                assert wire.recv(1, socket.MSG_PEEK)
            wait_until(lambda: not is_live(server))
        wait_until(lambda: is_live(server))


def test_a_client_that_reads_slowly_gets_everything() -> None:
    """The canary of the test above: progress is what counts, not the time that a whole answer takes."""
    with (
        live_server(settings=settings(Connections(write_timeout=0.3))) as server,
        connect(server.port, room=65_536) as wire,
    ):
        wire.sendall(f"GET /assets/{ASSET.name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while part := wire.recv(8192):
            got += part
        assert got.endswith(ASSET.read_bytes())


@pytest.mark.parametrize(
    "payload",
    [b"", LIVE[:-2], LIVE + LIVE[:-2], SLOW % b"", LIVE],
    ids=["silent", "an unfinished head", "an unfinished second head", "half a body", "between two requests"],
)
@pytest.mark.parametrize("tls", [False, True])
def test_clients_that_fall_silent_are_disconnected(payload: bytes, tls: bool, tmp_path: Path) -> None:
    """Until then they take the connections of others, who are told so: the newcomer is the canary."""
    made, idle = MadeCertificate(tmp_path), payload == LIVE
    bounds = settings(
        Connections(max=5, receive_timeout=600 if idle else 0.5, keep_alive=0.5 if idle else 600, write_timeout=1)
    )
    with live_server(settings=bounds, **(made.options if tls else {})) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(server.port)) for _ in range(5)]
        if tls:
            silent = [made.trusted().wrap_socket(wire, server_hostname="localhost") for wire in silent]
        for wire in silent:
            stack.enter_context(wire).sendall(payload)
            if payload not in (b"", LIVE[:-2]):
                assert wire.recv(65_536).startswith((b"HTTP/1.1 200", b"HTTP/1.1 401"))
        with connect(server.port) as plain:
            newcomer = made.trusted().wrap_socket(plain, server_hostname="localhost") if tls else plain
            wire = stack.enter_context(newcomer)
            assert wire.recv(65_536).startswith(b"HTTP/1.1 503")
        for wire in silent:
            assert read_to_end(wire) == b""
        wait_until(lambda: is_live(server, made.trusted()))
        with httpx.Client(base_url=server.url, verify=made.trusted(), timeout=PATIENCE) as http:
            key = {"Authorization": f"Bearer {server.admin}"}
            counted = http.get("/v1/stats", headers=key).json()["connections"]
            text = http.get("/metrics", headers=key).text
        assert (counted["limit"], counted["dropped"]) == (5, 0)
        assert counted["refused"] >= 1
        assert "holdkit_connections_limit 5.0" in text


def read_to_end(wire: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        answer = b""
        while part := wire.recv(65_536):
            answer += part
    return answer


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ", SLOW % b""],
    ids=["a request line", "a header", "a body"],
)
def test_clients_that_send_byte_by_byte_are_disconnected(begun: bytes) -> None:
    """The deadline is that of the whole request, whatever arrives meanwhile."""
    with live_server(settings=settings(Connections(receive_timeout=0.3))) as server, connect(server.port) as wire:
        wire.sendall(begun)

        def is_cut_off() -> bool:
            try:
                wire.sendall(b"a" if begun else b"\r\n")  # empty lines before a request are allowed
            except ConnectionError:
                return True
            return False

        wait_until(is_cut_off)
        assert is_live(server)


def test_clients_that_send_in_time_are_not_disconnected() -> None:
    """The canary of the test above: a request may take as long as the deadline, and the next one begins a new deadline."""
    bounds = settings(Connections(receive_timeout=60, keep_alive=60))
    with live_server(settings=bounds) as server, connect(server.port) as wire, connect(server.port) as other:
        for part in (LIVE[:9], LIVE[9:20], LIVE[20:]) * 3:
            wire.sendall(part)
            other.sendall(LIVE)
            assert other.recv(65_536).startswith(b"HTTP/1.1 200")
        assert wire.recv(12) == b"HTTP/1.1 200"


def test_a_reader_that_the_kernel_cuts_off_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own deadline may come before ours."""
    monkeypatch.setattr(Guard, "check", lambda _guard, _now: None)
    with (
        live_server(settings=settings(Connections(write_timeout=0.3))) as server,
        connect(server.port, room=4096) as wire,
    ):
        wire.sendall(f"GET /assets/{ASSET.name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 10)
        with server.client() as http:
            wait_until(lambda: http.get("/v1/stats").json()["connections"]["dropped"] == 1)


def test_requests_are_bounded_below_connections_so_that_one_too_many_is_told() -> None:
    bounds = settings(Connections(max=8), requests=Requests(max_of_tenant=8))
    with live_server(settings=bounds) as server, sockets(server.port, 6) as busy:
        begin_slow_requests(server, busy)
        with server.client() as http:
            wait_until(lambda: http.get("/v1/stats").status_code == 503)
            told = http.get("/v1/pools")
        assert (told.status_code, told.json()["reason"], told.headers["retry-after"]) == (503, "overloaded", "1")
        assert told.json()["effect"] == "none"


def test_a_client_beyond_all_connections_is_told_too() -> None:
    bounds = settings(Connections(max=4), requests=Requests(max=4, max_of_tenant=4))
    with live_server(settings=bounds) as server, sockets(server.port, 4) as busy:
        begin_slow_requests(server, busy)
        wait_until(lambda: refused(server))
        told = httpx.get(f"{server.url}/livez", timeout=PATIENCE)
        assert (told.status_code, told.json()["reason"], told.headers["retry-after"]) == (503, "overloaded", "1")
        assert (told.headers["connection"], told.json()["effect"]) == ("close", "none")
        busy[0].close()
        wait_until(lambda: is_live(server))


def refused(server: LiveServer) -> bool:
    return httpx.get(f"{server.url}/livez", timeout=PATIENCE).status_code == 503


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from holdkit.server import Settings, serve
from holdkit.server.settings import Connections
settings = Settings(open=True, connections=Connections(max=int(sys.argv[2]) or None))
serve("sqlite:///" + sys.argv[1], port=0, settings=settings, started=lambda url: print(url, flush=True))
"""


@pytest.mark.parametrize("most", [0, 10_000], ids=["derived", "too many"])
def test_more_idle_sockets_than_descriptors_are_borne_quietly(most: int, tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "holds.db"), str(most)]
    with (
        said.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            port = int(url.rsplit(":", 1)[1])
            with httpx.Client(base_url=url, timeout=PATIENCE) as http:
                assert http.get("/livez").status_code == 200
                with sockets(port, 300):
                    assert http.post("/v1/pools", json={"id": "a", "total": 1}).status_code == 201
                    assert http.get("/readyz").status_code == 200
            wait_until(lambda: is_answering(url))
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert len(said.read_text()) < 2_000, said.read_text()[:2_000]


def is_answering(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=PATIENCE).status_code == 200
    return False


@pytest.mark.parametrize(
    ("files", "pool_size", "connections", "requests", "streams"),
    [
        (64, None, 32, 24, 16),
        (1_024, None, 768, 576, 200),
        (1_024, 100, 668, 501, 200),
        (4_096, None, 3_840, 2_880, 200),
        (1_048_576, None, 4_000, 3_000, 200),
        (-1, None, 4_000, 3_000, 200),
    ],
)
def test_bounds_follow_from_the_limit_of_descriptors(
    files: int, pool_size: int | None, connections: int, requests: int, streams: int
) -> None:
    found = bounds_of(Settings(pool_size=pool_size), files)
    assert (found.connections, found.requests, found.streams) == (connections, requests, streams)
    assert found.requests_of_tenant == requests // 2
    assert found.requests < found.connections < max(files, 4_001)


def test_pipelined_requests_are_answered_up_to_a_bound_then_the_connection_closes() -> None:
    with live_server(settings=settings(Connections(max_pipelined=16))) as server:
        for sent, answered in ((17, 17), (2_000, 17)):
            with connect(server.port) as wire:
                with contextlib.suppress(ConnectionError):
                    wire.sendall(LIVE * sent)
                told = b""
                while told.count(b"HTTP/1.1 200") < answered:
                    told += wire.recv(65_536)
                if sent > answered:
                    assert is_closed(wire)
                assert told.count(b"HTTP/1.1 ") == answered


def test_a_head_without_end_is_refused_and_its_connection_closed() -> None:
    with live_server(settings=settings(requests=Requests(max_headers=4096, max_query=1024))) as server:
        for line in (b"x: y\r\n", b"X-Long: ", b"a:b\r\n" * 50_000):
            with connect(server.port) as wire:
                wire.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + line)
                told = b""
                with contextlib.suppress(ConnectionError):
                    for _ in range(1_000):
                        wire.sendall(b"x: y\r\n" * 100)
                    told = wire.recv(65_536)
                assert told == b"" or told.startswith(b"HTTP/1.1 431 ")
        assert is_live(server)


@pytest.mark.parametrize("line", [b"X-Long: ", b"x: y\r\n"], ids=["one", "many"])
def test_trailers_without_end_are_refused(line: bytes) -> None:
    """Their bound is that of a head; an endless extension of a chunk is one more way to send nothing."""
    begun = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", SLOW)
    bounds = settings(requests=Requests(max_headers=4096, max_query=1024, body_timeout=600))
    with live_server(settings=bounds) as server:
        key = f"Authorization: Bearer {server.admin}\r\nExpect: 100-continue\r\n".encode()
        for last in (b"0\r\n" + line, b"1;" + b"a" * 99):
            with connect(server.port) as wire:
                wire.sendall((begun % key).removesuffix(b"{") + b"1\r\n{\r\n")
                assert wire.recv(65_536).startswith(b"HTTP/1.1 100")
                wire.sendall(last)
                answer = b""
                with contextlib.suppress(ConnectionError):
                    for _ in range(1_000):
                        wire.sendall((line if last.endswith(line) else b"a") * 100)
                    answer = wire.recv(65_536)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
            with server.client() as http:
                wait_until(lambda: http.get("/v1/stats").json()["in_work"] == 1)


def test_a_large_body_is_not_taken_for_a_trailer() -> None:
    """The canary of the test above, in parts of every size."""
    bounds = settings(requests=Requests(max_headers=4096, max_query=1, max_body=1 << 20))
    body = b'{"id": "a", "total": 1' + b" " * 300_000 + b"}"
    with live_server(settings=bounds) as server, server.client() as http:
        kind = {"Content-Type": "application/json"}
        for size in (1_000, 16_384, 300_000):
            parts = (body[at : at + size] for at in range(0, len(body), size))
            assert http.post("/v1/pools", content=parts, headers=kind).status_code in (201, 409)
        assert http.post("/v1/pools", content=body, headers=kind).status_code == 409


def test_the_server_raises_its_own_limit_of_descriptors_as_far_as_it_needs() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (900, hard))
        raise_file_limit(Settings(connections=Connections(max=700), pool_size=50))
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_006, hard)
        raise_file_limit(Settings(connections=Connections(max=10)))
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1_006, hard), "never lowered"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
