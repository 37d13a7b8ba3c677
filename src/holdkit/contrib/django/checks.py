"""System checks: what `python manage.py check` says about a project that cannot work, and what to do about it.

| Id | What is wrong |
|---|---|
| holdkit.E001 | the setting HOLDKIT has an unknown key or a wrong value |
| holdkit.E002 | it names a database that DATABASES does not have |
| holdkit.E003 | that database is neither PostgreSQL nor SQLite, or PostgreSQL through psycopg2 |
| holdkit.E004 | on PostgreSQL: its transactions are not READ COMMITTED |
| holdkit.W001 | on SQLite: its transactions begin without the write lock |
| holdkit.W002 | on SQLite: it checkpoints by itself, which can lose a commit of another connection |
| holdkit.W003 | its tables are missing or old (with `--database`; a warning, because `migrate` itself runs this check) |
| holdkit.W004 | on PostgreSQL: the project's own tables would be created in Holdkit's schema |
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections

from ...errors import EngineError, InvalidRequest
from .configuration import Configuration, configuration, connection_of, url_of
from .kernels import check_tables


def check_settings(**_: Any) -> list[CheckMessage]:
    """Check everything that needs no connection."""
    try:
        read = configuration()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="See docs/django.md for the keys of HOLDKIT.", id="holdkit.E001")]
    try:
        connection = connection_of(read)
    except ImproperlyConfigured as error:
        return [Error(str(error), hint='Set HOLDKIT = {"DATABASE": "…"} to an alias in DATABASES.', id="holdkit.E002")]
    if connection.vendor == "postgresql":
        return _check_postgres(connection, read)
    if connection.vendor == "sqlite":
        return _check_sqlite(connection)
    return [_unsupported(read, f"is {connection.display_name}")]


def _wrong_value(error: InvalidRequest) -> CheckMessage:
    said = str(error).removeprefix("holdkit: ")
    return Error(
        f"HOLDKIT has a wrong value: {said}", hint="See docs/django.md for the keys of HOLDKIT.", id="holdkit.E001"
    )


def _unsupported(read: Configuration, what: str) -> CheckMessage:
    return Error(
        f"Holdkit cannot use the database {read.database!r}: it {what}.",
        hint="Use PostgreSQL with psycopg 3 (pip install 'holdkit[django,postgres]'), or SQLite; "
        'HOLDKIT = {"DATABASE": "…"} may name another database than the default one.',
        id="holdkit.E003",
    )


def _check_postgres(connection: Any, read: Configuration) -> list[CheckMessage]:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        return [_unsupported(read, "is used through psycopg2")]
    from ...engines.postgres.address import read_url

    try:
        read_url(url_of(connection, read), schema=read.schema, pool_size=read.pool_size)
    except InvalidRequest as error:
        return [_wrong_value(error)]
    options = connection.settings_dict.get("OPTIONS", {})
    found: list[CheckMessage] = []
    level = options.get("isolation_level")
    if level is not None and getattr(level, "name", level) not in ("READ_COMMITTED", 1):
        found.append(
            Error(
                "Holdkit joins transactions only if they are READ COMMITTED.",
                hint="Remove isolation_level from the OPTIONS of this database, or give Holdkit an alias of its own without it.",
                id="holdkit.E004",
            )
        )
    schema = read.schema or "holdkit"
    if connection.settings_dict.get("USER") == schema and "search_path" not in str(options.get("options", "")):
        found.append(
            Warning(
                f"The database user is called {schema!r}, so PostgreSQL creates the project's own tables in the schema of that name, "
                "among Holdkit's.",
                hint='Set HOLDKIT = {"SCHEMA": "…"} to another name before you migrate, or connect as another user.',
                id="holdkit.W004",
            )
        )
    return found


def _check_sqlite(connection: Any) -> list[CheckMessage]:
    options = connection.settings_dict.get("OPTIONS", {})
    found: list[CheckMessage] = []
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        found.append(
            Warning(
                "A transaction that has read before its first hold may fail, because it began without the write lock.",
                hint='Add "transaction_mode": "IMMEDIATE" to the OPTIONS of this database.',
                id="holdkit.W001",
            )
        )
    if "wal_autocheckpoint" not in str(options.get("init_command", "")).replace(" ", "").lower():
        found.append(
            Warning(
                "Django's connections checkpoint the file by themselves, and SQLite can lose a commit that coincides with one.",
                hint='Add "init_command": "pragma wal_autocheckpoint = 0;" to the OPTIONS of this database: Holdkit checkpoints it.',
                id="holdkit.W002",
            )
        )
    return found


def check_tables_in_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Check that the tables exist, if Django checks their database."""
    if sys.argv[1:2] == ["migrate"]:
        return []  # it is being done
    if check_settings_failed() or configuration().database not in (databases or ()):
        return []
    read = configuration()
    try:
        check_tables(connections[read.database], read)
    except EngineError as error:
        return [Warning(str(error).removeprefix("holdkit: "), id="holdkit.W003")]  # its last words are what to run
    except DatabaseError:
        return []  # Django's own checks say that it cannot connect
    return []


def check_settings_failed() -> bool:
    """Return whether `check_settings` reports an error."""
    return any(message.is_serious() for message in check_settings())
