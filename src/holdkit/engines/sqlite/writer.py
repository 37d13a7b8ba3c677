"""The writer: the one connection that writes, and everything that can go wrong with it.

Theory of operation. Every transaction runs under two locks: the process's own (one thread at a time), then the fair write lock (one
process at a time, in order of arrival). Both waits together are bounded by `lock_timeout` and by the call's deadline. Under the locks:

1. `_ready`: the path still names the file that was opened; there is a connection; nothing is in doubt (see below).
2. `begin immediate`, the script, `commit`. A script may say that something must go first (a backlog, room in a bounded table): it is
   committed, and the script is run again.
3. If it is due, a checkpoint, while a second connection of ours holds SQLite's write lock (see `checkpointing`).

*Errors before COMMIT* are rolled back: certainly nothing was done, and an `EngineError` or `Overloaded` says so. Errors that say
something against the connection also drop it.

*Errors of COMMIT* leave its fate open, with one exception: without room on disk the commit record cannot have been written. Otherwise
the connection is dropped and the writer is `suspect`: what is in the WAL may be in the page cache only. Nothing is answered before a
whole checkpoint has copied the WAL into the database file and synced it, or has failed. Then the transaction is looked for by its
`committed_row`, a row that exists if and only if it was committed. If the row is there, the batch is answered as decided. If not, the script is
run again, forced to write something, so that it overwrites the frames that the failed commit left and these can never come back. If
any of this fails, the answer is `OutcomeUnknown`. So nothing is ever acknowledged that may be lost with the power.

*Interrupts.* Before COMMIT an interrupt rolls back. During or after COMMIT it drops the connection and leaves the writer `suspect`: the
next transaction settles what the interrupted one did, and the kernel asks for its outcome by operation id or hold id. The locks are
released in any case.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final, TypeAlias, TypeVar

from ...errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from ..deadlines import current, within
from .checkpointing import Checkpoints
from .driver import Driver, OnStatement, Row, Script
from .fair_write_lock import FairWriteLock
from .forking import Activity
from .opening import connect, error_from_sqlite, set_up
from .script import RunAgain
from .writing import Written

W = TypeVar("W", bound=Written)

_PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CONSTRAINT}
)
"""Errors that say nothing against the connection."""


Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""


def identity(path: str) -> Identity:
    """Return which file is at this path now."""
    status = os.stat(path)  # noqa: PTH116  (once per batch: a Path costs more than the call)
    return (status.st_dev, status.st_ino)


class Writer:
    """Runs scripts as transactions, one at a time."""

    def __init__(
        self, path: str, seconds: float, write_lock: FairWriteLock, activity: Activity, on_statement: OnStatement | None
    ) -> None:
        self.path = path
        self.identity = identity(path)
        self.checkpoints = Checkpoints(path, seconds)
        self._seconds = seconds
        self._write_lock = write_lock
        self._hook = on_statement
        self._lock = Lock()
        self._activity = activity
        self._thread = 0  # which has the locks
        self._driver: Driver | None = None
        self.suspect = False
        """A commit failed: what is in the WAL may not be on disk. Nothing is answered before a whole checkpoint."""
        activity.add(self)

    def run(
        self, make: Callable[[bool], Script[W | RunAgain]], *, until: float | None = None, checkpoint: bool = True
    ) -> W:
        """Run the script in a transaction, and again each time it says that something must go first. `until` is the deadline of a batch;
        None: that of this thread. Without `checkpoint` the caller calls `tidy` afterwards."""
        self._acquire(until)
        try:
            ran = self._transact(self._ready(), make)
            while isinstance(ran, RunAgain):
                ran = self._transact(self._ready(), make)
            if checkpoint and self.checkpoints.due():
                with suppress(sqlite3.Error, HoldkitError):  # it will be due again; the batch is committed
                    self.checkpoints.run(self.driver)
            return ran
        finally:
            self._release()

    @property
    def driver(self) -> Driver:
        """The connection, for a script that is being built: its transaction has begun."""
        assert self._driver is not None
        return self._driver

    def tidy(self, *, opening: bool = False, pages: int | None = None) -> float:
        """Checkpoint if it is due: for callers whose writes we do not see, and, with `pages`, at a shorter WAL than usual. Return the
        seconds for which others could not write.

        On opening always, if there is a WAL: a process that died of a failed sync may have left frames that are only in the page cache.
        The checkpoint copies them into the database file and syncs it. If the disk reports an error meanwhile, its content is unknown:
        the file cannot be opened.
        """
        if self.checkpoints.due(pages) or (opening and self.checkpoints.size()):
            try:
                self._acquire()
                begun = time.monotonic()
                try:
                    self.checkpoints.run(self._ready())
                finally:
                    self._release()
                return time.monotonic() - begun
            except (HoldkitError, sqlite3.Error) as error:
                code = getattr(error, "sqlite_errorcode", 0)
                if opening and isinstance(error, sqlite3.Error) and code & 0xFF == sqlite3.SQLITE_IOERR:
                    raise error_from_sqlite(self.path, error) from error
        return 0.0

    def settle(self) -> None:
        """Make sure, after a failed commit, that what can be seen is on disk, or raise."""
        with self.turn():
            pass

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the locks, with nothing in doubt: for a transaction on another connection of ours."""
        self._acquire()
        try:
            driver = self._ready()
            yield
            if self.checkpoints.due():
                with suppress(sqlite3.Error, HoldkitError):
                    self.checkpoints.run(driver)
        finally:
            self._release()

    def rebuild(self) -> None:
        """Write the whole file anew and empty the write-ahead log: free pages and old frames contain what was replaced. Raises
        `EngineError` if a reader prevents it; the next call can do it."""
        self._acquire()
        try:
            driver = self._ready()
            driver.tell("vacuum")
            deadline = time.monotonic() + within(self._seconds)
            while any(busy for busy, *_ in driver.tell("pragma wal_checkpoint(truncate)")):
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"{self.path}: a reader keeps the write-ahead log from being emptied, and it still contains what was "
                        "replaced; end that reader, then run the same command again"
                    )
        except sqlite3.Error as error:
            self._undo()
            raise error_from_sqlite(self.path, error) from error
        finally:
            self._release()

    def check_commit(self, committed_row: tuple[str, Row] | None, error: sqlite3.Error) -> None:
        """Handle a commit that failed, under `turn`, on another connection, which is closed: raise `OutcomeUnknown` unless it is on disk
        all the same."""
        self._poison()
        unknown = OutcomeUnknown(f"the commit to {self.path} failed ({error}), and it cannot be told what came of it")
        try:
            there = self._is_committed(self._ready(), committed_row)
        except (sqlite3.Error, HoldkitError) as second:
            self._poison()
            raise unknown from second
        if not there:
            raise unknown

    def check_file(self) -> None:
        """Raise unless the file is still the one that was opened."""
        try:
            same = identity(self.path) == self.identity
        except OSError as error:
            raise EngineError(f"{self.path} was deleted or moved away while it was open; open it anew") from error
        if not same:
            raise EngineError(f"{self.path} was replaced by another file while it was open; open it anew")

    def close(self) -> None:
        """Close under the locks if they are free, so that the last checkpoint meets no other writer."""
        entered = False
        with suppress(Overloaded):
            self._acquire()
            entered = True
        with self._activity.entered():
            self.drop_connections()
        if entered:
            self._release()
        self._write_lock.close()

    def drop_connections(self) -> None:
        """Close the connections; the next transaction opens others."""
        self.checkpoints.drop_connection()
        self._drop()

    def connections(self) -> list[sqlite3.Connection]:
        """Return the connections that are open, in a child that was just forked."""
        own = [] if self._driver is None else [self._driver.connection]
        return [*self.checkpoints.connections(), *own]

    def _acquire(self, until: float | None = None) -> None:
        now = time.monotonic()
        deadline = min(current() if until is None else until, now + self._seconds)
        seconds = max(0.0, deadline - now)
        thread = self._activity.enter()
        try:
            self._take_locks(seconds, deadline)
        except BaseException:
            self._activity.leave(thread)
            raise
        self._thread = thread

    def _take_locks(self, seconds: float, deadline: float) -> None:
        if not self._lock.acquire(timeout=seconds):
            raise Overloaded(f"another thread kept the write lock for {seconds:.3g} s", retry_after=1.0)
        try:
            self._write_lock.acquire(max(0.0, deadline - time.monotonic()))
        except BaseException:
            self._lock.release()
            raise

    def _release(self) -> None:
        thread = self._thread
        try:
            self._write_lock.release()
        finally:
            self._lock.release()
            self._activity.leave(thread)

    def _ready(self) -> Driver:
        """Return a connection to the right file, with nothing in doubt."""
        self.check_file()
        if self._driver is None:
            connection = connect(self.path, self._seconds)
            try:
                set_up(connection)
            except sqlite3.Error as error:
                connection.close()
                raise error_from_sqlite(self.path, error) from error
            self._driver = Driver(connection, self._hook)
        if self.suspect:
            try:
                whole = self.checkpoints.run(self._driver)
            except sqlite3.Error as error:
                raise error_from_sqlite(self.path, error) from error
            if not whole:
                raise EngineError(
                    f"a commit to {self.path} failed, and a reader keeps it from being checked; try again"
                )
            self.suspect = False
        return self._driver

    def _transact(self, driver: Driver, make: Callable[[bool], Script[W]]) -> W:
        try:
            driver.tell("begin immediate")
            ran = driver.run(make(False))
            if not ran.written:
                driver.tell("rollback")
                return ran
        except sqlite3.Error as error:
            self._undo()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING:
                self._drop()  # SQLite opens read-only what it cannot open for writing, and then stays so
            raise error_from_sqlite(self.path, error) from error
        except BaseException:
            self._undo()
            raise
        try:
            driver.tell("commit")
        except sqlite3.Error as error:
            return self._resolve(ran, make, error)
        except BaseException:
            self._poison()
            raise
        self.checkpoints.rows += ran.written
        return ran

    def _undo(self) -> None:
        """Roll back; a connection that cannot even do that is dropped."""
        driver = self._driver
        if driver is not None and driver.connection.in_transaction:
            try:
                driver.connection.rollback()
            except sqlite3.Error:
                self._poison()

    def _poison(self) -> None:
        """Drop the connection: what it did last is in doubt."""
        self.suspect = True
        self._drop()

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.let_go()

    def _resolve(self, ran: W, make: Callable[[bool], Script[W]], error: sqlite3.Error) -> W:
        """Find out whether a failed COMMIT took place, or raise `OutcomeUnknown`."""
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            self._undo()  # the commit record is written last, and there was no room for it
            raise error_from_sqlite(self.path, error) from error
        self._poison()
        unknown = OutcomeUnknown(f"the commit to {self.path} failed ({error}), and it cannot be told what came of it")
        try:
            driver = self._ready()
            if self._is_committed(driver, ran.committed_row):
                return ran
            driver.tell("begin immediate")  # overwrites what the failed commit left, so that it can never come back
            again = driver.run(make(True))
            driver.tell("commit")
        except (sqlite3.Error, HoldkitError) as second:
            self._poison()
            raise unknown from second
        except BaseException:
            self._poison()
            raise
        self.checkpoints.rows += again.written
        return again

    def _is_committed(self, driver: Driver, committed_row: tuple[str, Row] | None) -> bool:
        if committed_row is None:
            return False
        table, row = committed_row
        if table == "journal":
            return driver.ask("find_journal_row", row[:1]) == [row]
        if table == "archived":
            return driver.ask("read_archived") == [row]
        return driver.ask("find_operation_row", row[:2]) == [row]
