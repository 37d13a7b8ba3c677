"""The disk: the few calls the log engine makes, as a port, and the real one.

A simulated disk implements the same port under the same engine code, so that crashes can be tried by the million. Nothing
here knows what a frame is. Every method may raise OSError; nothing is durable before `sync` returned.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from ..durability import sync_file


class File(Protocol):
    """An open file that is only ever appended to, cut, and synced."""

    def append(self, data: bytes) -> None:
        """Write at the end; may write only a part before it fails."""
        ...

    def cut(self, size: int) -> None:
        """Drop everything behind `size`."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """What stands there, shorter at the end of the file."""
        ...

    def size(self) -> int:
        """How long the file is."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Reading(Protocol):
    """One directory, to be looked at."""

    name: str

    def names(self) -> list[str]:
        """The files here, in order of name."""
        ...

    def open(self, name: str) -> File:
        """Open a file that is there."""
        ...


class Disk(Reading, Protocol):
    """One directory, to be written to."""

    def lock(self) -> None:
        """Take the directory for this process alone, or raise BlockingIOError."""
        ...

    def create(self, name: str) -> File:
        """Make a new file; FileExistsError if it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file a new name, in place of any other of that name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    def sync(self) -> None:
        """Make creations, renames and removals durable."""
        ...

    def close(self) -> None:
        """Give the directory back."""
        ...


class RealFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def append(self, data: bytes) -> None:
        """Write at the end."""
        rest = memoryview(data)
        offset = self._size
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            if written == 0:
                raise OSError(errno.ENOSPC, "nothing could be written")
            offset, rest = offset + written, rest[written:]
        self._size = offset

    def cut(self, size: int) -> None:
        """Drop everything behind `size`."""
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        """Data and size: both must survive."""
        sync_file(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """What stands there."""
        return os.pread(self._descriptor, size, offset)

    def size(self) -> int:
        """How long the file is on disk."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_open_disks: WeakSet[RealDisk] = WeakSet()


def _after_fork() -> None:
    """A child gives back what it inherited: else it would keep the lock when its parent is gone."""
    for disk in list(_open_disks):
        disk.close()


os.register_at_fork(after_in_child=_after_fork)


class RealDisk:
    """A directory of the operating system; files are 0600 in a directory of 0700."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.name = str(self._path)
        new = not self._path.exists()
        self._path.mkdir(mode=0o700, exist_ok=True)
        self._directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        if new:
            parent = os.open(self._path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                sync_file(parent)
            finally:
                os.close(parent)
        _open_disks.add(self)

    def lock(self) -> None:
        """A lock on the directory itself: it goes with the process, whatever kills it."""
        fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def names(self) -> list[str]:
        """The files here."""
        return sorted(os.listdir(self._directory))  # noqa: PTH208  (by descriptor: the path may have moved)

    def open(self, name: str) -> RealFile:
        """Open a file that is there."""
        return RealFile(os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._directory))

    def create(self, name: str) -> RealFile:
        """Make a new file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return RealFile(os.open(name, flags, 0o600, dir_fd=self._directory))

    def rename(self, old: str, new: str) -> None:
        """Give a file a new name."""
        os.rename(old, new, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self._directory)

    def sync(self) -> None:
        """Sync the directory."""
        sync_file(self._directory)

    def close(self) -> None:
        """Give the directory, and its lock, back."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1
