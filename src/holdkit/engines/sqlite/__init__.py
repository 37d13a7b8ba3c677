"""The SQLite engine: one file, many threads and processes, on the standard library's sqlite3."""

from .engine import SqliteEngine, open_engine
from .joining import open_application_connection

__all__ = ["SqliteEngine", "open_application_connection", "open_engine"]
