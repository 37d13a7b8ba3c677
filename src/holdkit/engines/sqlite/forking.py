"""Forks: a child process can open the file anew, whatever its parent was doing when it forked.

Theory of operation. SQLite keeps the locks of a process in that process's memory, once per file, and shares them among the process's
connections. The system's locks belong to the process that took them: a child has none of them, but it inherits the memory. A connection
that it opens believes these locks to be its own, and takes none. Two things follow:

  - A child forked while its parent writes finds the file locked by a connection that will never release it.
  - A child forked while its parent has a connection open, even an idle one, reads and writes without the lock that says that the file is
    in use. The process that closes the last connection that the system knows of removes the write-ahead log, and what the child commits
    afterwards is lost, although it was acknowledged.

Therefore no connection of ours is open when the process forks. Before a fork every engine *pauses*: it waits until its transactions and
reads have ended, closes its connections, and lets no other begin. After the fork the parent resumes, and opens connections as it needs
them; the child has neither descriptors of the file nor memory of locks, and may open it.

*When that is impossible.* A thread that forks in the middle of its own transaction or read would wait for itself, so it does not wait;
and no fork waits for others longer than `PATIENCE`. The application may have connections of its own, too. In each case a descriptor of
the file is open in the child. The child notes the descriptors of files that it was born with, and refuses to open the file while one
of them is open. It never closes an inherited connection of ours, not even when it exits: that would roll back, in memory that parent
and child share, what the parent is writing.

*No deadlock.* A thread enters the engine's `Activity` before it takes any of the engine's locks or connections. A thread that is inside
may enter again during a pause, so the fork never waits for a thread that waits for the fork. No lock is held when the process forks,
except by threads that it gave up waiting for; the child never asks for these locks, because an engine that was opened before a fork
refuses every call.
"""

from __future__ import annotations

import ctypes
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, RLock, get_ident
from typing import Any, Final, Protocol
from weakref import WeakSet

from ...errors import EngineError

PATIENCE: Final = 10.0
"""Seconds that a fork waits, for all engines together."""
_DESCRIPTORS: Final = "/dev/fd"


class Owner(Protocol):
    """Owns connections of an engine."""

    def drop_connections(self) -> None:
        """Close them; they are opened anew when they are needed."""

    def connections(self) -> Iterable[Any]:
        """Return the connections that are open now."""


class Activity:
    """Which threads use the connections of one engine: a fork waits for them, and keeps others out."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._inside: dict[int, int] = {}
        """How often each thread has entered."""
        self._paused = False
        self._owners: WeakSet[Owner] = WeakSet()
        _all.add(self)

    def add(self, owner: Owner) -> None:
        """Add an owner whose connections are closed before a fork."""
        self._owners.add(owner)

    def enter(self) -> int:
        """Wait for a fork that is under way, unless this thread has entered before; returns what `leave` is to be given."""
        thread = get_ident()
        with self._lock:
            while self._paused and thread not in self._inside:
                self._changed.wait()
            self._inside[thread] = self._inside.get(thread, 0) + 1
        return thread

    def leave(self, thread: int) -> None:
        """Leave; another thread may call it for the thread that entered."""
        with self._lock:
            self._inside[thread] -= 1
            if not self._inside[thread]:
                del self._inside[thread]
                if self._paused:
                    self._changed.notify_all()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter, and leave at the end of the block."""
        thread = self.enter()
        try:
            yield
        finally:
            self.leave(thread)

    def pause(self, deadline: float) -> bool:
        """Close every connection, and let no thread enter until `resume`. Return False if that is not done by `deadline`."""
        with self._changed:
            if get_ident() in self._inside:
                return False
            if not self._changed.wait_for(lambda: not self._paused, deadline - time.monotonic()):
                return False
            self._paused = True
            ended = self._changed.wait_for(lambda: not self._inside, deadline - time.monotonic())
        try:
            if ended:
                for owner in list(self._owners):
                    owner.drop_connections()
        except BaseException:
            ended = False
            raise
        finally:
            if not ended:
                self.resume()
        return ended

    def resume(self) -> None:
        """Let threads enter again after the fork."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def connections(self) -> list[Any]:
        """Return the connections that are open."""
        return [connection for owner in list(self._owners) for connection in owner.connections()]


_all: WeakSet[Activity] = WeakSet()
_paused: dict[int, list[Activity]] = {}
"""By the thread that forks."""
_descriptors: dict[int, tuple[int, int]] = {}
"""Device and inode of the files that were open when this process was forked."""


def check_inherited(path: str) -> None:
    """Refuse a file that was open when this process was forked, and still is."""
    if not _descriptors:
        return
    try:
        status = os.stat(path)  # noqa: PTH116  (the path is text everywhere here)
    except OSError:
        return
    file = (status.st_dev, status.st_ino)
    for descriptor, inherited in _descriptors.items():
        if inherited == file and _file_of(descriptor) == file:
            raise EngineError(
                f"cannot open {path}: a connection to it was open when this process was forked, and SQLite would take the parent's "
                "locks for its own. Close your own connections before the fork, do not fork inside a transaction, or start the "
                "process with the method 'spawn'"
            )


def _file_of(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _before() -> None:
    deadline = time.monotonic() + PATIENCE
    paused = _paused[get_ident()] = []
    paused.extend(activity for activity in list(_all) if activity.pause(deadline))


def _after_in_parent() -> None:
    for activity in _paused.pop(get_ident(), ()):
        activity.resume()


def _after_in_child() -> None:
    for activity in list(_all):
        for connection in activity.connections():  # there was no pause
            keep(connection)
    _paused.clear()
    _all.clear()
    try:
        numbers = [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208  (numbers, not paths)
    except (OSError, ValueError):
        return
    for number in numbers:
        file = _file_of(number)
        if file is not None:
            _descriptors[number] = file


def keep(connection: Any) -> None:
    """Keep this object from being collected, which would close its connection."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
