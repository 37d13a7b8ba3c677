"""The archive of a long journal: its rate, what a caller notices of it, and the size of the database before and after.

``python -m bench.archiving URL DIR`` archives everything that may leave, as `holdkit archive` from cron does: in a process of its own. It
prints the number of entries and the seconds. Meanwhile one caller of another process places holds, as it does before and afterwards.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import msgspec
import psycopg
from msgspec import Struct

import holdkit

from .callers import POOL, TOTAL, TTL
from .figures import Figure
from .rows import BenchFailed

ENTRIES = 5_000_000
QUICK = 20_000
SECONDS = 5.0
"""For which a caller is measured before and afterwards."""


class Archived(Struct, frozen=True):
    """What the archiving process has done."""

    entries: int
    seconds: float
    files: int


class Called(Struct, frozen=True):
    """One caller: calls, and seconds of the half and of the slowest hundredth."""

    calls: int
    p50: float
    p99: float


class Measured(Struct, frozen=True):
    """One store."""

    engine: str
    entries: int
    archived: Archived
    before: Called
    beside: Called
    after: Called
    bytes_before: int
    bytes_after: int
    bytes_later: int
    """Behind the holds of `after`."""
    bytes_files: int


def call_while(hk: holdkit.Kernel, going: Callable[[], bool]) -> Called:
    """Place holds, one after the other."""
    taken: list[float] = []
    while going() or len(taken) < 2:
        begin = perf_counter()
        hk.hold(POOL, 1, ttl=TTL)
        taken.append(perf_counter() - begin)
    parts = quantiles(taken, n=100)
    return Called(len(taken), parts[49], parts[98])


def call_for(hk: holdkit.Kernel, seconds: float) -> Called:
    """The same for some time."""
    end = perf_counter() + seconds
    return call_while(hk, lambda: perf_counter() < end)


def size(url: str) -> int:
    """Bytes of the journal's table and what belongs to it; of a SQLite file, all of it but its write-ahead log."""
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum holdkit.journal")  # as the server does by itself, sooner or later
        found = connection.execute("select pg_total_relation_size('holdkit.journal')").fetchone()
    assert found is not None
    return int(found[0])


def measure(engine: str, url: str, entries: int, to: Path, seconds: float = SECONDS) -> Measured:
    """Before, while and after its journal is archived."""
    with holdkit.connect(url) as hk:
        hk.create_pool(POOL, TOTAL)
        before, bytes_before = call_for(hk, seconds), size(url)
        command = [sys.executable, "-m", "bench.archiving", url, str(to)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            beside = call_while(hk, lambda: process.poll() is None)
            assert process.stdout is not None
            told = process.stdout.read()
        if process.returncode:
            raise BenchFailed(f"archive: the process ended with {process.returncode}")
        archived, bytes_after = msgspec.json.decode(told, type=Archived), size(url)
        if archived.entries < entries - entries // 10:
            raise BenchFailed(f"only {archived.entries} of {entries} entries were archived")
        after = call_for(hk, seconds)
        bytes_later = size(url)
    files = sum(file.stat().st_size for file in to.iterdir())
    return Measured(
        engine, entries, archived, before, beside, after, bytes_before, bytes_after, bytes_later, files
    )  # fmt: skip


def figures(found: Measured) -> list[Figure]:
    """As rows of the table."""
    name, archived, mib = f"archive of {found.entries:,} entries, {found.engine}", found.archived, 2**20
    before, beside = found.before, found.beside
    return [
        Figure("archive", name, "entries/s", None, archived.entries / archived.seconds),
        Figure("archive", f"{name}: a hold beside it, p50", "µs", before.p50 * 1e6, beside.p50 * 1e6, beside.p50 / before.p50),
        Figure("archive", f"{name}: a hold beside it, p99", "µs", before.p99 * 1e6, beside.p99 * 1e6, beside.p99 / before.p99),
        Figure("archive", f"{name}: a hold afterwards, p50", "µs", before.p50 * 1e6, found.after.p50 * 1e6,
               found.after.p50 / before.p50),
        Figure("archive", f"{name}: database afterwards", "MiB", found.bytes_before / mib, found.bytes_after / mib,
               found.bytes_after / found.bytes_before),
        Figure("archive", f"{name}: {found.after.calls:,} holds later", "MiB", found.bytes_after / mib, found.bytes_later / mib,
               found.bytes_later / found.bytes_after),
        Figure("archive", f"{name}: its files", "MiB", None, found.bytes_files / mib),
    ]  # fmt: skip


def archive(url: str, to: str) -> Archived:
    """Everything that may leave the journal."""
    with holdkit.connect(url) as hk:
        begin = perf_counter()
        report = hk.archive(before="2m", to=to)
        return Archived(report.entries, perf_counter() - begin, len(report.files))


if __name__ == "__main__":
    print(msgspec.json.encode(archive(sys.argv[1], sys.argv[2])).decode())
