"""Overage: a confirm of more than was held takes the rest from what is available, on every level and under every limit."""

from __future__ import annotations

from ..commands import ConfirmHold
from ..model import Pool, Slot, StoredHold
from ..outcomes import Reason, Refusal, Shortfall
from ..trees import path_of
from ..view import View
from .accounts import over_limit, room_of
from .lines import somebody_waits
from .recording import pool_of


def grant_overage(
    view: View, command: ConfirmHold, hold: StoredHold, extras: list[int], now: Slot
) -> list[int] | Refusal:
    """Grant each leg's extra units: all of them or a refusal, or with `up_to_available` those that are available."""
    paths = [[pool_of(view, hold, name) for name in path_of(leg.pool)] for leg in hold.legs]
    if command.overage == "if_available":
        refusal = _refused(view, command, hold, paths, extras, now)
        return extras if refusal is None else refusal
    left: dict[str, int] = {}
    granted = []
    for path, extra in zip(paths, extras, strict=True):
        for pool in path if extra else ():
            if pool.id not in left:
                left[pool.id] = _room(view, command, hold, pool, now)
        covered = min([extra, *[left[pool.id] for pool in path]]) if extra else 0
        granted.append(covered)
        for pool in path if covered else ():
            left[pool.id] -= covered
    return granted


def _refused(
    view: View, command: ConfirmHold, hold: StoredHold, paths: list[list[Pool]], extras: list[int], now: Slot
) -> Refusal | None:
    """Pass the rungs for these extra units, all or nothing; return the first refusal."""
    asked: dict[str, int] = {}
    pools: dict[str, Pool] = {}
    for path, extra in zip(paths, extras, strict=True):
        for pool in path if extra else ():
            asked[pool.id] = asked.get(pool.id, 0) + extra
            pools[pool.id] = pool
    for pool in pools.values():
        refusal = shut_to_overage(pool, now, late=command.late_overage)
        if refusal is not None:
            return refusal
    limited = [] if command.force else [(pool, asked[name]) for name, pool in pools.items()]
    beyond = over_limit(view, hold.account, limited)
    if beyond is not None:
        return beyond
    shortfalls = tuple(
        Shortfall(name, asked[name], pool.available, pool.total)
        for name, pool in pools.items()
        if asked[name] > pool.available
    )
    if shortfalls:
        return Refusal(Reason.INSUFFICIENT_CAPACITY, hold.id, shortfalls)
    for pool in pools.values():
        if somebody_waits(view, pool):
            return Refusal(Reason.LINE_AHEAD, pool.id, found=pool.waiting)
    return None


def _room(view: View, command: ConfirmHold, hold: StoredHold, pool: Pool, now: Slot) -> int:
    """Return how many more units of a pool the hold may get."""
    if shut_to_overage(pool, now, late=command.late_overage) is not None or somebody_waits(view, pool):
        return 0
    if pool.per_account is None or command.force:
        return pool.available
    return 0 if hold.account is None else min(pool.available, room_of(view, pool, hold.account)[0])


def shut_to_overage(pool: Pool, now: Slot, *, late: bool) -> Refusal | None:
    """Return why this pool grants no overage, however much is available."""
    if pool.archived:
        return Refusal(Reason.POOL_ARCHIVED, pool.id)
    if pool.closes is not None and pool.closes <= now and not late:
        return Refusal(Reason.WINDOW_CLOSED, pool.id, found=now)
    return None
