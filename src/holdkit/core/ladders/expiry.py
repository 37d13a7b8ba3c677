"""Expiry: never early, and once. Before a command is decided, due legs return to the pools that it touches.

A transaction returns at most `max_due` legs. If more are due on the pools that a batch touches, transactions that only return
legs go first, so that one buyer never pays for a backlog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..command_kinds import Command
from ..commands import ExpireHold
from ..entries import Action, Effect
from ..model import HeldLeg, Key, Slot, State, StoredHold
from ..outcomes import Done, Outcome, Reason, Refusal
from ..outstanding import Level
from ..view import DueLeg, View
from .finding import find_hold
from .lines import vacated
from .recording import became, counted, moved, record


def return_due_legs(view: View, tenant: str, pools: list[str], now: Slot) -> None:
    """Give back the units of the legs that are due at `now` on these pools, in order of (deadline, hold id)."""
    candidates: set[str] | None = None
    for pool in pools:
        due_here = view.take_due((tenant, pool), now)
        if due_here:
            candidates = candidates or set()
            candidates.update([hold_id for _, hold_id in due_here])
    if candidates is None:
        return
    found = [view.holds.get((tenant, hold_id)) for hold_id in candidates]
    due = [hold for hold in found if hold is not None and hold.due(now)]
    for hold in sorted(due, key=lambda hold: (hold.deadline or 0, hold.id)):
        expire(view, hold, pools, now)


def expire(view: View, hold: StoredHold, pools: Iterable[str], now: Slot) -> None:
    """Return a due hold's outstanding legs on these pools; the first call marks it expired."""
    named = set(pools)
    if hold.state is State.WAITING:
        effects = [vacated(view, hold, now)] if hold.legs[0].pool in named else []
    else:
        effects = [_returned(view, hold, name, leg.units, now) for name, leg in hold.open_legs() if name in named]
    if not effects:
        return
    legs = [
        HeldLeg(leg.pool, leg.quantity, 0 if leg.pool in named else leg.held, leg.confirmed, leg.returned)
        for leg in hold.legs
    ]
    above = tuple([Level(level.pool, 0) if level.pool in named else level for level in hold.above])
    first = hold.live
    change = became(hold, tuple(legs), state=State.EXPIRED, ended_at=hold.deadline, above=above)
    action = Action.HOLD_EXPIRED if first else Action.LEG_RETURNED
    if first and hold.deadline is not None and hold.deadline > view.loaded.slot:
        view.grown[1] -= 1  # due only by its pools' later slot: it was counted as live
    clockwork = Command(tenant=hold.tenant, actor="system", correlation_id=hold.correlation_id)
    record(view, action, hold.id, now, clockwork, effects=tuple(effects), change=change)


def _returned(view: View, hold: StoredHold, name: str, units: int, now: Slot) -> Effect:
    """Return to a pool the units that the hold has outstanding there, with its tally."""
    pool = view.pools.get((hold.tenant, name))
    assert pool is not None, "a pool with outstanding legs is never removed"
    effect = moved(pool, now, held=-units)
    return effect if hold.account is None else counted(view, effect, hold.account, -units)


def expire_hold(view: View, command: ExpireHold, now: Slot) -> Outcome:
    """Answer an ExpireHold. The catch-up has already returned the due legs."""
    hold = find_hold(view, command.tenant, command.id, now)
    if isinstance(hold, Refusal):
        return hold
    if hold.state is State.CONFIRMED:
        return Refusal(Reason.ALREADY_CONFIRMED, hold.id)
    if hold.state is State.RELEASED:
        return Refusal(Reason.ALREADY_RELEASED, hold.id)
    if hold.live:
        return Refusal(Reason.NOT_DUE, hold.id, found=hold.deadline)
    return Done(slot=now, hold=hold)


def sweep(view: View, listed: list[Key], limit: int, now: Slot) -> tuple[list[Key], bool]:
    """Expire up to `limit` of the listed holds completely, if they are still due; returns which, and whether any are left."""
    found = [hold for key in listed if (hold := view.holds.get(key)) is not None]
    due = [hold for hold in found if hold.due(now) and hold.open]
    for hold in due[:limit]:
        pools = [name for name, _ in hold.open_legs()]
        slots = [pool.slot for name in pools if (pool := view.pools.get((hold.tenant, name))) is not None]
        expire(view, hold, pools, max([now, *slots]))
    return [hold.key for hold in due[:limit] if hold.live], len(due) > limit


def own_time(view: View, pool: Key) -> Slot:
    """Return the slot at which a command on this pool alone would be decided."""
    row = view.pools.get(pool)
    return view.loaded.slot if row is None else max(view.loaded.slot, row.slot)


def backlog(view: View, due: Mapping[Key, list[DueLeg]]) -> dict[Key, list[DueLeg]]:
    """Return the first due legs on these pools, pool by pool, if more legs are due by the pools' own time than one transaction may return;
    otherwise none."""
    room = view.limits.max_due
    ripe: dict[Key, list[DueLeg]] = {}
    for pool in sorted(due):
        now = own_time(view, pool)
        ripe[pool] = [leg for leg in due[pool] if leg[0] <= now]
    if sum(map(len, ripe.values())) <= room:
        return {}
    first: dict[Key, list[DueLeg]] = {}
    for pool, legs in ripe.items():
        if room and legs:
            first[pool] = legs[:room]
            room -= len(first[pool])
    return first


def return_backlog(view: View, legs: Mapping[Key, list[DueLeg]]) -> None:
    """Return these legs and do nothing else."""
    for pool in sorted(legs):
        now = own_time(view, pool)
        for _, hold_id in legs[pool]:  # `take_due` of the view would add other legs of a hold that was just changed
            hold = view.holds.get((pool[0], hold_id))
            if hold is not None and hold.due(now):
                expire(view, hold, [pool[1]], now)
