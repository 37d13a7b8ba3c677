"""What `holdkit doctor` finds: the form of a finding, and the checks of files and disks that engines share."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing a health check looked at."""

    name: str
    level: Literal["ok", "warn", "fail"]
    says: str
    advice: str = ""
    """What to do, where something is wrong."""


MIN_FREE: Final = 1 << 30
"""Free bytes below which a server turns away what stores something new, unless its settings say otherwise."""
LOW: Final = 0.05
"""The free part of a disk below which a person should make room."""
NONE: Final = 16 << 20
"""Free bytes below which writes are about to fail."""


class Space(NamedTuple):
    """The space of a file system, in bytes."""

    free: int
    """What this process may use."""
    total: int


def space_of(path: Path) -> Space | None:
    """Return the space of the file system that has this path, or None if it cannot be read."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return Space(usage.free, usage.total)


def is_low(space: Space) -> bool:
    """Return whether a person should make room."""
    return space.free < LOW * space.total


def examine_space(space: Space, min_free: int) -> Finding:
    """Report how much room there is for the data."""
    says = f"{space.free >> 20} MiB free of {space.total >> 20}"
    if space.free < NONE:
        return Finding("disk space", "fail", says, "make room: writes are about to fail")
    if space.free < min_free:
        advice = (
            f"make room: a server stores nothing new while less than {min_free >> 20} MiB are free (journal.min_free)"
        )
        return Finding("disk space", "warn", says, advice)
    return Finding("disk space", "warn", says, "make room") if is_low(space) else Finding("disk space", "ok", says)


def examine_path(path: Path, min_free: int = MIN_FREE) -> Iterator[Finding]:
    """Report who may read the data, and how much room there is."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield Finding("file mode", "warn", f"{path} is open to others ({mode:o})", f"chmod go= {path}")
    else:
        yield Finding("file mode", "ok", f"{mode:o}: for its owner only")
    space = space_of(path)
    if space is not None:
        yield examine_space(space, min_free)
