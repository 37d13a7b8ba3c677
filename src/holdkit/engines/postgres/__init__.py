"""The PostgreSQL engine: one database, any number of processes, in the application's own transaction if it likes."""

from ...errors import MissingExtra

try:
    from .engine import PostgresEngine, open_engine
    from .migrating import migrate, migration_sql
except ModuleNotFoundError as missing:
    raise MissingExtra("postgres", missing) from missing

__all__ = ["PostgresEngine", "migrate", "migration_sql", "open_engine"]
