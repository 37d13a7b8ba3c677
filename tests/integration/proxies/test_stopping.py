"""A server that drains, stops and comes back behind a proxy: nothing that a client was told is lost."""

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

import holdkit
from tests.support.proxies import PROGRAMS, Program, Proxy, free_port, running_proxy
from tests.support.threads import PATIENCE, wait_until

SERVER = """
import sys
from holdkit.server import Settings, serve
from holdkit.server.settings import Requests
settings = Settings(open=True, drain=float(sys.argv[3]), requests=Requests(stop_timeout=60))
serve("sqlite:///" + sys.argv[1], port=int(sys.argv[2]), settings=settings, started=lambda url: print(url, flush=True))
"""
CALLERS = 8


@contextmanager
def serving(file: Path, port: int, drain: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVER, str(file), str(port), str(drain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("http")
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def hold(http: httpx.Client, op: str) -> int:
    return http.post("/v1/holds", json={"pool": "a", "ttl": 600}, headers={"Idempotency-Key": op}).status_code


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_drains_stops_and_comes_back(program: Program, tmp_path: Path) -> None:
    port, file, folder = free_port(), tmp_path / "holds.db", tmp_path / program
    folder.mkdir()
    with holdkit.connect(f"sqlite:///{file}") as hk:
        hk.create_pool("a", 100_000)
    with serving(file, port, 600) as server, running_proxy(program, folder, port) as proxy:
        answered: dict[str, int] = {}
        over = threading.Event()
        callers = [threading.Thread(target=call, args=(proxy, number, answered, over)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        wait_until(lambda: len(answered) > CALLERS)
        server.send_signal(signal.SIGTERM)
        with proxy.client() as http:
            wait_until(lambda: http.get("/readyz").status_code == 503)
            assert http.get("/readyz").json()["reason"] == "stopping"
            before = len(answered)
            wait_until(lambda: len(answered) > before + 10 * CALLERS)
            assert set(answered.values()) == {201}, "everything is served while the server drains"
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
            wait_until(lambda: http.get("/livez").status_code == 502)
        over.set()
        for caller in callers:
            caller.join(PATIENCE)
            assert not caller.is_alive()
        with holdkit.connect(f"sqlite:///{file}") as hk:
            stored = hk.pool("a").held
        promised = [op for op, status in answered.items() if status == 201]
        assert 10 * CALLERS < len(promised) <= stored <= len(promised) + CALLERS, (
            "each caller ends with one unknown outcome at most"
        )
        with serving(file, port, 0), proxy.client() as http:
            wait_until(lambda: hold(http, promised[-1]) == 201)
            assert int(http.get("/v1/pools/a").json()["held"]) == stored, "the retry placed no other hold"


def call(proxy: Proxy, number: int, answered: dict[str, int], over: threading.Event) -> None:
    """Place holds until told to stop; what has no answer is not recorded."""
    with proxy.client() as http:
        for count in range(1_000_000):
            if over.is_set():
                return
            op = f"{number}-{count}"
            answered[op] = hold(http, op)
            if answered[op] != 201:
                return
