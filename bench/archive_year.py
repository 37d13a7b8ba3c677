"""A system of a year whose journal is archived but for a month, beside one that only ever had that month.

Both give back what they hold, at the same rate, in the same pools; their retention is the default, 30 days. Caller and files alternate,
as everywhere: first the month and the whole year, then, when the entries of eleven months have left, the month and what is left.

``python -m bench.archive_year [--entries 5000000] [--dir DIR]`` prints sizes and the latency of a hold.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from msgspec import Struct

import holdkit

from .archive_windows import Called, call_for, called
from .callers import POOL, TOTAL
from .journals import fill_sqlite, of_days
from .rows import BenchFailed
from .stores import url

ENTRIES = 5_000_000
YEAR, MONTH = 365, 30
POOLS = 8_000
MIB = 2**20


class Size(Struct, frozen=True):
    """Of a file, in bytes: all of it, and the pages that are in use."""

    file: int
    used: int


class Compared(Struct, frozen=True):
    """Two files, one caller: the ratios are those of each round."""

    month: Called
    year: Called
    p50: tuple[float, ...]
    p99: tuple[float, ...]


class YearAndMonth(Struct, frozen=True):
    """What was measured."""

    entries: int
    archived: int
    seconds: float
    month: Size
    before: Size
    after: Size
    month_later: Size
    """When `vacuumed` was taken: the caller has placed more holds meanwhile."""
    vacuumed: Size
    at_first: Compared
    at_last: Compared


def size(path: Path) -> Size:
    """Of a file that nobody writes to at the moment."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        pages, free, bytes_of_page = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return Size(pages * bytes_of_page, (pages - free) * bytes_of_page)


def compare(month: Path, year: Path, rounds: int, seconds: float) -> Compared:
    """Alternate; who is first changes with each round."""
    taken: tuple[list[list[float]], list[list[float]]] = ([], [])
    with holdkit.connect(url(month)) as one, holdkit.connect(url(year)) as two:
        for hk in (one, two):
            hk.create_pool(POOL, TOTAL, exist_ok=True)
            call_for(hk, seconds / 4)
        for turn in range(rounds):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                taken[which].append(call_for((one, two)[which], seconds))
    pairs = [(called(small), called(large)) for small, large in zip(*taken, strict=True)]
    all_small, all_large = (called([call for calls in each for call in calls]) for each in taken)
    return Compared(
        all_small,
        all_large,
        tuple(large.p50 / small.p50 for small, large in pairs),
        tuple(large.p99 / small.p99 for small, large in pairs),
    )


def measure(
    directory: Path, entries: int = ENTRIES, *, pools: int = POOLS, rounds: int = 10, seconds: float = 1.0
) -> YearAndMonth:
    """Make both, compare, archive, compare."""
    month, year, to = directory / "month.db", directory / "year.db", directory / "year-archive"
    fill_sqlite(month, of_days(MONTH, entries * MONTH // YEAR, pools))
    fill_sqlite(year, of_days(YEAR, entries, pools))
    before = size(year)
    at_first = compare(month, year, rounds, seconds)
    with holdkit.connect(url(year)) as hk:
        begin = perf_counter()
        report = hk.admin.archive(before=f"{MONTH}d", to=to)
        taken = perf_counter() - begin
    small, after = size(month), size(year)  # both with the holds of the caller
    at_last = compare(month, year, rounds, seconds)
    with holdkit.connect(url(year)) as hk:
        if not hk.admin.verify(archive=to).ok:
            raise BenchFailed("the archived year does not verify")
    later = size(month)
    with closing(sqlite3.connect(year, isolation_level=None)) as connection:
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    return YearAndMonth(entries, report.entries, taken, small, before, after, later, size(year), at_first, at_last)


def lines(found: YearAndMonth) -> list[str]:
    """For people."""

    def of(what: str, one: Size) -> str:
        return f"{what:34} {one.file / MIB:8.0f} MiB, in use {one.used / MIB:8.0f} MiB"

    def beside(what: str, one: Compared) -> str:
        return (f"{what:34} p50 {one.year.p50 * 1e6:.0f} µs, p99 {one.year.p99 * 1e6:.0f} µs; of the month {one.month.p50 * 1e6:.0f} and "
                f"{one.month.p99 * 1e6:.0f}; ratios {median(one.p50):.2f} and {median(one.p99):.2f}")  # fmt: skip

    return [
        f"{found.archived:,} of {found.entries:,} entries archived in {found.seconds:.0f} s: {found.archived / found.seconds:,.0f}/s",
        of("a month", found.month),
        of("a year", found.before),
        of("a year, archived", found.after),
        of("a month, more holds later", found.month_later),
        of("a year, archived, later, VACUUM", found.vacuumed),
        beside("a hold, year", found.at_first),
        beside("a hold, year, archived", found.at_last),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir, prefix="bench-") as place:
        print("\n".join(lines(measure(Path(place), given.entries))))
