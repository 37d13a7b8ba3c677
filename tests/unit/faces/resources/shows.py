"""A resource for tests: shows with seats, as many as the application says in its own table."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg

from holdkit import Resource
from tests.support.kernels import Store


class Shows(Resource[str, Any]):
    """Seats, as the application's own table says; where there is no SQL, as a dict says."""

    kind = "show.seats"

    def __init__(self, seats: dict[str, int] | None = None) -> None:
        self.seats = seats or {}
        self.asked: list[Any] = []

    def capacity(self, tx: Any, key: str, window: Any) -> int:
        self.asked.append((key, window))
        if tx is None:
            return self.seats[key]
        mark = "?" if isinstance(tx, sqlite3.Connection) else "%s"
        row = tx.execute(f"select seats from shows where id = {mark}", (key,)).fetchone()
        return int(row[0])


class ShowStore(Store):
    """A store with shows, whose seats are in the application's own table."""

    def __init__(
        self, engine: str, mode: str, folder: Path, migrated: Callable[..., str] | None = None, **options: Any
    ) -> None:
        super().__init__(engine, mode, folder, migrated)
        self.hk = self.open(**options)
        self.sql = engine in ("sqlite", "postgres")
        self.shows = Shows()
        if self.sql:
            self.write("create table shows (id text primary key, seats integer)")

    def connect(self, **options: Any) -> Any:
        """The application's own connection."""
        if self.engine == "postgres":
            return psycopg.connect(self.url, **options)
        return sqlite3.connect(self.file, check_same_thread=False, **options)  # an async kernel has its own thread

    def write(self, sql: str) -> None:
        connection = self.connect()
        connection.execute(sql)
        connection.commit()
        connection.close()

    def set_seats(self, show: str, seats: int) -> None:
        """The application changes its mind."""
        self.shows.seats[show] = seats
        if self.sql:
            self.write(f"insert into shows values ('{show}', {seats}) on conflict (id) do update set seats = {seats}")

    def resource(self, resource: Resource[Any, Any] | None = None) -> Any:
        """The kernel of a resource."""
        return self.hk.resource(resource or self.shows)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run to its end."""

    @wraps(test)
    def run(*positional: Any, **options: Any) -> None:
        asyncio.run(test(*positional, **options))

    return run
