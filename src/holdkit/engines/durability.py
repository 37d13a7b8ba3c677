"""Durability: what a done answer survives, in one word for programs and one sentence for people; and the files it rests on.

`Durability` tells what is in force, not what should be: each engine declares it, and one whose settings can change while it is open
reads them again. `sync_file` makes a file durable: on macOS fsync only hands the data to the drive, which may lose it with the power;
F_FULLFSYNC makes the drive write it. A file system that has no such call (a network's, FAT) says so, and gets a plain fsync, as SQLite
does too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, get_args

from msgspec import Struct

from ..core.outcomes import Survives

LEVELS: Final[tuple[Survives, ...]] = get_args(Survives)


class Standby(Struct, frozen=True):
    """A standby server that receives the store's write-ahead log, or did."""

    name: str
    state: Literal["synchronous", "asynchronous", "away", "unknown"]
    """`synchronous`: commits wait for it, alone or with others. `away`: it is expected, and not connected. `unknown`: this role
    may not see it."""


class Durability(Struct, frozen=True):
    """What a done answer survives, as the store is set."""

    level: Survives
    says: str
    """`level` as a sentence."""
    advice: str = ""
    """What to set, where that would make it better."""
    standbys: tuple[Standby, ...] = ()
    settings: Mapping[str, str] = {}
    """The settings that it follows from, as they are in force."""

    @property
    def safe(self) -> bool:
        """Whether a done answer survives all that this store can be made to survive by its settings."""
        return self.level not in ("asynchronous_standby", "unsafe")

    def __repr__(self) -> str:
        return f"<Durability {self.level}>"


IN_MEMORY: Final = Durability("process", "nothing is stored: all changes are lost when the process ends")
ON_DISK: Final = Durability("local", "changes are synced to this machine's disk before their calls return")


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
    """Sync a file to disk, given its path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
