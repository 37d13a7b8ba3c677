"""Examining a log for `holdkit doctor`: walks its files without opening it, so it may be in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..doctor import Finding, examine_place
from .inspection import look


def examine(path: str) -> Iterator[Finding]:
    """The directory, its disk, every frame."""
    yield from examine_place(Path(path))
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
