"""Runs seeds: totals, the points that must be reached, the transcript check, and the shortest plan that still fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from tests.simulation.plan import PartyName, Plan, draw_plan
from tests.simulation.store import FAULTS, SimulationFailed
from tests.simulation.world import World

OPERATIONS: Final = 100
"""Commands of clients in one run, unless asked for more."""
TWICE: Final = 100
"""Every so many seeds, one runs twice and must give the same transcript."""
CHUNK: Final = 20
"""Seeds that a process takes at a time."""


class Totals(Struct):
    """The totals of many runs."""

    seeds: int = 0
    operations: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        """Add the totals of other runs."""
        self.seeds += other.seeds
        self.operations += other.operations
        self.reached.update(other.reached)
        self.failures += other.failures

    @property
    def faults(self) -> int:
        """How many faults there were: of the store, of its clock, of processes, of connections."""
        names = ("fault: ", "killed: ", "clock ", "doubled")
        return sum(count for name, count in self.reached.items() if name.startswith(names))


def run_seed(seed: int, operations: int = OPERATIONS) -> World:
    """Run one seed; raises `SimulationFailed`."""
    plan = draw_plan(seed, operations)
    world = World(plan)
    transcript = world.run()
    if seed % TWICE == 0 and World(plan).run() != transcript:
        raise SimulationFailed("the same seed gave another transcript")
    return world


def run_some(seeds: Iterable[int], operations: int = OPERATIONS) -> Totals:
    """Run several seeds in this process."""
    totals = Totals()
    for seed in seeds:
        try:
            world = run_seed(seed, operations)
        except SimulationFailed as broken:
            totals.add(Totals(1, failures=[(seed, str(broken))]))
        else:
            totals.add(Totals(1, world.store.commands, world.reached))
    return totals


def run_seeds(first: int, count: int, operations: int = OPERATIONS, *, jobs: int) -> Totals:
    """Run many seeds, in several processes."""
    totals, end = Totals(), first + count
    chunks = [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        for result in pool.map(partial(run_some, operations=operations), chunks):
            totals.add(result)
    return totals


def fails(plan: Plan) -> bool:
    """Whether a promise is broken when this plan runs."""
    try:
        World(plan).run()
    except SimulationFailed:
        return True
    return False


def shrink(plan: Plan) -> Plan:
    """The shortest plan found that still fails: delta debugging over its steps."""
    steps, size = plan.steps, max(1, len(plan.steps) // 2)
    while size:
        index = 0
        while index < len(steps):
            shorter = steps[:index] + steps[index + size :]
            if fails(replace(plan, steps=shorter)):
                steps = shorter
            else:
                index += size
        size //= 2
    return replace(plan, steps=steps)


POINTS: Final = (
    *(f"fault: {kind}" for kind in FAULTS), *(f"killed: {party}" for party in get_args(PartyName)),
    "crash", "crash: within a batch", "crash: frames lost", "crash: more kept than was acknowledged",
    "crash: answers lost on their way", "store: away", "sent by a process that was killed", "clock ahead", "clock back",
    "doubled", "unknown", "replayed", "turned away: EngineError", "turned away: Overloaded", "came to rest", "fed later",
    "done", "aborted", "hold_expired", "hold_retired", "hold retired", "limits changed", "past retention",
    "quantity_exceeds_consumed", "hold_table_full", "insufficient_capacity", "operation_conflict", "operation_table_full",
    "pool_table_full", "version_conflict", "not_owner", "already_confirmed", "already_released", "line: joined", "line: offered",
    "line: left", "line_ahead", "line_full", "hold_waiting", "account_limit", "account_required", "waiter: has its units",
    "follower: shown", "follower: shown again", "follower: could not read", "webhook: accepted", "webhook: accepted again",
    "webhook: parked", *(f"saga: {what}" for what in ("done", "aborted", "parked", "taken over", "another attempt", "effect run again",
      "hold changed by force", "its caller got an error", "killed behind the point of no return")),
)  # fmt: skip

FLOOR: Final = 100
"""How often each point must be reached in `SEEDS` seeds; fewer seeds require proportionally less."""
SEEDS: Final = 2_000


def too_seldom(totals: Totals) -> dict[str, int]:
    """The points that were not reached often enough, with their counts."""
    floor = min(FLOOR, FLOOR * totals.seeds // SEEDS)
    rare = {name: totals.reached[name] for name in POINTS if totals.reached[name] < floor}
    if totals.operations < OPERATIONS * totals.seeds:
        rare["operations"] = totals.operations
    return rare
