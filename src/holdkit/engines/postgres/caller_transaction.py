"""Joining a caller's transaction: both happen or neither.

Every precondition is checked before anything is written. Each call runs in a savepoint of its own, so a refusal, an error
or an interrupt leaves the caller's transaction as usable as it was. Never commits, closes or changes a setting of the
caller's connection, prepares nothing on it, and rolls back nothing but its own savepoint. Waits for locks only within our
own patience: then the statement is cancelled, and nothing was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import psycopg
from msgspec import Struct
from psycopg import pq

from ...core.validation import invalid
from ...errors import EngineError, HoldkitError, Overloaded
from .driver import ConnectionFailed, OnStatement, Row, Script, Statement, StatementFailed, Wire
from .in_doubt import InDoubt
from .script import Contention, ScriptResult
from .statements import Sql, load
from .waiting import GRACE, READ, WRITE, Steps, wait, wait_async

T = TypeVar("T")
Make = Callable[[], Script[ScriptResult]]

ATTEMPTS: Final = 10
"""How often a call is run again because another transaction came between."""
_THEIRS: Final = frozenset({"begin", "commit", "rollback"})
_ENTERING: Final[tuple[Statement, ...]] = (("make_savepoint", ()), ("look_at_caller", ()), ("find_identity", ()))
_LEAVING: Final[tuple[Statement, ...]] = (("release_savepoint", ()),)
_UNDOING: Final[tuple[Statement, ...]] = (("roll_back_to_savepoint", ()), ("release_savepoint", ()))
_BUSY: Final = "another thread or task is using the connection of tx"


class JoinOptions(Struct, frozen=True):
    """What a caller's connection must be, and how long we wait on it."""

    identity: str
    """The database's own mark: the connection must be to the same one."""
    patience: float
    on_statement: OnStatement | None
    named: Mapping[str, Sql]
    """The statements, in the kernel's schema."""
    reading: bool = False
    """Nothing is decided or written: a transaction of one snapshot will do, and one that may not write."""


def run_joined(tx: object, options: JoinOptions, make: Make) -> ScriptResult:
    """Run the script inside the caller's transaction, on this thread."""
    connection: psycopg.Connection[Any] = check_connection(tx, psycopg.Connection)
    if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        try:
            psycopg.RawCursor(connection).execute(load()["are_you_there"].text, prepare=False)  # psycopg begins here
        except psycopg.Error as error:
            raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
    if not connection.lock.acquire(timeout=options.patience):
        raise Overloaded(_BUSY)
    try:
        pgconn = check_connection(connection, psycopg.Connection).pgconn
        steps = joined(pgconn, options, make)
        return wait(steps, pgconn.socket, options.patience, lambda: connection.cancel_safe(timeout=GRACE))
    finally:
        connection.lock.release()


async def run_joined_async(tx: object, options: JoinOptions, make: Make) -> ScriptResult:
    """The same in a task, on an async connection."""
    connection: psycopg.AsyncConnection[Any] = check_connection(tx, psycopg.AsyncConnection)
    if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        try:
            await psycopg.AsyncRawCursor(connection).execute(load()["are_you_there"].text, prepare=False)
        except psycopg.Error as error:
            raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
    try:
        async with asyncio.timeout(options.patience):
            await connection.lock.acquire()
    except TimeoutError:
        raise Overloaded(_BUSY) from None
    try:
        pgconn = check_connection(connection, psycopg.AsyncConnection).pgconn
        steps = joined(pgconn, options, make)
        return await wait_async(steps, pgconn.socket, options.patience, lambda: connection.cancel_safe(timeout=GRACE))
    finally:
        connection.lock.release()


# Preconditions


def check_connection(tx: object, kind: type[Any]) -> Any:
    """A psycopg connection of the right colour, inside a transaction or about to begin one."""
    if not isinstance(tx, kind):
        raise invalid("tx", "tx_unsupported", _advice(tx, kind))
    pgconn = tx.pgconn
    if pgconn.status != pq.ConnStatus.OK:
        raise invalid("tx", "tx_unusable", "the connection is closed or broken")
    if pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise invalid("tx", "tx_in_pipeline", "leave the pipeline block first: Holdkit has round trips of its own")
    status = pgconn.transaction_status
    if status == pq.TransactionStatus.INERROR:
        raise invalid("tx", "tx_aborted", "the transaction is aborted: roll it back first")
    if status == pq.TransactionStatus.ACTIVE:
        raise invalid("tx", "tx_busy", "the connection is in the middle of something else, such as a COPY")
    if status == pq.TransactionStatus.IDLE and tx.autocommit:
        raise invalid("tx", "tx_autocommit", "there is no open transaction: begin one, for example with transaction()")
    if pgconn.parameter_status(b"client_encoding") != b"UTF8":
        raise invalid(
            "tx", "tx_encoding", "the connection's client_encoding must be UTF8: others cannot write all text"
        )
    return tx


def is_aborted(tx: object) -> bool:
    """Whether it is a connection whose transaction can only be rolled back."""
    return isinstance(tx, psycopg.Connection) and tx.pgconn.transaction_status == pq.TransactionStatus.INERROR


def _advice(tx: object, kind: type[Any]) -> str:
    if isinstance(tx, psycopg.Connection):
        return "is a sync connection, which would stop the event loop: use an AsyncConnection, or holdkit.connect"
    if isinstance(tx, psycopg.AsyncConnection):
        return "is an async connection: use holdkit.connect_async with it"
    if isinstance(getattr(tx, "connection", None), psycopg.Connection | psycopg.AsyncConnection):
        return f"must be the connection itself, not its {type(tx).__name__}"
    name = f"a psycopg {kind.__name__}"
    return f"must be {name}, or SQLAlchemy's or Django's around one, not {type(tx).__module__}.{type(tx).__name__}"


def check_transaction(looks: Row, identity: Row | None, options: JoinOptions) -> None:
    """What the server says of it."""
    isolation, read_only, recovering, path = looks
    first = next((name for name in path.split("\x1f") if not name.startswith("pg_temp")), "")
    if first != "pg_catalog":
        raise invalid("tx", "tx_search_path", "the connection's search_path puts its own functions before pg_catalog's")
    if identity is None or identity[0] != options.identity:
        raise _other_database()
    if recovering:
        raise invalid("tx", "tx_read_only", "the connection is to a standby: use one to the primary")
    if options.reading:
        return
    if isolation != "read committed":
        raise invalid("tx", "tx_isolation", f"the transaction must be READ COMMITTED, not {isolation.upper()}")
    if read_only == "on":
        raise invalid("tx", "tx_read_only", "the transaction is read-only")


def _other_database() -> HoldkitError:
    return invalid("tx", "tx_other_database", "the connection must be to the same database as this kernel")


# The call itself, neither sync nor async


class _Lent(Wire):
    """Somebody else's connection: never hung up by us, and never left with answers that its owner would read as theirs."""

    def hang_up(self) -> None:
        """Leave it as it is; its owner will notice."""

    def settle(self) -> Steps[None]:
        """After something struck in the middle of an exchange: take every answer that is still to come, however much of
        it had been sent, and throw it away."""
        pgconn = self.pgconn
        try:
            pgconn.pipeline_sync()
            sending = pgconn.flush() == 1
            while self.busy:
                yield READ | WRITE if sending else READ
                pgconn.consume_input()
                sending = sending and pgconn.flush() == 1
                while self.busy and not pgconn.is_busy():
                    self.busy = pgconn.get_result() is not None or not self._at_rest()
        except (OSError, psycopg.Error) as error:
            raise self._gone(str(error)) from error
        pgconn.enter_pipeline_mode()

    def _at_rest(self) -> bool:
        if self.pgconn.status == pq.ConnStatus.BAD:
            raise self._gone("the connection was lost")
        try:
            self.pgconn.exit_pipeline_mode()  # libpq's own word: it refuses while anything is outstanding
        except psycopg.Error:
            return False
        return True


def joined(pgconn: pq.abc.PGconn, options: JoinOptions, make: Make) -> Steps[ScriptResult]:
    """Run the script in a savepoint, again if another transaction came between."""
    wire = _Lent(pgconn, prepare=False, on_statement=options.on_statement, named=options.named)
    pgconn.enter_pipeline_mode()
    try:
        for _ in range(ATTEMPTS):
            ran = yield from _Attempt(wire, options).run(make)
            if ran is not None:
                return ran
        raise EngineError("other transactions came between each time; this call did nothing: try again")
    except ConnectionFailed as error:
        raise EngineError(
            f"the connection of tx was lost or does not answer ({error}): nothing of your transaction will be committed"
        ) from error
    finally:
        if pgconn.status == pq.ConnStatus.OK and not wire.busy:
            pgconn.exit_pipeline_mode()


class _Attempt:
    """One run of a call in its savepoint."""

    def __init__(self, wire: _Lent, options: JoinOptions) -> None:
        self._wire, self._options = wire, options
        self._inside = False
        """Our savepoint is there for certain."""

    def run(self, make: Make) -> Steps[ScriptResult | None]:
        """What the script came to, or None if another transaction came between; else whatever went wrong, undone."""
        try:
            yield from self._enter()
            ran = yield from _run(self._wire, make())
            while (
                ran.outcomes is None
            ):  # a backlog goes first; it is in the caller's transaction too, whose length is theirs
                ran = yield from _run(self._wire, make())
            if ran.skipped_locked:  # born or removed while we waited for its lock
                raise Contention("left out")  # noqa: TRY301 - the same end as the others
            self._inside = False
            yield from self._wire.exchange(_LEAVING)
        except (ConnectionFailed, GeneratorExit):
            raise
        except BaseException as error:
            yield from self._undo()
            if isinstance(error, Contention):
                return None
            if isinstance(error, InDoubt):
                raise error.told() from None
            if isinstance(error, StatementFailed):
                raise _trouble(error) from error
            raise
        return ran

    def _enter(self) -> Steps[None]:
        try:
            _, looks, identity = yield from self._wire.exchange(_ENTERING)
        except StatementFailed as error:
            self._inside = error.name != "make_savepoint"
            if error.name == "find_identity" and error.sqlstate in ("42P01", "3F000", "42501"):
                raise _other_database() from error
            raise
        self._inside = True
        check_transaction(looks[0], identity[0] if identity else None, self._options)

    def _undo(self) -> Steps[None]:
        """Back to the savepoint. Where an interrupt struck while it was being made nothing was done yet, and where it
        struck while it was being released all was done: in neither case may we ask for a savepoint that is not there."""
        wire = self._wire
        if wire.busy:
            yield from wire.settle()
        if not self._inside and wire.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
            return
        for _ in range(3):
            try:
                yield from wire.exchange(_UNDOING)
            except StatementFailed as error:
                if error.sqlstate != "57014":  # our own request to stop, that came late
                    raise EngineError(f"{error.message}: your transaction is aborted, roll it back") from error
            else:
                return
        raise EngineError("tx was cancelled again and again: your transaction is aborted, roll it back")


def _run(wire: Wire, script: Script[T]) -> Steps[T]:
    """The script's statements, without those that are the caller's to say."""
    try:
        statements = next(script)
        while True:
            ours = [statement for statement in statements if statement[0] not in _THEIRS]
            answers = iter((yield from wire.exchange(ours)) if ours else [])
            statements = script.send(_padded(statements, answers))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        script.close()


def _padded(statements: Sequence[Statement], answers: Any) -> list[list[Row]]:
    return [[] if name in _THEIRS else next(answers) for name, _ in statements]


def _trouble(error: StatementFailed) -> HoldkitError:
    if error.sqlstate in ("57014", "55P03"):
        return Overloaded(
            "others kept what this call needs locked for too long; your transaction goes on", retry_after=1.0
        )
    advice = "; grant this role the rights to the kernel's schema" if error.sqlstate == "42501" else ""
    return EngineError(f"{error.message} ({error.sqlstate}): this call did nothing; your transaction goes on{advice}")
