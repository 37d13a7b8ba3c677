"""The server over HTTP: hold and confirm with 1, 32 and 256 connections, and batches of 100; beside another revision of the
project, if one is named.

The servers, a bare echo and the load are separate processes. A lifecycle is a hold and its confirm: two requests, two
commits. The echo takes the same bodies and gives them back: what it reaches is what HTTP alone costs on this machine. The
holds of a batch are one request with an `Idempotency-Key`, and so are its confirms. `driver.py` makes the load of each revision
with that revision's `lifecycle` and `batch`, so the fields of a body may be renamed between the two.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, Self

import msgspec
from msgspec import Struct, structs

from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.binaries import NoPostgres, find

from ..figures import Figure, compared
from ..revision import ROOT, THIS, Process, Revision, commit_of, extract
from ..rows import BenchFailed
from .processes import POOLS
from .wire import Wire

CONNECTIONS: Final = (1, 32, 256)
BATCH: Final = 100
BATCHING: Final = 4
"""Connections that send batches."""
LIFECYCLE: Final = "lifecycle"
BATCHES: Final = "batches"
ECHO: Final = "echo"
UNIT: Final = "holds/s"
GOALS: Final = {"b5ea8640": (2.0, 1.0)}
"""By the first characters of a commit: how many times its rate this revision is to reach on SQLite, in lifecycles of 32
connections and in batches."""


class Row(Struct, frozen=True):
    """One line of the table."""

    engine: str
    variant: str
    """The revision, or the echo."""
    what: str
    connections: int
    per_second: float
    """Lifecycles, or for batches holds."""
    p50: float
    p99: float
    cpu: float | None = None
    """Seconds of the server's CPU time per lifecycle."""


class Placed(Struct):
    """What the load needs of the answer to a hold."""

    id: str
    token: str


_placed: Final = msgspec.json.Decoder(Placed)


async def lifecycle(wire: Wire, name: int, number: int) -> None:
    """Hold, then confirm."""
    body = b'{"pool":"pool:%d","quantity":1,"ttl":60}' % (name % POOLS)
    placed = _placed.decode(await wire.post("/v1/holds", body, f"hold-{wire.name}-{number}"))
    confirm = b'{"token":"%b","entity":"order:%d"}' % (placed.token.encode(), number)
    await wire.post(f"/v1/holds/{placed.id}/confirm", confirm, f"confirm-{placed.id}")


async def echo(wire: Wire, name: int, number: int) -> None:
    """The same bodies, to the echo."""
    body = b'{"id":"","token":"","pool":"pool:%d","quantity":1,"ttl":60}' % (name % POOLS)
    _placed.decode(await wire.post("/echo", body, "hold"))
    await wire.post("/echo", b'{"token":"%b","entity":"order:%d"}' % (b"0" * 32, number), "confirm")


async def batch(wire: Wire, name: int, number: int) -> None:
    """A hundred holds, then their confirms."""
    holds = [{"type": "hold", "pool": f"pool:{name % POOLS}", "ttl": 60}] * BATCH
    retry_key = f"{wire.name}-{number}"
    told = json.loads(await wire.post("/v1/batch", json.dumps({"commands": holds}).encode(), f"holds-{retry_key}"))
    confirms = [{"type": "confirm", "id": one["hold"]["id"], "token": one["hold"]["token"]} for one in told["answers"]]
    body = json.dumps({"commands": confirms}).encode()
    done = json.loads(await wire.post("/v1/batch", body, f"confirms-{retry_key}"))
    if any(one["status"] != "done" for one in done["answers"]):
        raise BenchFailed("a confirm of a batch was refused")


class Loaded(Struct):
    """What a driver reports: turns per second, and the seconds of each in order; or why there are none."""

    per_second: float
    times: list[float]
    error: str = ""


class Driver:
    """The process that makes the load of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._name = revision.name
        command = [revision.python, "-P", str(ROOT / "bench" / "server" / "driver.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=revision.env(), cwd=revision.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def load(
        self, turn: str, port: int, keys: list[str], connections: int, seconds: float
    ) -> tuple[float, list[float]]:
        """Repeat a lifecycle, an echo or a batch on every connection until the time is over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"turn": turn, "port": port, "keys": keys, "connections": connections, "seconds": seconds}
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise BenchFailed(f"the load of {self._name} has ended")
        loaded = msgspec.json.decode(answer, type=Loaded)
        if loaded.error:
            raise BenchFailed(f"the load of {self._name} failed: {loaded.error}")
        return loaded.per_second, loaded.times


class Side:
    """One server under load."""

    def __init__(self, engine: str, variant: str, process: Process, keys: list[str], driver: Driver) -> None:
        self.engine, self.variant, self.process, self.keys, self.driver = engine, variant, process, keys, driver

    def run(self, connections: int, seconds: float, *, batches: bool = False) -> Row:
        """Put it under load for so long."""
        before = self.process.cpu()
        turn = BATCHES if batches else ECHO if self.variant == ECHO else LIFECYCLE
        rate, took = self.driver.load(turn, self.process.port, self.keys, connections, seconds)
        after = self.process.cpu()
        cpu = None if before is None or after is None else (after - before) / len(took)
        what, times = (BATCHES, BATCH) if batches else (LIFECYCLE, 1)
        p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
        return Row(self.engine, self.variant, what, connections, rate * times, p50, p99, cpu)


def measure(
    engine: str,
    urls: dict[Revision, str],
    seconds: float,
    rounds: int,
    step: Callable[[str], None],
    connections: Iterable[int] = CONNECTIONS,
) -> list[Row]:
    """The revisions and the echo, alternating; the order changes with every round. Each revision has a database of its own."""
    rows: list[Row] = []
    with ExitStack() as stack:
        drivers = {revision.name: stack.enter_context(Driver(revision)) for revision in urls}
        sides = [Side(engine, ECHO, stack.enter_context(THIS.process("echo")), [""], drivers[THIS.name])]
        for revision, url in urls.items():
            keys = revision.prepare(url, BATCHING)
            process = stack.enter_context(revision.process("holdkit", url))
            sides.append(Side(engine, revision.name, process, keys, drivers[revision.name]))
        ours = next(side for side in sides if side.variant == THIS.name)
        for number in range(rounds):
            for many in connections:
                for side in sides if number % 2 else reversed(sides):
                    step(f"{engine}, {side.variant}, {many} connections")
                    rows.append(side.run(many, seconds))
            rows.append(ours.run(BATCHING, seconds))
            for side in sides[1:] if number % 2 else reversed(sides[1:]):
                step(f"{engine}, {side.variant}, batches")
                rows.append(side.run(BATCHING, seconds, batches=True))
    for revision, url in urls.items():
        revision.verify(url)
    return rows


def figures(rows: list[Row], against: str | None = None) -> list[Figure]:
    """Lifecycles and batches, compared with the other revision if there is one; and batches compared with single calls."""
    engine = rows[0].engine
    goal, batch_goal = (None, None) if against is None or engine != "sqlite" else _goals(against)
    found: list[Figure] = []
    for connections in sorted({one.connections for one in rows if one.variant == ECHO}):
        name = f"{engine}, hold and confirm, {connections} connections"
        found.append(_figure(rows, name, LIFECYCLE, connections, against, goal if connections == 32 else None))
        bare = median(_rates(rows, ECHO, LIFECYCLE, connections))
        found.append(Figure("server", f"{engine}, a bare echo, {connections} connections", UNIT, None, bare))
    name = f"{engine}, batches of {BATCH} from {BATCHING} connections"
    if against is not None:
        found.append(_figure(rows, name, BATCHES, BATCHING, against, batch_goal))
    single, batched = (_rates(rows, THIS.name, what, BATCHING) for what in (LIFECYCLE, BATCHES))
    return [*found, compared("server", f"{name}, compared with single calls", UNIT, single, batched)]


def _figure(rows: list[Row], name: str, what: str, connections: int, against: str | None, goal: float | None) -> Figure:
    ours = _of(rows, THIS.name, what, connections)
    rates = [one.per_second for one in ours]
    note = f"p50 {1e3 * median(one.p50 for one in ours):.1f} ms, p99 {1e3 * median(one.p99 for one in ours):.1f} ms"
    if against is None:
        return Figure("server", name, UNIT, None, median(rates), note=note)
    other = _of(rows, against, what, connections)
    before = [one.per_second for one in other]
    note += _cpu(other, ours)
    figure = compared("server", f"{name}, beside {against}", UNIT, before, rates, at_least=goal, note=note)
    # Both sides of a round ran under about the same load; a ratio of medians compares rounds of different load.
    return structs.replace(figure, ratio=median(figure.ratios), against=against)


def _of(rows: list[Row], variant: str, what: str, connections: int) -> list[Row]:
    return [one for one in rows if (one.variant, one.what, one.connections) == (variant, what, connections)]


def _rates(rows: list[Row], variant: str, what: str, connections: int) -> list[float]:
    return [one.per_second for one in _of(rows, variant, what, connections)]


def _goals(revision: str) -> tuple[float, float] | tuple[None, None]:
    commit = commit_of(revision)
    return next((goals for start, goals in GOALS.items() if commit.startswith(start)), (None, None))


def _cpu(other: list[Row], ours: list[Row]) -> str:
    """The ratio of the servers' CPU time per lifecycle: on a busy machine it says more than the rates."""
    ratios = [mine.cpu / before.cpu for before, mine in zip(other, ours, strict=True) if mine.cpu and before.cpu]
    return f", CPU {median(ratios):.2f} × ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""


def run(directory: Path, seconds: float, rounds: int, step: Callable[[str], None], against: str | None) -> list[Row]:
    """On SQLite, and on PostgreSQL if its binaries are installed."""
    revisions = [THIS] if against is None else [extract(against, directory / "revision"), THIS]
    urls = {one: f"sqlite:///{directory / f'server-{number}.db'}" for number, one in enumerate(revisions)}
    rows = measure("sqlite", urls, seconds, rounds, step)
    try:
        find()
    except NoPostgres:
        return rows
    with PostgresServer({"max_connections": "100"}) as server:
        urls = {one: server.create_database(f"server_{number}") for number, one in enumerate(revisions)}
        return rows + measure("postgres", urls, seconds, rounds, step)
