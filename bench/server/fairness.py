"""A quiet tenant beside one that sends all it can, over HTTP, on a server with its default settings.

The server and both loads are separate processes, and the CPU time of each is counted apart. The quiet tenant holds and confirms, from a
few connections, one lifecycle after the other: first alone, then beside each kind of load. The loud tenant uses all its keys and
resends at once what was refused:

- *batches*: batches of 1,000 plain holds;
- *wide holds*: batches that extend one hold of 1,000 legs ten times, the most that a batch may touch.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import msgspec
import uvloop
from msgspec import Struct

import holdkit
from holdkit.commands import CreatePool
from holdkit.server import Keys, serve

from ..figures import Figure, compared
from ..revision import ROOT, Process
from ..rows import BenchFailed
from .part import lifecycle
from .processes import POOLS
from .wire import Wire, load

QUIET: Final = 8
"""Connections of the quiet tenant."""
LOUD: Final = 4
"""Connections of the loud tenant, each with a key of its own."""
LEGS: Final = 1_000
ALONE: Final = "alone"
LOADS: Final = ("batches", "wide holds")
P99: Final = 5.0
RATE: Final = 0.5
WARM_UP: Final = 1.0
"""Seconds of load that are not counted: the loud tenant's burst is part of them."""


class Row(Struct, frozen=True):
    """The quiet tenant in one run."""

    beside: str
    per_second: float
    """Lifecycles."""
    p50: float
    p99: float
    cpu: dict[str, float]
    """Seconds of CPU time per second: of the server, of the quiet tenant's load, of the loud one's."""
    loud: float = 0.0
    """Commands per second that were done for the loud tenant."""


# The processes


def run_server(url: str) -> None:
    """Serve with the default settings; print the port."""
    serve(url, port=0, started=lambda at: print(at.rsplit(":", 1)[1], flush=True))


def run_quiet(port: str, key: str, seconds: str) -> None:
    """Put the server under the quiet load; print what it saw."""
    load(int(port), [key], QUIET, WARM_UP, lifecycle)
    began = process_time()
    rate, took = load(int(port), [key], QUIET, float(seconds), lifecycle)
    used = (process_time() - began) / float(seconds)
    print(msgspec.json.encode([rate, took[len(took) // 2], took[int(len(took) * 0.99)], used]).decode(), flush=True)


def run_loud(port: str, kind: str, keys: str) -> None:
    """Send all that goes, until the input is closed; print how many commands were done since the last line of input."""
    uvloop.run(_loud(int(port), kind, keys.split(",")))


async def _loud(port: int, kind: str, keys: list[str]) -> None:
    counted = [0]
    body, each = await _wide(port, keys[0]) if kind == "wide holds" else _plain()
    tasks = [asyncio.create_task(_send(port, key, body, each, counted)) for key in keys]
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        for task in tasks:
            if task.done():
                task.result()  # raises: a load that has ended would be no load
        print(counted[0], flush=True)
        counted[0] = 0
    for task in tasks:
        task.cancel()


def _plain() -> tuple[bytes, int]:
    holds = [{"type": "hold", "pool": f"pool:{number % POOLS}", "ttl": 60} for number in range(1_000)]
    return json.dumps({"commands": holds}).encode(), 1_000


async def _wide(port: int, key: str) -> tuple[bytes, int]:
    """The largest batch that extends one hold of many legs."""
    wire = Wire("127.0.0.1", port, key)
    await wire.open()
    legs = [{"pool": f"wide:{number}"} for number in range(LEGS)]
    hold = json.loads(await wire.post("/v1/holds", json.dumps({"legs": legs, "ttl": 3600}).encode(), wire.name))
    wire.close()
    extend = {"type": "extend", "id": hold["id"], "token": hold["token"], "ttl": 3600}
    return json.dumps({"commands": [extend] * 10}).encode(), 10


async def _send(port: int, key: str, body: bytes, each: int, counted: list[int]) -> None:
    """One connection that never waits: what is refused is sent again at once."""
    wire, number = Wire("127.0.0.1", port, key), 0
    await wire.open()
    while True:
        number += 1
        try:
            await wire.post("/v1/batch", body, f"{wire.name}-{number}")
            counted[0] += each
        except BenchFailed as refused:
            if "429" not in str(refused) and "503" not in str(refused):
                raise


# The measurement


def prepare(url: str) -> tuple[str, dict[str, list[str]]]:
    """The quiet tenant's key, and by load the keys of a loud one: what it owes for one load would make another too small."""
    with holdkit.connect(url) as hk:
        keys = Keys(hk)
        for tenant in ("quiet", *LOADS):
            pools = [CreatePool(id=f"pool:{number}", total=2**50) for number in range(POOLS)]
            hk.tenant(tenant).apply(pools)
            hk.tenant(tenant).apply([CreatePool(id=f"wide:{number}", total=2**50) for number in range(LEGS)])
        loud = {kind: [keys.make(kind, scope="hold", tenant=kind).text for _ in range(LOUD)] for kind in LOADS}
        return keys.make("quiet", scope="hold", tenant="quiet").text, loud


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of this module."""
    command = [sys.executable, "-m", "bench.server.fairness", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as running:
        try:
            yield running
        finally:
            running.terminate()


def said(process: subprocess.Popen[str]) -> str:
    """Its next line."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise BenchFailed("a process of the bench ended early")
    return line


def told(process: subprocess.Popen[str]) -> float:
    """Ask the loud process what was done for it."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(said(process))


def one_run(port: int, server: Process, beside: str, quiet: str, loud: dict[str, list[str]], seconds: float) -> Row:
    """The quiet tenant alone, or beside one kind of load."""
    if beside == ALONE:
        return _row(port, server, quiet, seconds, beside, None)
    with started("loud", str(port), beside, ",".join(loud[beside])) as running:
        said(running)
        return _row(port, server, quiet, seconds, beside, running)


def _row(
    port: int, server: Process, quiet: str, seconds: float, beside: str, loud: subprocess.Popen[str] | None
) -> Row:
    noise = None if loud is None else Process(port, loud.pid)
    with started("quiet", str(port), quiet, str(seconds)) as running:
        before = [0.0 if one is None else one.cpu() or 0.0 for one in (server, noise)]
        if loud is not None:
            told(loud)
        rate, p50, p99, used = msgspec.json.decode(said(running))
        after = [0.0 if one is None else one.cpu() or 0.0 for one in (server, noise)]
        done = 0.0 if loud is None else told(loud)
    whole = seconds + WARM_UP
    cpu = {"server": (after[0] - before[0]) / whole, "quiet": used, "loud": (after[1] - before[1]) / whole}
    return Row(beside, rate, p50, p99, cpu, done / whole)


def run(directory: Path, seconds: float, rounds: int, step: Callable[[str], None]) -> list[Row]:
    """Alone and beside each load, in turn, on SQLite."""
    url = f"sqlite:///{directory / 'fairness.db'}"
    quiet, loud = prepare(url)
    rows: list[Row] = []
    with started("server", url) as running:
        port = int(said(running))
        server = Process(port, running.pid)
        for _ in range(rounds):
            for beside in (ALONE, *LOADS):
                step(f"a quiet tenant {beside}" if beside == ALONE else f"a quiet tenant beside {beside}")
                rows.append(one_run(port, server, beside, quiet, loud, seconds))
    with holdkit.connect(url) as hk:
        if not hk.admin.verify().ok:
            raise BenchFailed("the rows do not match the journal")
    return rows


def figures(rows: list[Row]) -> list[Figure]:
    """The quiet tenant's p99 and rate beside each load, compared with those alone."""
    found: list[Figure] = []
    for beside in LOADS:
        mine, alone = ([one for one in rows if one.beside == name] for name in (beside, ALONE))
        name = f"sqlite, a quiet tenant beside {beside}"
        cpu = ", ".join(f"{who} {median(one.cpu[who] for one in mine):.2f}" for who in ("server", "quiet", "loud"))
        note = f"{median(one.loud for one in mine):.0f} commands/s of the loud one; CPU: {cpu}"
        p99 = ([1e3 * one.p99 for one in some] for some in (alone, mine))
        rates = ([one.per_second for one in some] for some in (alone, mine))
        found.append(compared("fairness", f"{name}, p99", "ms", *p99, at_most=P99, note=note))
        found.append(compared("fairness", f"{name}, lifecycles", "lifecycles/s", *rates, at_least=RATE))
    return found


PROCESSES: Final[dict[str, Callable[..., Any]]] = {"server": run_server, "quiet": run_quiet, "loud": run_loud}

if __name__ == "__main__":
    PROCESSES[sys.argv[1]](*sys.argv[2:])
