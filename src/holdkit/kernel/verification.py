"""The whole verification: every row against the journal, and every sealed run against its seal."""

from __future__ import annotations

import os
from collections.abc import Generator

from ..core.audit_rows import Difference
from ..engines.port import Engine
from ..engines.progress import Progress
from .archive import verify
from .seal_check import verify_seals


def sealed_through(engine: Engine) -> dict[int, int]:
    """Return the last entry of each lane that a seal covers; empty without seals."""
    store = engine.capabilities.seals
    return {} if store is None else {lane: seal.last for lane, seal in sorted(store.last_seals().items())}


def verify_whole(
    engine: Engine, progress: Progress | None = None, archive: str | os.PathLike[str] | None = None
) -> Generator[Difference, None, None]:
    """Yield every difference of a row, then the first broken run of each sealed lane. Report both as one progress."""
    counted = [0, 0]

    def first(done: int, total: int) -> None:
        counted[:] = done, total
        if progress is not None:
            progress(done, total)

    def second(done: int, total: int) -> None:
        if progress is not None:
            progress(counted[1] + done, counted[1] + total)

    yield from verify(engine, first, archive)
    if sealed_through(engine):
        yield from verify_seals(engine, second, archive=archive)
