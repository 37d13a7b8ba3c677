"""The processes of a server: which they are, and whether they have ended. Ends none."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


def children(parent: int) -> list[int]:
    """Return the processes that this one has started. (A backend leads a session of its own, so a process group would not
    do.)"""
    return [pid for pid, (_, of) in all_processes().items() if of == parent]


def alive(pids: list[int]) -> list[int]:
    """Return the processes that still run. A process that only waits to be reaped does not run."""
    now = all_processes()
    return [pid for pid in pids if pid in now and not now[pid][0].startswith("Z")]


def running(pids: list[int]) -> list[int]:
    """Return the processes that have neither ended nor been stopped."""
    now = all_processes()
    return [pid for pid in alive(pids) if not now.get(pid, ("T", 0))[0].startswith("T")]


def all_processes() -> dict[int, tuple[str, int]]:
    """Return the state and the parent of each process."""
    if not (PROC / "self" / "stat").exists():
        listing = subprocess.run(["ps", "-A", "-o", "pid=,state=,ppid="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listing.stdout.splitlines()]
        return {int(pid): (state, int(parent)) for pid, state, parent in rows}
    found: dict[int, tuple[str, int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                # after the program's name, which may hold anything
                state, parent, *_ = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            found[int(folder.name)] = (state, int(parent))
    return found
