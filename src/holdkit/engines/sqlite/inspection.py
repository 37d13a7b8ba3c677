"""A SQLite file looked at from outside: a health check, which changes nothing, and copies, taken while the file is in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ...errors import EngineError
from ..doctor import Finding, examine_path
from .driver import Driver, Script, Statement, migrations
from .opening import MINIMUM, NETWORK, SQLITE_ERRORS, error_from_sqlite, file_system, present_version
from .rows import new_generation

LONG_WAL = 256 << 20
"""Bytes of write-ahead log that say that no checkpoint gets through."""


class SqliteFiles:
    """The database file and its write-ahead log."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def data_path(self) -> Path:
        """Return the file's path."""
        return self._path

    def data_size(self) -> int:
        """Return the bytes of both files."""
        files = (self._path, Path(f"{self._path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def examine(path: str, min_free: int) -> Iterator[Finding]:
    """Examine the library, the file system, the file, its settings, its schema."""
    yield examine_library(sqlite3.sqlite_version_info)
    yield examine_file_system(file_system(path))
    yield from examine_path(Path(path), min_free)
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    except SQLITE_ERRORS as error:
        yield Finding("file", "fail", str(error), "check owner and mode, or restore a backup")
        return
    try:
        yield from _inside(connection, path)
    except SQLITE_ERRORS as error:
        yield Finding("file", "fail", str(error), "restore a backup")
    finally:
        connection.close()


def examine_library(version: tuple[int, ...]) -> Finding:
    """Examine the SQLite that Python was built with."""
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
    """Warn about network file systems, on which SQLite loses data."""
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


PAGES = 1_024
"""Copied at a time."""


def copy(path: str, to: Path, progress: Callable[[int, int], None], *, at_rest: bool = False) -> None:
    """Copy the whole file, an application's own tables included, into a new one, as it is at the beginning; writers continue meanwhile.
    Reads a file that is `at_rest`, as backups are, without creating files beside it."""
    try:
        how = "immutable=1" if at_rest and not Path(f"{path}-wal").exists() else "mode=rw"
        source = sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, isolation_level=None)
        try:
            source.execute("begin")  # one snapshot for all steps: else the copy would begin anew with every commit
            source.execute("select count(*) from sqlite_schema").fetchone()
            target = sqlite3.connect(to, isolation_level=None)
            try:
                source.backup(target, pages=PAGES, progress=lambda _, left, total: progress(total - left, total))
            finally:
                target.close()
        finally:
            source.close()
    except SQLITE_ERRORS as error:
        raise error_from_sqlite(path, error) from error


def check_structure(path: Path) -> None:
    """Raise `EngineError` if SQLite finds pages damaged, or an index that differs from its table: `verify` reads the tables only."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            (problem,) = connection.execute("pragma integrity_check(1)").fetchone()
    except SQLITE_ERRORS as error:
        raise error_from_sqlite(str(path), error) from error
    if problem != "ok":
        raise EngineError(f"SQLite found the copy damaged: {problem}")


def renew_generation(path: Path) -> None:
    """Give a copy that is put back a new generation, because another life of its journal begins."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            driver = Driver(connection)
            driver.tell("begin immediate")
            driver.run(_renewing())
            driver.tell("commit")
    except SQLITE_ERRORS as error:
        raise error_from_sqlite(str(path), error) from error


def _renewing() -> Script[None]:
    yield (Statement("put_setting", [new_generation()], many=True),)


def vacate(path: str) -> None:
    """Remove the write-ahead log, so that a successor of the file does not inherit it. Raise `EngineError` if a connection has the file
    open."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("pragma locking_mode = exclusive")
        connection.execute("begin exclusive")
        connection.execute("rollback")
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise EngineError(f"{path} is in use: stop whoever has it open first") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        pass  # damaged: that is why it is replaced
    finally:
        connection.close()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
