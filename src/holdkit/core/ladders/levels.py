"""Moving a hold's units on every level: on the pools of its legs, on those above them, and in the tallies of its account.

A hold knows what it holds by leg; what the pools above count is the sum of the legs below them. Confirm, release and return move all
levels at once, because they lock all of them. Expiry returns units pool by pool (`expiry.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..entries import Effect
from ..model import Pool, Slot, StoredHold
from ..outcomes import Reason, Refusal, Shortfall
from ..outstanding import Level
from ..trees import ancestors
from ..view import View
from .recording import counted, linked, moved


def pools_of(view: View, hold: StoredHold) -> list[Pool]:
    """The pools of a hold's legs, in leg order. A pool that was swept away is replaced by an empty one of version 0, even if
    another pool has its id by now."""
    return [pool_of(view, hold, leg.pool) for leg in hold.legs]


def pool_of(view: View, hold: StoredHold, name: str) -> Pool:
    """One of them, or one above them."""
    pool = view.pools.get((hold.tenant, name))
    there = pool is not None and pool.floor < hold.fence
    return pool if pool is not None and there else Pool(hold.tenant, name, 0, version=0)


def effects_of(
    view: View,
    hold: StoredHold,
    pools: Sequence[Pool],
    now: Slot,
    held: Sequence[int],
    consumed: Sequence[int],
    entity: str | None = None,
) -> tuple[Effect, ...]:
    """The effects of changing what each leg holds and has consumed, on every level. A pool that was swept away has none."""
    if hold.above or hold.account is not None:
        return _on_all_levels(view, hold, now, held, consumed, entity)
    effects = []
    for pool, more_held, more_consumed in zip(pools, held, consumed, strict=True):
        if (more_held or more_consumed) and pool.version:
            effect = moved(pool, now, held=more_held, consumed=more_consumed)
            effects.append(linked(effect, entity) if more_consumed else effect)
    return tuple(effects)


def _on_all_levels(
    view: View, hold: StoredHold, now: Slot, held: Sequence[int], consumed: Sequence[int], entity: str | None
) -> tuple[Effect, ...]:
    moves = {leg.pool: (more, spent) for leg, more, spent in zip(hold.legs, held, consumed, strict=True)}
    held_above, consumed_above = sums_above(hold, held), sums_above(hold, consumed)
    for name, more in held_above.items():
        own = moves.get(name, (0, 0))
        moves[name] = own[0] + more, own[1] + consumed_above[name]
    effects = []
    for name, (more, spent) in moves.items():
        pool = pool_of(view, hold, name)
        if (more or spent) and pool.version:
            effect = moved(pool, now, held=more, consumed=spent)
            effect = linked(effect, entity) if spent else effect
            effects.append(counted(view, effect, hold.account, more + spent))
    return tuple(effects)


def sums_above(hold: StoredHold, by_leg: Sequence[int]) -> dict[str, int]:
    """Of a number for each leg: the sum of the legs below, for each pool above."""
    sums = {level.pool: 0 for level in hold.above}
    for leg, amount in zip(hold.legs, by_leg, strict=True):
        if amount:
            for name in ancestors(leg.pool):
                sums[name] += amount
    return sums


def levels_after(hold: StoredHold, held: Sequence[int]) -> tuple[Level, ...]:
    """What is outstanding above its legs after each leg's held units have changed."""
    if not hold.above:
        return ()
    sums = sums_above(hold, held)
    return tuple(Level(level.pool, level.held + sums[level.pool]) for level in hold.above)


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
    return max(0, pool.per_account - used), used, pool.per_account


def somebody_waits(view: View, pool: Pool) -> bool:
    """Whether anybody waits at a pool who could be served some day: who asks for no more than its total."""
    if not pool.waiting:
        return False
    key = (pool.tenant, pool.id)
    return any(hold.legs[0].quantity <= pool.total for hold in view.waiters(key)) or view.more_wait(key)
