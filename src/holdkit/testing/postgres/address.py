"""The address of a server, and the databases on it. Starts and stops nothing: many processes may share one server
through this.

Every call opens and closes a connection of its own, so nothing here delays a server that shuts down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from psycopg import Connection

USER: Final = "postgres"
MAKING_TEMPLATES: Final = 4_711_001
"""The advisory lock under which templates are created."""
RELOADING: Final = 60.0
"""Seconds within which a server must have read its settings again."""


class ServerAddress:
    """A running server."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def dsn(self, database: str = "postgres") -> str:
        """Return a URL for psycopg, SQLAlchemy and Holdkit: through the Unix socket."""
        return f"postgresql://{USER}@/{quote(database, safe='')}?host={quote(self.host, safe='')}&port={self.port}"

    def connect(self, database: str = "postgres", **options: Any) -> Connection[tuple[Any, ...]]:
        """Open a connection that commits each statement. The caller closes it."""
        import psycopg

        return psycopg.connect(self.dsn(database), autocommit=True, **options)

    def change_setting(self, name: str, value: str | None) -> None:
        """Change a setting of the whole server, or reset it (None). Returns once every process of the server knows.

        The server's first process signals the others one after another, youngest sessions first and the checkpointer late. It begins
        another round only when it has ended one, so a second round shows that the first has reached everybody. A session reads the
        settings before its next command. The checkpointer, which tells commits to wait for standbys, reads them before its next
        checkpoint; it may have been about to make the first one here."""
        from psycopg import sql

        wanted = sql.SQL("default") if value is None else sql.Literal(value)
        with closing(self.connect()) as admin:
            admin.execute(sql.SQL("alter system set {} = {}").format(sql.Identifier(name), wanted))
            for _ in range(2):
                _reload(admin)
            for _ in range(2):
                admin.execute("checkpoint")

    def create_database(self, name: str, template: str = "template0") -> str:
        """Create a database as a copy of the template and return its URL. There must be no connection to the template."""
        from psycopg import sql

        # Not FILE_COPY: that takes two checkpoints, which cost more than the few megabytes of WAL.
        statement = sql.SQL("create database {} template {} strategy wal_log")
        with closing(self.connect()) as admin:
            admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end all connections to it."""
        from psycopg import sql

        with closing(self.connect()) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def template(self, name: str, prepare: Callable[[str], object]) -> str:
        """Return the name of a template that `prepare` has filled, given its URL; created once, however many processes ask
        at the same time."""
        from psycopg import sql

        draft = f"{name}_draft"
        with closing(self.connect()) as admin:
            admin.execute("select pg_advisory_lock(%s)", (MAKING_TEMPLATES,))
            if admin.execute("select from pg_database where datname = %s", (name,)).rowcount == 0:
                self.drop_database(draft)  # left by a `prepare` that failed
                prepare(self.create_database(draft))
                admin.execute(
                    sql.SQL("alter database {} rename to {}").format(sql.Identifier(draft), sql.Identifier(name))
                )
        return name


def _reload(admin: Connection[tuple[Any, ...]]) -> None:
    """Let all processes read the settings. Return once this session has read them."""
    asked = "select pg_conf_load_time()"
    before, deadline = admin.execute(asked).fetchone(), time.monotonic() + RELOADING
    admin.execute("select pg_reload_conf()")
    while admin.execute(asked).fetchone() == before:
        if time.monotonic() > deadline:
            raise TimeoutError("the server does not read its settings again")
