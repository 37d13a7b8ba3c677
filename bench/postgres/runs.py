"""One run: one variant of a scenario on a fresh database, measured and checked.

The calls are made by worker processes, also where all callers are in one of them, so that no variant shares its interpreter with
the bench itself. While they run, this process sleeps, and reads at both ends of the time that counts what the workers and
the server have used: CPU time from /proc, bytes of WAL from the server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from statistics import quantiles
from time import perf_counter
from typing import Any, Final, Self

from msgspec import Struct

from holdkit.testing.postgres import PostgresServer

from ..revision import THIS, Revision
from ..rows import BenchFailed
from ..usage import cpu_times, tree_cpu_time
from .callers import Calls
from .scenarios import Interval, Length, Scenario
from .stores import CONNECTIONS, HOLDKIT, REDIS, Variant
from .worker_processes import WorkerProcesses

# Memory for all of the rows, and no checkpoint in the middle of a run; fully durable.
SETTINGS: Final = {
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}
STORED: Final = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')
"""
IN_TIME: Final = 0.9
"""As many calls must be answered in the measured time as are scheduled in it, but for what chance does at both ends."""
LONGER: Final = (1, 4, 16)
"""Times as long, at each attempt."""
WAL: Final = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"


class PostgresRun(Struct, frozen=True):
    """One variant, one round."""

    scenario: str
    variant: Variant
    holds: int
    """Granted within the time that counts: lifecycles, if each is a hold and its confirm."""
    seconds: float
    p50: float
    p99: float
    gave_up: int
    p999: float = 0.0
    batch: float = 0.0
    """Commands per batch."""
    guarded: float = 0.0
    """The share of commands that a guarded batch decided."""
    cpu: float = 0.0
    """Seconds of the callers' processes per hold."""
    server_cpu: float = 0.0
    """Seconds of the database server per hold."""
    wal: float = 0.0
    """Bytes of WAL per hold."""
    stored: float = 0.0
    """Bytes of tables and indexes per hold, with all that was granted in the run."""
    rate: float | None = None
    """Arrivals per second that were scheduled, in an open loop."""
    in_time: bool = True
    """Whether nearly all arrivals were answered by the end of the measured time."""

    @property
    def per_second(self) -> float:
        """Holds per second."""
        return self.holds / self.seconds


class TooFew(BenchFailed):
    """Nothing can be said about a run with one hold or none."""


class Used(Struct, frozen=True):
    """What was used up to some moment."""

    cpu: float
    server_cpu: float
    wal: int


def slower(sync: float) -> dict[str, str]:
    """Settings under which every sync of the log takes that many milliseconds longer, as on a cloud disk or with a standby
    in the next building: the server sleeps before it syncs, while it keeps the same lock."""
    return {"commit_delay": str(round(1_000 * sync)), "commit_siblings": "0"} if sync else {}


class Runner:
    """A server, the worker processes of each revision, and the peer if there is one."""

    def __init__(
        self,
        server: PostgresServer,
        workers: Mapping[Variant, WorkerProcesses],
        connections: int = CONNECTIONS,
        redis: tuple[str, int] | None = None,
    ) -> None:
        """`workers`: those of the variants that are not of this revision; all others are served by those of "ours"."""
        self.server, self._workers, self._connections, self._redis = server, workers, connections, redis
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._admin: Any = self._stack.enter_context(closing(self.server.connect()))
        self._postmaster = int((self.server.data / "postmaster.pid").read_text().split()[0])
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def version(self) -> str:
        """Of the server."""
        return str(self._admin.execute("show server_version").fetchone()[0])

    def run(self, scenario: Scenario, variant: Variant, length: Length, rate: float | None = None) -> PostgresRun:
        """Run one variant on a fresh database, and check it. If nearly nothing was done, a moment of the machine is to blame: try
        for longer, rather than lose all other runs."""
        for longer in LONGER:
            with suppress(TooFew):
                return self._run(scenario, variant, Length(length.warm_up, longer * length.measured), rate)
        raise TooFew(f"{variant}, {scenario.name}: hardly a hold in {LONGER[-1] * length.measured:.0f} seconds")

    def _run(self, scenario: Scenario, variant: Variant, length: Length, rate: float | None) -> PostgresRun:
        workers = self._workers.get(variant) or self._workers["ours"]
        place = self._fresh(scenario, variant, workers)
        connections = self._connections if scenario.processes == 1 else max(1, self._connections // 2)
        before = self._stored(variant)
        workers.open(scenario, variant, place, connections, rate)
        interval = starting(scenario, length)
        workers.start(interval)
        used = [self._used_at(moment, workers, variant) for moment in (interval.counted_from, interval.until)]
        calls = workers.calls()
        stored = (self._stored(variant) - before) / max(1, len(calls.done))
        workers.check(variant, place, len(calls.done), scenario)
        if variant != REDIS:
            self.server.drop_database("run")
        return summary(scenario, variant, interval, calls, used, stored, rate)

    def _fresh(self, scenario: Scenario, variant: Variant, workers: WorkerProcesses) -> str:
        """A copy of the database that all runs of this variant begin with. The hand-written variants share one."""
        if variant == REDIS:
            assert self._redis is not None
            workers.prepare(variant, self._redis[0], scenario.pools)
            return self._redis[0]
        family = "ours" if variant == "ordinary" else variant if variant in HOLDKIT else "by_hand"
        name = f"{family}_{scenario.pools}"
        template = self.server.template(name, lambda dsn: workers.prepare(variant, dsn, scenario.pools))
        place = self.server.create_database("run", template)
        self._admin.execute("checkpoint")  # the run must not pay for writes that the copy has left
        return place

    def _stored(self, variant: Variant) -> int:
        if variant == REDIS:
            return 0
        with closing(self.server.connect("run")) as connection:
            row = connection.execute(STORED.encode()).fetchone()
        return int(row[0]) if row else 0

    def _used_at(self, moment: float, workers: WorkerProcesses, variant: Variant) -> Used:
        time.sleep(max(0.0, moment - perf_counter()))
        server = self._redis[1] if variant == REDIS and self._redis else self._postmaster
        wal = int(self._admin.execute(WAL).fetchone()[0])
        return Used(cpu_times(workers.pids), tree_cpu_time(server), wal)


def processes_of(against: Revision | None, stack: ExitStack) -> dict[Variant, WorkerProcesses]:
    """The worker processes of this revision, and of another one."""
    made: dict[Variant, WorkerProcesses] = {"ours": stack.enter_context(WorkerProcesses(THIS))}
    if against is not None:
        made["before"] = stack.enter_context(WorkerProcesses(against))
    return made


def starting(scenario: Scenario, length: Length) -> Interval:
    """A moment from now, so that the last caller is ready when the first begins."""
    begin = perf_counter() + 0.02 + 0.0003 * scenario.callers
    return Interval(begin, begin + length.warm_up, begin + length.warm_up + length.measured)


def summary(
    scenario: Scenario, variant: Variant, interval: Interval, calls: Calls, used: list[Used], stored: float,
    rate: float | None = None,
) -> PostgresRun:  # fmt: skip
    """The result of the calls that ended within the measured time. In an open loop the latencies are those of all that were
    scheduled in it, also of those that were answered later."""
    ended = [took for end, took in calls.done if interval.counted_from <= end < interval.until]
    taken = ended if rate is None else [took for end, took in calls.done if interval.counted_from <= end - took]
    if len(taken) < 2:
        raise TooFew(f"{variant}, {scenario.name}: {len(taken)} holds in the whole run")
    cuts = quantiles(taken, n=1_000, method="inclusive")  # or few calls would be judged slower than any was
    many, (first, last) = max(1, len(ended)), used
    seconds = interval.until - interval.counted_from
    return PostgresRun(
        scenario.name, variant, len(ended), seconds, cuts[499], cuts[989], calls.gave_up, cuts[998],
        calls.batch, calls.guarded, (last.cpu - first.cpu) / many, (last.server_cpu - first.server_cpu) / many,
        (last.wal - first.wal) / many if variant != REDIS else 0.0, stored, rate,
        in_time=rate is None or len(ended) >= IN_TIME * (len(taken) + calls.gave_up),
    )  # fmt: skip
