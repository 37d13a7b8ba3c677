"""How a server stops: it drains, then finishes what runs; a second signal does not wait."""

from __future__ import annotations

import signal
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
from holdkit.server.settings import Requests
settings = Settings(open=True, drain=float(sys.argv[2]), requests=Requests(stop_timeout=60))
serve("sqlite:///" + sys.argv[1], port=0, settings=settings, started=lambda url: print(url, flush=True))
"""


@contextmanager
def serving(folder: Path, drain: float) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    command = [sys.executable, "-c", PROGRAM, str(folder / "holds.db"), str(drain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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
