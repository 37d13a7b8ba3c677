"""Examining an SQLite file for `holdkit doctor`: looks through a connection that cannot write, and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ..doctor import Finding, examine_place
from .driver import Driver, migrations
from .opening import MINIMUM, NETWORK, file_system, present_version

LONG_WAL = 256 << 20
"""Bytes of write-ahead log that say that no checkpoint gets through."""


def examine(path: str) -> Iterator[Finding]:
    """The library, the file system, the file, its settings, its schema."""
    yield examine_library(sqlite3.sqlite_version_info)
    yield examine_file_system(file_system(path))
    yield from examine_place(Path(path))
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        yield Finding("file", "fail", str(error), "check owner and mode, or restore a backup")
        return
    try:
        yield from _inside(connection, path)
    except sqlite3.Error as error:
        yield Finding("file", "fail", str(error), "restore a backup")
    finally:
        connection.close()


def examine_library(version: tuple[int, ...]) -> Finding:
    """The SQLite that Python was built with."""
    words = f"SQLite {'.'.join(map(str, version))}"
    if version < MINIMUM:
        return Finding(
            "library", "fail", f"{words} is too old", f"use a Python built with {MINIMUM[0]}.{MINIMUM[1]} or later"
        )
    patched = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if not patched:
        return Finding(
            "library",
            "warn",
            f"{words} can lose a commit that meets another connection's checkpoint (the WAL-reset bug)",
            "Holdkit's own connections avoid it; set `pragma wal_autocheckpoint = 0` on your own, or use 3.51.3 or later",
        )
    return Finding("library", "ok", words)


def examine_file_system(kind: str | None) -> Finding:
    """SQLite loses data on network file systems."""
    if kind in NETWORK:
        return Finding("file system", "fail", f"{kind} is a network file system", "move the file to a local disk")
    return Finding("file system", "ok", kind or "unknown")


def _inside(connection: sqlite3.Connection, path: str) -> Iterator[Finding]:
    mode = connection.execute("pragma journal_mode").fetchone()[0]
    yield (
        Finding("journal mode", "ok", "wal")
        if mode == "wal"
        else Finding("journal mode", "warn", f"{mode}, not wal", "open it once with Holdkit: it is turned to WAL")
    )
    yield Finding("synchronous", "ok", "full on Holdkit's own connections; a file cannot store it")
    pages = connection.execute("pragma wal_autocheckpoint").fetchone()[0]
    yield Finding(
        "wal_autocheckpoint", "ok", f"0 on Holdkit's own connections; {pages} by default on others: set 0 there"
    )
    wal = Path(f"{path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    long = size > LONG_WAL
    yield Finding("write-ahead log", "warn" if long else "ok", f"{size >> 10} KiB",
                  "a reader that never ends keeps checkpoints from getting through: find and end it" if long else "")  # fmt: skip
    version, newest = present_version(Driver(connection), path), migrations()[-1][0]
    fine = version == newest
    yield Finding("schema", "ok" if fine else "warn", f"version {version}, this release knows {newest}",
                  "" if fine else "open it once with the newest release")  # fmt: skip
