"""The files of a log, looked at without opening it, so that it may be in use: inspection, health check, and copies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

from msgspec import Struct

from ...core.audit import Numbered
from ...errors import EngineError, plain
from ..doctor import Finding, examine_path
from ..durability import sync_file
from .baseline import LogBaseline, newest_name
from .disk import Disk, RealDisk, RealFile
from .engine import LogEngine
from .erasure_plan import FILE as ERASURE
from .erasure_plan import read_state
from .journal import decode_batch, numbered
from .log import Log
from .seals import FILE
from .segments import check_names, mixed
from .snapshots import read_snapshot


class LookingDisk:
    """A directory that is only read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self.name = str(self._path)

    def names(self) -> list[str]:
        """The files here."""
        return sorted(entry.name for entry in self._path.iterdir())

    def open(self, name: str) -> RealFile:
        """Open a file that is there."""
        return RealFile(os.open(self._path / name, os.O_RDONLY | os.O_CLOEXEC))


class SegmentSeen(Struct, frozen=True):
    """One segment as found."""

    file: str
    bytes: int
    frames: int
    entries: int
    sealed: bool
    torn_bytes: int
    """Bytes behind the last whole frame: the next opening cuts them off."""


class SnapshotSeen(Struct, frozen=True):
    """One snapshot as found."""

    file: str
    bytes: int
    after_frame: int
    good: bool
    """Whether it checks and belongs to these segments; a bad one is ignored or refused when the log is opened."""


class Seen(Struct, frozen=True):
    """All that was found."""

    segments: list[SegmentSeen]
    snapshots: list[SnapshotSeen]
    frames: int
    entries: int
    damage: str | None
    """Why the log would be refused, with file and offset."""

    @property
    def ok(self) -> bool:
        """Whether the log would open, with every snapshot of use."""
        return self.damage is None and all(snapshot.good for snapshot in self.snapshots)


def look(path: str | os.PathLike[str]) -> Seen:
    """Walk segments and snapshots. Raises EngineError only where there is no log at all, or it cannot be read."""
    disk = LookingDisk(path)
    log = _log(disk)
    try:
        counts: dict[str, tuple[int, int]] = {}
        chains: dict[int, str] = {}
        damage: str | None = None
        try:
            check_erasure(disk)
            base = _baseline(disk)
            log.open_segments(None if base is None else base.head.segment)
            chains[log.next_frame - 1] = log.chain.hex()
            for frame in log.recover():
                name = log.segment_of(frame.number).name
                frames, entries = counts.get(name, (0, 0))
                counts[name] = (frames + 1, entries + len(decode_batch(frame.body).entries))
                chains[frame.number] = log.chain.hex()
            if base is not None and chains.get(base.head.after_frame) != base.head.chain:
                damage = plain(mixed(disk.name))
        except EngineError as error:
            damage = plain(error)
        segments = []
        for segment in log.segments:
            size = segment.file.size()
            torn = size - segment.end if segment.torn else 0
            segments.append(SegmentSeen(segment.name, size, *counts.get(segment.name, (0, 0)), segment.sealed, torn))
        log_id = log.log_id if log.segments else ""
    except OSError as error:
        raise EngineError(f"{disk.name} cannot be read: {error.strerror}") from error
    finally:
        log.close()
    snapshots = [_snapshot(disk, name, log_id, chains) for name in disk.names() if name.endswith(".snapshot")]
    return Seen(segments, snapshots, sum(one.frames for one in segments), sum(one.entries for one in segments), damage)


def entries_of(path: str | os.PathLike[str], first: int = 1) -> Iterator[Numbered]:
    """Every entry from a number on that is not archived, in order, with its number; raises EngineError where the log is damaged."""
    log = _log(LookingDisk(path))
    try:
        check_erasure(LookingDisk(path))
        base = _baseline(LookingDisk(path))
        log.open_segments(None if base is None else base.head.segment)
        first = first if base is None else max(first, base.archived.through + 1)
        for frame in log.recover():
            for number, entry in numbered(frame):
                if number >= first:
                    yield number, entry
    except OSError as error:
        raise EngineError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        log.close()


def check_erasure(disk: LookingDisk) -> None:
    """While an erasure rewrites the files, they do not fit one another."""
    if read_state(disk).plan is not None:
        raise EngineError(
            f"an erasure rewrites {disk.name}, or was interrupted: wait until it has ended; if nobody has the log open, open it once: "
            "that carries out the rest"
        )


def _baseline(disk: LookingDisk) -> LogBaseline | None:
    """What stands for the archived entries; its file is closed."""
    name = newest_name(disk.names())
    if name is None:
        return None
    baseline = LogBaseline(disk, name)
    baseline.file.close()
    return baseline


def _log(disk: LookingDisk) -> Log:
    try:
        begun = check_names(disk.name, disk.names())
    except OSError as error:
        raise EngineError(f"{disk.name} cannot be read: {error.strerror}") from error
    if not begun:
        raise EngineError(f"{disk.name} holds no log")
    return Log(cast("Disk", disk), os.urandom)  # only its reading half is ever called


def _snapshot(disk: LookingDisk, name: str, log_id: str, chains: dict[int, str]) -> SnapshotSeen:
    found = read_snapshot(disk, name)
    size = (Path(disk.name) / name).stat().st_size
    if found is None:
        return SnapshotSeen(name, size, 0, good=False)
    about = found[0]
    good = (
        about.log_id == log_id
        and chains.get(about.after_frame, about.chain if not about.after_frame else "") == about.chain
    )
    return SnapshotSeen(name, size, about.after_frame, good=good)


def examine(path: str) -> Iterator[Finding]:
    """The directory, its disk, every frame."""
    yield from examine_path(Path(path))
    seen = look(path)
    if seen.damage is not None:
        yield Finding("segments", "fail", seen.damage, "restore a backup")
        return
    torn = sum(segment.torn_bytes for segment in seen.segments)
    note = f", a torn tail of {torn} bytes that the next opening cuts off" if torn else ""
    yield Finding("segments", "ok", f"{len(seen.segments)} with {seen.frames} frames and {seen.entries} entries{note}")
    bad = [snapshot.file for snapshot in seen.snapshots if not snapshot.good]
    yield Finding("snapshots", "warn" if bad else "ok", f"{', '.join(bad)} cannot be used" if bad else str(len(seen.snapshots)),
                  "remove it: a snapshot only shortens opening" if bad else "")  # fmt: skip


def copy(path: str, to: Path, progress: Callable[[int, int], None]) -> int:
    """Every segment into a new directory, synced and walked through; gives the number of entries. Snapshots only shorten
    opening, and stay behind."""
    seals = [FILE] if (Path(path) / FILE).exists() else []  # first: none is copied without the entries that it covers
    newest = newest_name(LookingDisk(path).names())
    baseline = [] if newest is None else [newest]
    if ERASURE in LookingDisk(path).names():
        check_erasure(LookingDisk(path))
        baseline.append(ERASURE)
    segments = [*seals, *baseline, *(segment.file for segment in look(path).segments)]
    to.mkdir(mode=0o700)
    for done, name in enumerate(segments, 1):
        try:
            shutil.copyfile(Path(path) / name, to / name)
        except FileNotFoundError:
            raise EngineError(
                f"{path}/{name} was archived, or an erasure has ended, while the log was copied: do it again"
            ) from None
        (to / name).chmod(0o600)
        descriptor = os.open(to / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        progress(done, len(segments))
    seen = look(to)
    check_erasure(LookingDisk(path))
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
