"""Notifications: a wake-up for followers in other processes when something was written. Nothing relies on them: followers poll too.

A notification carries no data. It is sent a moment after a commit, in a transaction of its own, once for all commits of that moment,
because NOTIFY takes a lock that all notifying transactions of the server share. The listener is one thread with one connection, from
the first follower that waits until the engine is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from ...errors import HoldkitError
from .connections import ConnectionPool
from .database import Address
from .failures import ConnectionFailed, StatementFailed
from .opening import open_connection
from .statements import SCHEMA

DELAY: Final = 0.02
"""Seconds that a notification waits for further commits."""
CHECK: Final = 1.0
"""Seconds between two checks whether to stop."""


def channel_of(schema: str) -> str:
    """The channel of a schema: not its name alone, which may be a channel of the application."""
    return SCHEMA if schema == SCHEMA else f"{SCHEMA}:{schema}"


class Notifier:
    """Notifies listeners of new entries, a moment after the first of them."""

    def __init__(self, connections: ConnectionPool, schema: str) -> None:
        self._connections, self._channel = connections, channel_of(schema)
        self._due: threading.Timer | None = None

    def notify_soon(self) -> None:
        """Something was committed."""
        if self._due is None:
            self._due = threading.Timer(DELAY, self._notify)
            self._due.daemon = True
            self._due.start()

    def _notify(self) -> None:
        self._due = None  # first: what is committed from now on belongs to the next one
        with suppress(HoldkitError, StatementFailed, ConnectionFailed), self._connections.connection() as connection:
            connection.fetch("notify", (self._channel,))


class Listener:
    """Calls `wake` whenever another process may have written."""

    def __init__(self, address: Address, wake: Callable[[], None]) -> None:
        self._address, self._wake = address, wake
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdkit-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; the thread ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with suppress(psycopg.Error, HoldkitError):  # the server is away: followers poll meanwhile
                self._listen()
            self._stopped.wait(CHECK)

    def _listen(self) -> None:
        opened = open_connection(self._address)
        with opened.connection as connection:
            connection.execute(f'listen "{channel_of(self._address.schema)}"')
            self._wake()  # for what came before we listened
            while not self._stopped.is_set() and not opened.outdated:
                for _ in connection.notifies(timeout=CHECK, stop_after=1):
                    self._wake()
