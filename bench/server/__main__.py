"""`python -m bench.server`: lifecycles over HTTP with 1, 32 and 256 connections, and batches of 100, beside a bare echo.

The server, the echo and the load are processes of their own. A lifecycle is a hold and its confirm: two requests, two
commits. The echo takes the same bodies and gives them back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

import holdkit
from holdkit.server import Keys

from ..rows import BenchFailed
from .wire import Wire, load

CONNECTIONS = (1, 32, 256)
BATCH = 100
POOLS = 8


class Row(Struct, frozen=True):
    """One line of the table."""

    side: str
    what: str
    connections: int
    per_second: float
    """Lifecycles, or for batches holds."""
    p50: float
    p99: float


@contextmanager
def process(*arguments: str) -> Iterator[int]:
    """A server of its own process; gives its port."""
    command = [sys.executable, "-m", "bench.server.sides", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        try:
            if not said.strip().isdigit():
                raise BenchFailed(f"a side did not start: {said!r}")
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
    """The same bodies, for nothing."""
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


def row(side: str, what: str, connections: int, measured: tuple[float, list[float]], times: int = 1) -> Row:
    """With the middle and the slow end."""
    rate, took = measured
    return Row(side, what, connections, rate * times, took[len(took) // 2], took[int(len(took) * 0.99)])


def measure(side: str, url: str, seconds: float) -> list[Row]:
    """One engine beside the echo, in turns."""
    rows: list[Row] = []
    key = prepare(url)
    with process("holdkit", url) as port, process("echo") as bare:
        for connections in CONNECTIONS:
            rows.append(row("echo", "lifecycle", connections, asyncio.run(load(bare, key, connections, seconds, echo))))
            ours = asyncio.run(load(port, key, connections, seconds, lifecycle))
            rows.append(row(side, "lifecycle", connections, ours))
        rows.append(row(side, f"batches of {BATCH}", 4, asyncio.run(load(port, key, 4, seconds, batch)), BATCH))
    with holdkit.connect(url) as hk:
        if not hk.verify().ok:
            raise BenchFailed("the journal disagrees with the rows")
    return rows


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--engine", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument(
        "--directory", type=Path, help="where files go; must be on a disk for the figures to mean anything"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        if options.engine in ("sqlite", "both"):
            rows += measure("sqlite", f"sqlite:///{place / 'holds.db'}", options.seconds)
        if options.engine in ("postgres", "both"):
            from holdkit.testing.postgres import PostgresServer

            server = stack.enter_context(PostgresServer({"max_connections": "50"}))
            url = server.dsn()
            holdkit.migrate(url)
            rows += measure("postgres", url, options.seconds)
    show(rows)
    return 0


def show(rows: list[Row]) -> None:
    """And each beside its echo."""
    bare = {one.connections: one.per_second for one in rows if one.side == "echo"}
    for one in rows:
        beside = (
            f"{one.per_second / bare[one.connections]:6.0%}" if one.what == "lifecycle" and one.side != "echo" else ""
        )
        print(
            f"{one.side:9} {one.what:15} {one.connections:4} connections {one.per_second:9.0f}/s {beside:6} "
            f"p50 {one.p50 * 1e3:7.2f} ms  p99 {one.p99 * 1e3:7.2f} ms"
        )


if __name__ == "__main__":
    sys.exit(main())
