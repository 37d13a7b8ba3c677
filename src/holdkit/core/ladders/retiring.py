"""Retirement: how long an ended hold is kept, how one with consumed units is dropped, and ReturnToPool.

A hold whose units a pool counts as consumed is dropped under the locks of its pools, with an entry that adds them to the
pool's `loose`: consumed is always what existing holds account for, plus `loose`. So a unit is returned by its hold while that
exists, by its pool afterwards, and never twice.
"""

from __future__ import annotations

from enum import IntEnum

from ..commands import Command, ReturnToPool
from ..entries import Action
from ..model import Key, Limits, Slot, State, StoredHold
from ..outcomes import Done, Outcome, Reason, Refusal, Shortfall
from ..view import View
from .ending import pools_of
from .recording import linked, moved, record


class Keeping(IntEnum):
    """The rule under which an ended hold is kept."""

    ENDED = 0
    """None of its units is consumed: kept for `retention`. After that no reader sees it, and any batch may drop it."""
    WINDOW = 1
    """Consumed in windows only: kept for `retention` from the end of the last one, and visible until a sweep drops it."""
    CONSUMED = 2
    """Kept for `retention_consumed` (or `retention`, if that is longer), and visible until a sweep drops it."""


def keeping(hold: StoredHold) -> tuple[Keeping, Slot] | None:
    """The rule for a hold, and the slot from which it counts; None while any of its units is held."""
    since = hold.changed_at
    if hold.state is State.HELD or since is None or hold.open:
        return None
    if not hold.consumes:
        return Keeping.ENDED, since
    if hold.closes is None:
        return Keeping.CONSUMED, since
    return Keeping.WINDOW, max(since, hold.closes)


def kept_for(rule: Keeping, limits: Limits) -> Slot:
    """How long a hold is kept under a rule: with consumed units never shorter than without."""
    return max(limits.retention, limits.retention_consumed) if rule is Keeping.CONSUMED else limits.retention


def may_retire(hold: StoredHold, limits: Limits, now: Slot, *, pressed: bool = False) -> bool:
    """Whether a hold with consumed units may be dropped: its time is over, or the table is full."""
    kept = keeping(hold)
    if kept is None or kept[0] is Keeping.ENDED:
        return False
    return pressed or kept[1] + kept_for(kept[0], limits) <= now


def retire_holds(view: View, listed: list[Key], limit: int, now: Slot, *, pressed: bool = False) -> bool:
    """Drop up to `limit` of the listed holds, if they may still be dropped; returns whether any are left."""
    found = [hold for key in listed if (hold := view.holds.get(key)) is not None]
    over = [hold for hold in found if may_retire(hold, view.limits, now, pressed=pressed)]
    for hold in over[:limit]:
        retire(view, hold, now)
    return len(over) > limit


def retire(view: View, hold: StoredHold, now: Slot) -> None:
    """Drop a hold; the units that its pools still count become loose."""
    pools = pools_of(view, hold)
    slot = max([now, *(pool.slot for pool in pools)])
    effects = tuple(
        moved(pool, slot, loose=leg.consumed)
        for leg, pool in zip(hold.legs, pools, strict=True)
        if leg.consumed and pool.version
    )
    clockwork = Command(tenant=hold.tenant, actor="system", correlation_id=hold.correlation_id)
    record(view, Action.HOLD_RETIRED, hold.id, slot, clockwork, effects=effects)


def return_to_pool(view: View, command: ReturnToPool, now: Slot) -> Outcome:
    """Loose units become available again; units of an existing hold are returned only by that hold."""
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    if command.quantity > pool.loose:
        short = Shortfall(pool.id, command.quantity, pool.loose, pool.consumed, pool.label)
        return Refusal(Reason.QUANTITY_EXCEEDS_CONSUMED, pool.id, (short,), found=pool.loose)
    effect = linked(moved(pool, now, consumed=-command.quantity, loose=-command.quantity), None)
    record(view, Action.POOL_RETURNED, pool.id, now, command, effects=(effect,), forced=True)
    return Done(slot=now, pool=effect.pool)
