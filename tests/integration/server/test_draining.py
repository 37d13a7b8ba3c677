"""How a server stops: it drains, then finishes what runs, within a limit; a second signal does not wait."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.threads import PATIENCE, wait_until

PROGRAM = """
import sys
from holdkit.server import Settings, serve
from holdkit.server.settings import Connections, Requests
requests = Requests(stop_timeout=float(sys.argv[3]), body_timeout=600)
settings = Settings(open=True, drain=float(sys.argv[2]), connections=Connections(receive_timeout=600), requests=requests)
serve("sqlite:///" + sys.argv[1], port=0, settings=settings, started=lambda url: print(url, flush=True))
"""


@contextmanager
def serving(folder: Path, drain: float, stop: float = 60) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    command = [sys.executable, "-c", PROGRAM, str(folder / "holds.db"), str(drain), str(stop)]
    with (
        (folder / "errors.txt").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=PATIENCE) as http:
                assert http.post("/v1/pools", json={"id": "a", "total": 9}).status_code == 201
                yield process, http
        finally:
            if process.poll() is None:
                process.kill()


def hold(http: httpx.Client, op: str) -> httpx.Response:
    return http.post("/v1/holds", json={"pool": "a", "ttl": 60}, headers={"Idempotency-Key": op})


def listen(http: httpx.Client, said: list[str], began: threading.Event) -> None:
    with httpx.Client(base_url=http.base_url, timeout=PATIENCE) as mine, mine.stream("GET", "/v1/events") as stream:
        for part in stream.iter_lines():
            said.append(part)
            began.set()


def test_a_draining_server_is_not_ready_and_still_serves(tmp_path: Path) -> None:
    with serving(tmp_path, 600) as (process, http):
        assert http.get("/readyz").status_code == 200
        said: list[str] = []
        began = threading.Event()
        stream = threading.Thread(target=listen, args=(http, said, began))
        stream.start()
        assert began.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: http.get("/readyz").status_code == 503)
        told = http.get("/readyz")
        assert told.json()["reason"] == "stopping"
        held = hold(http, "while draining")
        assert (held.status_code, held.headers["connection"]) == (201, "close")
        assert http.get("/livez").status_code == 200
        assert "event: bye" not in said
        wait_until(lambda: "event: hold.held" in said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        stream.join(PATIENCE)
        assert not stream.is_alive()


@pytest.mark.parametrize(("drain", "sent"), [(0.3, signal.SIGTERM), (600, signal.SIGINT)])
def test_a_stopped_server_ends_its_streams_and_exits(tmp_path: Path, drain: float, sent: signal.Signals) -> None:
    with serving(tmp_path, drain) as (process, http):
        said: list[str] = []
        began = threading.Event()
        stream = threading.Thread(target=listen, args=(http, said, began))
        stream.start()
        assert began.wait(PATIENCE)
        process.send_signal(sent)
        assert process.wait(PATIENCE) == 0
        stream.join(PATIENCE)
        assert "event: bye" in said


def test_a_stop_that_reaches_its_limit_ends_requests_without_a_traceback(tmp_path: Path) -> None:
    """One waits for a body that never comes; its client sees the connection close."""
    with (
        serving(tmp_path, 0, stop=1) as (process, http),
        socket.create_connection(("127.0.0.1", http.base_url.port or 0), timeout=PATIENCE) as wire,
    ):
        wire.sendall(b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        wire.sendall(b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        assert wire.recv(65_536).startswith(b"HTTP/1.1 100 ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert wire.recv(65_536) == b""
    errors = (tmp_path / "errors.txt").read_text()
    assert "Cancel 1 running task(s), timeout graceful shutdown exceeded" in errors
    assert "Traceback" not in errors
    assert len(errors.splitlines()) == 1, errors
