"""The server, broken on purpose: `python -m tests.faults.broken_server CANARY URL …`. Undisturbed it is as good as the real one."""

from __future__ import annotations

import sqlite3
import sys
import time
from typing import Any

from holdkit.cli.root import run
from tests.faults import canaries


class LateCursor(sqlite3.Cursor):
    """Puts COMMIT off until the next statement of its connection."""

    connection: LateConnection

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if sql.strip().lower() == "commit":
            self.connection.late = True
            return self
        self.connection.catch_up()
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        self.connection.catch_up()
        return super().executemany(sql, parameters)


class LateConnection(sqlite3.Connection):
    """Says that it has committed, and does so when it is next used or closed."""

    late = False

    def catch_up(self) -> None:
        if self.late:
            self.late = False
            sqlite3.Connection.commit(self)

    def cursor(self, factory: Any = LateCursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        self.late = self.in_transaction

    def close(self) -> None:
        self.catch_up()
        super().close()


def answer_before_commit() -> None:
    """Whoever asked is answered first; the commit follows with the next batch."""
    plain = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        if options.get("factory", sqlite3.Connection) is sqlite3.Connection:
            options["factory"] = LateConnection
        connection: sqlite3.Connection = plain(*arguments, **options)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]
    sqlite3.Cursor = LateCursor  # type: ignore[misc]


def operation_row_apart() -> None:
    """Effect first, the operation's record after it; slowly, so that a kill need not be lucky to come between the two."""
    canaries.operation_row_apart()
    plain = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        time.sleep(0.03)
        connection: sqlite3.Connection = plain(*arguments, **options)
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


if __name__ == "__main__":
    {"answer_before_commit": answer_before_commit, "operation_row_apart": operation_row_apart}[sys.argv.pop(1)]()
    sys.exit(run(["serve", *sys.argv[1:]]))
