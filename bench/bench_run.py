"""One run of the bench: what all parts share."""

from __future__ import annotations

import argparse
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.progress import Progress

from .disk import FlushCounter, flush_counter
from .figures import Figure
from .revision import Revision, extract


class BenchRun:
    """Its options, its directory, its results."""

    def __init__(self, options: argparse.Namespace, directory: Path, progress: Progress) -> None:
        self.quick: bool = options.quick
        self.rounds: int = options.rounds or (3 if options.quick else 5)
        self.sync: float = options.sync
        self.connections: int = options.connections
        self.past: int | None = options.past
        self.against: str | None = options.against
        self.few_rounds: int = options.rounds or (1 if options.quick else 3)  # where one round is long
        self.directory, self.progress = directory, progress
        self.plot: Path = options.plot
        self.flushes: FlushCounter | None = flush_counter(directory)
        self.figures: list[Figure] = []
        self.runs: dict[str, Any] = {}

    @cached_property
    def other(self) -> Revision | None:
        """The revision of `--against`."""
        return None if self.against is None else extract(self.against, self.directory / "revision")
