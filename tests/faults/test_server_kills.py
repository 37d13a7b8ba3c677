"""R7: `kill -9` of the live server under client processes with a ledger of what was acknowledged.

Clients place and confirm holds through the product's own client, one by one or in batches, each call under a retry key of its
own, and note what the server said. The server dies at random moments and comes back on the same port; in the end every *done* is there once, every *refused*
is absent, and every call came to one or the other. Two canaries show that it would notice: a server that answers before it
commits, and one that writes the operation's record in a transaction of its own.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import holdkit
from holdkit.client import Policy, RemoteKernel, connect
from holdkit.core.commands import PlaceHold, ReleaseHold
from holdkit.core.model import Leg
from holdkit.server import Keys
from holdkit.testing.postgres.server import free_port
from tests.faults.sampling import STRIDE

KILLS = int(os.environ.get("HOLDKIT_KILLS", "20" if STRIDE == 1 else "8"))
"""A sample here, more with HOLDKIT_FAULTS=every (`make prove`)."""
SEED = int(os.environ.get("HOLDKIT_SEED", "7"))
TRIALS = 12
"""A kill can be lucky: so often six of them may miss a canary before it counts as not noticed."""
CLIENTS = 4
CAPACITY = 40
PATIENCE = 120.0
LONG_WAITS = Policy(attempts=10**6, seconds=3_600)
"""Whoever pauses may miss every moment in which the server is up, until it is killed no more."""


class Server:
    """The program, killed and started again on one port."""

    def __init__(self, url: str, canary: str) -> None:
        program = ["holdkit.server"] if not canary else ["tests.faults.broken_server", canary]
        port = free_port()
        self._command = [sys.executable, "-m", *program, url, "--port", str(port)]
        self.address = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert "listens" in self._process.stdout.readline()

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        self._process.send_signal(sig)
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Ledger:
    """What one client was told."""

    def __init__(self) -> None:
        self.confirmed: list[str] = []
        self.released: list[str] = []
        self.refused = 0
        self.unexpected: list[BaseException] = []


def work(address: str, key: str, name: int, seed: int, ledger: Ledger, stop: Callable[[], bool]) -> None:
    """Hold, then confirm or release; every call goes on until it is done or refused."""
    rng = random.Random(seed)
    number = 0
    try:
        with connect(address, key=key, policy=LONG_WAITS) as hk:
            while not stop():
                number += 1
                if rng.random() < 0.25:
                    work_in_batches(hk, f"{name}-{number}", rng.random() < 0.5, ledger)
                    continue
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
        ledger.unexpected.append(error)


def work_in_batches(hk: RemoteKernel, key: str, atomic: bool, ledger: Ledger) -> None:
    """Three holds under one key, and what was granted of them released under another."""
    places = [PlaceHold(legs=(Leg("seats", 1),), ttl="1h") for _ in range(3)]
    try:
        outcomes = hk.apply(places, atomic=atomic, op=f"{key}-holds")
    except holdkit.Unavailable:
        assert atomic, "the answers of a batch are values"
        outcomes = []
    placed = [outcome.value for outcome in outcomes if isinstance(outcome.value, holdkit.Hold)]
    assert not atomic or len(placed) in (0, 3), f"half a batch: {outcomes}"
    if not placed:
        ledger.refused += 1
        return
    ended = hk.apply([ReleaseHold(id=hold.id, token=hold.token) for hold in placed], op=f"{key}-releases")
    assert all(isinstance(one.value, holdkit.Hold) for one in ended), f"not released: {ended}"
    ledger.released += [hold.id for hold in placed]


def trial(directory: Path, kills: int, canary: str = "", seed: int = SEED) -> list[str]:
    """Everything that was not as it was told, after so many kills; the first unexpected error of a client ends the run."""
    directory.mkdir(exist_ok=True)
    rng = random.Random(seed)
    url = f"sqlite:///{directory / 'holds.db'}"
    with holdkit.connect(url) as hk:
        hk.create_pool("seats", CAPACITY)
        key = Keys(hk).make("clients", scope="hold").text
    server = Server(url, canary)
    ledgers = [Ledger() for _ in range(CLIENTS)]
    over = threading.Event()
    threads = [
        threading.Thread(target=work, args=(server.address, key, n, seed + n, ledger, over.is_set))
        for n, ledger in enumerate(ledgers)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            _wait_for_some(ledgers, rng)
            server.kill()
            server.start()
            if any(ledger.unexpected for ledger in ledgers):
                break
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a client hangs"
        with connect(server.address, key=key, policy=LONG_WAITS) as hk, suppress(holdkit.InsufficientCapacity):
            hk.hold(
                "seats", CAPACITY + 1, ttl="1h"
            )  # one more batch: the canary that commits late does so at the latest here
    finally:
        over.set()
        server.kill(signal.SIGTERM)
    return [f"seed {seed}: {said}" for said in (*_troubles(ledgers), *_differences(url, ledgers, kills))]


def _wait_for_some(ledgers: list[Ledger], rng: random.Random) -> None:
    at = sum(len(ledger.released) for ledger in ledgers) + rng.randrange(1, 12)
    until = time.monotonic() + PATIENCE
    while sum(len(one.released) for one in ledgers) < at and time.monotonic() < until:
        if any(ledger.unexpected for ledger in ledgers):
            return
        threading.Event().wait(rng.random() * 0.02)  # a moment that is not the same each time


def _troubles(ledgers: list[Ledger]) -> list[str]:
    return [f"a client was told {error!r}" for ledger in ledgers for error in ledger.unexpected]


def _differences(url: str, ledgers: list[Ledger], kills: int) -> list[str]:
    """What the file has, beside what the ledgers say."""
    confirmed = {id for ledger in ledgers for id in ledger.confirmed}
    released = {id for ledger in ledgers for id in ledger.released}
    with holdkit.connect(url) as hk:
        pool = hk.pool("seats")
        births = [entry.subject for entry in _whole_journal(hk) if entry.action == "hold.held"]
        stand = {hold.id: str(hold.state) for id in births for hold in [hk.get(id)]}
        facts = {
            "too little was done": len(released) >= kills,
            "counters are not the ledgers' sum": (pool.consumed, pool.held) == (len(confirmed), 0),
            "what was confirmed is not": all(stand.get(id) == "confirmed" for id in confirmed),
            "what was released is not": all(stand.get(id) == "released" for id in released),
            "a hold was placed twice, or unasked": len(births) == len(set(births)) == len(confirmed | released),
            "the journal disagrees with the rows": hk.admin.verify().ok,
        }
    return [said for said, holds in facts.items() if not holds]


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    assert trial(tmp_path, KILLS) == []


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["answer_before_commit", "operation_row_apart"])
def test_the_canaries_are_as_good_as_the_real_one_until_they_are_killed(tmp_path: Path, canary: str) -> None:
    assert trial(tmp_path, 0, canary) == []


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["answer_before_commit", "operation_row_apart"])
def test_killed_they_are_noticed(tmp_path: Path, canary: str) -> None:
    assert any(trial(tmp_path / str(again), 6, canary, SEED + again) for again in range(TRIALS))


def _whole_journal(hk: holdkit.Kernel) -> list[holdkit.JournalEntry]:
    return list(hk.journal.follow(wait=False))
