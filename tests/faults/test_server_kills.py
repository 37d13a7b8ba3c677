"""R7: `kill -9` of the live server under client processes with a ledger of what was acknowledged.

Clients place and confirm holds through the product's own client, each under a retry key of its own, and note what the server
said. The server dies at random moments and comes back on the same port; in the end every *done* is there once, every *refused*
is absent, and every call came to one or the other.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import holdkit
from holdkit.client import Policy, connect
from holdkit.server import Keys

KILLS = int(os.environ.get("HOLDKIT_SERVER_KILLS", "5"))
CLIENTS = 4
CAPACITY = 40
PATIENT = Policy(attempts=1_000, seconds=60)


class Server:
    """The program, killed and started again on one port."""

    def __init__(self, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._url = url
        self.address = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "holdkit.server", self._url, "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert "listens" in self._process.stdout.readline()

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        self._process.send_signal(sig)
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Ledger:
    """What one client was told."""

    def __init__(self) -> None:
        self.confirmed: list[str] = []
        self.released: list[str] = []
        self.refused = 0
        self.trouble: list[BaseException] = []


def work(address: str, key: str, name: int, seed: int, ledger: Ledger, stop: Callable[[], bool]) -> None:
    """Hold, then confirm or release; every call goes on until it is done or refused."""
    rng = random.Random(seed)
    number = 0
    try:
        with connect(address, key=key, policy=PATIENT) as hk:
            while not stop():
                number += 1
                try:
                    hold = hk.hold("seats", 1, ttl="1h", op=f"{name}-{number}-hold")
                except holdkit.InsufficientCapacity:
                    ledger.refused += 1
                    continue
                if rng.random() < 0.02:
                    hk.confirm(hold, op=f"{name}-{number}-confirm")
                    ledger.confirmed.append(hold.id)
                else:
                    hk.release(hold, op=f"{name}-{number}-release")
                    ledger.released.append(hold.id)
    except BaseException as error:  # noqa: BLE001 - told by the test
        ledger.trouble.append(error)


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("HOLDKIT_SEED", "7"))
    rng = random.Random(seed)
    url = f"sqlite:///{tmp_path / 'holds.db'}"
    with holdkit.connect(url) as hk:
        hk.create_pool("seats", CAPACITY)
        key = Keys(hk).make("clients", scope="hold").text
    server = Server(url)
    ledgers = [Ledger() for _ in range(CLIENTS)]
    over = threading.Event()
    threads = [
        threading.Thread(target=work, args=(server.address, key, n, seed + n, ledger, over.is_set))
        for n, ledger in enumerate(ledgers)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            at = sum(len(ledger.released) for ledger in ledgers) + rng.randrange(1, 12)
            until = time.monotonic() + 20
            while sum(len(one.released) for one in ledgers) < at and time.monotonic() < until:
                threads[0].join(rng.random() * 0.02)  # a moment that is not the same each time
            server.kill()
            server.start()
        over.set()
        for thread in threads:
            thread.join(60)
    finally:
        over.set()
        server.kill(signal.SIGTERM)
    told = f"seed {seed}"
    assert not [error for ledger in ledgers for error in ledger.trouble], told
    confirmed = {id for ledger in ledgers for id in ledger.confirmed}
    released = {id for ledger in ledgers for id in ledger.released}
    assert len(released) >= KILLS, told
    with holdkit.connect(url) as hk:
        pool = hk.pool("seats")
        assert (pool.consumed, pool.held) == (len(confirmed), 0), told
        assert {hold.id for hold in hk.holds(state="confirmed", limit=1000)} == confirmed, told
        assert all(str(hk.get(id).state) == "released" for id in released), told
        assert hk.verify().ok, told
        births = [entry.subject for entry in _whole_journal(hk) if entry.action == "hold.held"]
        assert len(births) == len(set(births)) == len(confirmed) + len(released), told


def _whole_journal(hk: holdkit.Kernel) -> list[holdkit.JournalEntry]:
    return list(hk.follow(wait=False))
