"""Copies of a file: taken while it is in use, as of one moment; put in the place of one that is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ...errors import EngineError
from .driver import Driver, Script, write
from .opening import trouble
from .rows import new_generation

PAGES = 1_024
"""Copied at a time."""


def copy(path: str, to: Path, progress: Callable[[int, int], None], *, at_rest: bool = False) -> None:
    """The whole file, an application's own tables included, into a new one. Writers go on meanwhile, and are not in it. One
    that is `at_rest`, as backups are, gets no files beside it."""
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
    except sqlite3.Error as error:
        raise trouble(path, error) from error


def renew_generation(path: Path) -> None:
    """A copy that is put back begins another life of its journal."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            driver = Driver(connection)
            driver.tell("begin immediate")
            driver.run(_renewing())
            driver.tell("commit")
    except sqlite3.Error as error:
        raise trouble(str(path), error) from error


def _renewing() -> Script[None]:
    yield (write("put_setting", [new_generation()]),)


def vacate(path: str) -> None:
    """Make sure that nobody has the file open, and that no write-ahead log of it is left for its successor."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("pragma locking_mode = exclusive")
        connection.execute("begin exclusive")
        connection.execute("rollback")
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise EngineError(f"{path} is in use: stop whoever has it open first") from error
    except sqlite3.DatabaseError:
        pass  # damaged: that is why it is replaced
    finally:
        connection.close()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
