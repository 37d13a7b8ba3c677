"""``python -m bench.blocking``: processes that contend for a few slots, blocked in line or polling; and holds below one parent.

*Hand-over*: how long after a release the next holder has the slot. Releases and grants of all processes are put in order (the
monotonic clock is the same for all of them), and each grant is paired with the earliest release that nobody has taken yet. A process
that polls and has just released asks again at once, before any other: such a slot is not handed over, but kept, and makes the figure
look short. So hand-overs to *another* process are shown beside all of them, and how many percent were *kept*. *Idle*: the processor time
of one waiting process while nothing is released. *Longest turn*: the longest wait of a process between two grants, beside the median
one. The first two turns of each process are left out: the first waits until all are there, and in the second 64 connections plan their
statements for the first time. *Processor time*: of all processes together, for each turn. Processes that are done stay until all are.

*Tree*: callers that hold and release, each on a pool of its own below one parent, beside the same on pools without a parent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import msgspec
from msgspec import Struct

import holdkit
from holdkit.testing.postgres import PostgresServer

from .rows import BenchFailed

POLL: Final = 0.05
"""Seconds between two attempts of a process that polls."""
WORK: Final = 0.005
"""Seconds for which a process keeps its slot."""
WARM_UP: Final = 2
"""Turns of each process that do not count as waits."""
IDLE: Final = 3.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Turn(Struct, frozen=True):
    """One slot of one process, by the monotonic clock."""

    asked: float
    granted: float
    released: float


class Contended(Struct, frozen=True):
    """What came of one way to wait. Times in milliseconds."""

    store: str
    way: str
    turns: int
    handover_p50: float
    handover_p99: float
    another_p50: float
    another_p99: float
    kept: float
    """Percent of the grants that went to the process that had just released."""
    cpu: float
    idle_cpu: float
    """Percent of a core, of one process."""
    median_turn: float
    longest_turn: float


def contend(url: str, store: str, way: str, processes: int, slots: int, seconds: float) -> Contended:
    """Let processes contend for the slots of one pool."""
    pool = f"gpu-{way}"
    with holdkit.connect(url) as hk:
        hk.create_pool(pool, slots)
        taken = hk.hold(pool, slots, ttl="10m")
        command = [sys.executable, "-m", "bench.blocking", "worker", url, pool, way, str(seconds)]
        workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        for worker in workers:
            _line(worker)
        if way == "blocking":
            while hk.pool(pool).waiting < processes:
                time.sleep(POLL)
        before = [_processor_time(worker.pid) for worker in workers]
        time.sleep(IDLE)
        used = [_processor_time(worker.pid) - one for worker, one in zip(workers, before, strict=True)]
        hk.release(taken)
        begun = [_processor_time(worker.pid) for worker in workers]
        told = [msgspec.json.decode(_line(worker), type=list[Turn]) for worker in workers]
        spent = sum(_processor_time(worker.pid) - one for worker, one in zip(workers, begun, strict=True))
        for worker in workers:
            worker.communicate(timeout=60)
        if hk.pool(pool).available != slots or not hk.admin.verify().ok:
            raise BenchFailed(f"{pool}: not every slot came back")
    turns = [turn for one in told for turn in one[WARM_UP:]]
    if not turns:
        raise BenchFailed(f"{pool}: no process had more than {WARM_UP} turns: measure for longer")
    waits = [(turn.granted - turn.asked) * 1_000 for turn in turns]
    handovers = [*_handovers(told)]
    every, another = [ms for ms, _ in handovers], [ms for ms, kept in handovers if not kept]
    return Contended(
        store,
        way,
        len(turns),
        *_p50_and_p99(every),
        *_p50_and_p99(another),
        kept=(1 - len(another) / len(every)) * 100,
        cpu=spent / len(every) * 1_000,
        idle_cpu=median(used) / IDLE * 100,
        median_turn=median(waits),
        longest_turn=max(waits),
    )


def _p50_and_p99(times: list[float]) -> tuple[float, float]:
    return (median(times), quantiles(times, n=100)[98]) if len(times) > 1 else (0.0, 0.0)


def _handovers(told: list[list[Turn]]) -> Iterator[tuple[float, bool]]:
    """Milliseconds between a release and the grant that follows it, while somebody waits; and whether both are of one process."""
    releases = sorted((turn.released, process) for process, turns in enumerate(told) for turn in turns)
    grants = sorted((turn.granted, process) for process, turns in enumerate(told) for turn in turns)
    free = 0
    for granted, process in grants:
        if free < len(releases) and releases[free][0] <= granted:
            yield (granted - releases[free][0]) * 1_000, releases[free][1] == process
            free += 1


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def _processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def work(url: str, pool: str, way: str, seconds: float) -> None:
    """One process: take a slot, keep it a moment, release it, again."""
    turns: list[Turn] = []
    with holdkit.connect(url) as hk:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        until = float("inf")
        while time.monotonic() < until:
            asked = time.monotonic()
            hold = hk.hold(pool, 1, ttl="1m", wait="5m") if way == "blocking" else _polled(hk, pool)
            granted = time.monotonic()
            until = min(until, granted + seconds)
            time.sleep(WORK)
            released = time.monotonic()
            hk.release(hold)
            turns.append(Turn(asked, granted, released))
        sys.stdout.write(msgspec.json.encode(turns).decode() + "\n")
        sys.stdout.flush()
        sys.stdin.readline()


def _polled(hk: holdkit.Kernel, pool: str) -> holdkit.Hold:
    while True:
        try:
            return hk.hold(pool, 1, ttl="1m")
        except holdkit.InsufficientCapacity:
            time.sleep(POLL)


def below_one_parent(url: str, callers: int, seconds: float) -> dict[str, float]:
    """Holds and releases per second of so many threads, each on its own pool: below one parent, and without."""
    with holdkit.connect(url) as hk:
        hk.create_pool("house", callers * 10)
        for number in range(callers):
            hk.create_pool(f"house//{number}", 10)
            hk.create_pool(f"flat-{number}", 10)
        return {
            name: _rate(hk, [f"{prefix}{number}" for number in range(callers)], seconds)
            for name, prefix in (("flat", "flat-"), ("below one parent", "house//"))
        }


def _rate(hk: holdkit.Kernel, pools: list[str], seconds: float) -> float:
    until, done = time.monotonic() + seconds, [0] * len(pools)

    def run(at: int) -> None:
        while time.monotonic() < until:
            hk.release(hk.hold(pools[at], 1, ttl="1m"))
            done[at] += 1

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(pools))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


@contextmanager
def stores(directory: Path, *, postgres: bool) -> Iterator[dict[str, str]]:
    """URLs by name."""
    found = {"SQLite": f"sqlite:///{directory}/holds.db"}
    if not postgres:
        yield found
        return
    with PostgresServer({"max_connections": "300"}, within=directory) as server:
        url = server.create_database("blocking")
        holdkit.migrate(url)
        yield {**found, "PostgreSQL": url}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    if arguments[:1] == ["worker"]:
        url, pool, way, seconds = arguments[1:]
        work(url, pool, way, float(seconds))
        return
    parser = argparse.ArgumentParser(prog="bench.blocking", description=__doc__)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--sqlite-only", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        directory.chmod(0o755)  # if we are root, the server runs as another user
        with stores(directory, postgres=not options.sqlite_only) as urls:
            for name, url in urls.items():
                for way in ("blocking", "polling"):
                    print(contend(url, name, way, options.processes, options.slots, options.seconds), flush=True)
                print(name, below_one_parent(url, options.processes, options.seconds / 2), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
