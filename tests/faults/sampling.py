"""How much is tried: a deterministic sample by default; every statement once with HOLDKIT_FAULTS=every (`make prove`); all
combinations with HOLDKIT_FAULTS=all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_ASKED: Final = os.environ.get("HOLDKIT_FAULTS", "")
EVERYTHING: Final = _ASKED == "all"
STRIDE: Final = 1 if _ASKED in ("all", "every") else 12
"""Of the statements, every so many is disturbed."""
SHARDS: Final = 4
"""Each long test in so many parts, for several processes."""


def sample(points: Sequence[T], at_most: int, of_everything: int | None = None, *, at_every: bool = False) -> list[T]:
    """Evenly spread, the first and the last included; if everything is asked for (`at_every`: or every point) all of them, or that many."""
    if EVERYTHING or (at_every and STRIDE == 1):
        at_most = of_everything or len(points)
    if len(points) <= at_most:
        return list(points)
    return [points[index * (len(points) - 1) // (at_most - 1)] for index in range(at_most)]


def shard(points: Sequence[T], number: int) -> list[T]:
    """This part's share of every twelfth point, or of all of them."""
    return [point for index, point in enumerate(points[::STRIDE]) if index % SHARDS == number]
