"""Our tables on the connection of a framework: frameworks migrate them in their own migrations, and empty them between tests."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from typing import Final

from ...core.bounds import Limits
from ..clocks import wall_clock
from .driver import Driver, Script, Statement, migrations
from .opening import check_library, migrate, present_version, split
from .rows import new_generation

_CREATED: Final = re.compile(r"^create table (holdkit_\w+)", re.MULTILINE)


@cache
def our_names() -> frozenset[str]:
    """Return the names of our tables. An application may have others whose names begin like ours."""
    return frozenset({"holdkit_migrations"}.union(*(_CREATED.findall(text) for _, _, text in migrations())))


class SqliteTables:
    """The tables of one database. If the connection has no transaction open, each step has its own."""

    shown = "the SQLite database"

    def __init__(self, connection: sqlite3.Connection) -> None:
        check_library()
        self._driver = Driver(connection)

    @property
    def newest(self) -> int:
        """The version that this release needs."""
        return migrations()[-1][0]

    def version(self) -> int:
        """Return the stored version; 0 if there is none."""
        return present_version(self._driver, self.shown)

    def migrate(self, limits: Limits | None = None) -> int:
        """Create the tables, or bring them up to date."""
        migrate(self._driver, self.shown, limits or Limits(), wall_clock())
        return self.newest

    def statements(self) -> list[str]:
        """Return what `migrate` executes in an empty database, for people to read. It also stores the limits, and a secret, which is why
        a file is not migrated by hand."""
        return [statement for _, _, text in migrations() for statement in split(text)]

    def empty(self) -> None:
        """Remove every pool, hold and entry. Followers find another journal."""
        for table in self._tables():
            if table not in ("holdkit_settings", "holdkit_migrations"):
                self._driver.tell(f"delete from {table}")

        def begin_anew() -> Script[None]:
            yield (Statement("put_setting", [new_generation()], many=True),)

        self._driver.run(begin_anew())

    def drop(self) -> None:
        """Remove the tables, and all that was in them."""
        for table in self._tables():  # no table of ours refers to another
            self._driver.tell(f"drop table {table}")

    def _tables(self) -> list[str]:
        self.version()  # refuses tables that are not ours
        tables = {name for (name,) in self._driver.tell("select name from sqlite_schema where type = 'table'")}
        return sorted(our_names() & tables)
