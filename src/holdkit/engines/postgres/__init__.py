"""The PostgreSQL engine: one database, any number of processes, in the application's own transaction if it likes."""

from .engine import PostgresEngine, open_engine
from .migrating import migrate, migration_sql

__all__ = ["PostgresEngine", "migrate", "migration_sql", "open_engine"]
