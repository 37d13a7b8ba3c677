"""The writer: the one connection that writes, and everything that can go wrong with it.

Every transaction runs under the process's lock and the turnstile, so that nobody starves. An error before COMMIT is
rolled back and certainly did nothing. An error at COMMIT leaves its fate open: the connection is dropped, a new one
checkpoints (which puts the frames on disk anew, or fails) and only then looks whether the transaction is there. Nothing is
ever acknowledged that only sits in the page cache.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

from ...errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from ..deadlines import within
from .checkpointing import Checkpoints
from .driver import Driver, OnStatement, Row, Script
from .fair_write_lock import FairWriteLock
from .opening import Identity, connect, identity, set_up, trouble
from .script import ScriptResult

_PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CONSTRAINT}
)
"""Errors that say nothing against the connection."""


class Writer:
    """Runs scripts as transactions, one at a time."""

    def __init__(self, path: str, seconds: float, write_lock: FairWriteLock, on_statement: OnStatement | None) -> None:
        self.path = path
        self.identity: Identity = identity(path)
        self.checkpoints = Checkpoints(path)
        self._seconds = seconds
        self._write_lock = write_lock
        self._hook = on_statement
        self._lock = Lock()
        self._driver: Driver | None = None
        self._guard: Driver | None = None
        self.suspect = False
        """A commit failed: what is in the WAL may not be on disk. Nothing is answered before a whole checkpoint."""

    def run(self, make: Callable[[bool], Script[ScriptResult]]) -> ScriptResult:
        """Run the script in a transaction, as often as it says that a backlog comes first."""
        self._enter()
        try:
            ran = self._transact(self._ready(), make)
            while ran.outcomes is None:
                ran = self._transact(self._ready(), make)
            if self.checkpoints.due():
                with suppress(sqlite3.Error, HoldkitError):  # it will be due again; the batch is committed
                    self._checkpoint()
            return ran
        finally:
            self._leave()

    @property
    def driver(self) -> Driver:
        """The connection, for a script that is being made: its transaction has begun."""
        assert self._driver is not None
        return self._driver

    def tidy(self, *, opening: bool = False) -> None:
        """Checkpoint if it is due: for callers whose writes we do not see.

        On opening always, if there is a WAL: a process that died of a failed sync may have left frames that only the page
        cache has. Copied into the database file and synced, they are no longer hearsay.
        """
        if self.checkpoints.due() or (opening and self.checkpoints.size()):
            with suppress(HoldkitError, sqlite3.Error):
                self._enter()
                try:
                    self._ready()
                    self._checkpoint()
                finally:
                    self._leave()

    def settle(self) -> None:
        """After a failed commit: make sure that what can be seen is on disk, or say that it cannot be told."""
        self._enter()
        try:
            self._ready()
        finally:
            self._leave()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The only writer for a while, with nothing in doubt: for a transaction on another connection of ours."""
        self._enter()
        try:
            self._ready()
            yield
            if self.checkpoints.due():
                with suppress(sqlite3.Error, HoldkitError):
                    self._checkpoint()
        finally:
            self._leave()

    def came_of(self, mark: tuple[str, Row] | None, error: sqlite3.Error) -> None:
        """In our turn a commit failed on another connection, closed since: quiet if it is there and on disk all the same."""
        self._poison()
        unknown = OutcomeUnknown(f"the commit to {self.path} failed ({error}), and it cannot be told what came of it")
        try:
            there = self._is_there(self._ready(), mark)
        except (sqlite3.Error, HoldkitError) as second:
            self._poison()
            raise unknown from second
        if not there:
            raise unknown

    def check_file(self) -> None:
        """The file must still be the one that was opened."""
        try:
            same = identity(self.path) == self.identity
        except OSError as error:
            raise EngineError(f"{self.path} was deleted or moved away while it was open; open it anew") from error
        if not same:
            raise EngineError(f"{self.path} was replaced by another file while it was open; open it anew")

    def close(self) -> None:
        """Close under the locks if they can be had, so that the last checkpoint meets nobody."""
        entered = False
        with suppress(Overloaded):
            self._enter()
            entered = True
        for driver in (self._guard, self._driver):
            if driver is not None:
                with suppress(sqlite3.Error):
                    driver.connection.close()
        self._guard = self._driver = None
        if entered:
            self._leave()
        self._write_lock.close()

    def _enter(self) -> None:
        seconds = within(self._seconds)
        deadline = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise Overloaded(f"another thread kept the write lock for {seconds:.3g} s", retry_after=1.0)
        try:
            self._write_lock.enter(max(0.0, deadline - time.monotonic()))
        except BaseException:
            self._lock.release()
            raise

    def _leave(self) -> None:
        try:
            self._write_lock.leave()
        finally:
            self._lock.release()

    def _ready(self) -> Driver:
        """A connection to the right file, with nothing in doubt."""
        self.check_file()
        if self._driver is None:
            connection = connect(self.path, self._seconds)
            try:
                set_up(connection)
            except sqlite3.Error as error:
                connection.close()
                raise trouble(self.path, error) from error
            self._driver = Driver(connection, self._hook)
        if self.suspect:
            try:
                whole = self._checkpoint()
            except sqlite3.Error as error:
                raise trouble(self.path, error) from error
            if not whole:
                raise EngineError(
                    f"a commit to {self.path} failed, and a reader keeps it from being checked; try again"
                )
            self.suspect = False
        return self._driver

    def _transact(self, driver: Driver, make: Callable[[bool], Script[ScriptResult]]) -> ScriptResult:
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
            raise trouble(self.path, error) from error
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
        self.checkpoints.wrote(ran.written)
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
            _let_go(driver)

    def _resolve(
        self, ran: ScriptResult, make: Callable[[bool], Script[ScriptResult]], error: sqlite3.Error
    ) -> ScriptResult:
        """COMMIT failed: find out what came of it, or say that it cannot be told."""
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            self._undo()  # the commit record is written last, and there was no room for it
            raise trouble(self.path, error) from error
        self._poison()
        unknown = OutcomeUnknown(f"the commit to {self.path} failed ({error}), and it cannot be told what came of it")
        try:
            driver = self._ready()
            if self._is_there(driver, ran.mark):
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
        self.checkpoints.wrote(again.written)
        return again

    def _is_there(self, driver: Driver, mark: tuple[str, Row] | None) -> bool:
        if mark is None:
            return False
        table, row = mark
        if table == "journal":
            return driver.ask("find_journal_row", row[:1]) == [row]
        return driver.ask("find_operation_row", row[:2]) == [row]

    def _checkpoint(self) -> bool:
        assert self._driver is not None
        try:
            if self._guard is None:
                self._guard = Driver(connect(self.path, self._seconds), self._hook)
                set_up(self._guard.connection)
            return self.checkpoints.run(self._driver, self._guard)
        except BaseException:
            guard, self._guard = self._guard, None
            if guard is not None:  # it may have the write lock still, and then nobody would ever write again
                _let_go(guard)
            raise


def _let_go(driver: Driver) -> None:
    """Closing alone would keep the locks until the last statement, cached or in the cursor, is collected."""
    for step in (driver.cursor.close, driver.connection.rollback, driver.connection.close):
        with suppress(sqlite3.Error):
            step()
