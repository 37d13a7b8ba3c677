"""Migrations: numbered, forward only, all of them in one transaction under a lock: old or new, never half.

Made by whoever may create tables (`holdkit migrate`), not by each `connect`, which only checks. Refuses a schema newer than
it knows, and a schema of our name that is not ours. Never touches anything outside the schema `holdkit`.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import psycopg
from msgspec import Struct

from ...core.lanes import MAX_LANES
from ...core.model import MEANING, Limits
from ...core.validation import invalid, whole
from ...errors import EngineError
from ..settings import limits_in_force, stored_form
from .driver import Driver
from .opening import Address, connect, read_url
from .statements import load, migrations

LANES = 64
"""For one server; take 1,024 where Citus is planned."""


def migrate(url: str, *, lanes: int = LANES, limits: Limits | None = None) -> int:
    """Bring the schema up to date, and give its version. `lanes` and `limits` count only when it is made."""
    whole(lanes, "lanes", 1, MAX_LANES)
    if lanes & (lanes - 1):
        raise invalid("lanes", "lanes_not_a_power_of_two", "must be a power of two")
    address = read_url(url)
    connect(address, limits or Limits()).close()  # for its words, where it cannot be reached
    try:
        try:
            return _transact(address, lanes, limits or Limits())
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):  # another made the schema meanwhile
            return _transact(address, lanes, limits or Limits())
    except psycopg.Error as error:
        advice = "; this role may not create a schema here" if error.sqlstate == "42501" else ""
        raise EngineError(f"cannot migrate {address.shown}: {str(error).strip()}{advice}") from error


def _transact(address: Address, lanes: int, limits: Limits) -> int:
    with psycopg.connect(address.conninfo) as connection:
        connection.execute("set local lock_timeout = '10s'")
        return _migrate(connection, address, lanes, limits)


def _migrate(connection: psycopg.Connection[Any], address: Address, lanes: int, limits: Limits) -> int:
    cursor = psycopg.RawCursor(connection)
    sql = load()
    schemas, ours = _one(cursor.execute(sql["has_schema"].text).fetchone())
    if schemas and not ours:
        raise EngineError(f"cannot migrate {address.shown}: it has a schema holdkit that is not ours; rename it")
    if not ours:
        cursor.execute("create schema holdkit")
        cursor.execute(sql["create_version_table"].text)
    cursor.execute(sql["lock_versions"].text)
    present = int(_one(cursor.execute(sql["schema_version"].text).fetchone())[0])
    steps = migrations()
    _check_known(present, address)
    for number, name, text in steps:
        if number > present:
            cursor.execute(text.encode())
            cursor.execute(sql["record_version"].text, (number, name))
            if number == 1:
                stored = _first_settings(lanes, limits)
                for key, value in stored.items():
                    cursor.execute(sql["put_setting"].text, (key, msgspec.json.encode(value).decode()))
                cursor.execute(sql["create_heads"].text, (lanes,))
    return steps[-1][0]


def _first_settings(lanes: int, limits: Limits) -> dict[str, Any]:
    """What is fixed when the tables are made; `identity` tells this database from every other."""
    limits_stored = {f"limit.{name}": value for name, value in stored_form(limits).items()}
    return {"identity": secrets.token_hex(16), "lanes": lanes, **limits_stored}


def migration_sql(lanes: int = LANES, limits: Limits | None = None) -> str:
    """The same as a script, for those who let nobody else change their schemas."""
    lines = ["begin;", "create schema holdkit;", load()["create_version_table"].text + ";"]
    for number, name, text in migrations():
        lines += [text, f"insert into holdkit.migrations (version, name) values ({number}, '{name}');"]
    for key, value in _first_settings(lanes, limits or Limits()).items():
        lines.append(
            f"insert into holdkit.settings (name, value) values ('{key}', '{msgspec.json.encode(value).decode()}');"
        )
    lines += [f"insert into holdkit.heads (lane) select generate_series(0, {lanes - 1});", "commit;"]
    return "\n".join(lines) + "\n"


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


class Schema(Struct, frozen=True):
    """What is stored with the data."""

    identity: str
    """As the settings have it: JSON."""
    lanes: int
    limits: Limits


def check_schema(driver: Driver, address: Address, asked: Limits | None) -> Schema:
    """The identity, the number of lanes and the limits in force; refuses a schema that is missing, older, newer or not ours."""
    schemas, ours = driver.ask("has_schema")[0]
    if not ours:
        said = "a schema holdkit that is not ours: rename it" if schemas else "no schema holdkit yet"
        raise EngineError(f"{address.shown} has {said}; then run `holdkit migrate`, or holdkit.migrate(url)")
    version = driver.ask("schema_version")[0][0]
    _check_known(version, address)
    if version < migrations()[-1][0]:
        raise EngineError(
            f"{address.shown} has schema version {version}: run `holdkit migrate`, or holdkit.migrate(url)"
        )
    texts: dict[str, str] = dict(driver.ask("load_settings"))
    stored = {name: msgspec.json.decode(value) for name, value in texts.items()}
    lanes = stored.get("lanes")
    if type(lanes) is not int or not 1 <= lanes <= MAX_LANES:
        raise EngineError(f"{address.shown}: its settings lack the number of lanes; restore a backup")
    limits = {name[6:]: value for name, value in stored.items() if name.startswith("limit.") and name[6:] in MEANING}
    return Schema(texts.get("identity", ""), lanes, limits_in_force(address.shown, limits, asked, Limits()))
