"""Holds in a SQLite database that only its owner's connections reach: a framework's test database in memory.

Everything, reads included, runs on the connection that the owner has for the calling thread. A call without `tx=` is a transaction there,
begun and committed by this engine; with it, a savepoint in the owner's transaction. The tables must be there. Nothing is durable: that is
what such a database is for. A call while another connection writes may raise `Overloaded`, because a database that is shared in memory
has no lock to wait for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import inf
from typing import Any, TypeAlias, TypeVar

from ...core.audit_rows import Difference
from ...core.bounds import Limits
from ...core.commands import Group
from ...core.model import Key
from ...core.reading import Query
from ...core.validation import invalid
from ...errors import EngineError
from ..clocks import Clock, wall_clock
from ..driver_connections import driver_connection
from ..durability import IN_MEMORY
from ..port import Applied, Capabilities, Lent, Mark
from ..progress import Progress
from .audit import verify
from .caller_transaction import SavepointMark, check_connection, in_transaction, run_in_caller_transaction
from .driver import Driver, migrations
from .opening import check_library, error_from_sqlite, present_version, stored_limits, stored_secret
from .pool_reading import At
from .reading import answer
from .script import RetryState, ScriptResult, apply_script

T = TypeVar("T")
Borrow: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""The connection of this thread, for the length of a block."""


class BorrowedSqliteEngine:
    """Holds in a database in memory."""

    lanes = 1
    sql = True
    serial = True
    durability = IN_MEMORY

    def __init__(self, borrow: Borrow, shown: str, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        check_library()
        self._borrow, self.path = borrow, shown
        self.url = f"sqlite, {shown}"
        self.clock: Clock = clock or wall_clock
        with borrow() as connection:
            driver = Driver(connection)
            version = present_version(driver, shown)
            if version != migrations()[-1][0]:
                raise EngineError(f"{shown} has schema version {version}, this release needs {migrations()[-1][0]}")
            self.stored = stored_limits(driver, shown, limits, stored_secret(driver, shown))

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(lend=self, marks=self)

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.stored.in_force

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002
        """Decide and write these groups in one transaction, in order."""
        with self._borrow() as connection, self._transaction(connection):
            ran = self._run(connection, groups, may_offer=True)
        return Applied(ran.outcomes, ran.last_seq, ran.written > 0, put_off=ran.put_off, positions=ran.positions,
                       unfed=ran.unfed, served=ran.served)  # fmt: skip

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:  # noqa: ARG002
        """Apply the groups inside the owner's transaction, in a savepoint."""
        connection = self._theirs(tx)
        ran = self._run(connection, groups, may_offer=False)
        return Applied(ran.outcomes, ran.last_seq, ran.written > 0, positions=ran.positions, unfed=ran.unfed,
                       still_open=lambda: in_transaction(connection))  # fmt: skip

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Run in the calling thread, to which the connection belongs."""
        return self.apply_in(tx, groups, lock)

    def read(self, query: Query[T], *, durable: bool = False) -> T:  # noqa: ARG002  (nothing is)
        """Answer a question."""
        with self._borrow() as connection:
            return self._answer(connection, query)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Read inside the owner's transaction."""
        return self._answer(self._theirs(tx), query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """Run in the calling thread, to which the connection belongs."""
        return self.read_in(tx, query)

    def mark_in(self, tx: Any) -> Mark:
        """Mark an open transaction."""
        return SavepointMark(self._theirs(tx), None)

    async def mark_in_async(self, tx: Any) -> Mark:
        return self.mark_in(tx)

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Run `work` in a transaction of its own."""
        with self._borrow() as connection, self._transaction(connection):
            return work(_BorrowedTransaction(self, connection))

    def listen(self, wake: Callable[[], None]) -> None:
        """Do nothing: no other process can write."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        """Fold the whole journal and report every row that differs from it."""
        with self._borrow() as connection:
            inside = connection.in_transaction
            try:
                yield from verify(Driver(connection), self.stored.created, self.clock(), progress)
            finally:
                if connection.in_transaction and not inside:
                    connection.rollback()

    def close(self) -> None:
        """Close no connection: they are their owner's."""

    def _theirs(self, tx: Any) -> sqlite3.Connection:
        connection = check_connection(driver_connection(tx))
        with self._borrow() as ours:
            if connection is not ours:
                raise invalid("tx", "tx_other_database", f"must be the connection of this thread to {self.path}")
        return connection

    def _run(self, connection: sqlite3.Connection, groups: Sequence[Group], *, may_offer: bool) -> ScriptResult:
        state = RetryState()
        return run_in_caller_transaction(
            connection,
            self.path,
            None,
            lambda: apply_script(groups, self.clock, self.stored, state, may_offer=may_offer),
            None,
        )

    def _answer(self, connection: sqlite3.Connection, query: Query[T]) -> T:
        driver = Driver(connection)
        try:
            result: T = answer(At(driver, self.limits, self.clock()), query)
            return result
        except sqlite3.Error as error:
            raise error_from_sqlite(self.path, error) from error
        finally:
            driver.cursor.close()

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction, and commit it unless the block raises."""
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:
            raise error_from_sqlite(self.path, error) from error
        try:
            yield
            connection.execute("commit")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("rollback")
            if isinstance(error, sqlite3.Error):
                raise error_from_sqlite(self.path, error) from error
            raise


class _BorrowedTransaction:
    """One transaction, while application code runs in it."""

    def __init__(self, engine: BorrowedSqliteEngine, connection: sqlite3.Connection) -> None:
        self._engine, self.tx = engine, connection

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Apply the groups in a savepoint of their own."""
        return self._engine.apply_in(self.tx, groups)
