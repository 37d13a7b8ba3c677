"""The archive of a long journal: its rate, what a caller notices of it, and the size of the database before and after.

One caller places holds, in windows with and without a run beside it (`archive_windows`): first of another process, as that of
`holdkit admin archive` from cron, then of a thread of its own process, which goes on where the first was ended. Once there are enough windows it goes on alone.

``python -m bench.archiving [--entries 1000000] [--dir DIR]`` does it on SQLite only.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import psycopg
from msgspec import Struct

import holdkit

from .archive_windows import PAIRS, Called, Windows, call_for, called, measure_windows
from .callers import POOL, TOTAL
from .figures import Figure
from .journals import fill_sqlite
from .rows import BenchFailed

ENTRIES = 5_000_000
QUICK = 20_000
SECONDS = 5.0
"""For which a caller is measured before and afterwards."""
BEFORE = "2m"
"""The generated entries are older, those of the caller younger."""
MOST = 1.15
"""What a run may cost a hold beside it, p50."""


class Measured(Struct, frozen=True):
    """One store."""

    engine: str
    entries: int
    before: Called
    other_process: Windows
    same_process: Windows | None
    """None if nothing was left for it."""
    after: Called
    bytes_before: int
    bytes_after: int
    bytes_later: int
    """Behind the holds of `after`."""
    bytes_files: int

    @property
    def archived(self) -> int:
        """Entries that have left."""
        return self.other_process.archived.entries + (self.same_process.archived.entries if self.same_process else 0)


def size(url: str) -> int:
    """Bytes of the journal's table and what belongs to it; of a SQLite file, all of it but its write-ahead log."""
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum holdkit.journal")  # as the server does by itself, sooner or later
        found = connection.execute("select pg_total_relation_size('holdkit.journal')").fetchone()
    assert found is not None
    return int(found[0])


def measure(
    engine: str, url: str, entries: int, to: Path, seconds: float = SECONDS, *, window: float = 1.0, pairs: int = PAIRS
) -> Measured:
    """Before, while and after its journal is archived."""
    with holdkit.connect(url) as hk:
        hk.create_pool(POOL, TOTAL)
        before, bytes_before = called(call_for(hk, seconds)), size(url)
        other = measure_windows(hk, url, str(to), BEFORE, same_process=False, window=window, pairs=pairs, finish=False)
        same = None
        if other.archived.entries < entries - entries // 10:
            same = measure_windows(hk, url, str(to), BEFORE, same_process=True, window=window, pairs=pairs)
        bytes_after, after = size(url), called(call_for(hk, seconds))
        found = Measured(
            engine, entries, before, other, same, after, bytes_before, bytes_after, size(url),
            sum(file.stat().st_size for file in to.iterdir()),
        )  # fmt: skip
    if found.archived < entries - entries // 10:
        raise BenchFailed(f"only {found.archived} of {entries} entries were archived")
    return found


def figures(found: Measured) -> list[Figure]:
    """As rows of the table."""
    name, before, mib = f"archive of {found.entries:,} entries, {found.engine}", found.before, 2**20
    rows: list[Figure] = []
    for where, windows in (("another process", found.other_process), ("the same process", found.same_process)):
        if windows is not None:
            rows += _beside(f"{name}, {where}", windows)
    return [
        *rows,
        Figure("archive", f"{name}: a hold afterwards, p50", "µs", before.p50 * 1e6, found.after.p50 * 1e6,
               found.after.p50 / before.p50),
        Figure("archive", f"{name}: database afterwards", "MiB", found.bytes_before / mib, found.bytes_after / mib,
               found.bytes_after / found.bytes_before),
        Figure("archive", f"{name}: {found.after.calls:,} holds later", "MiB", found.bytes_after / mib, found.bytes_later / mib,
               found.bytes_later / found.bytes_after),
        Figure("archive", f"{name}: its files", "MiB", None, found.bytes_files / mib),
    ]  # fmt: skip


def _beside(name: str, windows: Windows) -> list[Figure]:
    """Ratios are the median of those of all pairs of windows."""
    one, two = windows.resting, windows.working
    rows = [
        Figure("archive", f"{name}: a hold beside it, p50", "µs", one.p50 * 1e6, two.p50 * 1e6, median(windows.p50),
               at_most=MOST, ratios=windows.p50),
        Figure("archive", f"{name}: a hold beside it, p99", "µs", one.p99 * 1e6, two.p99 * 1e6, median(windows.p99)),
        Figure("archive", f"{name}: a hold beside it, mean", "µs", one.mean * 1e6, two.mean * 1e6, median(windows.mean)),
        Figure("archive", f"{name}: beside a caller", "entries/s", None, windows.rate),
    ]  # fmt: skip
    if windows.rate_alone is not None:
        rows.append(Figure("archive", f"{name}: alone", "entries/s", None, windows.rate_alone))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir, prefix="bench-") as place:
        fill_sqlite(Path(place) / "long.db", given.entries)
        measured = measure("SQLite", f"sqlite:///{place}/long.db", given.entries, Path(place) / "archive")
    for row in figures(measured):
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
        print(f"{row.name:75} {row.other or 0:10,.0f} {row.ours:10,.0f} {row.unit:9} {ratio}")
