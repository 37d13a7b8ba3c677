"""R24: a soak. The real server in a process of its own, under mixed load with readers of events, one of them slow: memory,
descriptors and threads stay what they were once it was warm. A server that leaks does not pass.

A few seconds by default; `HOLDKIT_SOAK=300 pytest tests/integration/server/test_soak.py` for as many seconds.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import holdkit
from holdkit.client import RemoteKernel, connect
from holdkit.server import Keys
from tests.support.threads import PATIENCE

SECONDS = float(os.environ.get("HOLDKIT_SOAK", "4"))
CLIENTS = 3
PARTS = 4
"""In so many parts the soak is measured; the first one warms the server up."""
TURNS = 60
"""So many turns each part has at least, however slow the machine is."""
SPARE_MEMORY = 24 * 2**20
"""What caches and the allocator may still take after the first part; a leak takes more with every part."""
SPARE_DESCRIPTORS = 8
SPARE_THREADS = 2

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="this system does not tell what a process uses"
)


class Use(Struct, frozen=True):
    """What a process uses."""

    memory: int
    descriptors: int
    threads: int


def use_of(process: int) -> Use:
    """By /proc."""
    place = Path(f"/proc/{process}")
    told = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return Use(int(told["VmRSS"].split()[0]) * 1024, len(list((place / "fd").iterdir())), int(told["Threads"]))


@contextmanager
def program(url: str, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The server's process id and its address."""
    command = [sys.executable, "-m", *module, url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            said = running.stdout.readline()
            assert "listens" in said
            yield running.pid, said.split()[-1]
        finally:
            running.terminate()
    assert running.returncode == 0, "the server did not stop well"


class Load:
    """Threads that work until they are told to stop; the first trouble is kept."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.done = 0
        self.told = 0
        self.trouble: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        def run() -> None:
            try:
                work(self, *arguments)
            except BaseException as error:  # noqa: BLE001 - told by the test
                self.trouble.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads)


def client(load: Load, address: str, key: str, seed: int) -> None:
    """Holds, claims, items, batches, refusals, nonsense, looks; a new connection now and then."""
    rng = random.Random(seed)
    while not load.over.is_set():
        with connect(address, key=key) as hk:
            for _ in range(50):
                if load.over.is_set():
                    return
                turn(hk, rng)
                load.done += 1


def turn(hk: RemoteKernel, rng: random.Random) -> None:
    """One small piece of business."""
    kind = rng.randrange(6)
    if kind < 2:
        hold = hk.hold("seats", 1, ttl="1m", metadata={"seat": rng.randrange(100)})
        (hk.confirm if rng.random() < 0.5 else hk.release)(hold)
    elif kind == 2:
        with suppress(holdkit.AlreadyClaimed):
            hk.release(hk.claims.hold("email", f"{rng.randrange(20)}@example.com", ttl=300))
    elif kind == 3:
        legs = (holdkit.Leg("seats"),)
        found = hk.apply([holdkit.commands.PlaceHold(legs=legs, ttl=5), *[holdkit.commands.Consume(legs=legs)] * 9])
        assert len(found) == 10
    elif kind == 4:
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold("none", 1, ttl=60)
        with pytest.raises(holdkit.InvalidRequest):
            hk.hold("seats", -1, ttl=60)
    else:
        hk.holds(pool="seats", limit=20)
        hk.pools()


def reader(load: Load, address: str, key: str) -> None:
    """Takes what comes, and comes back after a while."""
    with connect(address, key=key) as hk:
        after = hk.journal.list(limit=1)[-1].cursor
        while not load.over.is_set():
            for count, entry in enumerate(hk.journal.follow(after=after)):
                load.told += 1
                after = entry.cursor or after
                if load.over.is_set() or count > 200:
                    break


def slow_reader(load: Load, address: str, key: str) -> None:
    """Takes nothing, is dropped, and comes back."""
    host, port = address.removeprefix("http://").split(":")
    while not load.over.is_set():
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((host, int(port)))
            request = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
            slow.sendall(request.encode())
            load.over.wait(15)


def soak(url: str, seconds: float, *module: str) -> list[str]:
    """Load a server for so long, and so many turns at least: what it used more and more of."""
    with holdkit.connect(url) as hk:
        hk.create_pool("seats", 2**50)
        hk.create_pool("none", 0)
        key = Keys(hk).make("soak", scope="admin").text
    load, marks = Load(), list[Use]()
    with ExitStack() as stack:
        process, address = stack.enter_context(program(url, module))
        stack.callback(load.stop)
        for number in range(CLIENTS):
            load.start(client, address, key, number)
        load.start(reader, address, key)
        load.start(slow_reader, address, key)
        for _ in range(PARTS):
            until = time.monotonic() + seconds / PARTS
            enough = load.done + TURNS
            while (time.monotonic() < until or load.done < enough or not load.told) and not load.trouble:
                load.over.wait(0.05)
            marks.append(use_of(process))
    assert not load.trouble, load.trouble
    warm, last = marks[0], marks[-1]
    print(f"\nsoak: {load.done} turns, {load.told} events in {seconds:g} s: {marks}")  # noqa: T201 - with -s: what a soak is run for
    assert load.told, "no reader was told anything"
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
    spare = Use(SPARE_MEMORY, SPARE_DESCRIPTORS, SPARE_THREADS)
    return [
        name for name in spare.__struct_fields__ if getattr(last, name) > getattr(warm, name) + getattr(spare, name)
    ]


def test_memory_descriptors_and_threads_stay_flat(tmp_path: Path) -> None:
    assert soak(f"sqlite:///{tmp_path / 'holds.db'}", SECONDS, "holdkit.server") == []


@pytest.mark.parametrize(
    ("leak", "grows"), [("queue", "memory"), ("descriptors", "descriptors"), ("threads", "threads")]
)
def test_canary_a_server_that_leaks_is_noticed(tmp_path: Path, leak: str, grows: str) -> None:
    assert grows in soak(f"sqlite:///{tmp_path / 'holds.db'}", 0, "tests.integration.server.leaking_server", leak)
