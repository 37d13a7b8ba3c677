"""Trees of pools. A pool's path is in its id: `venue//stalls//left` is below `venue//stalls`, and that is below `venue`.

A leg on a pool moves every pool above it by the same quantity. So each level has its own total, and a hold fits if it fits on every
level. Pure functions of ids and quantities: nothing has to be looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import structs

from .model import HeldLeg, Leg, Pool
from .outstanding import Level

SEPARATOR: Final = "//"
LAST: Final = "\U0010ffff"
"""The last character: behind all texts that begin with a prefix is the prefix with this one, almost."""
MAX_LEVELS: Final = 8
"""How deep a tree may be, its root included."""


@lru_cache(maxsize=65_536)
def ancestors(pool: str) -> tuple[str, ...]:
    """Return the pools above a pool, from its parent to the root; none above a root, or above a face's pool."""
    if SEPARATOR not in pool or pool[0] == "~":
        return ()
    parts = pool.split(SEPARATOR)
    return tuple(SEPARATOR.join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1))


def parent_of(pool: str) -> str | None:
    """Return the pool directly above a pool."""
    above = ancestors(pool)
    return above[0] if above else None


def directly_below(prefix: str, pools: Sequence[Pool], start: str) -> tuple[list[Pool], str]:
    """Return the pools directly below the pool of this prefix, up to the first deeper one, and the id behind which to continue the
    search: behind everything below the same child. `pools` are in order of id."""
    found: list[Pool] = []
    for pool in pools:
        child, deeper, _ = pool.id[len(prefix) :].partition(SEPARATOR)
        if deeper:
            return found, max(pool.id, f"{prefix}{child}{SEPARATOR}{LAST}")
        found.append(pool)
        start = pool.id
    return found, start


def root_of(pool: str) -> str:
    """Return the first pool of its path, whose lane is the lane of all."""
    above = ancestors(pool)
    return above[-1] if above else pool


def path_of(pool: str) -> tuple[str, ...]:
    """Return a pool, and those above it."""
    return (pool, *ancestors(pool))


def all_pools(legs: Sequence[Leg | HeldLeg]) -> list[str]:
    """Return the pools of these legs, in their order, and then those above them, by id, each once."""
    named = [leg.pool for leg in legs]
    for pool in named:
        if SEPARATOR in pool:
            above = {name for each in named for name in ancestors(each)}
            return named + sorted(above.difference(named))
    return named


def all_levels(legs: tuple[Leg, ...]) -> tuple[tuple[Leg, ...], tuple[Level, ...]]:
    """Sum the units that these legs ask of every pool: return legs for the named pools, in their order, then for those above them, by id;
    and the units asked of those above on behalf of the legs below them."""
    for leg in legs:
        if SEPARATOR in leg.pool:
            break
    else:
        return legs, ()
    asked: dict[str, int] = {}
    for leg in legs:
        for name in ancestors(leg.pool):
            asked[name] = asked.get(name, 0) + leg.quantity
    above = tuple(Level(name, asked[name]) for name in sorted(asked))
    named = [structs.replace(leg, quantity=leg.quantity + asked.pop(leg.pool, 0)) for leg in legs]
    return (*named, *[Leg(name, asked[name]) for name in sorted(asked)]), above
