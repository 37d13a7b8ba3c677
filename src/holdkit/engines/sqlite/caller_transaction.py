"""Calls inside a caller's own transaction: the caller's rows and ours are committed together, or neither.

Theory of operation. `tx` is the caller's `sqlite3.Connection`, to the very file of the engine. Every precondition is checked before
anything is written: the connection is open, belongs to this thread, returns text as `str`, has our file as its main database, and may
write. Then the call runs in a savepoint of its own:

- If the connection has no transaction, ours is begun with BEGIN IMMEDIATE; the caller commits it.
- If it has one, the write lock is claimed by an empty write first. A transaction that has only read may be too old to ever get the lock
  (SQLITE_BUSY at once), which is the caller's error; one that waited as long as the caller's busy_timeout allows is `Overloaded`.
- A refusal is an outcome like any other. An error or an interrupt rolls back to the savepoint, and the caller's transaction is as
  usable as before; a transaction that this call has begun is rolled back whole.

Nothing here commits, closes, or changes a setting of the caller's connection. The fair write lock is not used: the caller decides how
long the transaction takes, and SQLite's own write lock excludes our writer anyway, which waits for it.

*Deadlocks.* A plain call of the same thread would wait for the caller's open transaction for ever. `OpenTransactions` remembers, per
thread, the connections that have our rows in an open transaction, and such a call is refused at once.

*Ended behind our back.* Application code may end a transaction that it must not end. `SavepointMark` sets a savepoint with a random name:
it can be released only if the transaction is still open and was not rolled back behind it, whatever words were used to end it.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import local

from ...core.validation import invalid
from ...errors import EngineError, InvalidRequest, Overloaded
from ..driver_connections import transaction_ended
from .driver import Driver, OnStatement, Script
from .opening import connect, error_from_sqlite, set_up
from .script import RunAgain, ScriptResult
from .writer import Identity, identity

ADVICE = "begin it with BEGIN IMMEDIATE, or let Holdkit begin it by passing a connection without an open transaction"


class OpenTransactions:
    """The callers' transactions that have our rows and are still open, by thread."""

    def __init__(self) -> None:
        self._mine = local()
        self.used = False
        """Whether any thread has ever had one: most applications never pass tx=."""

    def remember(self, tx: sqlite3.Connection) -> None:
        """Note that this thread has an open transaction with our rows in it."""
        self.used = True
        open_ones = self._open()
        if all(one is not tx for one in open_ones):
            open_ones.append(tx)

    def check(self) -> None:
        """Refuse a plain call that would wait for this very thread."""
        if self._open():
            raise invalid(
                "tx",
                "tx_open_here",
                "this thread has an open transaction with holds in it, which a call without tx= would wait for for ever: "
                "pass tx= here too, or commit first",
            )

    def _open(self) -> list[sqlite3.Connection]:
        # A sqlite3.Connection cannot be referenced weakly: it is let go at the first look after its transaction ended.
        kept: list[sqlite3.Connection] = [one for one in getattr(self._mine, "open", ()) if in_transaction(one)]
        self._mine.open = kept
        return kept


def in_transaction(connection: sqlite3.Connection) -> bool:
    """Return whether a connection has an open transaction; a closed one has none."""
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:  # closed
        return False


def run_in_caller_transaction(
    connection: sqlite3.Connection,
    path: str,
    file: Identity | None,
    make: Callable[[], Script[ScriptResult | RunAgain]],
    on_statement: OnStatement | None,
) -> ScriptResult:
    """Run the script inside the caller's transaction, again as often as a backlog of due legs goes first. `file` is None for a database
    in memory, which is known by its connection."""
    driver = Driver(connection, on_statement)
    began = not connection.in_transaction
    try:
        check_database(driver, path, file)
        if began:
            _begin(driver, path)
        return _in_savepoint(driver, path, make, began=began)
    except BaseException:
        if began and in_transaction(connection):
            with suppress(sqlite3.Error):
                driver.tell("rollback")
        raise
    finally:
        with suppress(sqlite3.Error):
            driver.cursor.close()


def check_connection(tx: object) -> sqlite3.Connection:
    """Return `tx` as an open sqlite3 connection of this thread that returns text as `str`; otherwise raise."""
    if not isinstance(tx, sqlite3.Connection):
        raise invalid("tx", "tx_unsupported", _advice(tx))
    try:
        tx.in_transaction  # noqa: B018  (raises if closed)
        sqlite3.Cursor(tx).close()
    except sqlite3.ProgrammingError as error:
        raise invalid("tx", "tx_unusable", f"the connection cannot be used here: {error}") from error
    if tx.text_factory is not str:
        raise invalid(
            "tx", "tx_text_factory", "the connection's text_factory must be str while Holdkit reads through it"
        )
    return tx


def _advice(tx: object) -> str:
    if isinstance(getattr(tx, "connection", None), sqlite3.Connection):
        return f"must be the connection itself, not its {type(tx).__name__}"
    name = f"{type(tx).__module__}.{type(tx).__name__}"
    return f"must be a sqlite3.Connection, or SQLAlchemy's or Django's around one, not {name}"


def check_database(driver: Driver, path: str, file: Identity | None, *, reading: bool = False) -> None:
    """Check that the connection's main database is our file and, unless it is only read, writable."""
    if file is not None:
        _check_file(driver, path, file)
    if not reading and driver.tell("pragma query_only")[0][0]:
        raise invalid("tx", "tx_read_only", "the connection is read-only (pragma query_only): switch that off first")


def _check_file(driver: Driver, path: str, file: Identity) -> None:
    main = [str(main_path) for _, name, main_path in driver.tell("pragma database_list") if name == "main"]
    try:
        same = bool(main and main[0]) and identity(main[0]) == file
    except OSError:
        same = False
    if not same:
        raise invalid("tx", "tx_other_database", f"the connection must be to {path} itself, as its main database")


def _begin(driver: Driver, path: str) -> None:
    try:
        driver.tell("begin immediate")
    except sqlite3.Error as error:
        raise _refusal(path, error) from error


def _in_savepoint(
    driver: Driver, path: str, make: Callable[[], Script[ScriptResult | RunAgain]], *, began: bool
) -> ScriptResult:
    try:
        driver.tell("savepoint holdkit")
    except sqlite3.Error as error:
        raise _refusal(path, error) from error
    try:
        if not began:
            _claim(driver, path)
        ran = driver.run(make())
        while isinstance(ran, RunAgain):  # what goes first is in the caller's transaction too, whose length is theirs
            ran = driver.run(make())
        driver.tell("release holdkit")
    except BaseException as error:
        with suppress(sqlite3.Error):
            driver.connection.execute("rollback to holdkit")
            driver.connection.execute("release holdkit")
        if isinstance(error, sqlite3.Error):
            raise _refusal(path, error) from error
        raise
    return ran


def _claim(driver: Driver, path: str) -> None:
    """Take the write lock now; a transaction that has only read may be too old to ever get it."""
    patience = driver.tell("pragma busy_timeout")[0][0] / 1000
    begin = time.monotonic()
    try:
        driver.ask("claim_write_lock")
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        waited = time.monotonic() - begin
        if code == sqlite3.SQLITE_BUSY and 0 < patience <= waited * 1.25:
            raise Overloaded(f"another transaction kept the write lock of {path}", retry_after=1.0) from error
        if code & 0xFF == sqlite3.SQLITE_BUSY:
            raise invalid(
                "tx",
                "tx_cannot_write",
                f"the transaction has only read so far, and others have written since: {ADVICE}",
            ) from error
        raise


def _refusal(path: str, error: sqlite3.Error) -> InvalidRequest | EngineError | Overloaded:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
        return invalid("tx", "tx_read_only", "the connection is read-only: open it for writing")
    return error_from_sqlite(path, error)


def open_application_connection(path: str, *, timeout: float = 10.0) -> sqlite3.Connection:
    """Open a connection for an application's own tables in the same file, safe beside ours.

    Autocommit mode (begin transactions yourself, with BEGIN IMMEDIATE if they write), synchronous=FULL, and wal_autocheckpoint=0:
    checkpoints are the engine's work, for SQLite can lose a commit that meets one.
    """
    connection = connect(path, timeout)
    set_up(connection)
    return connection


class SavepointMark:
    """A mark in one connection's open transaction."""

    def __init__(self, connection: sqlite3.Connection, on_statement: OnStatement | None) -> None:
        self._driver = Driver(connection, on_statement)
        self._name = f"holdkit_{secrets.token_hex(8)}"
        self._driver.tell(f"savepoint {self._name}")

    def check(self) -> None:
        """Remove the mark; `InvalidRequest` if it is gone."""
        try:
            self._driver.tell(f"release {self._name}")
        except sqlite3.Error as error:
            raise transaction_ended() from error

    async def check_async(self) -> None:
        """Run in the loop's thread, to which the connection belongs."""
        self.check()
