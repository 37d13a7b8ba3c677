"""CreatePool, ResizePool, and the removal of on-demand pools that are done with."""

from __future__ import annotations

from ..commands import Command, CreatePool, ResizePool
from ..entries import Action, Effect
from ..model import Key, Pool, Slot
from ..outcomes import Done, Outcome, Reason, Refusal
from ..view import View
from .recording import moved, record


def create_pool(view: View, command: CreatePool, now: Slot) -> Outcome:
    """A pool with nothing held."""
    there = view.pools.get((command.tenant, command.id))
    if there is not None:
        return Done(slot=now, pool=there) if command.exist_ok else Refusal(Reason.POOL_EXISTS, command.id)
    limit = view.limits.max_pools
    if limit is not None and view.loaded.counts.pools + view.grown[0] >= limit:
        return Refusal(Reason.POOL_TABLE_FULL, command.id, found=limit)
    pool = Pool(command.tenant, command.id, command.total, fence=view.fence_floor, slot=now, on_demand=command.on_demand,
                label=command.label)  # fmt: skip
    view.grown[0] += 1
    record(view, Action.POOL_CREATED, pool.id, now, command, effects=(Effect(pool, total=pool.total),))
    return Done(slot=now, seq=view.next_seq - 1, pool=pool)


def resize_pool(view: View, command: ResizePool, now: Slot) -> Outcome:
    """A new total, not under what is in use."""
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    if command.total < pool.held + pool.consumed:
        return Refusal(Reason.BELOW_IN_USE, pool.id, found=pool.held + pool.consumed)
    if command.if_version is not None and command.if_version != pool.version:
        return Refusal(Reason.VERSION_CONFLICT, pool.id, found=pool.version)
    if command.total == pool.total:
        return Done(slot=now, pool=pool)
    effect = moved(pool, now, total=command.total - pool.total)
    record(view, Action.POOL_RESIZED, pool.id, now, command, effects=(effect,))
    return Done(slot=now, seq=view.next_seq - 1, pool=effect.pool)


def remove_idle_pools(view: View, keys: list[Key], now: Slot, *, pressed: bool = False) -> None:
    """Sweep away on-demand pools that are empty, or whose window is over; their fence lives on as the floor of every later
    pool. Where the table is full (`pressed`), a labelled one is not kept for the retention."""
    retention = 0 if pressed else view.limits.retention
    for key in keys:
        pool = view.pools.get(key)
        idle = None if pool is None else pool.idle_from(retention)
        if pool is None or idle is None or idle > max(now, pool.slot):
            continue
        view.grown[0] -= 1
        gone = moved(pool, max(now, pool.slot), total=-pool.total)
        record(view, Action.POOL_REMOVED, pool.id, gone.pool.slot, Command(tenant=pool.tenant, actor="system"),
               effects=(gone,), removed=True)  # fmt: skip
