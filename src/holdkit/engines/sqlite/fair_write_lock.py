"""The turnstile: one writer at a time among processes, first come, first served.

Two advisory locks on side files: whoever holds the gate is next for the main lock, and gives the gate back once inside. So
a process that leaves and at once comes back cannot pass one that waits, as it would with SQLite's own busy handler. The
wait is bounded, in real time. Never polls, never touches the database file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Condition, Thread
from weakref import WeakSet

from ...errors import EngineError, Overloaded

try:
    import fcntl
except ImportError:  # a system without flock
    fcntl = None  # type: ignore[assignment]

_all: WeakSet[FairWriteLock] = WeakSet()


class FairWriteLock:
    """Pass with `enter`, leave with `leave`; one thread of this process at a time (the engine's own lock sees to it)."""

    def __init__(self, path: str) -> None:
        if fcntl is None:
            raise EngineError("the SQLite engine needs advisory file locks (flock), which this system does not have")
        self._main = self._gate = -1
        self._main = _open(f"{path}-lock")
        self._gate = _open(f"{path}-gate")
        self._changed = Condition()
        self._worker: Thread | None = None
        self._blocked = False  # the worker is waiting for the locks, for whoever wants them when it gets them
        self._wanted = False  # somebody waits in `enter`
        self._granted = False
        self._closed = False
        _all.add(self)

    def enter(self, seconds: float) -> None:
        """Be the only writer, or be turned away after so many seconds."""
        with self._changed:
            if not self._blocked:
                try:
                    if self._at_once():
                        return
                except OSError as error:
                    self._let_go()
                    raise _no_lock() from error
                self._start_blocking()
            self._wanted = True
            try:
                self._wait(seconds)
            except BaseException:
                if self._granted:  # interrupted at the very moment it was our turn
                    self.leave()
                raise
            finally:
                self._wanted = self._granted = False

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._granted:
            left = deadline - time.monotonic()
            if left <= 0 or self._closed:
                raise Overloaded(f"another process kept the write lock for {seconds:.2g} s", retry_after=1.0)
            if not self._blocked:  # the worker failed
                raise _no_lock()
            self._changed.wait(left)

    def leave(self) -> None:
        """Let the next one in. Cannot fail: what was done under the lock is done."""
        with suppress(OSError):
            fcntl.flock(self._main, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give back the side files; a worker that still waits gives them back itself."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            if not self._blocked:
                self._close_files()

    def _at_once(self) -> bool:
        """The usual case: nobody is there. If only the main lock is taken the gate stays ours, for the worker."""
        if not _try(self._gate) or not _try(self._main):
            return False
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        return True

    def _start_blocking(self) -> None:
        self._blocked = True
        if self._worker is None:
            self._worker = Thread(target=self._run, name="holdkit-turnstile", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _run(self) -> None:
        """The worker: wait for the locks, hand them to whoever wants them, or drop them at once."""
        while True:
            with self._changed:
                while not self._blocked:
                    if self._closed:
                        return
                    self._changed.wait()
            entered = self._block()
            with self._changed:
                self._blocked = False
                if entered and self._wanted and not self._closed:
                    self._granted = True
                else:
                    self._let_go()
                if self._closed:
                    self._close_files()
                self._changed.notify_all()

    def _block(self) -> bool:
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            fcntl.flock(self._main, fcntl.LOCK_EX)
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        except OSError:
            return False
        return True

    def _let_go(self) -> None:
        for descriptor in (self._main, self._gate):
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _close_files(self) -> None:
        for descriptor in (self._main, self._gate):
            if descriptor >= 0:
                os.close(descriptor)
        self._main = self._gate = -1

    def forget(self) -> None:
        """In a forked child: close its copies, so that a parent that dies does not leave its lock behind."""
        self._closed = True
        self._close_files()


def _no_lock() -> EngineError:
    return EngineError("the system gives no advisory file locks (flock) at the moment")


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _after_fork() -> None:
    for write_lock in list(_all):
        write_lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
