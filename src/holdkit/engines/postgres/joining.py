"""Joining a caller's transaction: both happen or neither.

Every precondition is checked before anything is written. Each call runs in a savepoint of its own, so a refusal or an error
leaves the caller's transaction as usable as it was. Never commits, closes or changes a setting of the caller's connection,
prepares nothing on it, and rolls back nothing but its own savepoint. Waits for locks only within our own patience: then the
statement is cancelled, and nothing was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.rows import tuple_row

from ...core.validation import invalid
from ...errors import EngineError, HoldkitError, Overloaded
from .driver import ConnectionFailed, OnStatement, Row, Script, Statement, StatementFailed, Wire
from .script import Contention, Ran
from .statements import load
from .waiting import Steps, wait, wait_async

T = TypeVar("T")
Make = Callable[[], Script[Ran]]

ATTEMPTS: Final = 10
"""How often a call is run again because another transaction came between."""
_THEIRS: Final = frozenset({"begin", "commit", "rollback"})
_UNDOING: Final[tuple[Statement, ...]] = (("roll_back_to_savepoint", ()), ("release_savepoint", ()))


class Terms(Struct, frozen=True):
    """What a caller's connection must be, and how long we wait on it."""

    identity: str
    """The database's own mark: the connection must be to the same one."""
    patience: float
    on_statement: OnStatement | None


def run_joined(tx: object, terms: Terms, make: Make) -> Ran:
    """Run the script inside the caller's transaction, on this thread."""
    connection: psycopg.Connection[Any] = check_connection(tx, psycopg.Connection, "a psycopg Connection")
    try:
        cursor = psycopg.RawCursor(connection, row_factory=tuple_row)  # psycopg begins here, if nobody has yet
        check_transaction(cursor.execute(load()["look_at_caller"].text, prepare=False).fetchone())
        check_identity(cursor.execute(load()["find_identity"].text, prepare=False).fetchone(), terms)
    except psycopg.Error as error:
        raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
    pgconn = connection.pgconn
    with connection.lock:
        return wait(joined(pgconn, terms, make), pgconn.socket, terms.patience, pgconn.get_cancel().cancel)


async def run_joined_async(tx: object, terms: Terms, make: Make) -> Ran:
    """The same in a task, on an async connection."""
    connection: psycopg.AsyncConnection[Any] = check_connection(
        tx, psycopg.AsyncConnection, "a psycopg AsyncConnection"
    )
    try:
        cursor = psycopg.AsyncRawCursor(connection, row_factory=tuple_row)
        await cursor.execute(load()["look_at_caller"].text, prepare=False)
        check_transaction(await cursor.fetchone())
        await cursor.execute(load()["find_identity"].text, prepare=False)
        check_identity(await cursor.fetchone(), terms)
    except psycopg.Error as error:
        raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
    pgconn = connection.pgconn
    async with connection.lock:
        return await wait_async(joined(pgconn, terms, make), pgconn.socket, terms.patience, pgconn.get_cancel().cancel)


# Preconditions


def check_connection(tx: object, kind: type[Any], name: str) -> Any:
    """A psycopg connection of the right colour, inside a transaction or about to begin one."""
    if not isinstance(tx, kind):
        raise invalid(
            "tx", "tx_unsupported", f"must be {name}, or SQLAlchemy's or Django's around one, not {type(tx).__name__}"
        )
    pgconn = tx.pgconn
    if pgconn.status != pq.ConnStatus.OK:
        raise invalid("tx", "tx_unusable", "the connection is closed or broken")
    if pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise invalid("tx", "tx_in_pipeline", "leave the pipeline block first: Holdkit has round trips of its own")
    status = pgconn.transaction_status
    if status == pq.TransactionStatus.INERROR:
        raise invalid("tx", "tx_aborted", "the transaction is aborted: roll it back first")
    if status == pq.TransactionStatus.ACTIVE:
        raise invalid("tx", "tx_busy", "the connection is in the middle of something else")
    if status == pq.TransactionStatus.IDLE and tx.autocommit:
        raise invalid("tx", "tx_autocommit", "there is no open transaction: begin one, for example with transaction()")
    return tx


def check_transaction(row: Row | None) -> None:
    """What the server says of it."""
    isolation, read_only, recovering, visible = row or ("", "", False, False)
    if not visible:
        raise invalid("tx", "tx_other_database", "the connection does not see the tables of the schema holdkit")
    if isolation != "read committed":
        raise invalid("tx", "tx_isolation", f"the transaction must be READ COMMITTED, not {isolation.upper()}")
    if read_only == "on" or recovering:
        raise invalid("tx", "tx_read_only", "the transaction is read-only")


def check_identity(row: Row | None, terms: Terms) -> None:
    """It must be our own database."""
    if row is None or row[0] != terms.identity:
        raise invalid("tx", "tx_other_database", "the connection must be to the same database as this kernel")


# The call itself, colourless


class _Lent(Wire):
    """Somebody else's connection: never hung up by us."""

    def hang_up(self) -> None:
        """Leave it as it is; its owner will notice."""


def joined(pgconn: pq.abc.PGconn, terms: Terms, make: Make) -> Steps[Ran]:
    """Run the script in a savepoint, again if another transaction came between."""
    wire = _Lent(pgconn, prepare=False, on_statement=terms.on_statement)
    pgconn.enter_pipeline_mode()
    try:
        for _ in range(ATTEMPTS):
            ran = yield from _attempt(wire, make)
            if ran is not None:
                return ran
        raise EngineError("other transactions came between each time; this call did nothing: try again")
    finally:
        if pgconn.status == pq.ConnStatus.OK and not wire.busy:
            pgconn.exit_pipeline_mode()


def _attempt(wire: Wire, make: Make) -> Steps[Ran | None]:
    yield from wire.exchange((("make_savepoint", ()),))
    try:
        ran = yield from _run(wire, make())
        while (
            ran.outcomes is None
        ):  # a backlog goes first; it is in the caller's transaction too, whose length is theirs
            ran = yield from _run(wire, make())
        yield from wire.exchange((("release_savepoint", ()),))
    except ConnectionFailed as error:
        raise EngineError(
            f"the connection of tx was lost ({error}): the server has rolled your transaction back"
        ) from error
    except BaseException as error:
        yield from wire.exchange(_UNDOING)
        if isinstance(error, Contention):
            return None
        if isinstance(error, StatementFailed):
            raise _trouble(error) from error
        raise
    return ran


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
    return EngineError(f"{error.message} ({error.sqlstate}): this call did nothing; your transaction goes on")
