"""The fair write lock: one writer at a time among processes, first come, first served.

Theory of operation. SQLite's own busy handler polls, so a process that commits and begins again at once can overtake one that has
waited for seconds, for ever. Therefore every write transaction and every checkpoint of ours runs under this lock, which consists of
two advisory locks (flock) on side files. The holder of the *next* lock is next for the *main* lock, and releases the next lock once it
has the main one. A process that has just released the main lock must first get the next lock, behind whoever waits there. Nothing
polls, and the database file itself is never touched.

*News.* Whoever releases the main lock writes the time to its side file: other processes can be told of that by the system
(`file_watch`), when what was written to the database is visible to them. The log of SQLite changes before that.

*One thread.* Only one thread of a process uses the lock at a time: the writer's own lock sees to that.

*Bounded waits.* flock cannot time out. If the locks are not free at once, a worker thread blocks in flock, and `acquire` waits for it
on a condition for the seconds given. States, all guarded by `_changed`: `_blocked` while the worker waits in flock, `_wanted` while a
thread waits in `acquire`, `_granted` when the worker has handed the locks to that thread. If the thread has given up by the time that
the worker gets the locks, the worker releases them. A later `acquire` that finds the worker still blocked waits for the same attempt,
so it keeps the turn in the queue.

*Interrupts.* An exception may be raised in `acquire` at any point of its wait: if the locks were granted at that very moment, they
are released before the exception leaves. An interrupt between `acquire` and the caller's `try` is the caller's concern (see
`Writer`). The worker is never interrupted: signals are delivered to the main thread.

*Death and fork.* The system releases the locks of a process that dies. A forked child closes its copies of the files at once: flock
belongs to the open file, so that the child would otherwise keep a dead parent's lock.
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
    """Held by one process at a time, and used by one thread of it at a time."""

    def __init__(self, path: str) -> None:
        if fcntl is None:
            raise EngineError("the SQLite engine needs advisory file locks (flock), which this system does not have")
        self._main = self._next = -1
        self._main = _open(f"{path}-lock")
        self._next = _open(f"{path}-gate")
        self._changed = Condition()
        self._worker: Thread | None = None
        self._blocked = False  # the worker waits in flock
        self._wanted = False  # a thread waits in `acquire`
        self._granted = False
        self._closed = False
        _all.add(self)

    def acquire(self, seconds: float) -> None:
        """Become the only writer; `Overloaded` after so many seconds."""
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
                if self._granted:  # interrupted at the very moment
                    self.release()
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

    def release(self) -> None:
        """Let the next process write, and tell those that watch the side file that something may have been written. Never fails: what
        was done under the lock is done."""
        with suppress(OSError):
            fcntl.flock(self._main, fcntl.LOCK_UN)
            os.pwrite(self._main, time.time_ns().to_bytes(8), 0)

    def close(self) -> None:
        """Close the side files; a worker that still waits closes them itself."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            if not self._blocked:
                self._close_files()

    def _at_once(self) -> bool:
        """Try without waiting. If only the main lock is taken, the next lock stays ours, for the worker."""
        if not _try(self._next) or not _try(self._main):
            return False
        fcntl.flock(self._next, fcntl.LOCK_UN)
        return True

    def _start_blocking(self) -> None:
        self._blocked = True
        if self._worker is None:
            self._worker = Thread(target=self._run, name="holdkit-write-lock", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _run(self) -> None:
        """The worker: wait for the locks, then hand them to the thread that wants them, or release them."""
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
            fcntl.flock(self._next, fcntl.LOCK_EX)
            fcntl.flock(self._main, fcntl.LOCK_EX)
            fcntl.flock(self._next, fcntl.LOCK_UN)
        except OSError:
            return False
        return True

    def _let_go(self) -> None:
        for descriptor in (self._main, self._next):
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _close_files(self) -> None:
        for descriptor in (self._main, self._next):
            if descriptor >= 0:
                os.close(descriptor)
        self._main = self._next = -1

    def forget(self) -> None:
        """In a forked child: close its copies of the files, which would keep the lock if the parent died."""
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
