"""Copies of a log: its segments, in order, while it may be in use. What was being written is cut off by the next opening."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ...errors import EngineError
from ..durability import sync_file
from .disk import RealDisk
from .engine import LogEngine
from .inspection import look


def copy(path: str, to: Path, progress: Callable[[int, int], None]) -> int:
    """Every segment into a new directory, synced and walked through; gives the number of entries. Snapshots only shorten
    opening, and stay behind."""
    segments = [segment.file for segment in look(path).segments]
    to.mkdir(mode=0o700)
    for done, name in enumerate(segments, 1):
        shutil.copyfile(Path(path) / name, to / name)
        (to / name).chmod(0o600)
        descriptor = os.open(to / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        progress(done, len(segments))
    seen = look(to)
    if seen.damage is not None:
        raise EngineError(f"cannot copy {path}: {seen.damage}")
    return seen.entries


def renew_generation(path: Path) -> None:
    """A copy that is put back begins another life of its journal."""
    with closing(LogEngine(RealDisk(path))) as engine:
        engine.renew_generation()


def vacate(path: str) -> None:
    """Make sure that nobody has the log open."""
    disk = RealDisk(Path(path))
    try:
        disk.lock()
    except BlockingIOError:
        raise EngineError(f"{path} is open in another process: stop it first") from None
    finally:
        disk.close()
