"""What processes have used: CPU time by their ids, as /proc tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdkit.testing.postgres.processes import children

PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
LEAST: Final = 1.5 / _TICKS
"""Seconds: a process that only runs on meanwhile grows by less."""


def cpu_time(pid: int, *, reaped: bool = False) -> float | None:
    """Seconds that a process has taken, with those of its ended children if asked; None where the system does not tell."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11 : 15 if reaped else 13])) / _TICKS


def cpu_times(pids: Iterable[int]) -> float:
    """Seconds that these processes have taken together; those that have ended count nothing."""
    return sum(cpu_time(pid) or 0.0 for pid in pids)


def tree_cpu_time(pid: int) -> float:
    """Seconds of a process and of all that it has started.

    A child that is reaped between two looks would be counted twice or not at all, so the look is repeated until none was.
    """
    while True:
        before = cpu_time(pid, reaped=True)
        running = cpu_times(started_by(pid))
        after = cpu_time(pid, reaped=True)
        if before is None or after is None:
            return 0.0
        if abs(after - before) < LEAST:
            return after + running


def started_by(pid: int) -> list[int]:
    """Its children. The kernel's own list, where there is one, takes no look at all other processes."""
    listed = PROC / str(pid) / "task" / str(pid) / "children"
    return [int(child) for child in listed.read_text().split()] if listed.exists() else children(pid)
