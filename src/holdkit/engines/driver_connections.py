"""A caller's `tx=`: finds the driver's connection behind the connection or session of a framework.

Recognises SQLAlchemy (Connection, Session and their async variants) and Django by the names of their classes, without importing
them. If SQLAlchemy has not begun its transaction yet, it is made to begin one by a first statement: rows written on the driver's
connection before that would be lost at SQLAlchemy's commit. Nothing here commits, rolls back or closes.
"""

from __future__ import annotations

from typing import Any

from ..core.validation import invalid
from ..errors import EngineError, InvalidRequest

_SESSIONS = ("Session", "scoped_session")
_ASYNC_SESSIONS = ("AsyncSession", "async_scoped_session")


def driver_connection(tx: object) -> Any:
    """Return the driver's connection behind that of a framework, or `tx` itself. Raise `InvalidRequest` if there is no transaction."""
    if _derives(tx, "sqlalchemy"):
        if _named(tx, *_ASYNC_SESSIONS, "AsyncConnection"):
            raise invalid("tx", "tx_unsupported", f"is an {type(tx).__name__}: use holdkit.connect_async with it")
        return _sqlalchemy(tx)
    if _derives(tx, "django"):
        return _django(tx)
    return tx


async def driver_connection_async(tx: object) -> Any:
    """Return the driver's connection below an async connection or session. Call it in a task."""
    asked: Any = tx
    if _derives(tx, "sqlalchemy"):
        if _named(tx, *_ASYNC_SESSIONS):
            try:
                asked = await asked.connection()  # begins, as any statement of the session would
            except Exception as error:
                raise _unusable(error) from error
        elif not _named(tx, "AsyncConnection"):
            raise invalid("tx", "tx_unsupported", _advice(tx, "an AsyncConnection or an AsyncSession"))
        if asked.sync_connection is None or asked.closed:
            raise invalid("tx", "tx_unusable", "the AsyncConnection is not started, or closed: use `engine.begin()`")
        if not asked.in_transaction():
            await _begin_async(asked)
        driver = _driver(asked.sync_connection)
        if _derives(driver, "asyncpg") and not driver.is_in_transaction():
            await _begin_async(asked)  # SQLAlchemy begins on asyncpg with the first statement, not before
        return driver
    if _derives(tx, "django"):
        raise invalid("tx", "tx_unsupported", "Django's connection is sync: use holdkit.connect, in sync_to_async")
    return tx


def spoil(tx: object) -> None:
    """Tell the framework that the driver's transaction is aborted, which it has not seen: Django must not try to commit it."""
    if _derives(tx, "django"):
        tx.needs_rollback = True  # type: ignore[attr-defined]


def transaction_ended() -> InvalidRequest:
    """Return the error for application code that ended the transaction it was given, or rolled back to a savepoint from before our call,
    which releases the locks."""
    return invalid("tx", "transaction_ended", "your function ended the transaction it was given, or rolled back to a savepoint "
                   "from before the call: nothing was held. What it wrote before may be committed. Leave commit and rollback "
                   "to whoever began the transaction")  # fmt: skip


def _derives(tx: object, framework: str) -> bool:
    return any(base.__module__.partition(".")[0] == framework for base in type(tx).__mro__)


def _named(tx: object, *names: str) -> bool:
    return any(base.__name__ in names for base in type(tx).__mro__)


# SQLAlchemy


def _sqlalchemy(tx: Any) -> Any:
    if _named(tx, *_SESSIONS):
        try:
            tx = tx.connection()  # begins, as any statement of the session would
        except Exception as error:
            raise _unusable(error) from error
    if not _named(tx, "Connection"):
        raise invalid("tx", "tx_unsupported", _advice(tx, "a Connection or a Session"))
    if tx.closed:
        raise invalid("tx", "tx_unusable", "the connection is closed")
    if not tx.in_transaction():
        try:
            tx.exec_driver_sql("select 1")  # begins, as any statement would
        except Exception as error:
            raise _unusable(error) from error
    return _driver(tx)


async def _begin_async(tx: Any) -> None:
    try:
        await tx.exec_driver_sql("select 1")
    except Exception as error:
        raise _unusable(error) from error


def _driver(connection: Any) -> Any:
    try:
        levels = connection.get_transaction(), connection.get_nested_transaction()
        driver = connection.connection.driver_connection
    except Exception as error:
        raise _unusable(error) from error
    if any(level is not None and not level.is_active for level in levels):
        raise invalid("tx", "tx_aborted", "the transaction or savepoint was rolled back already: leave its block first")
    return driver


def _unusable(error: Exception) -> InvalidRequest | EngineError:
    """Map an error about SQLAlchemy's own state to `InvalidRequest`, the caller's mistake; any other error is the database's:
    `EngineError`."""
    names = [base.__name__ for base in type(error).__mro__]
    if "PendingRollbackError" in names:
        return invalid("tx", "tx_aborted", f"the transaction is to be rolled back first: {error}")
    if "DBAPIError" in names or "SQLAlchemyError" not in names:
        return EngineError(f"tx cannot be used: {error}")
    return invalid("tx", "tx_unusable", f"there is no connection to use: {error}")


def _advice(tx: object, wanted: str) -> str:
    name = type(tx).__name__
    if "Engine" in name:
        return f"must be {wanted}, not an {name}: use `with engine.begin() as tx`"
    if "Transaction" in name:
        return f"must be {wanted}, not its {name}"
    return f"must be {wanted}, not {type(tx).__module__}.{name}"


# Django


def _django(tx: Any) -> Any:
    if not hasattr(tx, "in_atomic_block"):
        raise invalid("tx", "tx_unsupported", f"must be django.db.connection, not {type(tx).__name__}")
    if not tx.in_atomic_block and (tx.connection is None or tx.autocommit):  # get_autocommit() would connect
        raise invalid("tx", "tx_autocommit", "there is no open transaction: use `with transaction.atomic()`")
    if tx.needs_rollback:
        raise invalid(
            "tx", "tx_aborted", "an error inside this atomic block means it will be rolled back: leave it first"
        )
    if tx.connection is None:
        raise invalid("tx", "tx_unusable", "the connection is closed")
    try:
        tx.validate_thread_sharing()
    except Exception as error:
        raise invalid("tx", "tx_unusable", f"the connection belongs to another thread: {error}") from error
    return tx.connection
