"""Readers: the connections that read committed state while the writer writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from ...errors import EngineError
from .driver import Driver
from .forking import Activity
from .opening import connect, error_from_sqlite

KEPT: Final = 8
"""Idle connections kept for the next read."""


class Readers:
    """A connection pool that grows with the number of concurrent reads, and keeps a few connections."""

    def __init__(self, path: str, seconds: float, activity: Activity) -> None:
        self._path, self._seconds, self._activity = path, seconds, activity
        self._idle: list[Driver] = []
        self._used: set[Driver] = set()
        self._lock = Lock()
        self._closed = False
        activity.add(self)

    def separate(self) -> Readers:
        """Return readers of the same file with connections of their own; the caller closes them."""
        return Readers(self._path, self._seconds, self._activity)

    @contextmanager
    def one(self) -> Iterator[Driver]:
        """Lend a connection for the duration of the block."""
        thread = self._activity.enter()
        try:
            driver = self._take()
            try:
                yield driver
            except sqlite3.Error as error:
                self._drop(driver)
                raise error_from_sqlite(self._path, error) from error
            except BaseException:
                self._drop(driver)
                raise
            self._give(driver)
        finally:
            self._activity.leave(thread)

    def close(self) -> None:
        """Close the idle connections now, the others when their read is over."""
        self._closed = True
        with self._activity.entered():
            self.drop_connections()

    def drop_connections(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for driver in idle:
            self._drop(driver)

    def connections(self) -> list[sqlite3.Connection]:
        """Return the connections that are open, in a child that was just forked."""
        return [driver.connection for driver in (*self._idle, *self._used)]

    def _take(self) -> Driver:
        with self._lock:
            if self._closed:
                raise EngineError(f"{self._path} is closed")
            if self._idle:
                driver = self._idle.pop()
                self._used.add(driver)
                return driver
        connection = connect(self._path, self._seconds)
        driver = Driver(connection)
        try:
            driver.tell("pragma query_only = on")
        except sqlite3.Error as error:
            connection.close()
            raise error_from_sqlite(self._path, error) from error
        self._used.add(driver)
        return driver

    def _give(self, driver: Driver) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT:
                self._used.discard(driver)
                self._idle.append(driver)
                return
        self._drop(driver)

    def _drop(self, driver: Driver) -> None:
        self._used.discard(driver)
        driver.let_go()
