"""The disk under the bench: where files are, how long a sync takes, and how many there were.

Two independent counts of syncs. The operating system's count of flushes sent to the device (/proc/diskstats) costs nothing, so
it checks every measured run; where it cannot be trusted (no such file, a device without a write cache, a file
system that spans devices) `flush_counter` returns None. strace counts the calls themselves: exact, but it
slows the process down, so it gets separate runs (`bench.syncs`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeAlias

from msgspec import Struct

FlushCounter: TypeAlias = Callable[[], int]

DISKSTATS = Path("/proc/diskstats")
FLUSHES = 18  # the field that counts flush requests completed; kernels before 5.5 have fewer fields
MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}


class SyncTime(Struct, frozen=True):
    """What one 4 KiB write and its sync cost here, in seconds."""

    median: float
    p90: float


@contextmanager
def scratch_file(directory: Path) -> Iterator[int]:
    """A file to write and sync; removed afterwards."""
    path = directory / "sync-probe"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.pwrite(descriptor, bytes(10 * 4096), 0)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def write_and_sync(descriptor: int, turn: int) -> None:
    """One durable write of a page."""
    os.pwrite(descriptor, turn.to_bytes(8, "little") * 512, turn % 10 * 4096)
    os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)


def sync_time(directory: Path, turns: int = 300) -> SyncTime:
    """How long the disk takes to make a page durable."""
    taken: list[float] = []
    with scratch_file(directory) as descriptor:
        for turn in range(turns):
            begin = perf_counter()
            write_and_sync(descriptor, turn)
            taken.append(perf_counter() - begin)
    taken.sort()
    return SyncTime(median(taken), taken[turns * 9 // 10])


def file_system(directory: Path) -> str:
    """The kind of file system a directory is on, or "unknown"."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    here, best, kind = directory.resolve(), Path("/"), "unknown"
    for line in mounts:
        _, point, name, *_ = line.split(" ")
        mounted = Path(point)
        if here.is_relative_to(mounted) and mounted.is_relative_to(best):
            best, kind = mounted, name
    return kind


def flush_counter(directory: Path) -> FlushCounter | None:
    """Reads how many flushes the directory's device has completed; None if that count cannot be trusted here."""
    device = directory.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    block = Path("/sys/dev/block") / name
    if not DISKSTATS.exists() or not block.exists():
        return None
    if (block / "partition").exists():  # flushes are counted for the whole disk
        name = (block.resolve().parent / "dev").read_text().strip()
    wanted = tuple(name.split(":"))

    def count() -> int:
        for line in DISKSTATS.read_text().splitlines():
            fields = line.split()
            if (fields[0], fields[1]) == wanted:
                return int(fields[FLUSHES]) if len(fields) > FLUSHES else 0
        return 0

    turns = 50
    with scratch_file(directory) as descriptor:
        before = count()
        for turn in range(turns):
            write_and_sync(descriptor, turn)
        return count if count() - before >= turns else None
