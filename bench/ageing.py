"""The cost of a hold in a database with 1,000,000 ended holds that are not yet retired, compared with 10,000.

The engine places and releases the ended holds, in large batches. Both files are then measured alternately: a single caller, and `engine.apply` of 256.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, time_ns

from msgspec import Struct

import holdkit
from holdkit.core.commands import CreatePool, Group
from holdkit.core.model import SECOND

from .callers import POOL, TOTAL, TTL
from .core_speed import place_groups, release_groups
from .raw import timed_apply
from .rows import BenchFailed
from .stores import open_engine, url

BATCH = 256
CHUNK = 1_000


class Age(Struct, frozen=True):
    """Seconds per hold with a given number of past holds, round by round."""

    past: int
    alone: list[float]
    in_batch: list[float]


def make_past(path: Path, past: int, step: Callable[[int], None]) -> None:
    """A database whose pool has `past` released holds."""
    engine = open_engine(path)
    try:
        engine.apply([Group((CreatePool(id=POOL, total=TOTAL),))])
        for turn in range(past // CHUNK):
            placed = place_groups(CHUNK, turn, START)
            engine.apply(placed)
            engine.apply(release_groups(placed))
            step(CHUNK)
    finally:
        engine.close()


START = time_ns() // 1_000 - 86_400 * SECOND


def measure(paths: dict[int, Path], rounds: int, step: Callable[[], None]) -> list[Age]:
    """Measure both files alternately: a single caller, then batches."""
    alone: dict[int, list[float]] = {past: [] for past in paths}
    for turn in range(rounds):
        for past, path in in_turn(paths, turn):
            alone[past].append(single(path, 300))
            step()
    batched: dict[int, list[float]] = {past: [] for past in paths}
    for turn in range(rounds):
        for past, path in in_turn(paths, turn):
            batched[past].append(in_batches(path, 12, turn))
            step()
    return [Age(past, alone[past], batched[past]) for past in paths]


def in_turn(paths: dict[int, Path], turn: int) -> list[tuple[int, Path]]:
    """The order changes with every round."""
    pairs = list(paths.items())
    return pairs if turn % 2 == 0 else pairs[::-1]


def single(path: Path, holds: int) -> float:
    """Median seconds per hold of one sync caller."""
    taken: list[float] = []
    with holdkit.connect(url(path)) as hk:
        for _ in range(holds):
            begin = perf_counter()
            hk.hold(POOL, 1, ttl=TTL)
            taken.append(perf_counter() - begin)
    return median(taken)


def in_batches(path: Path, batches: int, turn: int) -> float:
    """Seconds per hold in batches of 256."""
    work = [place_groups(BATCH, turn * batches + batch, time_ns() // 1_000) for batch in range(batches)]
    engine = open_engine(path)
    try:
        return timed_apply(engine, work) / (batches * BATCH)
    finally:
        engine.close()


def expect_sound(path: Path) -> None:
    """The generated rows must be ones that Holdkit itself could have written."""
    with holdkit.connect(url(path)) as hk:
        report = hk.admin.verify()
    if not report.ok:
        raise BenchFailed(f"the made-up past does not verify: {report.differences[:3]}")
