"""The memory that `verify` and `repair` need for a long journal: run in a separate process, so that nothing else is counted.

``python -m bench.verifying URL WHAT`` does `verify`, or tries `repair`, and prints one JSON document: differences, seconds,
and resident bytes before and at the most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import msgspec
from msgspec import Struct

import holdkit
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.binaries import NoPostgres, find

from .journals import fill_postgres, fill_sqlite
from .rows import BenchFailed
from .stores import url as url_of

STATUS = Path("/proc/self/status")
MOST = 200 * 2**20
"""Bytes over the idle process that it may need, whatever the journal's length."""


ENTRIES = {"SQLite": 5_000_000, "PostgreSQL": 1_000_000}
QUICK = {"SQLite": 200_000, "PostgreSQL": 50_000}


class Verified(Struct, frozen=True):
    """One run."""

    differences: int
    seconds: float
    idle: int
    peak: int

    @property
    def over(self) -> int:
        """Bytes above the idle process."""
        return self.peak - self.idle


def resident(field: str) -> int:
    """Bytes: VmRSS is the memory in use now, VmHWM the peak. (`getrusage` would include the peak of the
    process that started this one.)"""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def verify(url: str, what: str) -> Verified:
    """Verify, or do a dry run of repair."""
    with holdkit.connect(url) as hk:
        hk.pools(limit=1)
        idle = resident("VmRSS")
        begin = perf_counter()
        if what == "repair":
            report = hk.admin.repair(dry_run=True)
            found = len(report.repaired) + len(report.left)
        else:
            found = len(hk.admin.verify().differences)
        if found:
            raise BenchFailed(f"{url} does not verify: {found} differences")
        return Verified(found, perf_counter() - begin, idle, resident("VmHWM"))


@contextmanager
def filled(engine: str, directory: Path, entries: int, step: Callable[[int], None]) -> Iterator[str | None]:
    """The URL of a long journal; None if this engine is not available here."""
    if engine == "SQLite":
        path = directory / "long.db"
        fill_sqlite(path, entries, step)
        yield url_of(path)
        path.unlink()
        return
    try:
        find()
    except NoPostgres:
        yield None
        return
    directory.chmod(0o711)  # PostgreSQL does not run as root, and must be able to enter the directory
    with PostgresServer(within=directory) as server:
        url = server.create_database("long")
        holdkit.migrate(url)
        fill_postgres(url, entries, step)
        yield url


def measure(url: str, what: str = "verify") -> Verified:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "bench.verifying", url, what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{what}: the process ended with {done.returncode}: {done.stderr[-500:]}")
    return msgspec.json.decode(done.stdout, type=Verified)


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(verify(sys.argv[1], sys.argv[2]))))
