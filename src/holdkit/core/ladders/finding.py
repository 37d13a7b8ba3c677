"""Finding a hold or a pool, and the refusal for a missing or retired id."""

from __future__ import annotations

from ..bounds import Limits
from ..codec import minted_at, same_owner
from ..model import Pool, Slot, State, StoredHold
from ..outcomes import Reason, Refusal
from ..retention import retired_until, shortest_retention
from ..view import View

_ENDED = {
    State.CONFIRMED: Reason.ALREADY_CONFIRMED,
    State.RELEASED: Reason.ALREADY_RELEASED,
    State.EXPIRED: Reason.HOLD_EXPIRED,
}


def retired(hold: StoredHold, limits: Limits, now: Slot) -> bool:
    """Return whether the hold's last change is older than the retention, so that no reader sees it, pruned or not. A hold whose
    units are consumed is visible until it is dropped, whatever its age."""
    since = hold.deadline if hold.live and hold.due(now) else hold.changed_at
    return since is not None and since <= retired_until(limits, now) and not hold.consumes


def prunable(hold: StoredHold, limits: Limits, now: Slot) -> bool:
    """Return whether an engine may drop the row: it has retired, and no units are outstanding."""
    return not hold.live and not hold.open and retired(hold, limits, now)


def missing(hold_id: str, limits: Limits, now: Slot) -> Refusal:
    """Refuse a missing id: a minted one older than the shortest retention since then has retired."""
    minted = minted_at(hold_id)
    gone = minted is not None and minted + shortest_retention(limits, minted) <= now
    return Refusal(Reason.HOLD_RETIRED if gone else Reason.HOLD_NOT_FOUND, hold_id)


def find_hold(view: View, tenant: str, hold_id: str, now: Slot) -> StoredHold | Refusal:
    """Pass the first rung of every command that names a hold: return the hold or the refusal."""
    hold = view.holds.get((tenant, hold_id))
    if hold is None or retired(hold, view.limits, now):
        return missing(hold_id, view.limits, now)
    return hold


def taken_id(view: View, tenant: str, hold_id: str, now: Slot) -> bool:
    """Return whether another hold has this id: one that is alive, has units outstanding, or can still be read."""
    hold = view.holds.get((tenant, hold_id))
    return hold is not None and (hold.open or not retired(hold, view.limits, now))


def in_use(view: View, tenant: str, pool: str) -> Pool | None:
    """Return a pool by its id. For a claim that was taken when it was erased, and still is, return the pool under its new id."""
    erased = _erased(view, tenant, pool)
    return view.pools.get((tenant, pool)) if erased is None or erased.available else erased


def erased_fence(view: View, tenant: str, pool: str) -> int:
    """Return the highest fence of a claim before it was erased and given up: later ones are above it."""
    erased = _erased(view, tenant, pool)
    return 0 if erased is None else erased.fence


def _erased(view: View, tenant: str, pool: str) -> Pool | None:
    """Return the pool that now stands for a claim that was erased while it was taken."""
    id = None if view.loaded.names is None else view.loaded.names.claim(tenant, pool)
    return None if id is None else view.pools.get((tenant, id))


def find_live(
    view: View, tenant: str, hold_id: str, token: str | None, now: Slot, *, force: bool = False, waiting: bool = False
) -> StoredHold | Refusal:
    """Pass the first three rungs: the hold exists, the caller owns it, it is alive and has units, or with `waiting` at least waits."""
    hold = find_hold(view, tenant, hold_id, now)
    if isinstance(hold, Refusal):
        return hold
    if not force and not same_owner(token, hold.owner_hash):
        return Refusal(Reason.NOT_OWNER, hold_id)
    if not hold.live:
        entity = hold.entity if hold.state is State.CONFIRMED else None
        return Refusal(_ENDED[hold.state], hold_id, found=hold.ended_at, entity=entity)
    if hold.due(now):  # not all its pools are loaded; an expired hold must still not be changed
        return Refusal(Reason.HOLD_EXPIRED, hold_id, found=hold.deadline)
    if hold.state is State.WAITING and not waiting:
        return Refusal(Reason.HOLD_WAITING, hold_id, found=hold.number)
    return hold
