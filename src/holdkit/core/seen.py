"""Stored rows as readers see them at a given slot.

Reads count a due leg as returned and show its hold as expired, without writing; a hold past its retention is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from .bounds import Limits
from .ladders.finding import retired
from .model import HeldLeg, Pool, Slot, State, StoredHold
from .outstanding import Level


def seen_hold(hold: StoredHold | None, limits: Limits, now: Slot) -> StoredHold | None:
    """Return a hold as readers see it at `now`: expired if it is due, None after the retention."""
    if hold is None or retired(hold, limits, now):
        return None
    return expired_at(hold, now)


def expired_at(hold: StoredHold, now: Slot) -> StoredHold:
    """Return a hold as readers see it at `now`, however long ago it ended: expired if it is due."""
    if hold.deadline is None or hold.deadline > now or not hold.open:
        return hold
    legs = tuple(HeldLeg(leg.pool, leg.quantity, 0, leg.confirmed, leg.returned) for leg in hold.legs)
    above = tuple(Level(level.pool, 0) for level in hold.above)
    return structs.replace(hold, state=State.EXPIRED, ended_at=hold.deadline, legs=legs, above=above)


class DueOnPool(Struct, frozen=True, gc=False):
    """The due units and waiters of a pool that were not returned yet, and whether its line lets a plain hold pass."""

    units: int = 0
    waiting: int = 0
    """Holds whose time to wait is over."""
    line_ahead: bool = False
    """Whether a hold waits that asks for no more than the total, and whose time is not over."""


NOTHING_ON_POOL: Final = DueOnPool()


def seen_pool(pool: Pool, due: DueOnPool, above: Sequence[tuple[Pool, DueOnPool]] = ()) -> Pool:
    """Return a pool as readers see it, with due units counted as returned; `above` are the pools above it, in any order."""
    if due is NOTHING_ON_POOL and not above and not pool.waiting:
        return pool
    seen = structs.replace(pool, held=pool.held - due.units, waiting=pool.waiting - due.waiting)
    levels = [(seen, due), *((seen_pool(one, its), its) for one, its in above)]
    least = min([0 if one.archived or its.line_ahead else one.available for one, its in levels])
    return structs.replace(seen, least=least)
