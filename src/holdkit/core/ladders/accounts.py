"""Accounts: what one account may have of a pool, LimitPool, and ReassignHold, which moves a hold from one to another."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ..commands import LimitPool, ReassignHold
from ..entries import Action, Effect
from ..model import Pool, Slot, StoredHold
from ..outcomes import Done, Outcome, Reason, Refusal, Shortfall
from ..outstanding import tallied
from ..view import View
from .finding import find_live
from .recording import became, counted, moved, pool_of, record, sums_above


def over_limit(view: View, account: str | None, asked: Iterable[tuple[Pool, int]]) -> Refusal | None:
    """Return why an account may not have this much more of these pools; None if it may."""
    limited = [(pool, quantity) for pool, quantity in asked if pool.per_account is not None]
    if account is None:
        return Refusal(Reason.ACCOUNT_REQUIRED, limited[0][0].id) if limited else None
    shortfalls = []
    for pool, quantity in limited:
        room, used, limit = room_of(view, pool, account)
        if quantity > room:
            shortfalls.append(Shortfall(pool.id, quantity, room, limit, used=used))
    return Refusal(Reason.ACCOUNT_LIMIT, shortfalls[0].pool, tuple(shortfalls)) if shortfalls else None


def room_of(view: View, pool: Pool, account: str) -> tuple[int, int, int]:
    """Return, for a pool with a limit per account, how much more an account may have, its usage, and the limit."""
    assert pool.per_account is not None
    tally = view.tallies.get((pool.tenant, pool.id, account))
    used = 0 if tally is None else tally.used
    if view.loaded.names is not None:
        for name in view.loaded.names.others(pool.tenant, account):
            erased = view.tallies.get((pool.tenant, pool.id, name))
            used += 0 if erased is None else erased.used
    return max(0, pool.per_account - used), used, pool.per_account


def limit_pool(view: View, command: LimitPool, now: Slot) -> Outcome:
    """Set a new limit per account. Accounts that use more keep what they have."""
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    if command.if_version is not None and command.if_version != pool.version:
        return Refusal(Reason.VERSION_CONFLICT, pool.id, found=pool.version)
    if command.per_account == pool.per_account:
        return Done(slot=now, pool=pool)
    effect = moved(structs.replace(pool, per_account=command.per_account), now)
    record(view, Action.POOL_LIMITED, pool.id, now, command, effects=(effect,))
    return Done(slot=now, pool=effect.pool)


def reassign_hold(view: View, command: ReassignHold, now: Slot) -> Outcome:
    """Move the units of a hold from its account's tallies to another account, or to none; the units themselves stay where they are."""
    hold = find_live(view, command.tenant, command.id, command.token, now, force=command.force)
    if isinstance(hold, Refusal):
        return hold
    if _same_account(view, hold, command.account):
        return Done(slot=now, hold=hold)
    counts = [(pool_of(view, hold, name), units) for name, units in _counts_for(hold).items() if units]
    beyond = None if command.force else over_limit(view, command.account, counts)
    if beyond is not None:
        return beyond
    effects: list[Effect] = []
    for pool, units in counts:
        for account, more in ((hold.account, -units), (command.account, units)):
            if tallied(pool.id, account) is not None and pool.version:
                effects.append(counted(view, moved(pool, now), account, more))
                pool = effects[-1].pool
    change = structs.replace(
        became(hold, hold.legs, command=command), account=command.account, was_account=hold.account
    )
    record(
        view, Action.HOLD_REASSIGNED, hold.id, now, command, effects=tuple(effects), change=change, forced=command.force
    )
    return Done(slot=now, hold=view.holds.get(hold.key))


def _same_account(view: View, hold: StoredHold, account: str | None) -> bool:
    """Return whether the hold is this account's already, by this name or by one that an erasure has left of it."""
    names = view.loaded.names
    if names is None or account is None:
        return hold.account == account
    return hold.account in (account, *names.others(hold.tenant, account))


def _counts_for(hold: StoredHold) -> dict[str, int]:
    """Return the units of a hold by pool, and by pool above: held, and confirmed and not returned."""
    by_leg = [leg.held + leg.consumed for leg in hold.legs]
    counts = {leg.pool: units for leg, units in zip(hold.legs, by_leg, strict=True)}
    for name, units in sums_above(hold, by_leg).items():
        counts[name] = counts.get(name, 0) + units
    return counts
