"""Checkpoints: keep the WAL short without ever letting a checkpoint meet a commit.

SQLite up to 3.51 can lose a commit that meets another connection's checkpoint just as the WAL is reset. So no connection checkpoints on
its own (wal_autocheckpoint=0 everywhere); we do, passively, while a second connection of ours holds the write lock. Never blocks a
reader, and never waits for one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import Final

from .driver import Driver
from .opening import connect, set_up

PAGES: Final = 4_000
"""About how long the WAL may grow between two checkpoints. A page that many batches change is copied once per checkpoint: with
1,000 pages, checkpoints took a seventh of the engine's time under load."""
LOOK_EVERY: Final = 16
"""Batches between two looks at the file's length."""
_FRAME: Final = 4096 + 24


class Checkpoints:
    """The checkpoints of one file, and the second connection, which holds the write lock meanwhile. The WAL keeps its length when SQLite
    starts it anew, so rows written are counted too."""

    def __init__(self, path: str, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._wal = f"{path}-wal"
        self._lock_holder: Driver | None = None
        self.rows = 0
        """Rows that transactions of ours have written since the last checkpoint."""
        self._pages_per_row = 2.0
        self._frames = 0
        self._round = b""
        self._size = 0
        self._looks = 0

    def due(self, pages: int | None = None) -> bool:
        """Return True when enough was written for a checkpoint: by our own count or, looked at now and then, by how much the file grew
        through other writers."""
        if self.rows * self._pages_per_row >= (PAGES if pages is None else pages):
            return True
        self._looks += 1
        return self._looks % LOOK_EVERY == 1 and self.size() - self._size >= PAGES * _FRAME

    def size(self) -> int:
        """Return the bytes of the WAL file, 0 if there is none."""
        with suppress(OSError):
            return os.stat(self._wal).st_size  # noqa: PTH116  (once per batch: a Path costs more than the call)
        return 0

    def run(self, writer: Driver) -> bool:
        """Checkpoint what readers allow; whether everything is in the database file, synced."""
        try:
            if self._lock_holder is None:
                self._lock_holder = Driver(connect(self._path, self._seconds), writer.on_statement)
                set_up(self._lock_holder.connection)
            self._lock_holder.tell("begin immediate")
            try:
                ((busy, frames, copied),) = writer.tell("pragma wal_checkpoint(passive)")
            finally:
                self._lock_holder.connection.rollback()
        except BaseException:
            self.drop_connection()  # it may have the write lock still, and then no one could ever write again
            raise
        self._learn(frames)
        return not busy and frames == copied

    def connections(self) -> list[sqlite3.Connection]:
        """Return the second connection, if it is open."""
        return [] if self._lock_holder is None else [self._lock_holder.connection]

    def drop_connection(self) -> None:
        """Close the second connection; the next checkpoint opens another."""
        lock_holder, self._lock_holder = self._lock_holder, None
        if lock_holder is not None:
            lock_holder.let_go()

    def _learn(self, frames: int) -> None:
        """Learn how many pages a row costs, from all that was written since the last checkpoint, by any process."""
        present = self._read_round()
        grown = frames - self._frames if present == self._round else frames
        if self.rows:
            self._pages_per_row = min(8.0, max(0.02, grown / self.rows))
        self.rows, self._frames, self._round, self._size = 0, frames, present, self.size()

    def _read_round(self) -> bytes:
        """Return the part of the header that is new each time SQLite starts the WAL anew (it holds no lock on this file)."""
        with suppress(OSError), open(self._wal, "rb") as file:  # noqa: PTH123  (the path is text everywhere here)
            return file.read(32)[12:24]
        return b""
