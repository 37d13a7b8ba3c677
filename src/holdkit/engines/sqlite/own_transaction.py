"""A transaction of our own, on a connection of its own, in which application code runs.

The writer's locks are taken first, then SQLite's write lock, then `work` runs; so what it reads cannot change before it commits. The
application can read and write through the connection, but cannot end the transaction. An exception of `work` rolls everything back. After
a failed commit the writer looks for what was committed, and the outcome is unknown if it is not found.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

from ...core.commands import Group
from ...core.model import Key
from ...core.outcomes import Outcome, Position
from ...errors import EngineError, OutcomeUnknown
from ..port import Applied, Lent
from .caller_transaction import run_in_caller_transaction
from .driver import Driver, OnStatement, Row, Script
from .forking import keep
from .opening import connect, error_from_sqlite, set_up
from .script import RunAgain, ScriptResult
from .writer import Writer

T = TypeVar("T")
Make = Callable[[Sequence[Group]], Callable[[], Script[ScriptResult | RunAgain]]]

_ENDED: Final = (
    "this transaction is Holdkit's: it is committed when your function returns, and rolled back if it raises"
)


class LentConnection(sqlite3.Connection):
    """A connection with an open transaction that is not its holder's to end."""

    def commit(self) -> NoReturn:
        """Refuse: the engine ends this transaction."""
        raise sqlite3.ProgrammingError(_ENDED)

    def rollback(self) -> NoReturn:
        """Refuse: the engine ends this transaction."""
        raise sqlite3.ProgrammingError(_ENDED)

    def close(self) -> NoReturn:
        """Refuse: the engine ends this transaction."""
        raise sqlite3.ProgrammingError(_ENDED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:  # sqlite3's own would commit
        return False


class _OwnTransaction:
    """One such transaction."""

    def __init__(self, tx: LentConnection, writer: Writer, make: Make, on_statement: OnStatement | None) -> None:
        self.tx = tx
        self._writer, self._make, self._on_statement = writer, make, on_statement
        self.committed_row: tuple[str, Row] | None = None
        self.written = 0

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Apply the groups in a savepoint of their own, like any call in a caller's transaction. Apply groups that were put off at once:
        there is no other transaction for them."""
        outcomes: list[list[Outcome]] = [[] for _ in groups]
        positions: list[list[Position | None]] = [[] for _ in groups]
        unfed: set[Key] = set()
        left = list(range(len(groups)))
        while True:
            ran = self._run([groups[index] for index in left])
            for index, answers, places in zip(left, ran.outcomes, ran.positions, strict=True):
                outcomes[index], positions[index] = answers, places
            unfed.update(ran.unfed)
            left = [left[index] for index in sorted(ran.put_off)]
            if not left:
                return Applied(
                    outcomes, ran.last_seq, self.written > 0, positions=positions, unfed=tuple(sorted(unfed))
                )

    def _run(self, groups: Sequence[Group]) -> ScriptResult:
        ran = run_in_caller_transaction(
            self.tx, self._writer.path, self._writer.identity, self._make(groups), self._on_statement
        )
        self.committed_row = ran.committed_row or self.committed_row
        self.written += ran.written
        return ran


def lend(writer: Writer, seconds: float, make: Make, on_statement: OnStatement | None, work: Callable[[Lent], T]) -> T:
    """Begin, run `work`, commit."""
    writer.check_file()
    with writer.turn():
        connection = connect(writer.path, seconds, factory=LentConnection)
        assert isinstance(connection, LentConnection)
        loan = _OwnTransaction(connection, writer, make, on_statement)
        driver = Driver(connection, on_statement)
        process = os.getpid()
        try:
            try:
                set_up(connection)
                driver.tell("begin immediate")
            except sqlite3.Error as error:
                raise error_from_sqlite(writer.path, error) from error
            result = work(loan)
            if os.getpid() != process:
                raise EngineError("your function has forked, and this is the child: the transaction is the parent's")
            if not connection.in_transaction:
                raise OutcomeUnknown("your function ended the transaction it was lent: what it did before may be there")
            failed = _commit(driver, writer.path)
        finally:
            if os.getpid() == process:
                driver.let_go()  # rolls back what was not committed
            else:
                keep(connection)
        if failed is not None:
            writer.check_commit(loan.committed_row, failed)
        writer.checkpoints.rows += loan.written
        return result


_CERTAIN: Final = {
    sqlite3.SQLITE_FULL: "there was no room for it",
    sqlite3.SQLITE_BUSY: "another writer came between",
}
"""Errors of COMMIT after which the transaction is still open: certainly nothing was committed."""


def _commit(driver: Driver, path: str) -> sqlite3.Error | None:
    """Commit; return the error if its fate is open."""
    try:
        driver.tell("commit")
    except sqlite3.Error as error:
        why = _CERTAIN.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if why is None or not driver.connection.in_transaction:
            return error
        raise EngineError(f"the transaction in {path} was rolled back: {why} ({error})") from error
    return None
