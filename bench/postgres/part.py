"""The runs: all sides of a scenario in turn on fresh copies of one database; who goes first changes with every round."""

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

from ..by_hand_postgres import LimitRun, expect_sound, limit, tally
from ..rows import BenchFailed
from .callers import Calls, run_tasks, run_threads
from .crew import Crew
from .scenarios import Length, Scenario, Shift, pool_names
from .sides import CONNECTIONS, SIDES, Side, expect_whole, open_tasks, open_threads, template

# Memory for all of the rows, and no checkpoint in the middle of a run; durable as ever.
SETTINGS: Final = {
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}
LIMIT_BATCHES: Final = {1: 1_000, 8: 400, 32: 200, 256: 60}


class PostgresRun(Struct, frozen=True):
    """One side, one round."""

    scenario: str
    side: Side
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
    """All that came out."""

    version: str
    sides: tuple[Side, ...]
    runs: list[PostgresRun]
    limits: list[LimitRun]


def slower(sync: float) -> dict[str, str]:
    """Settings under which every sync of the log takes so many milliseconds longer, as on a disk in a cloud or with a standby
    in the next building: the server sleeps before it syncs, with the same lock in its hand."""
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
    """Everything, on a server of its own whose data is on the disk of `directory`."""
    runs: list[PostgresRun] = []
    with PostgresServer(SETTINGS | slower(sync), within=directory) as server, Crew() as crew:
        sides = SIDES
        with closing(server.connect()) as connection:
            row = connection.execute("show server_version").fetchone()
        limits = limit_runs(server, rounds, step)
        for scenario in wanted:
            for turn in range(rounds):
                first = turn % len(sides)
                for side in (*sides[first:], *sides[:first]):
                    runs.append(run(server, crew, scenario, side, length, connections))
                    step(scenario.name)
    return Measured(str(row[0]) if row else "", sides, runs, limits)


def run(
    server: ServerAddress, crew: Crew, scenario: Scenario, side: Side, length: Length, connections: int = CONNECTIONS
) -> PostgresRun:
    """One side on a fresh database, checked."""
    dsn = server.create_database("run", template(server, side, scenario.pools))
    with closing(server.connect()) as connection:
        connection.execute("checkpoint")  # what the copy has left to write is not for the run to pay
    if scenario.kind == "processes":
        crew.open(scenario, side, dsn, max(1, connections // 2))
        shift = starting(scenario, length)
        calls = crew.run(shift)
    elif scenario.kind == "threads":
        with closing(open_threads(side, dsn, scenario.callers, connections)) as store:
            shift = starting(scenario, length)
            calls = run_threads(store, scenario.callers, pool_names(scenario.pools), shift, "caller")
    else:
        shift, calls = asyncio.run(as_tasks(scenario, side, dsn, length, connections))
    expect_whole(side, dsn, len(calls.done))
    server.drop_database("run")
    return summary(scenario, side, shift, calls)


async def as_tasks(scenario: Scenario, side: Side, dsn: str, length: Length, connections: int) -> tuple[Shift, Calls]:
    """On an event loop."""
    store = await open_tasks(side, dsn, scenario.callers, connections)
    try:
        shift = starting(scenario, length)
        return shift, await run_tasks(store, scenario.callers, pool_names(scenario.pools), shift, "caller")
    finally:
        await store.aclose()


def starting(scenario: Scenario, length: Length) -> Shift:
    """A moment from now, so that the last caller is there when the first begins."""
    begin = perf_counter() + 0.02 + 0.0003 * scenario.callers
    return Shift(begin, begin + length.warm_up, begin + length.warm_up + length.measured)


def summary(scenario: Scenario, side: Side, shift: Shift, calls: Calls) -> PostgresRun:
    """Of the calls that were done within the time that counts."""
    taken = [took for end, took in calls.done if shift.counted_from <= end < shift.until]
    if len(taken) < 2:
        raise BenchFailed(f"{side}, {scenario.name}: {len(taken)} holds in the whole run")
    cuts = quantiles(taken, n=100)
    seconds = shift.until - shift.counted_from
    return PostgresRun(scenario.name, side, len(taken), seconds, cuts[49], cuts[98], calls.gave_up)


def limit_runs(server: ServerAddress, rounds: int, step: Callable[[str], None]) -> list[LimitRun]:
    """What the server can take, at each size of batch."""
    runs: list[LimitRun] = []
    for _ in range(rounds):
        for batch, batches in LIMIT_BATCHES.items():
            dsn = server.create_database("run", template(server, "one statement", 1))
            runs.append(limit(dsn, pool_names(1)[0], batch, batches))
            expect_sound("limit", tally(dsn), batch * batches)
            server.drop_database("run")
            step(f"limit, batches of {batch}")
    return runs
