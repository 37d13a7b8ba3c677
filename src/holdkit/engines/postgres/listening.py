"""Telling and listening: a wake-up when other processes have written. Nothing rests on it: whoever misses one looks again.

Notifications carry nothing. They are sent a moment after a commit, outside of it, once for all commits of that moment: each
takes a lock that all notifying transactions of the server share. Listening is one thread and one connection, from the first
follower that waits until the engine is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from ...errors import HoldkitError
from .connections import Connections
from .driver import ConnectionFailed, StatementFailed
from .opening import Address, open_connection
from .statements import SCHEMA

MOMENT: Final = 0.02
"""Seconds that a wake-up waits for company."""
LOOK: Final = 1.0
"""Seconds between two looks whether to stop."""


def channel_of(schema: str) -> str:
    """Where the writers of a schema tell: not the name alone, which may be a channel of the application's."""
    return SCHEMA if schema == SCHEMA else f"{SCHEMA}:{schema}"


class Notifier:
    """Tells those who listen that there are new entries, a moment after the first of them."""

    def __init__(self, connections: Connections, schema: str) -> None:
        self._connections, self._channel = connections, channel_of(schema)
        self._due: threading.Timer | None = None

    def nudge(self) -> None:
        """There are new entries."""
        if self._due is None:
            self._due = threading.Timer(MOMENT, self._tell)
            self._due.daemon = True
            self._due.start()

    def _tell(self) -> None:
        self._due = None  # first: what is committed from now on is told by the next one
        with suppress(HoldkitError, StatementFailed, ConnectionFailed), self._connections.one() as driver:
            driver.ask("tell", (self._channel,))


class Listener:
    """Calls `wake` whenever somebody has told."""

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
            with suppress(psycopg.Error, HoldkitError):  # the server is away: followers look by themselves meanwhile
                self._listen()
            self._stopped.wait(LOOK)

    def _listen(self) -> None:
        opened = open_connection(self._address)
        with opened.connection as connection:
            connection.execute(f'listen "{channel_of(self._address.schema)}"')
            self._wake()  # for what came before we could hear
            while not self._stopped.is_set() and not opened.outdated:
                for _ in connection.notifies(timeout=LOOK, stop_after=1):
                    self._wake()
