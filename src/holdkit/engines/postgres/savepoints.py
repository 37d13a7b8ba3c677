"""Our savepoints in a caller's transaction: one around each call, and marks. `caller_transaction` has the theory of operation."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import psycopg
from psycopg import pq

from ...core.validation import invalid
from ...errors import EngineError, HoldkitError, Overloaded
from ..driver_connections import transaction_ended
from .driver import BEGIN, READ, RELEASE, WRITE, Pipeline, Row, Script, Statement, Steps
from .failures import ID_TAKEN, ConnectionFailed, StatementFailed
from .in_doubt import InDoubt
from .script import Contention

T = TypeVar("T")

_CALLERS_OWN: Final = frozenset({"begin", "commit", "rollback"})
_LEAVE: Final[tuple[Statement, ...]] = (RELEASE,)
_UNDO: Final[tuple[Statement, ...]] = (("roll_back_to_savepoint", ()), RELEASE)
_WHY: Final[tuple[Statement, ...]] = (("read_transaction", ()),)


def refusal(properties: Row, *, reading: bool) -> HoldkitError:
    """Return the reason why `check_transaction` has refused a transaction with these properties. For `reading` it may be read-only, or of
    any isolation level."""
    isolation, read_only, recovering, catalog = properties
    if catalog != 1:
        return invalid(
            "tx", "tx_search_path", "the connection's search_path puts its own functions before pg_catalog's"
        )
    if recovering:
        return invalid("tx", "tx_read_only", "the connection is to a standby: use one to the primary")
    if not reading and isolation != "read committed":
        return invalid("tx", "tx_isolation", f"the transaction must be READ COMMITTED, not {isolation.upper()}")
    if not reading and read_only == "on":
        return invalid("tx", "tx_read_only", "the transaction is read-only")
    return _other_database()


def _other_database() -> HoldkitError:
    return invalid("tx", "tx_other_database", "the connection must be to the same database as this kernel")


class SavepointPipeline(Protocol):
    """The part of a caller's connection that a call in a savepoint uses, for any driver."""

    busy: bool
    """Inside an exchange."""
    begun: int
    """Statements of the last exchange that were sent, or are just being sent."""

    @property
    def unbegun(self) -> bool:
        """Whether the transaction is still to be begun."""
        ...

    @property
    def aborted(self) -> bool:
        """Whether the transaction is aborted, so that our savepoint must exist: a transaction that was aborted before is refused."""
        ...

    def exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Send these statements, and return the rows of each."""
        ...

    def drain(self) -> Steps[None]:
        """Bring the connection back in step after an interrupt in the middle of an exchange."""
        ...


class CallerPipeline(Pipeline):
    """A caller's connection: we never close it, and never leave answers on it that its owner would take for theirs."""

    @property
    def unbegun(self) -> bool:
        return self.pgconn.transaction_status == pq.TransactionStatus.IDLE

    @property
    def aborted(self) -> bool:
        return self.pgconn.transaction_status == pq.TransactionStatus.INERROR

    def disconnect(self) -> None:
        """Leave the connection as it is; its owner will notice."""

    def drain(self) -> Steps[None]:
        """After an interrupt in the middle of an exchange, read and discard every outstanding answer, however many statements were sent."""
        pgconn = self.pgconn
        try:
            pgconn.pipeline_sync()
            sending = pgconn.flush() == 1
            while self.busy:
                yield READ | WRITE if sending else READ
                pgconn.consume_input()
                sending = sending and pgconn.flush() == 1
                while self.busy and not pgconn.is_busy():
                    self.busy = pgconn.get_result() is not None or not self._is_drained()
        except (OSError, psycopg.Error) as error:
            raise self._lost(str(error)) from error
        pgconn.enter_pipeline_mode()

    def _is_drained(self) -> bool:
        if self.pgconn.status == pq.ConnStatus.BAD:
            raise self._lost("the connection was lost")
        try:
            self.pgconn.exit_pipeline_mode()  # libpq refuses while anything is outstanding
        except psycopg.Error:
            return False
        return True


class SavepointCall:
    """One run of a call in its savepoint, for threads and tasks alike. `begin`: the transaction is still to be begun."""

    def __init__(self, pipeline: SavepointPipeline, identity: str, *, reading: bool, begin: bool) -> None:
        self._pipeline, self._reading = pipeline, reading
        self._entering: tuple[Statement, ...] = (("make_savepoint", ()), ("check_transaction", (identity, reading)))
        if begin:
            self._entering = (BEGIN, *self._entering)
        self._state: Literal["outside", "entering", "inside", "leaving", "alone", "left"] = "outside"
        self._last = 0
        """Statements of the exchange that ends with the release."""

    def run(self, script: Script[T]) -> Steps[T]:
        """Run the script and return its result. On any error, roll back to the savepoint first."""
        try:
            result = yield from self._run(script)
            if self._state == "inside":
                yield from self._exchange(_LEAVE)
        except (ConnectionFailed, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._undo()
            if isinstance(error, InDoubt):
                raise error.error() from None
            if isinstance(error, StatementFailed):
                raise (yield from self._failure(error)) from error
            raise
        finally:
            script.close()
        return result

    def run_alone(self, statement: Statement) -> Steps[list[list[Row]]]:
        """Return the rows of one statement that checks the transaction itself, sent between savepoint and release in one round trip. On any
        error, roll back to the savepoint first."""
        self._entering = (*self._entering[:-1], statement)
        self._state, self._last = "alone", len(self._entering) + 1
        try:
            answers = yield from self._pipeline.exchange((*self._entering, RELEASE))
        except (ConnectionFailed, GeneratorExit):
            raise
        except BaseException:
            yield from self._undo()
            raise
        self._state = "left"
        return answers[-2:-1]

    def _run(self, script: Script[T]) -> Steps[T]:
        """Run the script's statements, without BEGIN, COMMIT and ROLLBACK, which belong to the caller."""
        try:
            statements = next(script)
            while True:
                ours = [statement for statement in statements if statement[0] not in _CALLERS_OWN]
                answers = (yield from self._exchange(ours)) if ours else []
                statements = script.send(_with_callers_own(statements, iter(answers)))
        except StopIteration as stop:
            if self._state == "outside":  # there was nothing to do, which is no reason to accept any connection
                yield from self._exchange(())
            result: T = stop.value
            return result

    def _exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Run one round trip. The first also makes the savepoint and checks the transaction."""
        if self._state == "outside":
            return (yield from self._enter(statements))
        if statements[-1] is not RELEASE:
            return (yield from self._pipeline.exchange(statements))
        self._state, self._last = "leaving", len(statements)
        answers = yield from self._pipeline.exchange(statements)
        self._state = "left"
        return answers

    def _enter(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        self._state = "entering"
        entering = len(self._entering)
        try:
            answers = yield from self._pipeline.exchange((*self._entering, *statements))
        except StatementFailed as error:
            self._state = "outside" if error.name in ("begin", "make_savepoint") else "inside"
            raise
        self._state = "inside"
        if not answers[entering - 1]:
            raise _other_database()
        return answers[entering:]

    def _failure(self, error: StatementFailed) -> Steps[Exception]:
        """Return the error that the caller gets for a failed statement, or `Contention` if the call must run again."""
        if error.name == "check_transaction" and error.sqlstate in ("42P01", "3F000", "42501"):
            return _other_database()
        if error.name == "check_transaction" and error.sqlstate == "22012":
            ((reasons,),) = yield from self._pipeline.exchange(_WHY)
            return refusal(reasons, reading=self._reading)
        return Contention(error.name) if error.sqlstate in ID_TAKEN else statement_error(error)

    def _has_savepoint(self) -> bool:
        """Return whether our savepoint exists, now that every answer was read. `begun` counts a statement before libpq has it. If a
        statement behind the savepoint was begun, the savepoint was made; if the release was begun, everything before it was done."""
        if self._pipeline.aborted:
            return True
        if self._state in ("entering", "alone") and self._pipeline.begun < len(self._entering):
            return False
        if self._state == "entering":
            return True
        return self._state == "inside" or (self._state in ("leaving", "alone") and self._pipeline.begun < self._last)

    def _undo(self) -> Steps[None]:
        """Roll back to the savepoint, if it exists."""
        pipeline = self._pipeline
        if pipeline.busy:
            yield from pipeline.drain()
        if not self._has_savepoint():
            return
        for _ in range(3):
            try:
                yield from pipeline.exchange(_UNDO)
            except StatementFailed as error:
                if error.sqlstate != "57014":  # our own cancellation, which came late
                    raise EngineError(f"{error.message}: your transaction is aborted, roll it back") from error
            else:
                return
        raise EngineError("tx was cancelled again and again: your transaction is aborted, roll it back")


def _with_callers_own(statements: Sequence[Statement], answers: Iterator[list[Row]]) -> list[list[Row]]:
    return [[] if name in _CALLERS_OWN else next(answers) for name, _ in statements]


def statement_error(error: StatementFailed) -> HoldkitError:
    """Return the error for a statement of a call, which was undone."""
    if error.sqlstate in ("57014", "55P03"):
        return Overloaded(
            "others kept what this call needs locked for too long; your transaction goes on", retry_after=1.0
        )
    advice = "; grant this role the rights to the kernel's schema" if error.sqlstate == "42501" else ""
    return EngineError(f"{error.message} ({error.sqlstate}): this call did nothing; your transaction goes on{advice}")


class SavepointMark:
    """A mark in an open transaction, to see afterwards whether application code has ended it: a savepoint under a random name. It exists
    until the transaction ends or is rolled back to an earlier savepoint, by any statement. An aborted transaction and a lost connection
    are not noticed here: the next statement finds them."""

    def __init__(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._name = f"holdkit_{secrets.token_hex(8)}"

    def make(self) -> SavepointMark:
        """Set the mark, on a sync connection."""
        try:
            self._execute("savepoint")
        except psycopg.Error as error:
            raise _mark_error(error) from error
        return self

    async def make_async(self) -> SavepointMark:
        """Set the mark, on an async connection."""
        try:
            await self._execute_async("savepoint")
        except psycopg.Error as error:
            raise _mark_error(error) from error
        return self

    def check(self) -> None:
        """Remove the mark. Raise `InvalidRequest` if it is gone."""
        if self._open():
            try:
                self._execute("release savepoint")
            except psycopg.Error as error:
                raise _mark_error(error) from error

    async def check_async(self) -> None:
        """Remove the mark, on an async connection. Raise `InvalidRequest` if it is gone."""
        if self._open():
            try:
                await self._execute_async("release savepoint")
            except psycopg.Error as error:
                raise _mark_error(error) from error

    def _open(self) -> bool:
        status = self._connection.pgconn.transaction_status
        if status == pq.TransactionStatus.IDLE:
            raise transaction_ended()
        return status == pq.TransactionStatus.INTRANS

    def _execute(self, command: str) -> None:
        assert isinstance(self._connection, psycopg.Connection)
        psycopg.RawCursor(self._connection).execute(f"{command} {self._name}".encode(), prepare=False)

    async def _execute_async(self, command: str) -> None:
        assert isinstance(self._connection, psycopg.AsyncConnection)
        await psycopg.AsyncRawCursor(self._connection).execute(f"{command} {self._name}".encode(), prepare=False)


def _mark_error(error: psycopg.Error) -> HoldkitError:
    if error.sqlstate == "3B001":  # there is no such savepoint
        return transaction_ended()
    return EngineError(f"tx cannot be used: {str(error).strip()}")
