"""The runs: all variants of a scenario alternate on fresh copies of one database; the order changes with every round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Final

from msgspec import Struct

from holdkit.testing.postgres import PostgresServer, ServerAddress

from ..by_hand_postgres import LimitRun, count_rows, expect_sound, limit
from ..rows import BenchFailed
from .callers import Calls, run_tasks, run_threads
from .scenarios import Interval, Length, Scenario, pool_names
from .stores import CONNECTIONS, VARIANTS, Variant, expect_whole, open_tasks, open_threads, template
from .worker_processes import WorkerProcesses

# Memory for all of the rows, and no checkpoint in the middle of a run; fully durable.
SETTINGS: Final = {
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}
LIMIT_BATCHES: Final = {1: 1_000, 8: 400, 32: 200, 256: 60}


class PostgresRun(Struct, frozen=True):
    """One variant, one round."""

    scenario: str
    variant: Variant
    holds: int
    """Granted within the time that counts."""
    seconds: float
    p50: float
    p99: float
    gave_up: int

    @property
    def per_second(self) -> float:
        """Holds per second."""
        return self.holds / self.seconds


class Measured(Struct, frozen=True):
    """All results."""

    version: str
    variants: tuple[Variant, ...]
    runs: list[PostgresRun]
    limits: list[LimitRun]


def slower(sync: float) -> dict[str, str]:
    """Settings under which every sync of the log takes that many milliseconds longer, as on a cloud disk or with a standby
    in the next building: the server sleeps before it syncs, while it keeps the same lock."""
    return {"commit_delay": str(round(1_000 * sync)), "commit_siblings": "0"} if sync else {}


def measure(
    directory: Path,
    wanted: list[Scenario],
    rounds: int,
    length: Length,
    step: Callable[[str], None],
    sync: float = 0,
    connections: int = CONNECTIONS,
) -> Measured:
    """Run everything, on a separate server whose data is on the disk of `directory`."""
    runs: list[PostgresRun] = []
    with PostgresServer(SETTINGS | slower(sync), within=directory) as server, WorkerProcesses() as workers:
        variants = VARIANTS
        with closing(server.connect()) as connection:
            row = connection.execute("show server_version").fetchone()
        limits = limit_runs(server, rounds, step)
        for scenario in wanted:
            for turn in range(rounds):
                first = turn % len(variants)
                for variant in (*variants[first:], *variants[:first]):
                    runs.append(run(server, workers, scenario, variant, length, connections))
                    step(scenario.name)
    return Measured(str(row[0]) if row else "", variants, runs, limits)


def run(
    server: ServerAddress,
    workers: WorkerProcesses,
    scenario: Scenario,
    variant: Variant,
    length: Length,
    connections: int = CONNECTIONS,
) -> PostgresRun:
    """Run one variant on a fresh database, and check it."""
    dsn = server.create_database("run", template(server, variant, scenario.pools))
    with closing(server.connect()) as connection:
        connection.execute("checkpoint")  # the run must not pay for writes that the copy has left
    if scenario.kind == "processes":
        workers.open(scenario, variant, dsn, max(1, connections // 2))
        interval = starting(scenario, length)
        calls = workers.run(interval)
    elif scenario.kind == "threads":
        with closing(open_threads(variant, dsn, scenario.callers, connections)) as store:
            interval = starting(scenario, length)
            calls = run_threads(store, scenario.callers, pool_names(scenario.pools), interval, "caller")
    else:
        interval, calls = asyncio.run(as_tasks(scenario, variant, dsn, length, connections))
    expect_whole(variant, dsn, len(calls.done))
    server.drop_database("run")
    return summary(scenario, variant, interval, calls)


async def as_tasks(
    scenario: Scenario, variant: Variant, dsn: str, length: Length, connections: int
) -> tuple[Interval, Calls]:
    """On an event loop."""
    store = await open_tasks(variant, dsn, scenario.callers, connections)
    try:
        interval = starting(scenario, length)
        return interval, await run_tasks(store, scenario.callers, pool_names(scenario.pools), interval, "caller")
    finally:
        await store.aclose()


def starting(scenario: Scenario, length: Length) -> Interval:
    """A moment from now, so that the last caller is ready when the first begins."""
    begin = perf_counter() + 0.02 + 0.0003 * scenario.callers
    return Interval(begin, begin + length.warm_up, begin + length.warm_up + length.measured)


def summary(scenario: Scenario, variant: Variant, interval: Interval, calls: Calls) -> PostgresRun:
    """The result of the calls that ended within the measured time."""
    taken = [took for end, took in calls.done if interval.counted_from <= end < interval.until]
    if len(taken) < 2:
        raise BenchFailed(f"{variant}, {scenario.name}: {len(taken)} holds in the whole run")
    cuts = quantiles(taken, n=100)
    seconds = interval.until - interval.counted_from
    return PostgresRun(scenario.name, variant, len(taken), seconds, cuts[49], cuts[98], calls.gave_up)


def limit_runs(server: ServerAddress, rounds: int, step: Callable[[str], None]) -> list[LimitRun]:
    """The limit of the server, at each batch size."""
    runs: list[LimitRun] = []
    for _ in range(rounds):
        for batch, batches in LIMIT_BATCHES.items():
            dsn = server.create_database("run", template(server, "one statement", 1))
            runs.append(limit(dsn, pool_names(1)[0], batch, batches))
            expect_sound("limit", count_rows(dsn), batch * batches)
            server.drop_database("run")
            step(f"limit, batches of {batch}")
    return runs
