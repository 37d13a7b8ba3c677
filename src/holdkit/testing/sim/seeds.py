"""Runs seeds: totals, the points that must be reached, the transcript check, and the shortest plan that still fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...engines.log.engine import LogEngine
from .checker import SimulationFailed
from .plan import Plan, Step, draw_plan
from .world import World


class Totals(Struct):
    """The totals of many runs."""

    seeds: int = 0
    operations: int = 0
    reached: dict[str, int] = {}
    failures: list[tuple[int, str]] = []

    def add(self, other: Totals) -> None:
        """Add the totals of other runs."""
        self.seeds += other.seeds
        self.operations += other.operations
        self.reached = dict(Counter(self.reached) + Counter(other.reached))
        self.failures = [*self.failures, *other.failures]

    @property
    def faults(self) -> int:
        """How many faults struck."""
        prefixes = ("cut at", "error at", "rot ", "cut during", "left out", "unknown")
        return sum(count for name, count in self.reached.items() if name.startswith(prefixes))


def run_seed(seed: int, engine: type[LogEngine] = LogEngine) -> World:
    """Run one seed; raises `SimulationFailed`."""
    world = World(draw_plan(seed), engine)
    transcript = world.run()
    if seed % 100 == 0 and World(draw_plan(seed), engine).run() != transcript:
        raise SimulationFailed("the same seed gave another transcript")
    return world


def run_some(seeds: Iterable[int], engine: type[LogEngine] = LogEngine) -> Totals:
    """Run several seeds in this process."""
    totals = Totals()
    for seed in seeds:
        try:
            world = run_seed(seed, engine)
        except SimulationFailed as broken:
            totals.add(Totals(1, 0, {}, [(seed, str(broken))]))
        else:
            totals.add(Totals(1, world.operations, dict(world.reached)))
    return totals


def run_seeds(
    first: int, count: int, *, jobs: int = 1, progress: Callable[[Totals], None] | None = None, chunk: int = 50
) -> Totals:
    """Run many seeds, in several processes if wanted."""
    totals = Totals()
    seeds = iter(range(first, first + count))
    chunks = iter(lambda: list(islice(seeds, chunk)), [])
    if jobs == 1:
        results = map(run_some, chunks)
        return _collect(totals, results, progress)
    with ProcessPoolExecutor(jobs) as pool:
        return _collect(totals, pool.map(run_some, chunks), progress)


def _collect(totals: Totals, results: Iterable[Totals], progress: Callable[[Totals], None] | None) -> Totals:
    for result in results:
        totals.add(result)
        if progress is not None:
            progress(totals)
    return totals


def shrink(plan: Plan, engine: type[LogEngine] = LogEngine) -> Plan:
    """The shortest plan found that still fails: delta debugging over its steps."""

    def fails(steps: tuple[Step, ...]) -> bool:
        try:
            World(replace(plan, steps=steps), engine).run()
        except SimulationFailed:
            return True
        return False

    steps, size = plan.steps, max(1, len(plan.steps) // 2)
    while size:
        index = 0
        while index < len(steps):
            shorter = steps[:index] + steps[index + size :]
            if fails(shorter):
                steps = shorter
            else:
                index += size
        size //= 2
    return replace(plan, steps=steps)


CALLS: Final = ("append", "create", "cut", "open", "read", "remove", "rename", "sync", "sync_directory")
"""Every call of the disk port that can fail."""

POINTS: Final = (
    *(f"{what} at {call}" for what in ("cut", "error") for call in CALLS),
    "cut during birth", "cut during recovery", "cut during snapshot", "error during recovery", "process killed",
    "in flight lost", "in flight survived", "in flight survived in part", "left out", "unknown", "stayed up in doubt",
    "asked again", "open refused", "rot refused", "rot survived", "snapshot", "snapshot failed", "restored from a snapshot",
    "archived", "archive failed", "cut during archive", "segments archived", "part of a frame archived",
    "cut during erasure", *(f"erasure: {what}" for what in ("account", "actor", "carried out by an opening", "claim", "entity", "failed",
      "cut before its plan", "repeated", "resumed", "written beside", "written meanwhile")),
    "reopened", "several segments", "came to rest", "done", "replayed", "aborted", "hold_expired", "hold_retired",
    "hold retired", "limits changed", "past retention", "quantity_exceeds_consumed",
    "hold_table_full", "insufficient_capacity", "operation_conflict", "operation_table_full", "pool_table_full",
    "version_conflict", "not_owner", "already_confirmed", "already_released",
    "line: joined", "line: offered", "line: left", "line_ahead", "line_full", "hold_waiting", "account_limit",
    "account_required",
    *(f"saga: {what}" for what in ("done", "aborted", "parked", "taken over", "another attempt", "too late", "unsettled",
      "driver killed", "killed behind the point of no return", "effect run again", "hold changed by force")),
)  # fmt: skip

FLOOR: Final = 100
"""How often each point must be reached in `SEEDS` seeds; fewer seeds require proportionally less."""
SEEDS: Final = 2_000
OPERATIONS: Final = 50
"""The least number of commands per seed, on average."""


def too_seldom(totals: Totals) -> dict[str, int]:
    """The points that were not reached often enough, with their counts."""
    floor = min(FLOOR, FLOOR * totals.seeds // SEEDS)
    found = {name: totals.reached.get(name, 0) for name in POINTS}
    rare = {name: count for name, count in found.items() if count < floor}
    if totals.operations < OPERATIONS * totals.seeds:
        rare["operations"] = totals.operations
    return rare
