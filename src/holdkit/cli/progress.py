"""Bars on stderr, for whoever watches a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OFTEN = 0.1
"""Seconds between two movements of a bar."""


@contextmanager
def bar(words: str) -> Iterator[Callable[[int, int], None]]:
    """A function that is told how much of how much is done."""
    if not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(words, total=None)
        moved = 0.0

        def tell(done: int, total: int) -> None:
            nonlocal moved
            if done == total or time.monotonic() - moved > OFTEN:
                moved = time.monotonic()
                progress.update(task, completed=done, total=total)

        yield tell


def _unseen(_done: int, _total: int) -> None:
    """Nobody watches."""
