"""Measures the service times of the model, and the rates that it is compared with, in the same rounds.

``python -m bench.postgres.services DSN`` is a neighbour: it writes batches, one after the other, until it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

from msgspec import Struct, structs
from rich.console import Console
from rich.table import Table

import holdkit
from holdkit.core.codec import minted_id
from holdkit.core.commands import CreatePool, Group, PlaceHold
from holdkit.core.lanes import in_lane, lane_of_pool
from holdkit.core.model import SECOND, Leg
from holdkit.engines.postgres import PostgresEngine
from holdkit.testing.postgres import PostgresServer

from ..disk import sync_time
from ..figures import RATE, Figure
from ..model import CALIBRATED, GATHERED, SCENARIOS, WITHIN, Prediction, Sample, Service, cluster, compare, service_of
from ..rows import BenchFailed
from ..usage import tree_cpu_time
from .runs import SETTINGS, PostgresRun, Runner, processes_of, slower
from .scenarios import TOTAL, Length

POOL: Final = "hot"
SIZES: Final = {1: 200, 4: 100, 16: 60, 64: 30, 128: 20, 256: 10}
"""Batches of each size in one round."""
BESIDE: Final = 16
"""Holds in each batch beside neighbours."""
LANES: Final = 1_024
WANTED: Final = (100_000.0, 1_000_000.0)
"""Rates to size a cluster for."""


class Modelled(Struct, frozen=True):
    """All results."""

    service: Service
    samples: list[Sample]
    runs: list[PostgresRun]
    predictions: list[Prediction]


def measure(directory: Path, rounds: int, length: Length, step: Callable[[str], None], sync: float = 0) -> Modelled:
    """Service times and runs, in turn; then the model."""
    samples: list[Sample] = []
    crowded: list[float] = []
    runs: list[PostgresRun] = []
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(SETTINGS | slower(sync), within=directory))
        runner = stack.enter_context(Runner(server, processes_of(None, stack)))
        postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
        for turn in range(rounds):
            step("service times")
            dsn = server.create_database(f"service_{turn}")
            samples += sampled(dsn, postmaster)
            crowded.append(crowding(server, dsn, f"neighbour_{turn}"))
            for scenario in SCENARIOS:
                step(scenario.name)
                runs.append(runner.run(scenario, "ours", length))
    commit = sync_time(directory).median + sync / 1_000
    calls = {
        kind: [per_batch([run for run in runs if run.scenario == one.name]) for one in few_and_many]
        for kind, few_and_many in CALIBRATED.items()
    }
    guarded = median(one.guarded for one in runs if one.scenario == CALIBRATED["threads"][1].name)
    service = service_of(medians(samples), commit, calls, os.cpu_count() or 1, 1.0 - guarded)
    service = structs.replace(service, whole_threads=GATHERED, crowded=median(crowded))
    measured = {scenario: [one.per_second for one in runs if one.scenario == scenario.name] for scenario in SCENARIOS}
    return Modelled(service, samples, runs, compare(service, measured))


@contextmanager
def warm_engine(dsn: str) -> Iterator[PostgresEngine]:
    """An engine on a migrated database, with its pool, after its first batch."""
    holdkit.migrate(dsn)
    engine = PostgresEngine(dsn)
    try:
        engine.apply([Group((CreatePool(id=POOL, total=TOTAL),))])
        engine.apply(groups(engine, 10))
        yield engine
    finally:
        engine.close()


def sampled(dsn: str, postmaster: int) -> list[Sample]:
    """Each size, one batch after the other."""
    with warm_engine(dsn) as engine:
        return [sample(engine, size, batches, postmaster) for size, batches in SIZES.items()]


def crowding(server: PostgresServer, dsn: str, name: str) -> float:
    """The processor time of a batch beside a neighbour for each processor, relative to that alone: before and after them."""
    with warm_engine(dsn) as engine, ExitStack() as neighbours:
        alone = [batch_cpu(engine)]
        for one in range(os.cpu_count() or 1):
            neighbours.enter_context(neighbour(server.create_database(f"{name}_{one}")))
        beside = batch_cpu(engine)
        neighbours.close()
        alone.append(batch_cpu(engine))
    return max(1.0, 2 * beside / sum(alone))


def batch_cpu(engine: PostgresEngine) -> float:
    """Seconds of this process for one batch."""
    cpus = []
    for batch in [groups(engine, BESIDE) for _ in range(SIZES[BESIDE])]:
        begin = process_time()
        engine.apply(batch)
        cpus.append(process_time() - begin)
    return median(cpus)


@contextmanager
def neighbour(dsn: str) -> Iterator[None]:
    """A process that writes to a database of its own all the time."""
    command = [sys.executable, "-m", "bench.postgres.services", dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise BenchFailed("a neighbour of the measured batches did not start")
        try:
            yield
        finally:
            process.kill()


def write_for_ever(dsn: str) -> None:
    """What a neighbour does."""
    with warm_engine(dsn) as engine:
        print("ready", flush=True)
        while True:
            engine.apply(groups(engine, BESIDE))


def sample(engine: PostgresEngine, size: int, batches: int, postmaster: int) -> Sample:
    """Seconds per batch of one size."""
    ready = [groups(engine, size) for _ in range(batches)]
    walls, cpus = [], []
    server = tree_cpu_time(postmaster)
    for batch in ready:
        cpu, begin = process_time(), perf_counter()
        engine.apply(batch)
        walls.append(perf_counter() - begin)
        cpus.append(process_time() - cpu)
    return Sample(size, median(walls), median(cpus), (tree_cpu_time(postmaster) - server) / batches)


def groups(engine: PostgresEngine, count: int) -> list[Group]:
    """Holds as a kernel would prepare them."""
    lane = lane_of_pool(("", POOL), engine.lanes)
    made = []
    for _ in range(count):
        id = in_lane(minted_id(engine.clock(), os.urandom(10)), lane, engine.lanes)
        command = PlaceHold(id=id, token=id, legs=(Leg(POOL),), ttl_slots=300 * SECOND, op=id, fingerprint=id)
        made.append(Group((command,)))
    return made


def medians(samples: list[Sample]) -> list[Sample]:
    """Of the rounds, for each size."""
    found = []
    for size in dict.fromkeys(one.size for one in samples):
        of_size = [(one.wall, one.cpu, one.server_cpu) for one in samples if one.size == size]
        wall, cpu, server = (median(values) for values in zip(*of_size, strict=True))
        found.append(Sample(size, wall, cpu, server))
    return found


def per_batch(runs: list[PostgresRun]) -> tuple[float, float]:
    """Holds per batch, and processor time per batch."""
    size = median(one.batch for one in runs)
    return size, size * median(one.cpu for one in runs)


def figures(modelled: Modelled) -> list[Figure]:
    """The prediction compared with the measured rate: near 1."""
    return [
        Figure("model", f"the model, {one.scenario}", RATE, one.measured, one.predicted, one.predicted / one.measured,
               at_least=1 - WITHIN, at_most=1 + WITHIN, note=f"{one.batch:.0f} per batch")
        for one in modelled.predictions
    ]  # fmt: skip


def print_service(console: Console, modelled: Modelled) -> None:
    """The service times, in µs, and what they say about a cluster."""
    service = modelled.service
    table = Table(title="service times, µs")
    table.add_column("")
    for heading in ("per batch", "per hold"):
        table.add_column(heading, justify="right")
    for name, batch, hold in (
        ("engine, processor", service.batch, service.hold),
        ("server, elapsed", service.served_batch, service.served_hold),
        ("server, processor", service.server_cpu_batch, service.server_cpu_hold),
        ("commit", service.commit, 0.0),
        *((f"call, {kind}", service.call_batch[kind], cost) for kind, cost in service.call.items()),
    ):
        table.add_row(name, f"{1e6 * batch:.0f}" if batch else "", f"{1e6 * hold:.1f}" if hold else "")
    console.print(table)
    console.print(f"while all processors are busy, a batch takes {service.crowded:.2f} times the processor time")
    wal = median(one.wal for one in modelled.runs if one.scenario == CALIBRATED["tasks"][1].name)
    for wanted in WANTED:
        found = cluster(service, wanted, LANES, wal)
        console.print(
            f"{wanted:,.0f} holds/s over {LANES:,} lanes on Citus: {found.processes:,.0f} processes on {found.process_cores:,.0f} "
            f"processors, {found.worker_cores:,.0f} processors of workers, transactions of {found.size:.0f} holds, "
            f"{found.commits:,.0f} commits/s, {found.wal / 2**20:,.0f} MiB/s of WAL"
        )


if __name__ == "__main__":
    write_for_ever(sys.argv[1])
