"""Our tables behind a framework's own connection: which engine's they are, and how to execute a statement there."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from ..core.validation import invalid
from ..engines.sqlite.tables import SqliteTables

if TYPE_CHECKING:
    from ..engines.postgres.tables import PostgresTables


def tables_in(tx: Any, *, schema: str | None = None) -> SqliteTables | PostgresTables:
    """Return the tables in the database of Django's connection or SQLAlchemy's Connection. Work on them happens in the transaction that is
    open there; where SQLite has none, each step has its own."""
    package = _package(tx)
    if package == "django":
        return _of_django(tx, schema)
    if package == "sqlalchemy" and hasattr(tx, "exec_driver_sql") and hasattr(tx, "dialect"):
        return _of_sqlalchemy(tx, schema)
    raise invalid(
        "tx", "tx_unsupported", f"must be Django's connection or SQLAlchemy's Connection, not {type(tx).__name__}"
    )


def _package(tx: object) -> str:
    names = {base.__module__.partition(".")[0] for base in type(tx).__mro__}
    return next((name for name in ("django", "sqlalchemy") if name in names), "")


def _of_django(tx: Any, schema: str | None) -> SqliteTables | PostgresTables:
    if tx.vendor == "sqlite":
        tx.ensure_connection()
        return _sqlite(tx.connection, schema)
    if tx.vendor != "postgresql":
        raise _unsupported(tx.vendor)

    def run(statement: str) -> list[tuple[Any, ...]]:
        with tx.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    return _postgres(run, schema)


def _of_sqlalchemy(tx: Any, schema: str | None) -> SqliteTables | PostgresTables:
    if tx.dialect.name == "sqlite":
        return _sqlite(tx.connection.driver_connection, schema)
    if tx.dialect.name != "postgresql":
        raise _unsupported(tx.dialect.name)

    def run(statement: str) -> list[tuple[Any, ...]]:
        result = tx.exec_driver_sql(statement, execution_options={"no_parameters": True})
        return [tuple(row) for row in result] if result.returns_rows else []

    return _postgres(run, schema)


def _sqlite(connection: Any, schema: str | None) -> SqliteTables:
    if schema is not None:
        raise invalid("schema", "schema_unsupported", "goes with PostgreSQL only")
    if not isinstance(connection, sqlite3.Connection):
        raise invalid(
            "tx", "tx_unsupported", f"must lead to Python's own sqlite3, not to {type(connection).__module__}"
        )
    return SqliteTables(connection)


def _postgres(run: Any, schema: str | None) -> PostgresTables:
    from ..engines.postgres.tables import PostgresTables

    return PostgresTables(run, schema)


def _unsupported(vendor: str) -> Exception:
    return invalid("tx", "tx_unsupported", f"is a connection to {vendor}: Holdkit's tables are in PostgreSQL or SQLite")
