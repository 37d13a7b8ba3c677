"""The log engine as users call it: `hk.apply` with everything minted and the default garbage collection, checked by replay.

Each run is compared with raw writes of the same bytes, with as many syncs: the cost of the disk alone.
"""

from __future__ import annotations

import gc
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from msgspec import Struct

import holdkit
from holdkit import Leg, Limits, PlaceHold
from holdkit.core.reading import FindEnds
from holdkit.engines.log import LogEngine, open_engine
from holdkit.kernel.limits import slots_of

from .callers import POOL, TOTAL, TTL
from .figures import RATE, Figure
from .rows import BenchFailed

BATCHES: Final = (1, 32, 256, 1_000, 8_000)
LIMITS: Final = Limits(max_batch=8_000, max_pools=10, max_holds=2_000_000, max_operations=2_000_000)
APPLY: Final = {False: 130_000.0, True: 95_000.0}
"""The target of holds per second at batches of 1,000, without and with operation ids."""
HOLD_BYTES, OPERATION_BYTES = 900, 450
OPENING = 10.0
"""Seconds for a million entries."""


class LogRun(Struct, frozen=True):
    """One batch size: holds per second of each round, Holdkit and raw."""

    batch: int
    with_op: bool
    ours: list[float]
    by_hand: list[float]


def commands(count: int, first: int, with_op: bool) -> list[PlaceHold]:
    """What a user would write."""
    return [
        PlaceHold(legs=(Leg(POOL, 1),), ttl=TTL, op=f"order-{first + number}" if with_op else None)
        for number in range(count)
    ]


def url(path: Path) -> str:
    """The URL of a directory."""
    return f"log:///{path.resolve()}"


def one_round(where: str, batch: int, holds: int, with_op: bool) -> float:
    """Place the holds in batches; seconds, including the creation of the commands."""
    with holdkit.connect(where, limits=LIMITS) as hk:
        hk.create_pool(POOL, TOTAL)
        gc.collect()
        begin = perf_counter()
        for first in range(0, holds, batch):
            hk.apply(commands(batch, first, with_op))
        return perf_counter() - begin


def check(path: Path, holds: int) -> None:
    """Open what was written: every hold exists, and the journal folds to the state."""
    with holdkit.connect(url(path), limits=LIMITS) as hk:
        if hk.pool(POOL).held != holds:
            raise BenchFailed(f"log: {holds} holds were answered, {hk.pool(POOL).held} are there")
        found = hk.verify().differences
        if found:
            raise BenchFailed(f"log: {found[0]}")


def by_hand(path: Path, place: Path) -> float:
    """Write the same frames with the same syncs into a plain file; seconds."""
    pieces = frames(path)
    begin = perf_counter()
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        for piece in pieces:
            os.write(descriptor, piece)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return perf_counter() - begin


def frames(path: Path) -> list[bytes]:
    """The bytes of every batch, as they are in the segments."""
    engine = open_engine(path)
    pieces = [bytes(40) + frame.body for frame in engine._log.frames()][1:]  # noqa: SLF001 - the bench looks inside
    engine.close()
    return pieces


def speed(
    batch: int, holds: int, rounds: int, directory: Path, done: Callable[[], None], *, with_op: bool = False
) -> LogRun:
    """Some rounds at one batch size, each in a new log."""
    ours: list[float] = []
    hand: list[float] = []
    for number in range(rounds):
        path = directory / f"log-{batch}-{with_op}-{number}"
        ours.append(holds / one_round(url(path), batch, holds, with_op))
        check(path, holds)
        hand.append(holds / by_hand(path, directory / "by-hand"))
        shutil.rmtree(path)
        done()
    return LogRun(batch, with_op, ours, hand)


def in_memory(batch: int, holds: int, rounds: int) -> Figure:
    """The same on the memory engine: what is left without a file."""
    rates = [holds / one_round("memory://", batch, holds, with_op=False) for _ in range(rounds)]
    return Figure("log", f"memory engine: apply of {batch}", RATE, None, median(rates))


def opening(directory: Path, entries: int) -> tuple[float, float]:
    """Seconds to open a log of that many entries: by replay alone, and from a snapshot."""
    path = directory / "opening"
    with holdkit.connect(url(path), limits=LIMITS) as hk:
        hk.create_pool(POOL, TOTAL)
        for first in range(1, entries, 8_000):
            hk.apply(commands(min(8_000, entries - first), 0, with_op=False))
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()
    seconds, engine = timed_open(path)
    if engine.read(FindEnds())[-1].seq != entries:
        raise BenchFailed("log: entries are missing after opening")
    engine.snapshot()
    engine.close()
    again, engine = timed_open(path)
    if not engine.restored_from:
        raise BenchFailed("log: the snapshot was not used")
    engine.close()
    shutil.rmtree(path)
    return seconds, again


def timed_open(path: Path) -> tuple[float, LogEngine]:
    """Open, and how long it took."""
    gc.collect()
    begin = perf_counter()
    engine = open_engine(path, limits=slots_of(LIMITS))
    return perf_counter() - begin, engine


def weights(directory: Path, holds: int) -> tuple[float, float]:
    """Bytes of memory per live hold, and per operation record."""
    plain = weight(directory / "plain", holds, with_op=False)
    return plain, weight(directory / "with-op", holds, with_op=True) - plain


def weight(path: Path, holds: int, *, with_op: bool) -> float:
    """The memory that each hold adds to a log."""
    with holdkit.connect(url(path), limits=LIMITS) as hk:
        hk.create_pool(POOL, TOTAL)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for first in range(0, holds, 1_000):
            hk.apply(commands(1_000, first, with_op))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    shutil.rmtree(path)
    return grown / holds


def figures(runs: list[LogRun], opened: tuple[int, float, float], weighed: tuple[float, float]) -> list[Figure]:
    """Each run compared with the raw write, and with its target if it has one."""
    made: list[Figure] = []
    for run in runs:
        ours, hand = median(run.ours), median(run.by_hand)
        ratios = tuple(mine / theirs for mine, theirs in zip(run.ours, run.by_hand, strict=True))
        name = f"log: apply of {run.batch}" + (", with operation ids" if run.with_op else "")
        made.append(Figure("log", f"{name}, compared with a raw write", RATE, hand, ours, ours / hand, ratios=ratios))
        if run.batch == 1_000:
            target = APPLY[run.with_op]
            made.append(Figure("log", f"{name}, target", RATE, target, ours, ours / target, at_least=1.0))
    entries, replayed, restored = opened
    allowed = OPENING * entries / 1_000_000
    note = f"{1e3 * restored:,.0f} ms from a snapshot"
    made.append(Figure("log", f"opening {entries:,} entries", "ms", 1e3 * allowed, 1e3 * replayed, replayed / allowed,
                       at_most=1.0, note=note))  # fmt: skip
    for name, found, bound in (
        ("live hold", weighed[0], HOLD_BYTES),
        ("operation record", weighed[1], OPERATION_BYTES),
    ):
        made.append(Figure("log", f"memory per {name}", "bytes", bound, found, found / bound, at_most=1.0))
    return made
