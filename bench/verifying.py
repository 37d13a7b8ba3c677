"""What `verify` and `repair` need for a long journal: run as a process of its own, so that nothing else is counted.

``python -m bench.verifying URL WHAT`` does `verify`, or tries `repair`, and prints one JSON document: differences, seconds,
and resident bytes before and at the most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import msgspec
from msgspec import Struct

import holdkit

from .rows import BenchFailed

STATUS = Path("/proc/self/status")
MOST = 200 * 2**20
"""Bytes over the idle process that it may need, whatever the journal's length."""


class Verified(Struct, frozen=True):
    """One run."""

    differences: int
    seconds: float
    idle: int
    peak: int

    @property
    def over(self) -> int:
        """Bytes over the idle process."""
        return self.peak - self.idle


def resident(field: str) -> int:
    """Bytes: VmRSS is what is in memory now, VmHWM the most there ever was. (What `getrusage` tells begins with the peak of the
    process that started this one.)"""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def verify(url: str, what: str) -> Verified:
    """Verify, or see what a repair would do."""
    with holdkit.connect(url) as hk:
        hk.pools(limit=1)
        idle = resident("VmRSS")
        begin = perf_counter()
        if what == "repair":
            report = hk.repair(dry_run=True)
            found = len(report.mended) + len(report.left)
        else:
            found = len(hk.verify().differences)
        return Verified(found, perf_counter() - begin, idle, resident("VmHWM"))


def measure(url: str, what: str = "verify") -> Verified:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "bench.verifying", url, what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{what}: the process ended with {done.returncode}: {done.stderr[-500:]}")
    return msgspec.json.decode(done.stdout, type=Verified)


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(verify(sys.argv[1], sys.argv[2]))))
