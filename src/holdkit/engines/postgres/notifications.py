"""Notifications: wake-ups for other processes. Nothing relies on them: a process that is woken reads, and would read later without them
too.

Theory of operation. *Followers* share one channel. The notifier sends a notification on it a moment after a commit, in a transaction of its
own, once for all commits of that moment, because NOTIFY takes a lock that all notifying transactions of the server share, and because the
server wakes every session that listens on anything. Without followers it sends none: a listener holds a shared advisory lock, and the
notifier tries to take it exclusively. If it gets it, it does not try again for `QUIET` seconds.

*Channels* wake the process of a hold that waits in line, instead of all processes. These notifications are sent at once, because that
process can continue; those that come while one is on its way are sent together.

One thread notifies, from the first commit until the engine is closed. Another one listens, with a connection of its own, from the first
call of `listen` until the engine is closed. If a channel is added while it waits, it begins to listen on that within `CHECK` seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import psycopg

from ...errors import HoldkitError
from .address import Address
from .connections import ConnectionPool
from .failures import ConnectionFailed, StatementFailed
from .opening import open_connection
from .statements import SCHEMA

DELAY: Final = 0.02
"""Seconds that a notification of followers waits for further commits."""
QUIET: Final = 1.0
"""Seconds for which followers are not notified after none was there."""
CHECK: Final = 1.0
"""Seconds between two checks whether to stop, and for channels that were added."""


def channel_of(schema: str) -> str:
    """Return the channel of a schema's followers: not its name alone, which may be a channel of the application."""
    return SCHEMA if schema == SCHEMA else f"{SCHEMA}:{schema}"


class Notifier:
    """Notifies listeners in other processes."""

    def __init__(self, connections: ConnectionPool, schema: str) -> None:
        self._connections, self._followers = connections, channel_of(schema)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._due: float | None = None
        """When followers are to be notified, by `time.monotonic`."""
        self._not_before = 0.0
        self._channels: set[str] = set()
        """To be notified now."""
        self._closed = False

    def notify_soon(self) -> None:
        """Notify followers of a commit, after `DELAY` seconds or at the end of a quiet period."""
        if self._due is None:
            with self._changed:
                self._due = max(time.monotonic() + DELAY, self._not_before)
                self._wake()

    def notify(self, channels: Iterable[str]) -> None:
        """Notify the listeners on these channels at once."""
        with self._changed:
            self._channels.update(f"{self._followers}#{channel}" for channel in channels)
            self._wake()

    def close(self) -> None:
        """Stop the notifier; its thread ends by itself."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="holdkit-notifier", daemon=True)
            with suppress(RuntimeError):  # no more threads: nothing relies on this one
                self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._closed or self._channels or self._overdue()):
                    self._changed.wait(None if self._due is None else max(0.0, self._due - time.monotonic()))
                if self._closed:
                    return
                channels, self._channels = self._channels, set()
                followers = self._overdue()
                if followers:
                    self._due = None  # cleared before sending: a later commit belongs to the next notification
            with suppress(HoldkitError, StatementFailed, ConnectionFailed):
                self._send(channels, followers)

    def _overdue(self) -> bool:
        return self._due is not None and time.monotonic() >= self._due

    def _send(self, channels: set[str], followers: bool) -> None:
        with self._connections.connection() as connection:
            if channels:
                connection.fetch("notify", (sorted(channels),))
            if followers and not connection.fetch("notify_followers", (self._followers,)):
                self._not_before = time.monotonic() + QUIET


class Listener:
    """Calls a channel's `wake` when another process may have notified the channel."""

    def __init__(self, address: Address, schema: str) -> None:
        self._address, self._followers = address, channel_of(schema)
        self._lock = threading.Lock()
        self._wakes: dict[str, Callable[[], None]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, wake: Callable[[], None], channel: str | None = None) -> None:
        """Call `wake` after each notification on a channel, or for followers, and once when listening on it begins."""
        if self._address.pooled:
            return  # a pooler would give our session to others
        name = self._followers if channel is None else f"{self._followers}#{channel}"
        with self._lock:
            if name in self._wakes:
                return
            self._wakes[name] = wake
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdkit-listener", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the listener; its thread ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with suppress(psycopg.Error, HoldkitError):  # the server is away: waiting processes look by themselves
                self._listen()
            self._stopped.wait(CHECK)

    def _listen(self) -> None:
        opened = open_connection(self._address)
        listened: set[str] = set()
        with opened.connection as connection:
            while not self._stopped.is_set() and not opened.outdated:
                if len(listened) < len(self._wakes):
                    self._begin(connection, listened)
                for notification in connection.notifies(timeout=CHECK, stop_after=1):
                    if notification.channel in self._wakes:
                        self._wakes[notification.channel]()

    def _begin(self, connection: psycopg.Connection[Any], listened: set[str]) -> None:
        for name in [*self._wakes]:
            if name in listened:
                continue
            listened.add(name)
            connection.execute(f'listen "{name}"')
            if name == self._followers:
                connection.execute("select pg_advisory_lock_shared(hashtextextended(%s, 0))", (name,))
            self._wakes[name]()  # for notifications from before we listened


class NotificationChannels:
    """The channels of a schema."""

    def __init__(self, notifier: Notifier, listener: Listener) -> None:
        self._listener, self.notify = listener, notifier.notify

    def listen_on(self, channel: str, wake: Callable[[], None]) -> None:
        """Call `wake` after each notification, and once when listening begins."""
        self._listener.listen(wake, channel)
