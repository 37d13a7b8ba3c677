"""Applications of every kind that Holdkit can join: each with a kernel, sync or async, and a transaction of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdkit
from holdkit.engines.sqlite import open_application_connection
from tests.support.modes import Async

ORDERS = "create table orders (id text primary key)"


class Undo(Exception):
    """Leaves a block that is to be rolled back."""


class Application:
    """An application with a table `orders` beside ours."""

    hk: Any
    tx: Any

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.hk = holdkit.connect(url, **options)
        self.open()

    def open(self) -> None:
        """Set `tx`."""
        raise NotImplementedError

    def begin(self) -> None:
        """Whatever the framework does before its first statement."""

    def execute(self, statement: str) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        self.tx.commit()

    def roll_back(self) -> None:
        self.tx.rollback()

    def savepoint(self) -> Callable[[], None]:
        """Begin a nested block the framework's way; gives what rolls it back."""
        raise NotImplementedError

    def leave(self) -> None:
        self.tx.close()

    def close(self) -> None:
        self.leave()
        self.hk.close()

    @property
    def engine_of_kernel(self) -> Any:
        return getattr(self.hk, "_thing", self.hk)._executor.group_commit.engine

    def listen(self, hook: Callable[[str], None]) -> None:
        """Call `hook` before each statement of a call with `tx=`."""
        engine = self.engine_of_kernel
        if hasattr(engine, "_callers"):
            engine._callers.on_statement = hook
        else:
            engine._on_statement = hook

    def order(self, name: str) -> None:
        self.execute(f"insert into orders (id) values ('{name}')")

    def orders(self) -> list[str]:
        """Those that are committed."""
        statement = "select id from orders order by id"
        if self.url.startswith("sqlite"):
            other = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                return [row[0] for row in other.execute(statement)]
            finally:
                other.close()
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute(statement)]


class Asynchronous(Application):
    """The same on an event loop, which has a thread of its own."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.loop = Async()
        self.hk = self.loop.run(holdkit.connect_async, url, **options)
        self.open()

    def commit(self) -> None:
        self.loop.run(self.tx.commit)

    def roll_back(self) -> None:
        self.loop.run(self.tx.rollback)

    def leave(self) -> None:
        self.loop.run(self.tx.close)

    def close(self) -> None:
        super().close()
        self.loop.close()


# PostgreSQL


class Psycopg(Application):
    tx: psycopg.Connection[Any]

    def open(self) -> None:
        self.tx = psycopg.connect(self.url)

    def execute(self, statement: str) -> None:
        self.tx.execute(statement)

    def savepoint(self) -> Callable[[], None]:
        block = self.tx.transaction()
        block.__enter__()

        def undo() -> None:
            with suppress(Undo):
                block.__exit__(Undo, Undo(), None)

        return undo


class PsycopgAsync(Asynchronous):
    tx: psycopg.AsyncConnection[Any]

    def open(self) -> None:
        self.tx = self.loop.run(psycopg.AsyncConnection.connect, self.url)

    def execute(self, statement: str) -> None:
        self.loop.run(self.tx.execute, statement)

    def savepoint(self) -> Callable[[], None]:
        block = self.tx.transaction()
        self.loop.run(block.__aenter__)

        def undo() -> None:
            with suppress(Undo):
                self.loop.run(block.__aexit__, Undo, Undo(), None)

        return undo


class Asyncpg(Asynchronous):
    """A plain connection, and `async with connection.transaction()`."""

    tx: Any

    def open(self) -> None:
        self.tx = self.loop.run(asyncpg.connect, self.url)
        self.blocks: list[Any] = []

    def begin(self) -> None:
        self.blocks = [self.tx.transaction()]
        self.loop.run(self.blocks[0].start)

    def execute(self, statement: str) -> None:
        self.loop.run(self.tx.execute, statement)

    def commit(self) -> None:
        self.loop.run(self.blocks[0].commit)

    def roll_back(self) -> None:
        self.loop.run(self.blocks[0].rollback)

    def savepoint(self) -> Callable[[], None]:
        block = self.tx.transaction()
        self.loop.run(block.start)
        return lambda: self.loop.run(block.rollback)


def alchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


class AlchemyConnection(Application):
    tx: sqlalchemy.Connection

    def open(self) -> None:
        self.engine = sqlalchemy.create_engine(alchemy_url(self.url))
        self.tx = self.engine.connect()

    def begin(self) -> None:
        self.tx.begin()

    def execute(self, statement: str) -> None:
        self.tx.execute(sqlalchemy.text(statement))

    def savepoint(self) -> Callable[[], None]:
        return self.tx.begin_nested().rollback

    def leave(self) -> None:
        self.tx.close()
        self.engine.dispose()


class AlchemyConnectionUnbegun(AlchemyConnection):
    """Nobody says `begin`: the first statement does."""

    def begin(self) -> None:
        assert not self.tx.in_transaction()


class AlchemySession(Application):
    tx: Session

    def open(self) -> None:
        self.engine = sqlalchemy.create_engine(alchemy_url(self.url))
        self.tx = Session(self.engine)

    def execute(self, statement: str) -> None:
        self.tx.execute(sqlalchemy.text(statement))

    def savepoint(self) -> Callable[[], None]:
        return self.tx.begin_nested().rollback

    def leave(self) -> None:
        self.tx.close()
        self.engine.dispose()


class AlchemyAsyncConnection(Asynchronous):
    tx: AsyncConnection
    engine: AsyncEngine

    def open(self) -> None:
        self.engine = create_async_engine(alchemy_url(self.url))
        self.tx = self.loop.run(self.engine.connect)

    def begin(self) -> None:
        self.loop.run(self.tx.begin)

    def execute(self, statement: str) -> None:
        self.loop.run(self.tx.execute, sqlalchemy.text(statement))

    def savepoint(self) -> Callable[[], None]:
        block: Any = self.loop.run(self.tx.begin_nested)
        return lambda: self.loop.run(block.rollback)

    def leave(self) -> None:
        self.loop.run(self.tx.close)
        self.loop.run(self.engine.dispose)


class AlchemyAsyncConnectionUnbegun(AlchemyAsyncConnection):
    def begin(self) -> None:
        assert not self.tx.in_transaction()


class AlchemyAsyncSession(AlchemyAsyncConnection):
    tx: AsyncSession  # type: ignore[assignment]

    def open(self) -> None:
        self.engine = create_async_engine(alchemy_url(self.url))
        self.tx = AsyncSession(self.engine)

    def begin(self) -> None:
        pass

    def savepoint(self) -> Callable[[], None]:
        block: Any = self.loop.run(lambda: self.tx.begin_nested().start())
        return lambda: self.loop.run(block.rollback)


class AlchemyAsyncpgSession(AlchemyAsyncSession):
    """`postgresql+asyncpg`, which begins on the server with the first statement."""

    def open(self) -> None:
        self.engine = create_async_engine(self.url.replace("postgresql://", "postgresql+asyncpg://"))
        self.tx = AsyncSession(self.engine)


class Django(Application):
    """`django.db.connections[…]`, inside `atomic()`."""

    alias = "shop"

    def open(self) -> None:
        import django
        from django.conf import settings

        if not settings.configured:
            settings.configure(DATABASES={}, USE_TZ=True)
            django.setup()
        from django.db import connections

        connections.databases[self.alias] = self._settings(connections)
        self.tx = connections[self.alias]

    def _settings(self, connections: Any) -> dict[str, Any]:
        known: dict[str, Any] = dict(connections.databases["default"])
        if self.url.startswith("sqlite"):
            known |= {"ENGINE": "django.db.backends.sqlite3", "NAME": self.url.removeprefix("sqlite:///")}
        else:
            place = psycopg.conninfo.conninfo_to_dict(self.url)
            known |= {"ENGINE": "django.db.backends.postgresql", "NAME": place["dbname"], "USER": place["user"],
                      "HOST": place["host"], "PORT": place.get("port", "")}  # fmt: skip
        return known | {"TIME_ZONE": None, "CONN_MAX_AGE": 0, "OPTIONS": {}}

    def begin(self) -> None:
        from django.db import transaction

        self.block = transaction.atomic(using=self.alias)
        self.block.__enter__()

    def execute(self, statement: str) -> None:
        with self.tx.cursor() as cursor:
            cursor.execute(statement)

    def commit(self) -> None:
        self.block.__exit__(None, None, None)

    def roll_back(self) -> None:
        self.block.__exit__(Undo, Undo(), None)

    def savepoint(self) -> Callable[[], None]:
        from django.db import transaction

        block = transaction.atomic(using=self.alias)
        block.__enter__()
        return lambda: block.__exit__(Undo, Undo(), None)

    def leave(self) -> None:
        from django.db import connections

        self.tx.close()
        del connections[self.alias]
        del connections.databases[self.alias]


# SQLite


class Sqlite(Application):
    tx: sqlite3.Connection

    def open(self) -> None:
        self.tx = open_application_connection(self.url.removeprefix("sqlite:///"))

    def begin(self) -> None:
        self.tx.execute("begin immediate")

    def execute(self, statement: str) -> None:
        self.tx.execute(statement)

    def savepoint(self) -> Callable[[], None]:
        self.tx.execute("savepoint theirs")

        def undo() -> None:
            self.tx.execute("rollback to theirs")
            self.tx.execute("release theirs")

        return undo


class SqliteUnbegun(Sqlite):
    """Holdkit begins, and the application's own statements follow."""

    def begin(self) -> None:
        assert not self.tx.in_transaction


ON_POSTGRES: list[type[Application]] = [
    Psycopg,
    PsycopgAsync,
    AlchemyConnection,
    AlchemyConnectionUnbegun,
    AlchemySession,
    AlchemyAsyncConnection,
    AlchemyAsyncConnectionUnbegun,
    AlchemyAsyncSession,
    Asyncpg,
    AlchemyAsyncpgSession,
    Django,
]
ON_SQLITE: list[type[Application]] = [Sqlite, AlchemyConnection, AlchemyConnectionUnbegun, AlchemySession, Django]


def make_tables(url: str, lanes: int = 4) -> None:
    """Ours and theirs."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        holdkit.connect(url).close()
        connection = sqlite3.connect(path)
        connection.execute(ORDERS)
        connection.close()
        return
    holdkit.migrate(url, lanes=lanes)
    with psycopg.connect(url) as made:
        made.execute(ORDERS)
