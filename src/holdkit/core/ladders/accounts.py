"""Limits per account: what one account may have of a pool, and LimitPool."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from ..commands import LimitPool
from ..entries import Action
from ..model import Pool, Slot
from ..outcomes import Done, Outcome, Reason, Refusal, Shortfall
from ..view import View
from .recording import moved, record


def over_limit(view: View, account: str | None, asked: Iterable[tuple[Pool, int]]) -> Refusal | None:
    """Why an account may not have this much more of these pools; None if it may."""
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
    """Of a pool with a limit per account: how much more an account may have, what it uses, and the limit."""
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
