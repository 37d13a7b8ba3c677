"""Counts syncs exactly, with strace, in short runs that are not measured.

``python -m bench.syncs VARIANT MODE CALLERS HOLDS FILE`` is what strace watches. A run with fewer syncs than batches fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from .comparison import Scenario, timed
from .rows import BenchFailed, expect_syncs, written
from .stores import VARIANTS, Variant

CALL = re.compile(r"\b(?:fsync|fdatasync|sync_file_range)\(")


class Counted(Struct, frozen=True):
    """One run under strace."""

    scenario: str
    variant: Variant
    holds: int
    batches: int
    syncs: int


def strace_missing() -> str | None:
    """Why the calls cannot be counted here, or None if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "-e", "trace=fsync", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip().splitlines()[-1:]}"


def count_syncs(scenario: Scenario, variant: Variant, directory: Path) -> Counted:
    """Run one variant under strace, and compare its syncs with its batches."""
    path, log = directory / f"{variant}.db", directory / f"{variant}.trace"
    subject = [sys.executable, "-m", "bench.syncs", variant, scenario.mode, str(scenario.callers), str(scenario.holds),
               str(path)]  # fmt: skip
    strace = ["strace", "-f", "--quiet=all", "-e", "trace=fsync,fdatasync", "-o", str(log)]
    done = subprocess.run([*strace, *subject], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{variant} under strace: {done.stderr.strip()[-2000:]}")
    found = written(path)
    syncs = sum(CALL.search(line) is not None for line in log.read_text().splitlines())
    expect_syncs(f"{variant}, {scenario.name}, by strace", found.batches, syncs)
    return Counted(scenario.name, variant, found.rows["holds"], found.batches, syncs)


def count_all(directory: Path) -> list[Counted]:
    """Both variants, sync and async."""
    counted: list[Counted] = []
    for mode in ("threads", "tasks"):
        for variant in VARIANTS:
            place = directory / f"syncs-{mode}-{variant}"
            place.mkdir()
            counted.append(count_syncs(Scenario(mode, 32, 640), variant, place))
            shutil.rmtree(place)
    return counted


def main() -> None:
    """The process that strace watches."""
    variant, mode, callers, holds, path = sys.argv[1:]
    scenario = Scenario("tasks" if mode == "tasks" else "threads", int(callers), int(holds))
    timed(scenario, "ours" if variant == "ours" else "by_hand", Path(path))


if __name__ == "__main__":
    main()
