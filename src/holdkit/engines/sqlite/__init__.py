"""The SQLite engine: one file, many threads and processes, on the standard library's sqlite3."""

from .engine import SqliteEngine, open_engine

__all__ = ["SqliteEngine", "open_engine"]
