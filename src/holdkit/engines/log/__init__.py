"""The log engine: an append-only log of checksummed frames, with its state in memory."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.bounds import Limits
from ...errors import EngineError
from ..clocks import Clock
from .disk import RealDisk
from .engine import LogEngine, Replayed

__all__ = ["LogEngine", "open_engine"]


def open_engine(
    path: str | os.PathLike[str],
    clock: Clock | None = None,
    limits: Limits | None = None,
    *,
    progress: Replayed | None = None,
) -> LogEngine:
    """Open a directory as a log, or begin one in it."""
    try:
        disk = RealDisk(Path(path).absolute())
    except OSError as error:
        raise EngineError(
            f"cannot open the log {path}: {error.strerror}; it must be a directory we may write"
        ) from error
    return LogEngine(disk, clock=clock, limits=limits, progress=progress)
