"""CreatePool, ResizePool, RemovePool, ArchivePool, UnarchivePool, and the removal of idle on-demand pools."""

from __future__ import annotations

from msgspec import structs

from ..command_kinds import Command
from ..commands import ArchivePool, CreatePool, RemovePool, ResizePool, UnarchivePool
from ..entries import Action, Effect
from ..model import Key, Pool, Slot
from ..outcomes import Done, Outcome, Reason, Refusal
from ..trees import parent_of
from ..view import View
from .recording import moved, record, with_child


def create_pool(view: View, command: CreatePool, now: Slot) -> Outcome:
    """Create a pool with nothing held."""
    there = view.pools.get((command.tenant, command.id))
    if there is not None:
        return Done(slot=now, pool=there) if command.exist_ok else Refusal(Reason.POOL_EXISTS, command.id)
    parent = parent_of(command.id)
    if parent is not None and view.pools.get((command.tenant, parent)) is None:
        return Refusal(Reason.POOL_NOT_FOUND, parent)
    limit = view.limits.max_pools
    if limit is not None and view.loaded.counts.pools + view.grown[0] >= limit:
        return Refusal(Reason.POOL_TABLE_FULL, command.id, found=limit)
    floor = view.fence_floor(command.tenant)
    pool = Pool(command.tenant, command.id, command.total, fence=floor, slot=now, on_demand=command.on_demand,
                label=command.label, floor=floor, per_account=command.per_account, line=command.line)  # fmt: skip
    view.grown[0] += 1
    effects = with_child(view, Effect(pool, total=pool.total), now, 1)
    record(view, Action.POOL_CREATED, pool.id, now, command, effects=effects)
    return Done(slot=now, pool=pool)


def resize_pool(view: View, command: ResizePool, now: Slot) -> Outcome:
    """Set a new total, not below what is in use."""
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
    return Done(slot=now, pool=effect.pool)


def remove_pool(view: View, command: RemovePool, now: Slot) -> Outcome:
    """Remove the pool, if nothing of it is in use. The answer is the pool as it was."""
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    if pool.held or pool.consumed or pool.waiting or pool.children:
        return Refusal(Reason.POOL_IN_USE, pool.id, found=pool.held + pool.consumed)
    take_away(view, pool, now, command)
    return Done(slot=now, pool=pool)


def archive_pool(view: View, command: ArchivePool, now: Slot) -> Outcome:
    """Archive the pool; no change if it is archived already."""
    return _mark_archived(view, command, now, Action.POOL_ARCHIVED, archived=True)


def unarchive_pool(view: View, command: UnarchivePool, now: Slot) -> Outcome:
    """Unarchive the pool; no change if it is not archived."""
    return _mark_archived(view, command, now, Action.POOL_UNARCHIVED, archived=False)


def _mark_archived(
    view: View, command: ArchivePool | UnarchivePool, now: Slot, action: Action, *, archived: bool
) -> Outcome:
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    if pool.archived is archived:
        return Done(slot=now, pool=pool)
    effect = moved(structs.replace(pool, archived=archived), now)
    record(view, action, pool.id, now, command, effects=(effect,))
    return Done(slot=now, pool=effect.pool)


def take_away(view: View, pool: Pool, now: Slot, command: Command) -> None:
    """Remove a pool with whatever was consumed; its fence becomes the floor for later pools of its tenant."""
    view.grown[0] -= 1
    gone = moved(pool, now, total=-pool.total)
    record(view, Action.POOL_REMOVED, pool.id, now, command, effects=with_child(view, gone, now, -1), removed=True)


def remove_idle_pools(view: View, keys: list[Key], now: Slot, *, pressed: bool = False) -> None:
    """Remove on-demand pools that are empty, or whose window is over. If the table is full (`pressed`), labelled pools
    are not kept for the retention."""
    retention = 0 if pressed else view.limits.retention
    for key in keys:
        pool = view.pools.get(key)
        idle = None if pool is None else pool.idle_from(retention)
        if pool is None or idle is None or idle > max(now, pool.slot):
            continue
        parent = parent_of(pool.id)
        above = None if parent is None else view.pools.get((pool.tenant, parent))
        slot = max(now, pool.slot, 0 if above is None else above.slot)  # its parent counts one child less
        take_away(view, pool, slot, Command(tenant=pool.tenant, actor="system"))
