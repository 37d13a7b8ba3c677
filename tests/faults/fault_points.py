"""Fault points at the border to SQLite: every statement of this process, numbered, can fail or kill.

Sits under the engine, in the place of `sqlite3`'s own connections and cursors, so it needs no word of the engine about what
it executes. A statement can fail before it runs or after it ran ("raised although applied"). Only ever installed in a
process of its own.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from holdkit.engines.sqlite.driver import load

When: TypeAlias = Literal["before", "after"]
What: TypeAlias = Literal["io", "full", "kill"]


class Fault(Struct, frozen=True):
    """What goes wrong at the n-th statement, before it runs or after."""

    number: int
    when: When
    what: What


class Points:
    """Counts the statements of this process, and strikes."""

    def __init__(self) -> None:
        self.reset([])

    def reset(self, faults: list[Fault]) -> None:
        """Start counting anew."""
        self.kinds: list[str] = []
        self.fired = 0
        self.on_commit: Callable[[], None] | None = None
        self.late_commits = False
        """A canary: COMMIT is held back until the next statement, so that the answer is given before it."""
        self.unsynced = False
        """A canary: synchronous=off."""
        self._held_back: list[Callable[[], object]] = []
        self._faults = {(fault.number, fault.when): fault.what for fault in faults}
        self._names = {sql: name for name, sql in load().items()}

    def before(self, sql: str) -> int:
        """A statement is about to run: its number."""
        self.kinds.append(self._names.get(sql) or _kind(sql))
        self._meet(len(self.kinds), "before")
        while self._held_back:
            self._held_back.pop()()
        return len(self.kinds)

    def after(self, number: int, cursor: sqlite3.Cursor | None = None) -> None:
        """It ran."""
        if cursor is not None and (number, "after") in self._faults:
            cursor.fetchall()  # a statement that fails is over: it keeps no lock
        self._meet(number, "after")
        if self.kinds[number - 1] == "commit" and self.on_commit is not None:
            self.on_commit()

    def hold_back(self, sql: str, run: Callable[[], object]) -> bool:
        """Whether this statement is put off: the canary's work."""
        if self.late_commits and _kind(sql) == "commit":
            self._held_back.append(run)
            return True
        return False

    def _meet(self, number: int, when: When) -> None:
        what = self._faults.get((number, when))
        if what is None:
            return
        self.fired += 1
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        error = sqlite3.OperationalError("disk I/O error" if what == "io" else "database or disk is full")
        commit = self.kinds[number - 1] == "commit"
        code = sqlite3.SQLITE_IOERR_FSYNC if commit else sqlite3.SQLITE_IOERR_WRITE
        error.sqlite_errorcode = code if what == "io" else sqlite3.SQLITE_FULL
        raise error


def _kind(sql: str) -> str:
    words = sql.lower().replace("(", " ").split()
    return " ".join(words[:2]) if words[0] in ("begin", "create", "pragma") else words[0]


POINTS = Points()


class Cursor(sqlite3.Cursor):
    """A cursor whose every statement is a fault point."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if POINTS.unsynced and sql.startswith("pragma synchronous"):
            sql = "pragma synchronous = off"
        number = POINTS.before(sql)
        if not POINTS.hold_back(sql, lambda: super(Cursor, self).execute(sql, parameters)):
            super().execute(sql, parameters)
        POINTS.after(number, self)
        return self

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        number = POINTS.before(sql)
        super().executemany(sql, parameters)
        POINTS.after(number)
        return self


class Connection(sqlite3.Connection):
    """A connection that hands out such cursors."""

    def cursor(self, factory: Any = Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def rollback(self) -> None:
        if self.in_transaction:
            number = POINTS.before("rollback")
            super().rollback()
            POINTS.after(number)

    def commit(self) -> None:
        if self.in_transaction:
            number = POINTS.before("commit")
            super().commit()
            POINTS.after(number)


def install() -> None:
    """From now on everything that this process does with SQLite goes through the points."""
    plain = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        if options.get("factory", sqlite3.Connection) is sqlite3.Connection:
            options["factory"] = Connection
        connection: sqlite3.Connection = plain(*arguments, **options)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]
    sqlite3.Cursor = Cursor  # type: ignore[misc]
