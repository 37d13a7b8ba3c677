"""The driver: runs a script's statements on a sqlite3 connection.

The only place in this package that executes SQL, so a test can count statements, or fail or die at the n-th one, by a
hook. Decides nothing, retries nothing, and leaves the connection's own settings alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..named_sql import load_blocks, load_migrations
from .rows import PARTS

TOGETHER = (64, 32, 8)
"""Rows of one insert. sqlite3 gives up the interpreter's lock around every step: once per row is once too often, and under load
another thread takes the lock each time."""


@cache
def load() -> MappingProxyType[str, str]:
    """Load every named statement of this engine."""
    return MappingProxyType(load_blocks(__package__, parts=PARTS))


@cache
def load_together() -> MappingProxyType[str, tuple[tuple[int, str], ...]]:
    """Return the statements that write rows of values, each with its variants for the row counts in `TOGETHER`."""
    found = {}
    for name, text in load().items():
        head, values, row = text.rpartition("values ")
        if values:
            found[name] = tuple((many, head + values + ", ".join([row] * many)) for many in TOGETHER)
    return MappingProxyType(found)


def migrations() -> list[tuple[int, str, str]]:
    """Load number, name and text of every migration, in order."""
    return load_migrations(__package__)


T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
OnStatement: TypeAlias = Callable[[str], None]
"""Called with each statement's name before it is executed; may raise."""


class Statement(NamedTuple):
    """A named statement with its parameters. With `many`, these are rows, and the statement is run once for each."""

    name: str
    parameters: Sequence[Any] = ()
    many: bool = False


Script: TypeAlias = Generator[tuple[Statement, ...], list[list[Row]], T]
"""Yields statements, receives the rows of each, returns its result."""


class Driver:
    """A connection, and the one cursor everything runs on."""

    __slots__ = ("_named", "connection", "cursor", "on_statement")

    def __init__(self, connection: sqlite3.Connection, on_statement: OnStatement | None = None) -> None:
        self.connection = connection
        self.cursor = sqlite3.Cursor(connection)
        self.cursor.row_factory = None  # a caller's own connection may have another
        self.on_statement = on_statement
        self._named = load()

    def run(self, script: Script[T]) -> T:
        """Run a script to its end; an error stops it where it is."""
        cursor, named, hook, together = self.cursor, self._named, self.on_statement, load_together()
        try:
            statements = next(script)
            while True:
                answers: list[list[Row]] = []
                for name, parameters, many in statements:
                    if hook is not None:
                        hook(name)
                    if many:
                        if len(parameters) >= TOGETHER[-1] and name in together:
                            parameters = _insert_together(cursor, together[name], parameters)
                        cursor.executemany(named[name], parameters)
                        answers.append([])
                    else:
                        answers.append(cursor.execute(named[name], parameters).fetchall())
                statements = script.send(answers)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            script.close()

    def ask(self, name: str, parameters: Any = ()) -> list[Row]:
        """Execute one named statement and return its rows."""
        if self.on_statement is not None:
            self.on_statement(name)
        return self.cursor.execute(self._named[name], parameters).fetchall()

    def each(self, name: str, parameters: Any = ()) -> Iterator[Row]:
        """Execute one named statement and yield its rows, fetched as they are needed, on a cursor of their own."""
        if self.on_statement is not None:
            self.on_statement(name)
        cursor = self.connection.cursor()
        try:
            yield from chain(
                cursor.execute(self._named[name], parameters)
            )  # `yield from` would close the cursor itself
        finally:
            with suppress(
                sqlite3.ProgrammingError
            ):  # a caller that ended the read early may have closed the connection
                cursor.close()

    def tell(self, sql: str) -> list[Row]:
        """Run a plain statement (begin, commit, a pragma, a migration's step); the hook sees its text."""
        if self.on_statement is not None:
            self.on_statement(sql)
        return self.cursor.execute(sql).fetchall()

    def let_go(self) -> None:
        """Roll back and close. (Closing alone would keep file and locks until the last statement, cached or in the cursor, is
        collected; and a connection that is lent refuses both to its holder.)"""
        with suppress(sqlite3.Error):
            self.cursor.close()
        with suppress(sqlite3.Error):
            sqlite3.Connection.rollback(self.connection)
        with suppress(sqlite3.Error):
            sqlite3.Connection.close(self.connection)


def _insert_together(
    cursor: sqlite3.Cursor, statements: tuple[tuple[int, str], ...], rows: Sequence[Row]
) -> Sequence[Row]:
    """Insert rows many at a time; returns the few that are left."""
    start = 0
    for many, sql in statements:
        while len(rows) - start >= many:
            cursor.execute(sql, [*chain.from_iterable(rows[start : start + many])])
            start += many
    return rows[start:]
