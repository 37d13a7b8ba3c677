"""``python -m tests.simulation``: run seeds of the simulator; a failure prints the command that repeats it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.canaries import CANARIES, RARE
from tests.simulation.plan import Plan, draw_plan, plan_of, text_of
from tests.simulation.seeds import OPERATIONS, Totals, run_seeds, shrink, too_seldom
from tests.simulation.store import SimulationFailed
from tests.simulation.world import World

ENOUGH = 500
"""From this number of seeds on, every point must have been reached in proportion."""


def main(arguments: list[str] | None = None) -> int:
    """Run, report, and exit with 1 if any run failed."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run only this seed, and shrink its plan if it fails")
    parser.add_argument("--plan", type=Path, help="run only the plan in this file")
    parser.add_argument("--keep", type=Path, help="write the shortest plan that still fails to this file")
    parser.add_argument(
        "--canary", choices=[*CANARIES, *RARE], help="plant this bug first, in a run of one seed or plan"
    )
    parser.add_argument("--seeds", type=int, default=2_000, help="how many seeds (default 2000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"commands per seed (default {OPERATIONS})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args(arguments)
    if options.plan is None and options.seed is None:
        return _many(options)
    plan = draw_plan(options.seed, options.operations) if options.plan is None else plan_of(options.plan.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        if options.canary is not None:
            (CANARIES | RARE)[options.canary].plant(patch)
        return _one(f"seed {plan.seed}", plan, options.keep)


def _one(name: str, plan: Plan, keep: Path | None) -> int:
    world = World(plan)
    try:
        transcript = world.run()
    except SimulationFailed as broken:
        shortest = shrink(plan)
        sys.stdout.write(f"{name}: {broken}\nshortest plan that still fails ({', '.join(plan.parties)}):\n")
        sys.stdout.writelines(f"  {step}\n" for step in shortest.steps)
        if keep is not None:
            keep.write_bytes(text_of(shortest))
        return 1
    sys.stdout.write(f"{name}: ok, transcript {transcript}, {world.store.commands} operations\n")
    return 0


def _many(options: argparse.Namespace) -> int:
    began = time.monotonic()
    totals = run_seeds(options.first, options.seeds, options.operations, jobs=options.jobs)
    rate = totals.seeds / (time.monotonic() - began)
    rare = too_seldom(totals) if totals.seeds >= ENOUGH else {}
    _report(totals, rare, f"{rate:.1f} seeds per second", options.operations)
    return 1 if totals.failures or rare else 0


def _report(totals: Totals, rare: dict[str, int], rate: str, operations: int) -> None:
    sys.stdout.write(f"{totals.seeds} seeds, {totals.operations} operations, {totals.faults} faults, {rate}\n")
    for name, count in sorted(totals.reached.items()):
        sys.stdout.write(f"  {count:>9}  {name}\n")
    for name, count in rare.items():
        sys.stdout.write(f"TOO RARE {name}: {count} times\n")
    for seed, broken in totals.failures[:20]:
        sys.stdout.write(f"BROKEN {broken}\n  repeat it: make sim SEED={seed} ARGS='--operations {operations}'\n")


if __name__ == "__main__":
    sys.exit(main())
