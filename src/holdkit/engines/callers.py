"""A caller's `tx=`: from what frameworks hand around to the driver's own connection underneath.

Knows SQLAlchemy (Connection, Session and their async twins) and Django by their shape, without importing them. Only looks:
begins nothing but what the framework itself begins at its first statement, so that its own commit finds our rows.
"""

from __future__ import annotations

from typing import Any

from ..core.validation import invalid


def driver_connection(tx: object) -> Any:
    """The driver's connection behind a framework's, or `tx` itself; `InvalidRequest` where the framework has not begun."""
    module = type(tx).__module__.partition(".")[0]
    if module == "sqlalchemy" or _derives(tx, "sqlalchemy"):
        return _sqlalchemy(tx)
    if _derives(tx, "django"):
        return _django(tx)
    return tx


def _derives(tx: object, framework: str) -> bool:
    return any(base.__module__.partition(".")[0] == framework for base in type(tx).__mro__)


def _sqlalchemy(tx: Any) -> Any:
    names = {base.__name__ for base in type(tx).__mro__}
    if "AsyncSession" in names or "async_scoped_session" in names:
        tx = tx.sync_session
        names = {base.__name__ for base in type(tx).__mro__}
    if "AsyncConnection" in names:
        tx = tx.sync_connection
        if tx is None:
            raise invalid("tx", "tx_not_begun", "the AsyncConnection is not started: use `async with engine.begin()`")
    if "Session" in names or "scoped_session" in names:
        if not tx.in_transaction():
            raise invalid("tx", "tx_not_begun", "the session has not begun: use `with session.begin()`")
        tx = tx.connection()
    if not hasattr(tx, "in_transaction") or not hasattr(tx, "connection"):
        raise invalid("tx", "tx_unsupported", f"must be a connection or a session, not {type(tx).__name__}")
    if tx.closed:
        raise invalid("tx", "tx_unusable", "the connection is closed")
    if not tx.in_transaction():
        raise invalid("tx", "tx_not_begun", "the connection has not begun: use `with engine.begin()`")
    return tx.connection.driver_connection


def _django(tx: Any) -> Any:
    if not hasattr(tx, "in_atomic_block"):
        raise invalid("tx", "tx_unsupported", f"must be django.db.connection, not {type(tx).__name__}")
    if not tx.in_atomic_block:
        raise invalid("tx", "tx_autocommit", "there is no open transaction: use `with transaction.atomic()`")
    tx.ensure_connection()
    return tx.connection
