"""The SQLite engine: one file, many threads and processes, on the standard library's sqlite3."""

from .caller_transaction import open_application_connection
from .engine import SqliteEngine, open_engine

__all__ = ["SqliteEngine", "open_application_connection", "open_engine"]
