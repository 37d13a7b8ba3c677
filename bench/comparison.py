"""1, 32 and 256 callers, as threads and as tasks; hand-written and Holdkit alternate on fresh files of the same disk.

The order changes with every round, so that a disk that slows down or a machine that warms up favours neither. After each
run the rows are counted, and the syncs are compared with the batches.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Literal, TypeAlias

from msgspec import Struct

from .callers import POOL, TOTAL, TTL, Timing, run_tasks, run_threads
from .disk import FlushCounter
from .rows import expect_rows, expect_same_shape, expect_syncs, written
from .stores import VARIANTS, Variant, open_async, open_sync

Mode: TypeAlias = Literal["threads", "tasks"]

WARM_UP = 20


class Scenario(Struct, frozen=True):
    """How many callers of which kind place how many holds."""

    mode: Mode
    callers: int
    holds: int
    with_op: bool = False

    @property
    def name(self) -> str:
        """As the table shows it."""
        kind = self.mode if self.callers > 1 else self.mode[:-1]
        return f"{self.callers} {kind}" + (", operation ids" if self.with_op else "")

    def quicker(self) -> Scenario:
        """The same with fewer holds, for a first impression."""
        return Scenario(self.mode, self.callers, max(self.holds // 4, self.callers * 4), self.with_op)


class Run(Struct, frozen=True):
    """One variant, one round."""

    scenario: str
    variant: Variant
    holds: int
    seconds: float
    p50: float
    p99: float
    batches: int
    flushes: int | None
    """What the device completed meanwhile; other programs' flushes are in it too."""

    @property
    def per_second(self) -> float:
        """Holds per second."""
        return self.holds / self.seconds


SCENARIOS = (
    Scenario("threads", 1, 2_000),
    Scenario("threads", 32, 4_096),
    Scenario("threads", 256, 6_144),
    Scenario("tasks", 1, 2_000),
    Scenario("tasks", 32, 4_096),
    Scenario("tasks", 256, 6_144),
    Scenario("threads", 32, 4_096, with_op=True),
    Scenario("tasks", 32, 4_096, with_op=True),
)


def play(
    scenario: Scenario, rounds: int, directory: Path, flushes: FlushCounter | None, step: Callable[[], None]
) -> list[Run]:
    """All rounds of one scenario."""
    runs: list[Run] = []
    for turn in range(rounds):
        place = directory / f"round-{turn}"
        place.mkdir()
        for variant in VARIANTS if turn % 2 == 0 else reversed(VARIANTS):
            runs.append(run(scenario, variant, place / f"{variant}.db", flushes))
            step()
        expect_same_shape(place / "by_hand.db", place / "ours.db")
        shutil.rmtree(place)
    return runs


def run(scenario: Scenario, variant: Variant, path: Path, flushes: FlushCounter | None) -> Run:
    """Run one variant on a fresh file, and check it."""
    before = 0 if flushes is None else flushes()
    timing = timed(scenario, variant, path)
    after = None if flushes is None else flushes() - before
    found = written(path)
    each = scenario.holds // scenario.callers
    expect_rows(variant, found, each * scenario.callers + WARM_UP,
                operations=each * scenario.callers if scenario.with_op else 0)  # fmt: skip
    expect_syncs(variant, found.batches, after)
    return Run(
        scenario=scenario.name,
        variant=variant,
        holds=len(timing.calls),
        seconds=timing.seconds,
        p50=median(timing.calls),
        p99=quantiles(timing.calls, n=100)[98],
        batches=found.batches - WARM_UP - 1,
        flushes=after,
    )


def timed(scenario: Scenario, variant: Variant, path: Path) -> Timing:
    """The run itself."""
    if scenario.mode == "tasks":
        return asyncio.run(timed_tasks(scenario, variant, path))
    store = open_sync(variant, path)
    try:
        store.create_pool(POOL, TOTAL)
        for _ in range(WARM_UP):
            store.hold(POOL, 1, ttl=TTL)
        return run_threads(store, scenario.callers, scenario.holds // scenario.callers, with_op=scenario.with_op)
    finally:
        store.close()


async def timed_tasks(scenario: Scenario, variant: Variant, path: Path) -> Timing:
    """The run itself, on an event loop."""
    store = await open_async(variant, path)
    try:
        await store.create_pool(POOL, TOTAL)
        for _ in range(WARM_UP):
            await store.hold(POOL, 1, ttl=TTL)
        return await run_tasks(store, scenario.callers, scenario.holds // scenario.callers, with_op=scenario.with_op)
    finally:
        await store.close()
