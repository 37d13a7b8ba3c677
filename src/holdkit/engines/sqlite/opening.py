"""Opening: from a path to connections with the settings we rely on and an up-to-date schema, or an error that says what to do.

WAL, synchronous=FULL (on macOS with full syncs) and wal_autocheckpoint=0, always: these are not choices. A missing file is created for
its owner only and synced together with its directory. An existing database file is never opened as a plain file: closing such a
descriptor would drop SQLite's own locks in this process.

Migrations are numbered and forward-only, all in one transaction under the write lock: the schema is old or new, never half. A schema
newer than this release is refused, and so are tables that have our names but are not ours. Tables whose names do not begin with
``holdkit_`` are never touched.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from ...core.bounds import MEANING, Limits
from ...core.limits import LIMITS_KEY
from ...core.model import Record, Slot
from ...errors import EngineError, Overloaded
from ..durability import sync_file
from ..settings import StoredLimits, check_asked, limits_as_created
from .driver import Driver, Row, Script, Statement, migrations
from .forking import check_inherited
from .rows import SECRET, new_generation, new_secret, setting_row

MINIMUM: Final = (3, 38, 0)
"""The first release with the ->> operator and built-in JSON."""

NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs",
                            "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"})  # fmt: skip
"""File systems on which SQLite's shared memory does not work."""

OLDEST: Final = 4
"""The oldest version that is migrated: before it, rows had other checksums. There is no release with an older one."""


def check_library(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raise unless the SQLite that Python was built with is new enough."""
    if version < MINIMUM:
        raise EngineError(
            f"needs SQLite {'.'.join(map(str, MINIMUM))} or later, but this Python was built with "
            f"{'.'.join(map(str, version))}: use a newer Python build"
        )


def prepare_file(path: str) -> bool:
    """Make sure that there is a file of ours to open; whether it was created now."""
    directory = Path(path).parent
    if not directory.is_dir():
        raise EngineError(f"cannot open {path}: the directory {directory} does not exist; create it first")
    if Path(path).is_dir():
        raise EngineError(f"cannot open {path}: it is a directory; name a file in it")
    kind = file_system(path)
    if kind in NETWORK:
        raise EngineError(
            f"cannot open {path}: it lies on a network file system ({kind}), where SQLite loses data; use a local disk"
        )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise EngineError(
                f"cannot open {path}: this process may not read and write it; check its owner and mode"
            ) from None
        return False
    except OSError as error:
        raise EngineError(f"cannot create {path}: {_advice(error)}") from error
    try:
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(directory)
    except OSError as error:
        raise EngineError(f"cannot create {path}: {_advice(error)}") from error
    return True


def sync_directory(directory: Path) -> None:
    """Sync a directory: the name of a new file is on disk only then."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def error_from_os(path: str, error: OSError) -> EngineError:
    """Return the Holdkit error for an error of the operating system that certainly had no effect."""
    return EngineError(f"cannot use {path}: {_advice(error)}")


def _advice(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "the disk is mounted read-only"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this process may not write to its directory"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return error.strerror or str(error)


def file_system(path: str, mounts: str | None = None) -> str | None:
    """Return the type of the file system a path lies on, where the system tells it."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape")
        except OSError:
            return None
    best, kind = "", None
    real = os.path.realpath(path)
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").rstrip("/") + "/"
        if real.startswith(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def connect(path: str, seconds: float, *, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open a connection in autocommit mode, usable from any thread, that waits up to `seconds` for other writers."""
    check_inherited(path)
    try:
        connection = sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False,
                                     cached_statements=256, factory=factory)  # fmt: skip
    except sqlite3.Error as error:
        raise error_from_sqlite(path, error) from error
    return connection


def set_up(connection: sqlite3.Connection) -> None:
    """Apply the settings of every connection of ours that may write."""
    connection.execute("pragma wal_autocheckpoint = 0")
    connection.execute("pragma synchronous = full")
    connection.execute("pragma fullfsync = on")  # counts on macOS only, where an fsync is not on disk
    connection.execute("pragma checkpoint_fullfsync = on")
    connection.execute("pragma trusted_schema = off")


def turn_to_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch the file to WAL mode, unless it is; that may have to wait for other connections."""
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise EngineError(f"cannot open {path}: it cannot be turned to WAL mode (it stays in {mode!r})")


_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
"""Another connection has locked the file. (PROTOCOL: the WAL's index is torn, for example by a kill, and a writer has kept its lock
for the ten seconds during which SQLite tries to repair it.)"""


SQLITE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises on a damaged file. (The second: Python cannot decode a message that quotes bytes of a damaged schema.)"""


def error_from_sqlite(path: str, error: sqlite3.Error | UnicodeDecodeError) -> EngineError | Overloaded:
    """Return the Holdkit error for an error of SQLite that certainly had no effect."""
    if isinstance(error, UnicodeDecodeError):
        return EngineError(f"cannot use {path}: it is damaged: restore a backup")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _LOCKED:
        return Overloaded(f"{path} is locked by another writer", retry_after=1.0)
    words = {
        sqlite3.SQLITE_NOTADB: "it is not an SQLite database (or is encrypted)",
        sqlite3.SQLITE_CORRUPT: "it is damaged: restore a backup",
        sqlite3.SQLITE_READONLY: "it, its directory or its disk is read-only",
        sqlite3.SQLITE_FULL: "the disk is full; nothing was written",
        sqlite3.SQLITE_CANTOPEN: "SQLite cannot open it or the files beside it; check owner and mode",
        sqlite3.SQLITE_PERM: "this process may not write it; check its owner and mode",
        sqlite3.SQLITE_CONSTRAINT: f"its rows contradict each other ({error}): run verify to have them named",
        sqlite3.SQLITE_IOERR: f"the disk reports an error ({error})",
    }
    return EngineError(f"cannot use {path}: {words.get(code, str(error))}")


def error_at_opening(path: str, error: sqlite3.Error | UnicodeDecodeError | OSError) -> EngineError | Overloaded:
    """Return the Holdkit error for an error of SQLite or of the system while a file was opened."""
    return error_from_os(path, error) if isinstance(error, OSError) else error_from_sqlite(path, error)


def migrate(driver: Driver, path: str, limits: Limits, now: Slot) -> None:
    """Bring the schema up to date, in one transaction, that of the connection if it has one; with the first migration the limits that
    change meaning are stored."""
    steps = migrations()
    if present_version(driver, path) == steps[-1][0]:
        return
    began = not driver.connection.in_transaction
    if began:
        driver.tell("begin immediate")
    try:
        version = present_version(driver, path)  # another process may have been faster
        _check_version(version, steps[-1][0], path)
        for step in steps:
            if step[0] > version:
                _step(driver, path, step, limits, now)
        if began:
            driver.tell("commit")
    except BaseException:
        if began and driver.connection.in_transaction:
            driver.connection.rollback()
        raise


def _check_version(version: int, newest: int, path: str) -> None:
    if version > newest:
        raise EngineError(
            f"cannot open {path}: its schema is version {version}, this release knows {newest}; "
            f"use a release at least as new as the one that wrote it"
        )
    if 0 < version < OLDEST:
        raise EngineError(
            f"cannot open {path}: its schema is version {version}, this release migrates from {OLDEST} on; the file is from before the "
            f"first release: begin a new one"
        )


def present_version(driver: Driver, path: str) -> int:
    """Return the schema's version, 0 if it has none; refuse another application's table of that name."""
    ours = [table for (table,) in driver.ask("list_our_tables")]
    if "holdkit_migrations" not in ours:
        if ours:
            raise EngineError(
                f"cannot open {path}: it has a table {ours[0]} that is not ours; rename it, or use another file"
            )
        return 0
    try:
        return int(driver.ask("schema_version")[0][0] or 0)
    except (sqlite3.OperationalError, TypeError, ValueError) as error:
        raise EngineError(
            f"cannot open {path}: its table holdkit_migrations is not ours; rename it, or use another file"
        ) from error


TREES: Final = 6
"""The migration from which on an id with // names a child of another pool."""


KEYED: Final = 9
"""The migration from which on a file has a secret, for keyed names."""


def check_ids(driver: Driver, path: str) -> None:
    """Refuse a database in which an earlier release created a pool with // in its id: no parent counts that pool and its units."""
    for (name,) in driver.ask("find_path"):
        raise EngineError(
            f"cannot open {path}: since this release, an id with // names a pool below another one, and its pool {name!r} "
            f"was created before; remove it with the release that created it, and create it anew under another id"
        )


def _step(driver: Driver, path: str, step: tuple[int, str, str], limits: Limits, now: Slot) -> None:
    number, name, text = step
    if not driver.ask("has_version_table")[0][0]:
        driver.ask("create_version_table")
    if number == TREES:
        check_ids(driver, path)
    for statement in split(text):
        driver.tell(statement)
    if number == 1:
        driver.run(_store(limits))
    if number == KEYED:
        driver.run(_store_secret())
    driver.ask("record_version", (number, name, now))


def split(text: str) -> list[str]:
    """Split a script into statements."""
    statements, present = [], ""
    for line in text.splitlines():
        bare = line.split("--", 1)[0].rstrip()
        if bare:
            present += bare + "\n"
            if sqlite3.complete_statement(present):
                statements.append(present.strip())
                present = ""
    assert not present, "a migration ends with a semicolon"
    return statements


def _store(limits: Limits) -> Script[None]:
    rows: list[Row] = [new_generation()]
    rows += [setting_row(f"limit.{name}", getattr(limits, name)) for name in MEANING]
    yield (Statement("put_setting", rows, many=True),)


def _store_secret() -> Script[None]:
    yield (Statement("put_setting", [new_secret()], many=True),)


def stored_secret(driver: Driver, path: str) -> bytes:
    """Return the secret of the file, for keyed names."""
    for (value,) in driver.ask("find_setting", (SECRET,)):
        try:
            return bytes.fromhex(msgspec.json.decode(value, type=str))
        except (ValueError, msgspec.DecodeError) as error:
            raise EngineError(f"cannot open {path}: its secret is damaged; restore a backup") from error
    raise EngineError(f"cannot open {path}: its settings lack the secret; restore a backup")


def _stored_limit(value: str, path: str) -> int | None:
    try:
        limit: int | None = msgspec.json.decode(value, type=int | None)
    except msgspec.DecodeError as error:
        raise EngineError(f"cannot open {path}: its limits are damaged; restore a backup") from error
    return limit


def stored_limits(driver: Driver, path: str, asked: Limits | None, secret: bytes) -> StoredLimits:
    """Return the limits in force: those that change meaning as stored, the others as asked for."""
    stored = {
        name[6:]: _stored_limit(value, path)
        for name, value in driver.ask("load_settings")
        if name.startswith("limit.") and name[6:] in MEANING
    }
    created = limits_as_created(path, stored, asked, Limits())
    record = next((Record(*row) for row in driver.ask("load_record", LIMITS_KEY)), None)
    stored_now = StoredLimits(created, record, secret=secret)
    return check_asked(path, asked, stored_now)
