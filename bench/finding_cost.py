"""What the dashboard costs those who never look at it: ``python -m bench.finding_cost``.

*Indexes.* Places and confirms of holds in batches, on two SQLite files: one as Holdkit makes it, one without the indexes that finding
holds needs; in batches of 200, and one after the other. Plain holds have no row in them; holds of accounts have one. Measured are the
processor time of the process that does the work, which other programs disturb little, and the time that passes, with the syncs of the
disk. The two alternate, and a ratio is the median of those of each round. 1 if one costs more than 5 % of the time that passes.

*Statistics.* The processor time of a server's rounds of counting the journal, on an SQLite file with many pools: if nothing has happened,
and for each entry if holds were placed and confirmed, in few pools and in many.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final, NamedTuple

import holdkit
from holdkit import Leg
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold
from holdkit.server import Application, Settings
from holdkit.server.settings import Journal, Upkeep
from holdkit.testing import FakeClock

from .stores import url

MOST: Final = 1.05
INDEXES: Final = ("holdkit_holds_account", "holdkit_holds_chosen")
BATCH: Final = 200
ENTRIES: Final = 4_000
"""Of one round of statistics."""
POOLS: Final = 8


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.finding_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=10, help="of 200 holds, in each round")
    parser.add_argument("--pools", type=int, default=100_000, help="for statistics")
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
        asyncio.run(_print_counting(Path(folder), chosen.pools))
    return int(missed)


async def _print_counting(folder: Path, pools: int) -> None:
    async for name, microseconds in _counting(folder / "counted.db", pools):
        print(f"statistics, {name:40} processor {microseconds:7.1f} µs")


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


async def _counting(file: Path, pools: int) -> AsyncIterator[tuple[str, float]]:
    """What rounds of counting cost, in microseconds of the processor."""
    clock = FakeClock(1_700_049_600_000_000)
    settings = Settings(upkeep=Upkeep(sweep_every=0), journal=Journal(min_free=0))
    async with Application(url(file), settings=settings, clock=clock).lifespan() as running:

        async def rounds(count: int, work: Callable[[], Awaitable[object]]) -> float:
            spent = []
            for _ in range(count):
                await work()
                clock.advance(10)
                began = process_time()
                await running.rollups.round()
                spent.append((process_time() - began) * 1e6)
            return median(spent)

        async def traffic(used: int) -> None:
            for begin in range(0, ENTRIES // 2, BATCH):
                legs = [Leg(f"pool:{n % used}", 1) for n in range(begin, begin + BATCH)]
                placed = await running.kernel.apply([PlaceHold((leg,), ttl="1h") for leg in legs])
                holds = [one.value for one in placed if isinstance(one.value, holdkit.Hold)]
                await running.kernel.apply([ConfirmHold(id=hold.id, token=hold.token) for hold in holds])

        for begin in range(0, pools, BATCH):
            made = range(begin, min(begin + BATCH, pools))
            await running.kernel.apply([CreatePool(id=f"pool:{number}", total=2**50) for number in made])
        await rounds(1, partial(asyncio.sleep, 0))
        yield f"a round, {pools:,} idle pools", await rounds(60, partial(asyncio.sleep, 0))
        for used in (100, 2_000):
            yield f"an entry, {used:,} of {pools:,} pools busy", await rounds(9, partial(traffic, used)) / ENTRIES


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


if __name__ == "__main__":
    sys.exit(main())
