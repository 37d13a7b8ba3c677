"""Watching the file: tells this process that another one has written, which SQLite itself does not do.

Theory of operation. Whoever releases the fair write lock writes to its side file, after the commit. On Linux the system reports that
(inotify); elsewhere, or if this user has as many watches as it may, a thread reads the side file every `POLL` seconds.
Either way it is only a hint: what is woken reads the tables, and would look by itself sooner or later. A transaction of the
application's own connection does not take the lock, and is seen only then. One thread per engine, from the first that listens until
the engine is closed.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

POLL: Final = 0.02
"""Seconds between two looks at the file, where nobody reports its changes."""
CHECK: Final = 1.0
"""Seconds between two checks whether to stop."""
_MODIFIED: Final = 0x2
_BUFFER: Final = 4_096


class FileWatch:
    """Calls `wake` when somebody may have written."""

    def __init__(self, side_file: Path, wake: Callable[[], None]) -> None:
        self._file, self._wake = side_file, wake
        self._stopped = threading.Event()
        self._events = _inotify(side_file)
        self._seen = self._state()
        run = self._look if self._events is None else self._hear
        self._thread = threading.Thread(target=run, name="holdkit-file-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; the thread ends by itself."""
        self._stopped.set()

    def _hear(self) -> None:
        events = self._events
        assert events is not None
        try:
            while not self._stopped.is_set():
                ready, _, _ = select.select([events], [], [], CHECK)
                if ready and os.read(events, _BUFFER):
                    self._wake()
        finally:
            os.close(events)

    def _look(self) -> None:
        while not self._stopped.wait(POLL):
            now = self._state()
            if now != self._seen:
                self._seen = now
                self._wake()

    def _state(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError:
            return b""


def _inotify(file: Path) -> int | None:
    """A descriptor that reports when a file is written to; None if there is none to be had."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.inotify_init1(os.O_CLOEXEC)
        if descriptor < 0:
            return None  # this user has as many as it may
        if libc.inotify_add_watch(descriptor, os.fsencode(file), _MODIFIED) < 0:
            os.close(descriptor)
            return None
    except (OSError, AttributeError):  # another C library
        return None
    return descriptor
