"""Where resources play: an engine, a colour, and the application's own table of capacities."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg

from holdkit import Resource
from tests.support.kernels import Hands, Store


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


class ShowStore:
    """A stage with shows."""

    def __init__(
        self, engine: str, mode: str, folder: Path, migrated: Callable[..., str] | None = None, **options: Any
    ) -> None:
        self.store = Store(engine, mode, folder, migrated)
        self.hk = self.store.open(**options)
        self.sql = engine in ("sqlite", "postgres")
        self.shows = Shows()
        if self.sql:
            self.write("create table shows (id text primary key, seats integer)")

    def connect(self, **options: Any) -> Any:
        if self.store.engine == "postgres":
            return psycopg.connect(self.store.url, **options)
        return sqlite3.connect(self.store.file, **options)

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

    def resource(self, resource: Resource[Any, Any] | None = None) -> Played:
        """A resource's kernel, called plainly in either colour."""
        return Played(self.hk, self.hk.kernel.resource(resource or self.shows))


class Played:
    """A resource's kernel of either colour whose methods are called plainly."""

    def __init__(self, hands: Hands, face: Any) -> None:
        self.face, self._runner = face, hands.runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, runner = getattr(self.face, name), self._runner
        if runner is None:
            found: Callable[..., Any] = method
            return found
        return lambda *positional, **options: runner.run(method(*positional, **options))


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run to its end."""

    @wraps(test)
    def run(*positional: Any, **options: Any) -> None:
        asyncio.run(test(*positional, **options))

    return run
