"""Readers: a few connections that only read, handed out one per read.

In WAL mode they see committed state, wait for no writer and keep none waiting. They cannot write, by `query_only`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from ...errors import EngineError
from .driver import Driver
from .opening import connect, trouble

KEPT = 8
"""Idle connections kept for the next read."""


class Readers:
    """A pool that grows with the number of reads at the same time, and keeps a few."""

    def __init__(self, path: str, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._idle: list[Driver] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[Driver]:
        """A reader for the time of the block."""
        driver = self._take()
        try:
            yield driver
        except sqlite3.Error as error:
            self._drop(driver)
            raise trouble(self._path, error) from error
        except BaseException:
            self._drop(driver)
            raise
        self._give(driver)

    def close(self) -> None:
        """Close the idle ones now, the others when their read is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for driver in idle:
            self._drop(driver)

    def _take(self) -> Driver:
        with self._lock:
            if self._closed:
                raise EngineError(f"{self._path} is closed")
            if self._idle:
                return self._idle.pop()
        connection = connect(self._path, self._seconds)
        driver = Driver(connection)
        try:
            driver.tell("pragma query_only = on")
        except sqlite3.Error as error:
            connection.close()
            raise trouble(self._path, error) from error
        return driver

    def _give(self, driver: Driver) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT:
                self._idle.append(driver)
                return
        self._drop(driver)

    def _drop(self, driver: Driver) -> None:
        with suppress(sqlite3.Error):
            driver.connection.close()
