"""The migration operation that creates Holdkit's tables, or brings them up to date: it runs the same SQL files as `holdkit migrate`."""

from __future__ import annotations

from typing import Any

from django.db.migrations.operations.base import Operation

from ...kernel.limits import asked_slots
from ...kernel.tables import tables_in
from .configuration import configuration, limits_of


class HoldkitTables(Operation):
    """Brings the tables up to date with the installed release, in the database that `HOLDKIT` names and in no other.

    `postgres` and `sqlite` are the versions that this migration was written for. On PostgreSQL it is part of Django's transaction. Reversing the
    first one removes the tables and all that is in them, as reversing any `CreateModel` does; reversing a later one does nothing.
    """

    reduces_to_sql = True
    reversible = True
    atomic = True

    def __init__(self, *, postgres: int, sqlite: int, first: bool = False) -> None:
        self.postgres, self.sqlite, self.first = postgres, sqlite, first

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: no model of Django's changes."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002
        """Create or update the tables."""
        tables = self._tables(schema_editor)
        if tables is None:
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql += [f"{statement};" for statement in tables.statements()]
            return
        tables.migrate(asked_slots(limits_of(configuration())))

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002
        """Remove the tables."""
        tables = self._tables(schema_editor)
        if tables is not None and self.first and not schema_editor.collect_sql:
            from .kernels import close

            close()
            tables.drop()

    def _tables(self, schema_editor: Any) -> Any:
        read, connection = configuration(), schema_editor.connection
        if connection.alias != read.database:
            return None
        return tables_in(connection, schema=None if connection.vendor == "sqlite" else read.schema)

    def describe(self) -> str:
        """Return the line for `migrate --plan`."""
        return "Create Holdkit's tables, or bring them up to date"
