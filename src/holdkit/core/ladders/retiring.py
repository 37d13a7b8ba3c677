"""Retirement: how long an ended hold is kept, how one with consumed units is dropped, and ReturnToPool.

A hold whose units a pool counts as consumed is dropped under the locks of its pools, with an entry that adds them to the
pool's `loose`: consumed is always what existing holds account for, plus `loose`. So a unit is returned by its hold while that
exists, by its pool afterwards, and never twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from ..bounds import Limits
from ..command_kinds import Command
from ..commands import ReturnToPool
from ..entries import Action, Effect, Entry
from ..fold import reconstruct
from ..model import Key, Pool, Slot, StoredHold
from ..outcomes import Done, Outcome, Reason, Refusal, Shortfall
from ..outstanding import tallied
from ..trees import ancestors
from ..view import View
from .finding import in_use
from .recording import counted, linked, moved, pools_of, record


class Keeping(IntEnum):
    """The rule under which an ended hold is kept."""

    ENDED = 0
    """None of its units is consumed: kept for `retention`. After that no reader sees it, and any batch may drop it."""
    WINDOW = 1
    """Consumed in windows only: kept for `retention` from the end of the last one, and visible until a sweep drops it."""
    CONSUMED = 2
    """Kept for `retention_consumed` (or `retention`, if that is longer), and visible until a sweep drops it."""


def keeping(hold: StoredHold) -> tuple[Keeping, Slot] | None:
    """Return the rule for a hold, and the slot from which it counts; None while any of its units is held."""
    since = hold.changed_at
    if hold.live or since is None or hold.open:
        return None
    if not hold.consumes:
        return Keeping.ENDED, since
    if hold.closes is None:
        return Keeping.CONSUMED, since
    return Keeping.WINDOW, max(since, hold.closes)


def kept_for(rule: Keeping, limits: Limits) -> Slot:
    """Return how long a hold is kept under a rule: with consumed units never shorter than without."""
    return max(limits.retention, limits.retention_consumed) if rule is Keeping.CONSUMED else limits.retention


def returnable_until(history: Iterable[Entry], limits: Limits) -> tuple[Keeping, Slot] | None:
    """Return the rule under which a hold that was dropped was kept for its units, and until when they could be returned; None if its
    history does not say."""
    entries = [entry for entry in history if not (entry.part or entry.refused)]
    hold = reconstruct(entries)
    kept = None if hold is None else keeping(hold)
    if kept is None or kept[0] is Keeping.ENDED or entries[-1].action is not Action.HOLD_RETIRED:
        return None
    return kept[0], min(kept[1] + kept_for(kept[0], limits), entries[-1].slot)


def may_retire(hold: StoredHold, limits: Limits, now: Slot, *, pressed: bool = False) -> bool:
    """Return whether a hold with consumed units may be dropped: its time is over, or the table is full."""
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
        _loosened(view, pool, hold.account, slot, leg.consumed)
        for leg, pool in zip(hold.legs, pools, strict=True)
        if leg.consumed and pool.version
    )
    clockwork = Command(tenant=hold.tenant, actor="system", correlation_id=hold.correlation_id)
    record(view, Action.HOLD_RETIRED, hold.id, slot, clockwork, effects=effects)


def _loosened(view: View, pool: Pool, account: str | None, now: Slot, units: int) -> Effect:
    """Make units loose: in the account's tally, or on the pool if it counts no account."""
    if tallied(pool.id, account) is None:
        return moved(pool, now, loose=units)
    return counted(view, moved(pool, now), account, 0, loose=units)


def _whose(view: View, pool: Pool, account: str, quantity: int) -> str:
    """Return the name under which the account has this many loose units: its own, unless only an erased name of it has them."""
    names = view.loaded.names
    for name in (account, *(() if names is None else names.others(pool.tenant, account))):
        tally = view.tallies.get((pool.tenant, pool.id, name))
        if tally is not None and tally.loose >= quantity:
            return name
    return account


def return_to_pool(view: View, command: ReturnToPool, now: Slot) -> Outcome:
    """Make loose units available again. Units of an existing hold are returned only by that hold."""
    pool = in_use(view, command.tenant, command.id)
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    quantity = command.quantity
    account = None if command.account is None else _whose(view, pool, command.account, quantity)
    tally = None if account is None else view.tallies.get((command.tenant, pool.id, account))
    loose = pool.loose if account is None else 0 if tally is None else tally.loose
    if quantity > loose:
        short = Shortfall(pool.id, quantity, loose, pool.consumed, pool.label)
        return Refusal(Reason.QUANTITY_EXCEEDS_CONSUMED, pool.id, (short,), found=loose)
    if account is None:
        effects = [linked(moved(pool, now, consumed=-quantity, loose=-quantity), None)]
    else:
        effects = [counted(view, moved(pool, now, consumed=-quantity), account, -quantity, loose=-quantity)]
    for name in ancestors(pool.id):
        above = view.pools.get((command.tenant, name))
        assert above is not None, "a pool with children is never removed"
        effects.append(counted(view, moved(above, now, consumed=-quantity), account, -quantity))
    record(view, Action.POOL_RETURNED, pool.id, now, command, effects=tuple(effects), forced=True)
    return Done(slot=now, pool=effects[0].pool)
