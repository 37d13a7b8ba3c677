"""Watching files: tells this process that another one has written, which SQLite itself does not do.

Theory of operation. A writer that releases the fair write lock writes to its side file, after the commit: that wakes followers. A channel
wakes callers that wait in line, because with many processes in line each commit would wake all of them, and most for nothing. A channel
is a small file in the folder `<database>-wake`. The first listener creates it; a notifier writes to it. There are 256 at most, so none is
ever removed.

On Linux the system reports writes (inotify); elsewhere, or if this user has as many watches as it may, a thread reads the files every
`POLL` seconds. Either way a report is only a hint: what is woken reads the tables, and would look by itself sooner or later. A
transaction of the application's own connection does not take the lock, and is seen only then. One thread per engine, from the first
that listens until the engine is closed.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from struct import unpack_from
from typing import Final

POLL: Final = 0.02
"""Seconds between two looks at the files, where the system does not report their changes."""
CHECK: Final = 1.0
"""Seconds between two checks whether to stop."""
_MODIFIED: Final = 0x2
_BUFFER: Final = 65_536
_EVENT: Final = 16
"""Bytes of an event without a name: those of a file have none."""


class FileWatch:
    """Call a function when another process has written to a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[Path, tuple[Callable[[], None], bytes]] = {}
        """What to call, and the file as it was when last seen."""
        self._reported: dict[int, Callable[[], None]] = {}
        """What to call, by the system's number of the watch."""
        self._stopped = threading.Event()
        self._inotify: _Inotify | None = None
        self._polling = False
        self._thread: threading.Thread | None = None

    def add(self, file: Path, wake: Callable[[], None]) -> bool:
        """Watch a file; False: it is watched already."""
        with self._lock:
            if file in self._watched or self._stopped.is_set():
                return False
            if self._thread is None:
                self._inotify = _Inotify.open()
            watch = None if self._inotify is None else self._inotify.add(file)
            if watch is None:
                self._polling = True  # no reports are to be had, or no more
            else:
                self._reported[watch] = wake
            self._watched[file] = (wake, _content(file))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdkit-file-watch", daemon=True)
                self._thread.start()
        return True

    def close(self) -> None:
        """Stop; the thread ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._inotify is None or self._polling:
                self._stopped.wait(POLL)
                self._look()
                continue
            for watch in self._inotify.wait(CHECK):
                wake = self._reported.get(watch)
                if wake is not None:
                    wake()
        if self._inotify is not None:
            self._inotify.close()

    def _look(self) -> None:
        with self._lock:
            changed = []
            for file, (wake, seen) in self._watched.items():
                now = _content(file)
                if now != seen:
                    self._watched[file] = (wake, now)
                    changed.append(wake)
        for wake in changed:
            wake()


class FileChannels:
    """The channels of a database: files beside it."""

    def __init__(self, path: str, watch: FileWatch) -> None:
        self._folder, self._watch = Path(f"{path}-wake"), watch

    def listen_on(self, channel: str, wake: Callable[[], None]) -> None:
        """Call `wake` after each notification, and once when we begin to listen."""
        file = self._folder / channel
        with suppress(OSError):  # no room, or a read-only folder: waiters look by themselves
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file.touch(mode=0o600)
            if self._watch.add(file, wake):
                wake()

    def notify(self, channels: Iterable[str]) -> None:
        """Write to the files of these channels. A channel without a file never had a listener."""
        for channel in channels:
            with suppress(OSError):
                descriptor = os.open(self._folder / channel, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.pwrite(descriptor, time.time_ns().to_bytes(8), 0)
                finally:
                    os.close(descriptor)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


class _Inotify:
    """The system's reports of writes to files."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc, self._descriptor = libc, descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    @classmethod
    def open(cls) -> _Inotify | None:
        """Open the system's watches, or return None where there are none or this user's limit is reached."""
        if not sys.platform.startswith("linux"):
            return None
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor: int = libc.inotify_init1(os.O_CLOEXEC)
        except (OSError, AttributeError):  # another C library
            return None
        return cls(libc, descriptor) if descriptor >= 0 else None  # else this user has as many as it may

    def add(self, file: Path) -> int | None:
        """Let the system report writes to this file; return the number of the watch."""
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(file), _MODIFIED)
        return watch if watch >= 0 else None

    def wait(self, seconds: float) -> Iterable[int]:
        """Wait until watched files are written to, or for `seconds`, and return the numbers of their watches."""
        events = os.read(self._descriptor, _BUFFER) if self._poll.poll(seconds * 1_000) else b""
        return dict.fromkeys(unpack_from("i", events, at)[0] for at in range(0, len(events), _EVENT))

    def close(self) -> None:
        """End the reports."""
        os.close(self._descriptor)
