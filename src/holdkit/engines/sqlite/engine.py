"""The SQLite engine: one file, any number of threads and processes.

The engine stores; the core decides. An answer is given when its changes are synced to disk. One lock serialises the
writes of this process, `FairWriteLock` those of several; reads have their own connections. After a fork, open it anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ...core.audit_rows import Difference
from ...core.bounds import Limits
from ...core.command_kinds import Command
from ...core.commands import Group
from ...core.erasure import Erased, Erasure
from ...core.import_ import Carried
from ...core.limits import LIMITS_KEY
from ...core.model import SECOND, Key, Record
from ...core.reading import CountAhead, FindHold, ListHolds, Query
from ...core.repair import Repaired
from ...core.searching import ListLine
from ...errors import EngineError
from ..archive_erasing import ErasableArchive
from ..archived_store import erase
from ..archiving import ArchivedEntries
from ..clocks import Clock, wall_clock
from ..driver_connections import driver_connection
from ..durability import ON_DISK
from ..port import Applied, Capabilities, Lent, Mark
from ..progress import Progress
from ..settings import StoredLimits
from .archiving import SqliteArchiver, archiver
from .audit import verify
from .caller_transaction import (
    OpenTransactions,
    SavepointMark,
    check_connection,
    check_database,
    in_transaction,
    run_in_caller_transaction,
)
from .driver import Driver, OnStatement, Script
from .erasing import SqliteStore
from .fair_write_lock import FairWriteLock
from .file_watch import FileChannels, FileWatch
from .forking import Activity
from .inspection import SqliteFiles
from .opening import (
    SQLITE_ERRORS,
    check_library,
    connect,
    error_at_opening,
    error_from_sqlite,
    migrate,
    prepare_file,
    present_version,
    set_up,
    stored_limits,
    stored_secret,
    turn_to_wal,
)
from .own_transaction import lend
from .pool_reading import At
from .readers import Readers
from .reading import answer
from .repair import Import, Repair
from .rollups import SqliteRollups
from .script import RetryState, RunAgain, ScriptResult, apply_script
from .seals import SqliteSeals
from .writer import Writer

T = TypeVar("T")


class SqliteEngine:
    """Holds in a SQLite file, which may contain an application's own tables too."""

    lanes = 1
    sql = True
    serial = True
    durability = ON_DISK

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        on_statement: OnStatement | None = None,
    ) -> None:
        check_library()
        self.path = str(Path(path).absolute())
        self.url = f"sqlite:///{quote(self.path)}"
        self.clock: Clock = clock or wall_clock
        seconds = (limits or Limits()).lock_timeout / SECOND
        activity = Activity()
        with activity.entered():  # no fork in the middle
            self.stored, self.secret, write_lock = _open(self.path, self.clock, limits, seconds, on_statement)
        self._writer = Writer(self.path, seconds, write_lock, activity, on_statement)
        self._readers = Readers(self.path, seconds, activity)
        self._seconds = seconds
        self._open_transactions = OpenTransactions()
        self._on_statement = on_statement
        self._pid = os.getpid()
        self._closed = False
        self._file_watch = FileWatch()
        self._channels = FileChannels(self.path, self._file_watch)
        self._rollups = SqliteRollups(self._writer, self._readers, self._check)
        self._writer.tidy(opening=True)
        self._seals = SqliteSeals(self._writer, self._readers, self._check)

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(repair=self, import_=self, lend=self, marks=self, channels=self._channels, seals=self._seals,
                            erasure=self, rollups=self._rollups, archive=self, on_disk=SqliteFiles(self.path))  # fmt: skip

    @property
    def limits(self) -> Limits:
        return self.stored.in_force

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002  (no locks)
        """Decide and write these groups in one transaction, in order."""
        self._check()
        if self._open_transactions.used:
            self._open_transactions.check()
        ran = self._writer.run(partial(apply_script, groups, self.clock, self.stored, RetryState()), until=until)
        return Applied(ran.outcomes, ran.last_seq, ran.written > 0, put_off=ran.put_off, positions=ran.positions,
                       unfed=ran.unfed, served=ran.served)  # fmt: skip

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:  # noqa: ARG002
        """Apply the groups inside the caller's own transaction, in a savepoint. `lock` is ignored: one lock covers all pools."""
        self._check()
        self._writer.check_file()
        if self._writer.suspect:
            self._writer.settle()
        connection = check_connection(driver_connection(tx))
        if not in_transaction(connection):
            self._open_transactions.check()
            self._writer.tidy()
        retry_state = RetryState()
        ran = run_in_caller_transaction(
            connection,
            self.path,
            self._writer.identity,
            lambda: apply_script(groups, self.clock, self.stored, retry_state, may_offer=False),
            self._on_statement,
        )
        self._open_transactions.remember(connection)
        return Applied(ran.outcomes, ran.last_seq, ran.written > 0, positions=ran.positions, unfed=ran.unfed,
                       still_open=lambda: in_transaction(connection))  # fmt: skip

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Run in the loop's thread, to which an sqlite3 connection belongs."""
        return self.apply_in(tx, groups, lock)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Answer a question inside the caller's own transaction, if it has begun one."""
        self._check()
        self._writer.check_file()
        driver = Driver(check_connection(driver_connection(tx)), self._on_statement)
        try:
            check_database(driver, self.path, self._writer.identity, reading=True)
            result: T = answer(At(driver, self._present_limits(driver, query), self.clock()), query)
            return result
        except sqlite3.Error as error:
            raise error_from_sqlite(self.path, error) from error
        finally:
            driver.cursor.close()

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """Run in the loop's thread, to which an sqlite3 connection belongs."""
        return self.read_in(tx, query)

    def mark_in(self, tx: Any) -> Mark:
        """Mark an open transaction."""
        return SavepointMark(check_connection(driver_connection(tx)), self._on_statement)

    async def mark_in_async(self, tx: Any) -> Mark:
        """Run in the loop's thread, to which an sqlite3 connection belongs."""
        return self.mark_in(tx)

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Run `work` in a transaction of our own."""
        self._check()
        self._open_transactions.check()

        def make(groups: Sequence[Group]) -> Callable[[], Script[ScriptResult | RunAgain]]:
            retry_state = RetryState()
            return lambda: apply_script(groups, self.clock, self.stored, retry_state)

        return lend(self._writer, self._seconds, make, self._on_statement, work)

    def read(self, query: Query[T], *, durable: bool = False) -> T:  # noqa: ARG002  (nothing else can be seen)
        """Answer a question from committed, durable state only."""
        self._check()
        self._writer.check_file()
        if self._writer.suspect:
            self._writer.settle()
        with self._readers.one() as driver:
            result: T = answer(At(driver, self._present_limits(driver, query), self.clock()), query)
            return result

    def _present_limits(self, driver: Driver, query: Query[Any]) -> Limits:
        """Adopt the stored limits before a query that depends on the retention, which another process may have changed."""
        if isinstance(query, FindHold | ListHolds | CountAhead | ListLine):
            self.stored.adopt(next((Record(*row) for row in driver.ask("load_record", LIMITS_KEY)), None))
        return self.limits

    def listen(self, wake: Callable[[], None]) -> None:
        """Watch the side file of the write lock, to which every process writes after its commits."""
        self._check()
        self._file_watch.add(Path(f"{self.path}-lock"), wake)

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        """Fold the whole journal and report every row that differs from it."""
        return self._verify(None, progress)

    def verify_with(
        self, archive: ArchivedEntries, progress: Progress | None = None
    ) -> Generator[Difference, None, None]:
        return self._verify(archive, progress)

    def _verify(self, archive: ArchivedEntries | None, progress: Progress | None) -> Generator[Difference, None, None]:
        self._check()
        with self._readers.one() as driver:
            try:
                yield from verify(driver, self.stored.created, self.clock(), progress, archive)
            finally:
                if driver.connection.in_transaction:
                    driver.tell("rollback")

    def repair(self, command: Command, *, dry_run: bool, progress: Progress | None = None) -> Repaired:
        """Make the rows what the journal says; every writer waits meanwhile."""
        self._check()
        self._open_transactions.check()
        repair = Repair(self.stored.created, self.clock(), command, progress, dry_run=dry_run)
        self._writer.run(lambda _: repair.script(self._writer.driver))
        return repair.report

    def erase(
        self,
        erasure: Erasure,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        archive: ErasableArchive | None = None,
    ) -> Erased:
        """Rewrite rows, journal and archive in short transactions."""
        self._check()
        self._open_transactions.check()
        store = SqliteStore(self._writer, self._readers)
        return erase(store, erasure, archive, progress, dry_run=dry_run)

    def unfinished(self) -> bool:
        self._check()
        return SqliteStore(self._writer, self._readers).any_remembered()

    def finish_erasure(self, erasure: Erasure) -> None:
        """Write the file anew, so that no free page keeps erased data. Killed before that, the command does it when it is run again."""
        self._check()
        self._writer.rebuild()
        SqliteStore(self._writer, self._readers).forget(erasure.id)

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Take another engine's journal as ours, in one transaction."""
        self._check()
        self._open_transactions.check()
        importing = Import(carried, self.stored.created, self.clock(), self.path, verify=verify)
        self._writer.run(lambda _: importing.script(self._writer.driver))

    @contextmanager
    def archiver(self) -> Iterator[SqliteArchiver]:
        """Begin a run of archiving."""
        self._check()
        self._open_transactions.check()
        with archiver(self.path, self._readers, self._writer) as run:
            yield run

    def close(self) -> None:
        """Release every file and connection. Closing twice does nothing."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._file_watch.close()
        self._readers.close()
        self._writer.close()

    def _check(self) -> None:
        if self._closed:
            raise EngineError(f"{self.path} is closed")
        if os.getpid() != self._pid:
            raise EngineError(f"{self.path} was opened before a fork; open it anew after fork")


def _open(
    path: str, clock: Clock, limits: Limits | None, seconds: float, on_statement: OnStatement | None
) -> tuple[StoredLimits, bytes, FairWriteLock]:
    """Create or check the file, bring its schema up to date, and read the limits stored in it."""
    prepare_file(path)
    connection = connect(path, seconds)
    write_lock: FairWriteLock | None = None
    try:
        driver = Driver(connection, on_statement)
        present_version(driver, path)  # another application's file is refused before any file is created beside it
        write_lock = FairWriteLock(path)
        write_lock.acquire(seconds)
        try:
            set_up(connection)
            turn_to_wal(connection, path)
            migrate(driver, path, limits or Limits(), clock())
            secret = stored_secret(driver, path)
            return stored_limits(driver, path, limits, secret), secret, write_lock
        finally:
            write_lock.release()
    except BaseException as error:
        if write_lock is not None:
            write_lock.close()
        if isinstance(error, (*SQLITE_ERRORS, OSError)):
            raise error_at_opening(path, error) from error
        raise
    finally:
        connection.close()


def open_engine(
    path: str | os.PathLike[str],
    clock: Clock | None = None,
    limits: Limits | None = None,
    *,
    on_statement: OnStatement | None = None,
) -> SqliteEngine:
    """Open a file, or an ``sqlite:///`` URL (four slashes for an absolute path)."""
    if isinstance(path, str) and path.startswith("sqlite:///"):
        path = path.removeprefix("sqlite:///")
    return SqliteEngine(Path(path), clock=clock, limits=limits, on_statement=on_statement)
