"""Migrations: numbered, forward only, all in one transaction under a lock, so that the schema is old or new, never half.

They are run by someone who may create tables (`holdkit migrate`); opening an engine only checks. A schema newer than this release
knows is refused, and so is a schema of that name that is not ours. Nothing outside that schema is touched.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import Any, Literal

import msgspec
import psycopg

from ...core.bounds import MEANING, Limits
from ...core.lanes import MAX_LANES, lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.validation import invalid, whole
from ...errors import EngineError
from ..named_sql import statements_of
from ..settings import StoredLimits, check_asked, limits_as_created, stored_form
from .connections import PipelineConnection
from .database import Address, Database, Schema, check_schema_name, read_url
from .driver import notice_text, standby_given_up
from .opening import check_version, connect, open_connection
from .rows import record_of
from .statements import SCHEMA, identifier, in_schema, load, migrations

LANES = 64
"""For one server."""
CITUS_LANES = 1024
"""Where the tables are distributed: many more than there will ever be shards."""
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
"""Those of the distributed tables that a later migration than the first creates, and which."""
COPIED = ("settings", "migrations")
"""Small tables that every node has a copy of, so that any node can be opened."""
Layout = Literal["one server", "citus", "as if"]
"""`as if` sends everything as on Citus, to an ordinary server: for tests."""


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
    """The same, by the name of the layout."""
    lanes = _lanes(lanes, layout)
    address = read_url(url, schema=schema)
    with closing(connect(Database(address, limits or Limits(), None))) as connection:  # for its error messages
        check_version(connection.fetch("server_settings")[0][0], address)
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
        version = _migrate(connection, address, lanes, limits, layout)
    if standby_given_up(notices):
        raise address.not_replicated()
    return version


def _migrate(connection: psycopg.Connection[Any], address: Address, lanes: int, limits: Limits, layout: Layout) -> int:
    cursor = psycopg.RawCursor(connection)
    schema = address.schema
    sql = load(schema)
    schemas, ours = _one(cursor.execute(sql["has_schema"].text, (schema,)).fetchone())
    if schemas and not ours:
        raise EngineError(f"cannot migrate {address.shown}: it has a schema {schema} that is not ours; rename it")
    if layout == "citus" and not _one(cursor.execute(sql["has_citus"].text).fetchone())[0]:
        raise EngineError(
            f"cannot migrate {address.shown}: the extension citus is not there; run `create extension citus` on the "
            f"coordinator and add its workers first, or leave out --citus"
        )
    if not ours:
        cursor.execute(f"create schema {identifier(schema)}".encode())
        cursor.execute(sql["create_version_table"].text)
    cursor.execute(sql["lock_versions"].text)
    present = int(_one(cursor.execute(sql["schema_version"].text).fetchone())[0])
    steps = migrations()
    _check_known(present, address)
    if present:
        layout = _layout_of(cursor, address, layout)
    for number, name, text in steps:
        if number > present:
            for statement in statements_of(
                in_schema(text, schema)
            ):  # one by one: Citus sends workers the text of the whole query
                cursor.execute(statement.encode())
            cursor.execute(sql["record_version"].text, (number, name))
    for statement in distributing(schema, present) if layout == "citus" else ():
        cursor.execute(statement.encode())
    if not present:
        for key, value in _first_settings(lanes, limits, layout).items():
            cursor.execute(sql["put_setting"].text, (key, msgspec.json.encode(value).decode()))
        cursor.execute(sql["create_heads"].text, (lanes,))
    return steps[-1][0]


def _layout_of(cursor: psycopg.RawCursor[Any], address: Address, layout: Layout) -> Layout:
    """The layout that the tables have: `layout` may be left out when they are there."""
    sql = load(address.schema)
    distributed = cursor.execute(sql["is_distributed"].text).fetchone() is not None
    if layout != "one server" and not distributed:
        raise EngineError(
            f"cannot migrate {address.shown}: its tables were made for one server, and which lane a pool has cannot change; "
            f"make a new database with --citus and let the application begin there"
        )
    if layout == "one server" and distributed and _one(cursor.execute(sql["has_citus"].text).fetchone())[0]:
        return "citus"
    return layout


def distributing(schema: str = SCHEMA, present: int = 0) -> list[str]:
    """What distributes the tables that are not in the schema of version `present`, co-located, so that all of a lane is on one
    node."""
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
    """What is fixed when the tables are created; `identity` tells this database from every other."""
    limits_stored = {f"limit.{name}": value for name, value in stored_form(limits).items()}
    distributed = {} if layout == "one server" else {"distributed": True}
    tokens = {"identity": secrets.token_hex(16), "generation": secrets.token_hex(8)}
    return {**tokens, "lanes": lanes, "limits_version": 0, **distributed, **limits_stored}


def migration_sql(
    lanes: int | None = None, limits: Limits | None = None, *, citus: bool = False, schema: str = SCHEMA
) -> str:
    """The same as a script, for those who run migrations themselves."""
    check_schema_name(schema)
    layout: Layout = "citus" if citus else "one server"
    lanes = _lanes(lanes, layout)
    lines = ["begin;", f"create schema {identifier(schema)};", load()["create_version_table"].text + ";"]
    for number, name, text in migrations():
        lines += [text, f"insert into holdkit.migrations (version, name) values ({number}, '{name}');"]
    lines += [f"{statement};" for statement in (distributing() if citus else ())]
    for key, value in _first_settings(lanes, limits or Limits(), layout).items():
        lines.append(
            f"insert into holdkit.settings (name, value) values ('{key}', '{msgspec.json.encode(value).decode()}');"
        )
    lines += [f"insert into holdkit.heads (lane) select generate_series(0, {lanes - 1});", "commit;"]
    return in_schema("\n".join(lines) + "\n", schema)


def _one(row: Any) -> Any:
    assert row is not None, "this statement always gives a row"
    return row


def _check_known(version: int, address: Address) -> None:
    newest = migrations()[-1][0]
    if version > newest:
        raise EngineError(
            f"{address.shown} has schema version {version}, this release knows {newest}; "
            f"use a release at least as new as the one that migrated it"
        )


def check_schema(connection: PipelineConnection, address: Address, asked: Limits | None) -> Schema:
    """The identity, the number of lanes and the limits in force; refuses a schema that is missing, older, newer or not ours."""
    schemas, ours = connection.fetch("has_schema", (address.schema,))[0]
    if not ours:
        name = address.schema
        found = f"a schema {name} that is not ours: rename it" if schemas else f"no schema {name} yet"
        raise EngineError(f"{address.shown} has {found}; then {address.advice}")
    version = connection.fetch("schema_version")[0][0]
    _check_known(version, address)
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
    in_force = StoredLimits(created, record_of(rows[0]) if rows else None)
    check_asked(address.shown, asked, in_force, Limits())
    try:
        secret = bytes.fromhex(stored["secret"])
    except (KeyError, TypeError, ValueError):
        raise EngineError(f"{address.shown}: its settings lack the secret; restore a backup") from None
    return Schema(texts.get("identity", ""), lanes, in_force, stored.get("distributed") is True, secret)
