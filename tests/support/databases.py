"""Databases with our tables, for one test after the other: when a test is over its rows go, the tables stay.

To make a database, its tables and to drop it again costs far more than most tests do in it. What must begin with an empty
database, or changes tables, takes `postgres_url` instead. One that does not look as it was made is not used again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from uuid import uuid4

import psycopg
from psycopg import sql

from holdkit.core.bounds import Limits
from holdkit.engines.postgres.migrating import Layout, migrate_to
from holdkit.testing.postgres import ServerAddress

KEPT = ("settings", "heads", "migrations")
"""Tables that are not empty when they are made."""
ALONE = """
    select pg_terminate_backend(pid, 60000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
SHAPE = """
    select coalesce(string_agg(concat_ws(' ', n.nspname, c.relname, c.relkind, c.relnatts, c.relchecks, c.relhastriggers),
           ', ' order by n.nspname, c.relname), '')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('holdkit', 'public')
"""


class Databases:
    """Those of one server, as many as are asked for at a time."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._free: dict[Hashable, list[str]] = defaultdict(list)
        self._shape: dict[str, str] = {}

    def take(self, layout: Layout = "one server", lanes: int | None = None, limits: Limits | None = None) -> Database:
        """One as `migrate_to` leaves it."""
        kind = (layout, lanes, repr(limits))
        name = self._free[kind].pop() if self._free[kind] else self._make(layout, lanes, limits)
        return Database(self, kind, name, self._server.dsn(name))

    def _make(self, layout: Layout, lanes: int | None, limits: Limits | None) -> str:
        name = f"kept_{uuid4().hex}"
        url = self._server.create_database(name)
        migrate_to(url, layout, lanes, limits)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema pristine")
            for table in KEPT:
                connection.execute(f"create table pristine.{table} as table holdkit.{table}")
            self._shape[name] = _shape(connection)
        return name

    def give_back(self, database: Database) -> None:
        """Whoever is still connected is thrown out."""
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(ALONE)
            _drop_theirs(connection)
            whole = _shape(connection) == self._shape[database.name]
            if whole:
                _empty(connection)
        if whole:
            self._free[database.kind].append(database.name)
        else:
            self._server.drop_database(database.name)


class Database:
    """One that was taken."""

    def __init__(self, token: Databases, kind: Hashable, name: str, url: str) -> None:
        self._owner, self.kind, self.name, self.url = token, kind, name, url

    def give_back(self) -> None:
        """For the next test."""
        self._owner.give_back(self)

    def empty(self) -> None:
        """Restore the rows that it was made with; connections stay, so nobody else may be in a transaction."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            _empty(connection)


def _shape(connection: psycopg.Connection[tuple[str]]) -> str:
    row = connection.execute(SHAPE).fetchone()
    assert row is not None
    return str(row[0])


def _drop_theirs(connection: psycopg.Connection[tuple[str]]) -> None:
    """The application's own tables."""
    theirs = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    for (table,) in theirs:
        connection.execute(sql.SQL("drop table public.{} cascade").format(sql.Identifier(table)))


def _empty(connection: psycopg.Connection[tuple[str]]) -> None:
    tables = [row[0] for row in connection.execute("select tablename from pg_tables where schemaname = 'holdkit'")]
    assert set(KEPT) < set(tables)
    with connection.transaction():
        for table in tables:
            connection.execute(f"delete from holdkit.{table}")
        for table in KEPT:
            connection.execute(f"insert into holdkit.{table} table pristine.{table}")
