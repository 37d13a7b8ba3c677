"""Our savepoints in a caller's transaction: one around each call, and marks. `caller_transaction` has the theory of operation."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg import pq

from ...core.validation import invalid
from ...errors import EngineError, HoldkitError, Overloaded
from ..driver_connections import transaction_ended
from .driver import READ, WRITE, Pipeline, Row, Script, Statement, Steps
from .failures import ConnectionFailed, StatementFailed
from .in_doubt import InDoubt

T = TypeVar("T")

_CALLERS_OWN: Final = frozenset({"begin", "commit", "rollback"})
_ENTER: Final[tuple[Statement, ...]] = (("make_savepoint", ()), ("read_transaction", ()), ("find_identity", ()))
_LEAVE: Final[tuple[Statement, ...]] = (("release_savepoint", ()),)
_UNDO: Final[tuple[Statement, ...]] = (("roll_back_to_savepoint", ()), ("release_savepoint", ()))


def check_transaction(properties: Row, identity: Row | None, expected: str, *, reading: bool) -> None:
    """Check what the server says about the transaction. For `reading` it may be read-only, or of any isolation level."""
    isolation, read_only, recovering, path = properties
    first = next((name for name in path.split("\x1f") if not name.startswith("pg_temp")), "")
    if first != "pg_catalog":
        raise invalid("tx", "tx_search_path", "the connection's search_path puts its own functions before pg_catalog's")
    if identity is None or identity[0] != expected:
        raise _other_database()
    if recovering:
        raise invalid("tx", "tx_read_only", "the connection is to a standby: use one to the primary")
    if reading:
        return
    if isolation != "read committed":
        raise invalid("tx", "tx_isolation", f"the transaction must be READ COMMITTED, not {isolation.upper()}")
    if read_only == "on":
        raise invalid("tx", "tx_read_only", "the transaction is read-only")


def _other_database() -> HoldkitError:
    return invalid("tx", "tx_other_database", "the connection must be to the same database as this kernel")


class CallerPipeline(Pipeline):
    """A caller's connection: we never close it, and never leave answers on it that its owner would take for theirs."""

    def disconnect(self) -> None:
        """Leave it as it is; its owner will notice."""

    def drain(self) -> Steps[None]:
        """After an interrupt in the middle of an exchange: read every answer that is still to come, however much had been sent,
        and discard it."""
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
    """One run of a call in its savepoint, for threads and tasks alike."""

    def __init__(self, pipeline: CallerPipeline, identity: str, reading: bool) -> None:
        self._pipeline, self._identity, self._reading = pipeline, identity, reading
        self._inside = False
        """Our savepoint certainly exists."""

    def run(self, script: Script[T]) -> Steps[T]:
        """The script's result; whatever goes wrong is undone first."""
        try:
            yield from self._enter()
            result = yield from _run(self._pipeline, script)
            self._inside = False
            yield from self._pipeline.exchange(_LEAVE)
        except (ConnectionFailed, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._undo()
            if isinstance(error, InDoubt):
                raise error.error() from None
            if isinstance(error, StatementFailed):
                raise _statement_error(error) from error
            raise
        return result

    def _enter(self) -> Steps[None]:
        try:
            _, properties, identity = yield from self._pipeline.exchange(_ENTER)
        except StatementFailed as error:
            self._inside = error.name != "make_savepoint"
            if error.name == "find_identity" and error.sqlstate in ("42P01", "3F000", "42501"):
                raise _other_database() from error
            raise
        self._inside = True
        found = identity[0] if identity else None
        check_transaction(properties[0], found, self._identity, reading=self._reading)

    def _undo(self) -> Steps[None]:
        """Back to the savepoint, if there is one."""
        pipeline = self._pipeline
        if pipeline.busy:
            yield from pipeline.drain()
        if not self._inside and pipeline.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
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


def _run(pipeline: Pipeline, script: Script[T]) -> Steps[T]:
    """The script's statements, without those that are the caller's own."""
    try:
        statements = next(script)
        while True:
            ours = [statement for statement in statements if statement[0] not in _CALLERS_OWN]
            answers = iter((yield from pipeline.exchange(ours)) if ours else [])
            statements = script.send(_with_callers_own(statements, answers))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


def _with_callers_own(statements: Sequence[Statement], answers: Iterator[list[Row]]) -> list[list[Row]]:
    return [[] if name in _CALLERS_OWN else next(answers) for name, _ in statements]


def _statement_error(error: StatementFailed) -> HoldkitError:
    if error.sqlstate in ("57014", "55P03"):
        return Overloaded(
            "others kept what this call needs locked for too long; your transaction goes on", retry_after=1.0
        )
    advice = "; grant this role the rights to the kernel's schema" if error.sqlstate == "42501" else ""
    return EngineError(f"{error.message} ({error.sqlstate}): this call did nothing; your transaction goes on{advice}")


class SavepointMark:
    """A mark in an open transaction, to see afterwards whether application code has ended it: a savepoint under a random name. It
    exists as long as the transaction goes on and nobody rolled back behind it, whatever statements were used. An aborted transaction
    and a lost connection are not noticed here: whatever is sent next finds them."""

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
        """The same on an async connection."""
        try:
            await self._execute_async("savepoint")
        except psycopg.Error as error:
            raise _mark_error(error) from error
        return self

    def check(self) -> None:
        """Remove the mark; `InvalidRequest` if it is gone."""
        if self._open():
            try:
                self._execute("release savepoint")
            except psycopg.Error as error:
                raise _mark_error(error) from error

    async def check_async(self) -> None:
        """The same on an async connection."""
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
