"""The server over HTTP: hold and confirm with 1, 32 and 256 connections, and batches of 100, compared with a bare echo.

The server, the echo and the load are separate processes. A lifecycle is a hold and its confirm: two requests, two
commits. The echo takes the same bodies and gives them back. The holds of a batch are one request with an `Idempotency-Key`, and so are its confirms.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final
from uuid import uuid4

from msgspec import Struct

import holdkit
from holdkit.server import Keys
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.binaries import NoPostgres, find

from ..figures import Figure, compared
from ..rows import BenchFailed
from .wire import Wire, load

CONNECTIONS: Final = (1, 32, 256)
BATCH: Final = 100
BATCHING: Final = 4
"""Connections that send batches."""
POOLS: Final = 8
LIFECYCLE: Final = "lifecycle"
BATCHES: Final = "batches"
UNIT: Final = "holds/s"
OF_ECHO: Final = 0.35
TIMES_SINGLE: Final = 10.0


class Row(Struct, frozen=True):
    """One line of the table."""

    engine: str
    """Whose run it was; the echo has one in each."""
    variant: str
    what: str
    connections: int
    per_second: float
    """Lifecycles, or for batches holds."""
    p50: float
    p99: float


@contextmanager
def process(*arguments: str) -> Iterator[int]:
    """Start a server process; gives its port."""
    command = [sys.executable, "-m", "bench.server.processes", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        try:
            if not said.strip().isdigit():
                raise BenchFailed(f"a process did not start: {said!r}")
            yield int(said)
        finally:
            running.terminate()


def prepare(url: str) -> str:
    """Pools, and a key."""
    with holdkit.connect(url) as hk:
        for number in range(POOLS):
            hk.create_pool(f"pool:{number}", 2**50, exist_ok=True)
        return Keys(hk).make("bench", scope="admin").text


async def lifecycle(wire: Wire, name: int, number: int) -> None:
    """Hold, then confirm."""
    body = b'{"pool":"pool:%d","quantity":1,"ttl":60}' % (name % POOLS)
    told = json.loads(await wire.post("/v1/holds", body, uuid4().hex))
    confirm = json.dumps({"owner": told["owner"], "entity": f"order:{number}"}).encode()
    await wire.post(f"/v1/holds/{told['id']}/confirm", confirm, uuid4().hex)


async def echo(wire: Wire, name: int, number: int) -> None:
    """The same bodies, to the echo."""
    body = b'{"pool":"pool:%d","quantity":1,"ttl":60}' % (name % POOLS)
    json.loads(await wire.post("/echo", body, uuid4().hex))
    confirm = json.dumps({"owner": "0" * 32, "entity": f"order:{number}"}).encode()
    await wire.post("/echo", confirm, uuid4().hex)


async def batch(wire: Wire, name: int, _number: int) -> None:
    """A hundred holds, then their confirms."""
    holds = [{"type": "hold", "pool": f"pool:{name % POOLS}", "ttl": 60}] * BATCH
    told = json.loads(await wire.post("/v1/batch", json.dumps({"commands": holds}).encode(), uuid4().hex))
    confirms = [{"type": "confirm", "id": one["hold"]["id"], "owner": one["hold"]["owner"]} for one in told["answers"]]
    done = json.loads(await wire.post("/v1/batch", json.dumps({"commands": confirms}).encode(), uuid4().hex))
    if any(one["status"] != "done" for one in done["answers"]):
        raise BenchFailed("a confirm of a batch was refused")


def row(
    engine: str, variant: str, what: str, connections: int, measured: tuple[float, list[float]], times: int = 1
) -> Row:
    """With p50 and p99."""
    rate, took = measured
    return Row(engine, variant, what, connections, rate * times, took[len(took) // 2], took[int(len(took) * 0.99)])


def measure(engine: str, url: str, seconds: float, rounds: int, step: Callable[[str], None]) -> list[Row]:
    """One engine and the echo, alternating; the order changes with every round."""
    rows: list[Row] = []
    key = prepare(url)
    with process("holdkit", url) as port, process("echo") as bare:
        for number in range(rounds):
            for connections in CONNECTIONS:
                variants = [("echo", bare, echo), (engine, port, lifecycle)]
                for variant, where, turn in variants if number % 2 else reversed(variants):
                    step(f"{variant}, {connections} connections")
                    measured = asyncio.run(load(where, key, connections, seconds, turn))
                    rows.append(row(engine, variant, LIFECYCLE, connections, measured))
            step(f"{engine}, batches")
            alone = asyncio.run(load(port, key, BATCHING, seconds, lifecycle))
            rows.append(row(engine, engine, LIFECYCLE, BATCHING, alone))
            rows.append(
                row(engine, engine, BATCHES, BATCHING, asyncio.run(load(port, key, BATCHING, seconds, batch)), BATCH)
            )
    with holdkit.connect(url) as hk:
        if not hk.verify().ok:
            raise BenchFailed("the journal disagrees with the rows")
    return rows


def figures(rows: list[Row]) -> list[Figure]:
    """Lifecycles compared with the echo, and batches with single calls, both per hold."""
    found: list[Figure] = []
    engine = rows[0].engine
    for connections in CONNECTIONS:
        bare, ours = (
            [
                one.per_second
                for one in rows
                if (one.variant, one.what, one.connections) == (variant, LIFECYCLE, connections)
            ]
            for variant in ("echo", engine)
        )
        target = OF_ECHO if (engine, connections) == ("sqlite", 32) else None
        name = f"{engine}, hold and confirm, {connections} connections, compared with a bare echo"
        found.append(compared("server", name, UNIT, bare, ours, at_least=target, note=_slow(rows, engine, connections)))
    alone = (engine, BATCHING, LIFECYCLE)
    single = [one.per_second for one in rows if (one.variant, one.connections, one.what) == alone]
    batched = [one.per_second for one in rows if one.what == BATCHES]
    target = TIMES_SINGLE if engine == "sqlite" else None
    name = f"{engine}, batches of {BATCH} from {BATCHING} connections, compared with single calls"
    return [*found, compared("server", name, UNIT, single, batched, at_least=target)]


def _slow(rows: list[Row], engine: str, connections: int) -> str:
    took = [one for one in rows if (one.variant, one.connections, one.what) == (engine, connections, LIFECYCLE)]
    return f"p50 {1e3 * median(one.p50 for one in took):.1f} ms, p99 {1e3 * median(one.p99 for one in took):.1f} ms"


def run(directory: Path, seconds: float, rounds: int, step: Callable[[str], None]) -> list[Row]:
    """On SQLite, and on PostgreSQL if its binaries are installed."""
    rows = measure("sqlite", f"sqlite:///{directory / 'server.db'}", seconds, rounds, step)
    try:
        find()
    except NoPostgres:
        return rows
    with PostgresServer({"max_connections": "50"}) as server:
        url = server.dsn()
        holdkit.migrate(url)
        return rows + measure("postgres", url, seconds, rounds, step)
