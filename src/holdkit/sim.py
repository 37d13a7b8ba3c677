"""``python -m holdkit.sim``: run seeds of the simulator; a failure prints the command that repeats it."""

from __future__ import annotations

import argparse
import json
import sys
import time

from .testing.sim import SimulationFailed, Totals, World, draw_plan, run_seeds
from .testing.sim.seeds import shrink, too_seldom

ENOUGH = 500
"""From this number of seeds on, every point must have been reached in proportion."""


def main(arguments: list[str] | None = None) -> int:
    """Run, report, and exit with 1 if any run failed."""
    parser = argparse.ArgumentParser(prog="holdkit.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run only this seed, and shrink it if it fails")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many seeds (default 2000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", action="store_true", help="totals as JSON")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed)
    started = time.monotonic()

    def progress(totals: Totals) -> None:
        if sys.stderr.isatty():
            rate = totals.seeds / (time.monotonic() - started)
            sys.stderr.write(f"\r{totals.seeds}/{options.seeds} seeds, {rate:.0f}/s, {len(totals.failures)} failed ")

    totals = run_seeds(options.first, options.seeds, jobs=options.jobs, progress=progress)
    rare = too_seldom(totals) if totals.seeds >= ENOUGH else {}
    _report(totals, rare, as_json=options.json)
    return 1 if totals.failures or rare else 0


def _one(seed: int) -> int:
    world = World(draw_plan(seed))
    try:
        transcript = world.run()
    except SimulationFailed as broken:
        sys.stdout.write(f"seed {seed}: {broken}\nshortest plan that still fails:\n")
        for step in shrink(draw_plan(seed)).steps:
            sys.stdout.write(f"  {step}\n")
        return 1
    sys.stdout.write(f"seed {seed}: ok, transcript {transcript}, {world.operations} operations\n")
    return 0


def _report(totals: Totals, rare: dict[str, int], *, as_json: bool) -> None:
    reached = dict(sorted(totals.reached.items()))
    if as_json:
        failures = [{"seed": seed, "broken": broken} for seed, broken in totals.failures]
        summary = {"seeds": totals.seeds, "operations": totals.operations, "faults": totals.faults,
                   "reached": reached, "too_seldom": rare, "failures": failures}  # fmt: skip
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
        return
    sys.stdout.write(f"\n{totals.seeds} seeds, {totals.operations} operations, {totals.faults} faults\n")
    for name, count in reached.items():
        sys.stdout.write(f"  {count:>9}  {name}\n")
    for name, count in rare.items():
        sys.stdout.write(f"TOO RARE {name}: {count} times\n")
    for seed, broken in totals.failures[:20]:
        sys.stdout.write(f"BROKEN {broken}\n  repeat it: python -m holdkit.sim --seed {seed}\n")


if __name__ == "__main__":
    sys.exit(main())
