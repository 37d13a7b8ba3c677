"""A file onto the disk: fsync, and more where that is not enough.

On macOS fsync hands the data to the drive, which may lose it with the power; F_FULLFSYNC makes the drive write it down. A file
system that has no such thing (a network's, FAT) says so, and gets the fsync that it has, as SQLite does too.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    FULL = None
else:
    FULL = getattr(fcntl, "F_FULLFSYNC", None)
    control = fcntl.fcntl

_NOT_OFFERED: Final = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)


def sync_file(descriptor: int) -> None:
    """Make durable what was written to a file, or the names in a directory; OSError if that failed."""
    if FULL is not None:
        try:
            control(descriptor, FULL)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """The same by name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
