"""Our tables on a framework's connection: the framework migrates them in its own migrations, and empties them between tests.

`run` executes one statement, without parameters, in the transaction that the framework has open, and returns its rows. Nothing here
commits.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from typing import Final

import msgspec

from ...core.bounds import Limits
from ...errors import EngineError
from .address import check_schema_name
from .migrating import LANES, Run, migrate_through, migration_statements
from .statements import SCHEMA, identifier, in_schema, load, migrations

KEPT: Final = frozenset({"settings", "migrations", "heads"})
"""Tables that are not empty when they are created."""
_CREATED: Final = re.compile(r"^create (?:table|view) holdkit\.(\w+)", re.MULTILINE)


@cache
def our_names() -> frozenset[str]:
    """Return the names of our tables and views. The schema may have others: a role of the same name creates its tables there by default."""
    return frozenset({"migrations"}.union(*(_CREATED.findall(text) for _, _, text in migrations())))


class PostgresTables:
    """The tables of one schema."""

    def __init__(self, run: Run, schema: str | None = None) -> None:
        self._run = run
        self.schema = check_schema_name(SCHEMA if schema is None else schema)
        self.shown = f"the PostgreSQL schema {self.schema}"

    @property
    def newest(self) -> int:
        """The version that this release needs."""
        return migrations()[-1][0]

    def version(self) -> int:
        """Return the version of the stored tables; 0 if there are none."""
        ((exists,),) = self._run(f"select to_regclass('{identifier(self.schema)}.migrations') is not null")
        if not exists:
            return 0
        ((version,),) = self._run(load(self.schema)["schema_version"].text)
        return int(version)

    def migrate(self, limits: Limits | None = None, lanes: int = LANES) -> int:
        """Create the tables, or bring them up to date. Wait at most 10 seconds for each lock."""
        before = self._run("select current_setting('lock_timeout')")[0][0]
        self._run("set local lock_timeout = '10s'")
        version = migrate_through(self._run, self.shown, lanes, limits or Limits(), "one server", schema=self.schema)
        self._run(f"select set_config('lock_timeout', '{before}', true)")
        return version

    def statements(self, limits: Limits | None = None, lanes: int = LANES) -> list[str]:
        """Return the statements that `migrate` executes in an empty database, for those who run them by hand."""
        return migration_statements(lanes, limits or Limits(), self.schema)

    def empty(self) -> None:
        """Remove every pool, hold and entry, and restore the limits of the creation. Followers then find another journal."""
        found = self._run(f"select tablename from pg_catalog.pg_tables where schemaname = '{self.schema}'")
        names = our_names() & {name for (name,) in found}
        if not names >= KEPT:
            raise EngineError(f"{self.shown} has no tables of ours")
        rows = ", ".join(f"{identifier(self.schema)}.{name}" for name in sorted(names - KEPT))
        lanes = self._run(in_schema("select count(*) from holdkit.heads", self.schema))[0][0]
        generation = msgspec.json.encode(secrets.token_hex(8)).decode()
        self._run(f"truncate {rows}")
        for statement in (
            "delete from holdkit.heads",
            f"insert into holdkit.heads (lane) select generate_series(0, {int(lanes) - 1})",
            f"update holdkit.settings set value = '{generation}' where name = 'generation'",
            "update holdkit.settings set value = '0' where name = 'limits_version'",  # the record of changed limits is gone
        ):
            self._run(in_schema(statement, self.schema))

    def drop(self) -> None:
        """Remove the tables and all their rows. Raise if the schema has tables of another application."""
        if not self.version():
            return
        found = self._run(
            "select c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
            f"where n.nspname = '{self.schema}' and c.relkind in ('r', 'p', 'v', 'm', 'f') order by 1"
        )
        others = [name for (name,) in found if name not in our_names()]
        if others:
            raise EngineError(
                f"{self.shown} also has {', '.join(others[:10])}, not of ours, and would be removed with all that is in it. "
                "Move them first (alter table … set schema public)"
            )
        self._run(f"drop schema {identifier(self.schema)} cascade")
