"""What the dashboard costs those who never look at it: ``python -m bench.finding_cost``.

*Indexes.* Places and confirms of holds in batches, on two SQLite files: one as Holdkit makes it, one without the indexes that finding
holds needs; in batches of 200, and one after the other. Plain holds have no row in them; holds of accounts have one. *Roll-ups.* Places
and confirms over HTTP, on two servers: one that records statistics every second (ten times as often as by default, so that every round has
some of it), one that does not. Measured are the processor time of the process that does the work, which other programs disturb little, and
the time that passes, with the syncs of the disk. The two alternate, and a ratio is the median of those of each round. 1 if one costs
more than 5 % of the time that passes.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final, NamedTuple
from uuid import uuid4

import httpx

import holdkit
from holdkit import Leg
from holdkit.commands import ConfirmHold, PlaceHold
from holdkit.server import Keys

from .stores import url
from .usage import cpu_time

MOST: Final = 1.05
INDEXES: Final = ("holdkit_holds_account", "holdkit_holds_chosen")
BATCH: Final = 200
POOLS: Final = 8


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.finding_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=10, help="of 200 holds, in each round")
    chosen = parser.parse_args(arguments)
    missed = False
    with tempfile.TemporaryDirectory(prefix="holdkit-bench-") as folder:
        for name, (with_it, without) in _measured(Path(folder), chosen.rounds, chosen.batches):
            rounds = list(zip(with_it, without, strict=True))
            processor = median(one.processor / other.processor for one, other in rounds)
            elapsed = median(one.elapsed / other.elapsed for one, other in rounds)
            missed |= elapsed > MOST
            print(
                f"{name:34} processor {median(one.processor for one in without):7.1f} µs without, × {processor:.3f} with"
                f"   elapsed {median(one.elapsed for one in without):7.1f} µs without, × {elapsed:.3f} with"
            )
    return int(missed)


class Cost(NamedTuple):
    """Of a hold and its confirm, in microseconds."""

    processor: float
    elapsed: float


Pair = tuple[list[Cost], list[Cost]]


def _measured(folder: Path, rounds: int, batches: int) -> Iterator[tuple[str, Pair]]:
    """What was measured, and its costs: with it, and without."""
    for name, account in (("plain holds", None), ("holds of accounts", "customer:{}")):
        for each, size in (("in batches", BATCH), ("one by one", 1)):
            with ExitStack() as stack:
                files = [folder / f"{name} {each} {kind}.db" for kind in ("with", "without")]
                kernels = [stack.enter_context(_filled(file, indexed=file is files[0])) for file in files]
                works = [partial(_embedded, hk, batches, account, size) for hk in kernels]
                yield f"indexes, {name}, {each}", _alternate(works, rounds)
    with ExitStack() as stack:
        servers = [stack.enter_context(_served(folder / f"{every}.db", every)) for every in ("1", "0")]
        yield (
            "roll-ups every second, over HTTP",
            _alternate([partial(_over_http, pid, client, batches) for pid, client in servers], rounds),
        )


def _alternate(works: Sequence[Callable[[], Cost]], rounds: int) -> Pair:
    """The first round only warms up; the one that goes first changes with every round."""
    taken: Pair = ([], [])
    for turn in range(rounds + 1):
        for index in (0, 1) if turn % 2 else (1, 0):
            found = works[index]()
            if turn:
                taken[index].append(found)
    return taken


@contextmanager
def _filled(file: Path, *, indexed: bool) -> Iterator[holdkit.Kernel]:
    with holdkit.connect(url(file)) as hk:
        for number in range(POOLS):
            hk.create_pool(f"pool:{number}", 2**50)
    if not indexed:
        with sqlite3.connect(file) as tables:
            for index in INDEXES:
                tables.execute(f"drop index {index}")
        tables.close()
    with holdkit.connect(url(file)) as hk:
        yield hk


def _embedded(hk: holdkit.Kernel, batches: int, account: str | None, size: int) -> Cost:
    """As many holds as a batch has, if they come one by one."""
    numbers = iter(range(batches * size if size > 1 else BATCH))
    count, processor, elapsed = 0, process_time(), perf_counter()
    while batch := list(islice(numbers, size)):
        placed = hk.apply([
            PlaceHold((Leg(f"pool:{n % POOLS}", 1),), ttl="1h", account=None if account is None else account.format(n % BATCH))
            for n in batch
        ])  # fmt: skip
        hk.apply(
            [
                ConfirmHold(id=one.value.id, token=one.value.token)
                for one in placed
                if isinstance(one.value, holdkit.Hold)
            ]
        )
        count += len(batch)
    return Cost((process_time() - processor) * 1e6 / count, (perf_counter() - elapsed) * 1e6 / count)


@contextmanager
def _served(file: Path, every: str) -> Iterator[tuple[int, httpx.Client]]:
    """The process id of a server, and a client of it."""
    with _filled(file, indexed=True) as hk:
        key = Keys(hk).make("bench", scope="admin").text
    command = [sys.executable, "-m", "holdkit", "serve", url(file), "--port", "0", "--json"]
    command += ["--upkeep-rollup-every", every, "--journal-min-free", "0"]
    command += ["--rates-key", "1e9", "--rates-key-burst", "1000000000"]
    command += ["--rates-tenant", "1e9", "--rates-tenant-burst", "1000000000"]
    command += ["--rates-tenant-bytes", "1000000000000", "--rates-tenant-bytes-burst", "1000000000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        address = json.loads(child.stdout.readline())["listens"]
        try:
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
                yield child.pid, client
        finally:
            child.terminate()


def _over_http(pid: int, client: httpx.Client, batches: int) -> Cost:
    """One hold after the other, as callers place them; the journal is counted meanwhile, by the same process."""
    processor, elapsed = cpu_time(pid) or 0.0, perf_counter()
    holds = batches * BATCH // 4
    for number in range(holds):
        placed = client.post("/v1/holds", json={"pool": f"pool:{number % POOLS}", "ttl": 3_600}, headers=_retry_key())
        hold = placed.raise_for_status().json()
        path = f"/v1/holds/{hold['id']}/confirm"
        client.post(path, json={"token": hold["token"]}, headers=_retry_key()).raise_for_status()
    spent = (cpu_time(pid) or 0.0) - processor
    return Cost(spent * 1e6 / holds, (perf_counter() - elapsed) * 1e6 / holds)


def _retry_key() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}


if __name__ == "__main__":
    sys.exit(main())
