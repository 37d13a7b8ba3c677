"""Migrations: numbered, forward only, all in one transaction under a lock, so that the schema is old or new, never half.

A role that may create tables runs them (`holdkit migrate`); opening an engine only checks. A schema newer than this release knows is
refused, and so is a schema of that name that is not ours. Nothing outside that schema is touched.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Literal, TypeAlias

import msgspec
import psycopg

from ...core.bounds import MEANING, Limits
from ...core.lanes import MAX_LANES, lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.validation import invalid, whole
from ...errors import EngineError
from ..named_sql import statements_of
from ..settings import StoredLimits, check_asked, limits_as_created, stored_form
from .address import Address, check_schema_name, read_url
from .connections import PipelineConnection
from .database import Database, Schema
from .driver import Row, notice_text, standby_given_up
from .encoding import Sql
from .failures import StatementFailed
from .opening import check_version, connect, open_connection
from .rows import record_of
from .statements import SCHEMA, identifier, in_schema, load, migrations

OLDEST = 3
"""The oldest version that is migrated: before it, holds did not record what a pool still counts. No release has an older one."""
LANES = 64
"""The number of lanes on one server, unless `migrate` is given another."""
CITUS_LANES = 1024
"""The number of lanes of distributed tables: far more than there will ever be shards."""
DISTRIBUTED = (
    "pools",
    "holds",
    "legs",
    "heads",
    "journal",
    "unnumbered",
    "operations",
    "records",
    "fence_floors",
    "tallies",
    "seals",
)
"""Tables that are distributed by lane; the others are co-located with the first."""
ADDED = {"fence_floors": 4, "tallies": 5, "seals": 8}
"""Distributed tables that a later migration than the first creates, each with the version that creates it."""
COPIED = ("settings", "migrations")
"""Small tables that every node has a copy of, so that any node can be opened."""
Layout = Literal["one server", "citus", "as if"]
"""`as if` sends everything as on Citus, to an ordinary server: for tests."""
Run: TypeAlias = Callable[[str], list[Row]]
"""Executes one statement, which has no parameters, and returns its rows."""


def migrate(
    url: str,
    *,
    lanes: int | None = None,
    limits: Limits | None = None,
    citus: bool = False,
    schema: str | None = None,
) -> int:
    """Bring the schema up to date, and return its version. `lanes`, `limits` and `citus` count only when it is created."""
    return migrate_to(url, "citus" if citus else "one server", lanes, limits, schema)


def migrate_to(
    url: str, layout: Layout, lanes: int | None = None, limits: Limits | None = None, schema: str | None = None
) -> int:
    """Bring the schema up to date, and return its version. A new schema gets the layout that is named."""
    lanes = _lanes(lanes, layout)
    address = read_url(url, schema=schema)
    with closing(connect(Database(address, limits or Limits(), None))) as connection:  # for its error messages
        try:
            check_version(connection.fetch("server_settings")[0][0], address)
        except StatementFailed as failed:
            raise address.statement_error(failed) from failed
    try:
        try:
            return _transact(address, lanes, limits or Limits(), layout)
        except (
            psycopg.errors.UniqueViolation,
            psycopg.errors.DuplicateSchema,
        ):  # another process has created the schema meanwhile
            return _transact(address, lanes, limits or Limits(), layout)
    except psycopg.Error as error:
        advice = "; this role may not create a schema here" if error.sqlstate == "42501" else ""
        raise EngineError(f"cannot migrate {address.shown}: {str(error).strip()}{advice}") from error


def _lanes(lanes: int | None, layout: Layout) -> int:
    if lanes is None:
        return LANES if layout == "one server" else CITUS_LANES
    whole(lanes, "lanes", 1, MAX_LANES)
    if lanes & (lanes - 1):
        raise invalid("lanes", "lanes_not_a_power_of_two", "must be a power of two")
    return lanes


def _transact(address: Address, lanes: int, limits: Limits, layout: Layout) -> int:
    notices: list[str] = []
    with open_connection(address, autocommit=False).connection as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice_text(notice)))
        connection.execute("set local lock_timeout = '10s'")
        cursor = psycopg.RawCursor(connection)

        def run(statement: str) -> list[Row]:
            cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        version = migrate_through(run, address.shown, lanes, limits, layout, schema=address.schema)
    if standby_given_up(notices):
        raise address.not_replicated()
    return version


def migrate_through(run: Run, shown: str, lanes: int, limits: Limits, layout: Layout, schema: str) -> int:
    """Bring the schema up to date, in the transaction in which `run` executes a statement. Return the version."""

    def ask(name: str, *values: str | int) -> list[Row]:
        return run(with_values(load(schema)[name], values))

    schemas, ours = ask("has_schema", schema)[0]
    if schemas and not ours:
        raise EngineError(f"cannot migrate {shown}: it has a schema {schema} that is not ours; rename it")
    if layout == "citus" and not ask("has_citus")[0][0]:
        raise EngineError(
            f"cannot migrate {shown}: the extension citus is not there; run `create extension citus` on the "
            f"coordinator and add its workers first, or leave out --citus"
        )
    if not ours:
        run(f"create schema {identifier(schema)}")
        ask("create_version_table")
    ask("lock_versions")
    present = int(ask("schema_version")[0][0])
    steps = migrations()
    check_known(present, shown, schema)
    if present:
        layout = _layout_of(ask, shown, layout)
    for number, name, text in steps:
        if number > present:
            for statement in statements_of(
                in_schema(text, schema)
            ):  # one by one: Citus sends workers the text of the whole query
                run(statement)
            ask("record_version", number, name)
    for statement in distributing(schema, present) if layout == "citus" else ():
        run(statement)
    if not present:
        for key, value in _first_settings(lanes, limits, layout).items():
            ask("put_setting", key, msgspec.json.encode(value).decode())
        ask("create_heads", lanes)
    return steps[-1][0]


def with_values(sql: Sql, values: Sequence[str | int]) -> str:
    """Return a statement with its values in the text, for a driver that is not ours and writes parameters its own way. Only for values of
    our own."""
    text = sql.text
    for number, value in reversed(list(enumerate(values, 1))):
        literal = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
        text = text.replace(f"${number}::", f"{literal}::")
    return text


def _layout_of(ask: Callable[..., list[Row]], shown: str, layout: Layout) -> Layout:
    """Return the layout that the tables have: `layout` may be left out if they exist."""
    distributed = bool(ask("is_distributed"))
    if layout != "one server" and not distributed:
        raise EngineError(
            f"cannot migrate {shown}: its tables were made for one server, and which lane a pool has cannot change; "
            f"make a new database with --citus and let the application begin there"
        )
    if layout == "one server" and distributed and ask("has_citus")[0][0]:
        return "citus"
    return layout


def distributing(schema: str = SCHEMA, present: int = 0) -> list[str]:
    """Return the statements that distribute the tables which the schema of version `present` does not have, co-located, so that all rows of
    a lane are on one node."""
    first = DISTRIBUTED[0]
    written = [
        *(f"select create_reference_table('holdkit.{table}')" for table in COPIED if not present),
        *(
            f"select create_distributed_table('holdkit.{table}', 'lane', "
            f"colocate_with => '{'none' if table == first else f'holdkit.{first}'}')"
            for table in DISTRIBUTED
            if ADDED.get(table, 1) > present
        ),
    ]
    return [in_schema(statement, schema) for statement in written]


def _first_settings(lanes: int, limits: Limits, layout: Layout) -> dict[str, Any]:
    """Return the settings that are fixed when the tables are created; `identity` tells this database from every other."""
    limits_stored = {f"limit.{name}": value for name, value in stored_form(limits).items()}
    distributed = {} if layout == "one server" else {"distributed": True}
    tokens = {"identity": secrets.token_hex(16), "generation": secrets.token_hex(8)}
    return {**tokens, "lanes": lanes, "limits_version": 0, **distributed, **limits_stored}


def migration_sql(
    lanes: int | None = None, limits: Limits | None = None, *, citus: bool = False, schema: str = SCHEMA
) -> str:
    """Return the migration of an empty database as a script, for those who run migrations themselves."""
    check_schema_name(schema)
    lanes = _lanes(lanes, "citus" if citus else "one server")
    statements = migration_statements(lanes, limits or Limits(), schema, citus=citus)
    return "\n".join(["begin;", *(f"{statement};" for statement in statements), "commit;"]) + "\n"


def migration_statements(lanes: int, limits: Limits, schema: str, *, citus: bool = False) -> list[str]:
    """Return the statements that migrate an empty database."""
    layout: Layout = "citus" if citus else "one server"
    written = [f"create schema {identifier(schema)}", load()["create_version_table"].text]
    for number, name, text in migrations():
        record = f"insert into holdkit.migrations (version, name) values ({number}, '{name}')"
        written += [*statements_of(text), record]
    written += distributing() if citus else ()
    for key, value in _first_settings(lanes, limits, layout).items():
        stored = msgspec.json.encode(value).decode()
        written.append(f"insert into holdkit.settings (name, value) values ('{key}', '{stored}')")
    written.append(f"insert into holdkit.heads (lane) select generate_series(0, {lanes - 1})")
    return [in_schema(statement, schema) for statement in written]


def check_known(version: int, shown: str, schema: str) -> None:
    """Raise if a schema is newer than this release, or older than it can migrate."""
    newest = migrations()[-1][0]
    if 0 < version < OLDEST:
        raise EngineError(
            f"{shown} has schema version {version}, this release migrates from {OLDEST} on; it is from before the first "
            f"release: rename the schema {schema}, and migrate into a new one"
        )
    if version > newest:
        raise EngineError(
            f"{shown} has schema version {version}, this release knows {newest}; "
            f"use a release at least as new as the one that migrated it"
        )


def check_schema(connection: PipelineConnection, address: Address, asked: Limits | None) -> Schema:
    """Return the identity, the number of lanes and the limits in force. Raise if the schema is missing, older, newer or not ours."""
    schemas, ours = connection.fetch("has_schema", (address.schema,))[0]
    if not ours:
        name = address.schema
        found = f"a schema {name} that is not ours: rename it, then" if schemas else f"no schema {name} yet:"
        raise EngineError(f"{address.shown} has {found} {address.advice}")
    version = connection.fetch("schema_version")[0][0]
    check_known(version, address.shown, address.schema)
    if version < migrations()[-1][0]:
        raise EngineError(f"{address.shown} has schema version {version}: {address.advice}")
    texts: dict[str, str] = dict(connection.fetch("load_settings"))
    stored = {name: msgspec.json.decode(value) for name, value in texts.items()}
    lanes = stored.get("lanes")
    if type(lanes) is not int or not 1 <= lanes <= MAX_LANES:
        raise EngineError(f"{address.shown}: its settings lack the number of lanes; restore a backup")
    limits = {name[6:]: value for name, value in stored.items() if name.startswith("limit.") and name[6:] in MEANING}
    created = limits_as_created(address.shown, limits, asked, Limits())
    rows = connection.fetch("read_record", (lane_of_record(LIMITS_KEY, lanes), *LIMITS_KEY))
    try:
        secret = bytes.fromhex(stored["secret"])
    except (KeyError, TypeError, ValueError):
        raise EngineError(f"{address.shown}: its settings lack the secret; restore a backup") from None
    in_force = StoredLimits(created, next(map(record_of, rows), None), secret=secret, lanes=lanes)
    check_asked(address.shown, asked, in_force)
    return Schema(texts.get("identity", ""), lanes, in_force, stored.get("distributed") is True, secret)
