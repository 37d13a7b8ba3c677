"""Memory under endless hold and release: run in a separate process, so that nothing else is counted.

``python -m bench.memory FILE PAIRS MARKS`` prints one JSON line per mark: pairs so far, resident bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

import holdkit

from .callers import POOL, TTL
from .rows import BenchFailed
from .stores import url

TASKS = 50
FLAT = 1.05
"""Resident memory at the end, against the first mark."""


class Mark(Struct, frozen=True):
    """Resident memory after that many pairs."""

    pairs: int
    resident: int


STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def endless(path: Path, pairs: int, marks: int) -> None:
    """Hold and release, with marks on the way."""
    hk = await holdkit.connect_async(url(path))
    await hk.create_pool(POOL, total=TASKS)

    async def caller(turns: int) -> None:
        for _ in range(turns):
            await hk.release(await hk.hold(POOL, 1, ttl=TTL))

    for mark in range(1, marks + 1):
        await asyncio.gather(*(caller(pairs // marks // TASKS) for _ in range(TASKS)))
        print(json.dumps([mark * pairs // marks, resident()]), flush=True)
    await hk.close()


def measure(path: Path, pairs: int, marks: int, step: Callable[[], None]) -> list[Mark]:
    """The same in a fresh process, so that the memory of the measuring process does not count."""
    found: list[Mark] = []
    command = [sys.executable, "-m", "bench.memory", str(path), str(pairs), str(marks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found.append(Mark(*json.loads(line)))
            step()
    if process.returncode != 0 or len(found) != marks:
        raise BenchFailed(f"memory: the process ended with {process.returncode} after {len(found)} marks")
    return found


if __name__ == "__main__":
    asyncio.run(endless(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
