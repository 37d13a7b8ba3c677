"""The fair write lock: one writer at a time among processes, first come, first served.

Theory of operation. SQLite's own busy handler polls, so a process that commits and begins again at once can overtake one that has
waited for seconds, for ever. Therefore every write transaction and every checkpoint of ours runs under this lock: an advisory lock
(flock) on a side file, the *main* lock. Nothing polls, and the database file itself is never touched.

*Order.* The system does not keep it: between the release of a lock and the moment at which a process that waits for it runs, any other
may take it. On a busy machine such a process waits for seconds. So those who wait stand in line, by the locks of a second side file:

  - Who does not get the main lock at once draws a number, and holds the byte of that number until it has the main lock. The next
    number stands at the head of the file; drawing takes the file's own lock for a moment.
  - It waits for the byte before its own, then for any other byte below it that is still held (the one before it may have died while it
    waited), then for the main lock. So each waits for one other process, and one release wakes one.
  - Who comes while any byte is held does not try the main lock, but draws a number.

The order is a courtesy: whatever is at the head of that file, the main lock alone decides who writes. Where the system has no locks of
bytes that belong to an open file (other systems than Linux), those who wait have one lock instead of numbers, and may overtake.

*News.* A writer that releases the main lock writes the time to its side file: the system can report that to other processes
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
belongs to the open file, so that the child would otherwise keep a dead parent's lock. (What SQLite itself keeps is another matter:
see `forking`.)
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from threading import Condition, Thread
from typing import Final
from weakref import WeakSet

from ...errors import EngineError, Overloaded

try:
    import fcntl
except ImportError:  # a system without flock
    fcntl = None  # type: ignore[assignment]

_all: WeakSet[FairWriteLock] = WeakSet()

IN_ORDER: Final = hasattr(fcntl, "F_OFD_SETLKW")
"""Whether numbers can be drawn."""
FIRST: Final = 8
"""The byte of number 0: behind the next number."""
_BYTES: Final = struct.Struct("hhqqi0q")
"""The system's description of locked bytes: kind of lock, where `start` counts from, start, length, process."""


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
        """Become the only writer. Raise `Overloaded` after `seconds`."""
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
        """Let the next process write, and notify processes that watch the side file. Never fails: what was done under the lock is
        done."""
        with suppress(OSError, ValueError):  # ValueError: in a forked child, whose copies are closed
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
        """Try to take the locks without waiting, unless another process waits. Without numbers, a try that gets only the next lock keeps
        it for the worker."""
        if IN_ORDER:
            return _held_by_others(self._next, FIRST, 0) is None and _try(self._main)
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
        """Wait for the locks in the worker thread, then hand them to the thread that wants them, or release them."""
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
            if IN_ORDER:
                self._stand_in_line()
            else:
                fcntl.flock(self._next, fcntl.LOCK_EX)
            fcntl.flock(self._main, fcntl.LOCK_EX)
            self._leave_line()
        except OSError:
            return False
        return True

    def _stand_in_line(self) -> None:
        """Draw a number, and wait for those before it."""
        line = self._next
        fcntl.flock(line, fcntl.LOCK_EX)
        try:
            byte = FIRST + int.from_bytes(os.pread(line, FIRST, 0))
            while _held_by_others(line, byte, 1) is not None:
                byte += 1  # another process has changed the number at the head
            _lock_byte(line, byte, fcntl.F_WRLCK)
            os.pwrite(line, (byte - FIRST + 1).to_bytes(FIRST), 0)
        finally:
            fcntl.flock(line, fcntl.LOCK_UN)
        before: int | None = byte - 1
        while before is not None and before >= FIRST:
            _lock_byte(line, before, fcntl.F_RDLCK)
            before = _held_by_others(line, FIRST, byte - FIRST)

    def _leave_line(self) -> None:
        if IN_ORDER:
            fcntl.fcntl(self._next, fcntl.F_OFD_SETLK, _BYTES.pack(fcntl.F_UNLCK, os.SEEK_SET, FIRST, 0, 0))
        else:
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def _let_go(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._main, fcntl.LOCK_UN)
        with suppress(OSError):
            self._leave_line()

    def _close_files(self) -> None:
        for descriptor in (self._main, self._next):
            if descriptor >= 0:
                os.close(descriptor)
        self._main = self._next = -1

    def forget(self) -> None:
        """Close the copies of the files in a forked child: they would keep the lock if the parent died."""
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


def _held_by_others(descriptor: int, start: int, length: int) -> int | None:
    """Return the first of `length` bytes from `start` (0: all from there) that another process has locked, or None."""
    asked = _BYTES.pack(fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
    kind, _, first, _, _ = _BYTES.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else first


def _lock_byte(descriptor: int, byte: int, kind: int) -> None:
    """Wait for the lock of a byte: exclusive for the number of this process, shared for a byte that an earlier process holds."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _BYTES.pack(kind, os.SEEK_SET, byte, 1, 0))


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _after_fork() -> None:
    for write_lock in list(_all):
        write_lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
