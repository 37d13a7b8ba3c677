"""Room in bounded tables: what a sweep must remove before a batch, and how much of it one transaction takes.

Engines report how many rows there are; this module decides what goes first.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .bounds import Limits
from .model import Key
from .needs import Needs


class Overflow(Struct, frozen=True):
    """The rows that a sweep must remove first, because a bounded table would overflow."""

    holds: bool
    """Sweep what is due."""
    pools: int
    """Then remove that many empty pools."""


def overflow(limits: Limits, needs: Needs, unended_holds: int, pools: int) -> Overflow:
    """Return the rows that a sweep must remove first, given the number of rows: users forget to sweep."""
    too_many = 0 if limits.max_pools is None else max(0, pools + len(needs.pools) - limits.max_pools)
    full = limits.max_holds is not None and unended_holds + len(needs.holds) > limits.max_holds
    return Overflow(full or too_many > 0, too_many)


def retirements(limits: Limits, needs: Needs, unended_holds: int, consumed_holds: int) -> int:
    """Return how many ended holds with consumed units must be dropped to make room for the holds that this batch may place, given the
    number of rows of each kind: a few more than necessary, so that not every batch begins with it."""
    if limits.max_holds is None:
        return 0
    born = len(needs.holds) - len(needs.standing)
    over = unended_holds + consumed_holds + born - limits.max_holds
    return min(consumed_holds, max(over, limits.max_holds // 100)) if over > 0 else 0


def portion(holds: Iterable[tuple[Key, int]], limit: int, max_legs: int) -> tuple[list[Key], bool]:
    """Return the first of these holds, given with the number of their legs, that fit in one transaction; and whether any are left."""
    found: list[Key] = []
    legs = 0
    for key, its in holds:
        legs += its
        if len(found) == limit or (found and legs > max_legs):
            return found, True
        found.append(key)
    return found, False


def unnamed(holds: list[Key], needs: Needs, count: int) -> list[Key]:
    """Return the ended holds that may be dropped: none that the batch names."""
    return [hold for hold in holds if hold not in needs.holds][:count]


def spare(empty: list[Key], needs: Needs, count: int) -> list[Key]:
    """Return the empty pools that may be removed: none that the batch uses."""
    return [pool for pool in empty if pool not in needs.pools][:count]
