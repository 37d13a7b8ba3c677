"""The plain way: the commonest commands, without the parts of their ladders that do not concern them.

Theory of operation. Most commands place, consume, confirm or release a hold with one leg, on a pool that has only units: no line, no
limit per account, no label, nothing above it, nothing due. Then most rungs of the ladders cannot refuse, and every list of legs, levels
and effects has one element. The functions here check exactly that, and write the same entry as the ladder would, with what `fold` makes
of it, in a third of the time.
They never refuse: whatever is not plain, or would be refused, is None, and the ladder decides it (`placing`, `ending`), as if nothing had
been tried. So the ladders alone say which reason comes first, and a function here is right if it grants only what its ladder grants, and
writes the same. `tests/unit/core/test_plain.py` compares both on random views and commands.

Not in an atomic group, which may be undone; not where anybody waits, because lines are fed around every command; and not for a command
that must be checked again under new limits: `decide` knows these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..codec import canonical_json, hash_owner, same_owner
from ..commands import ConfirmHold, Consume, PlaceHold, ReleaseHold
from ..entries import HOLD_CONFIRMED, HOLD_HELD, HOLD_RELEASED, Action, Change, Effect, Entry
from ..fold import changed
from ..model import HELD, MAX_SLOT, HeldLeg, Key, Leg, Pool, Slot, State, StoredHold
from ..outcomes import Done
from ..trees import SEPARATOR
from ..view import View

CONFIRMED: Final = State.CONFIRMED  # members of an enum are slow to look up
RELEASED: Final = State.RELEASED


def place_plainly(view: View, command: PlaceHold) -> Done | None:
    """Decide `place_hold` for an interval that no limit forbids."""
    ttl = command.ttl_slots
    if ttl is None or ttl > view.limits.max_lifetime:
        return None
    hold = _take(view, command, ttl)
    return None if hold is None else Done(hold.held_at, hold, None, None, command.token)  # type: ignore[arg-type]


def consume_plainly(view: View, command: Consume) -> Done | None:
    """Decide `consume`."""
    hold = _take(view, command, None)
    if hold is None:
        return None
    pool = view.pools.changed[command.tenant, hold.legs[0].pool]
    assert pool is not None, "it has just been changed"
    ended = _end(view, command, hold, pool, HOLD_CONFIRMED, CONFIRMED, hold.entity, None, pool.slot)
    return Done(pool.slot, ended, None, None, command.token)


def confirm_plainly(view: View, command: ConfirmHold) -> Done | None:
    """Decide `confirm_hold` of all held units."""
    found = _find(view, command)
    if found is None:
        return None
    hold, pool, now = found
    entity = hold.entity if command.entity is None else command.entity
    last_op = hold.last_op if command.op is None else command.fingerprint + command.op
    return Done(now, _end(view, command, hold, pool, HOLD_CONFIRMED, CONFIRMED, entity, last_op, now))


def release_plainly(view: View, command: ReleaseHold) -> Done | None:
    """Decide `release_hold` of all held units."""
    found = _find(view, command)
    if found is None:
        return None
    hold, pool, now = found
    last_op = hold.last_op if command.op is None else command.fingerprint + command.op
    return Done(now, _end(view, command, hold, pool, HOLD_RELEASED, RELEASED, hold.entity, last_op, now))


PLAIN: Final[dict[type[Any], Callable[[View, Any], Done | None]]] = {
    PlaceHold: place_plainly,
    Consume: consume_plainly,
    ConfirmHold: confirm_plainly,
    ReleaseHold: release_plainly,
}
"""The plain way of each command that has one."""


def _plain_pool(view: View, key: Key) -> Pool | None:
    """Return the pool, if it has only units, and none of its legs may become due within this batch."""
    pool = view.pools.get(key)
    if pool is None or pool.label is not None or SEPARATOR in pool.id or view.may_be_due(key):
        return None
    return pool


def _take(view: View, command: PlaceHold | Consume, ttl: Slot | None) -> StoredHold | None:
    """Place the hold, if its pool is plain and everything fits."""
    leg, hold_id, token = command.legs[0], command.id, command.token
    assert hold_id is not None, "the kernel mints ids"
    assert token is not None, "the kernel mints tokens"
    if len(command.legs) > 1 or command.account is not None or type(leg) is not Leg:
        return None
    tenant, quantity, loaded, bound = command.tenant, leg.quantity, view.loaded, view.limits.max_holds
    key, hold_key, holds = (tenant, leg.pool), (tenant, hold_id), view.holds
    pool = _plain_pool(view, key)
    if (
        pool is None
        or pool.held + pool.consumed + quantity > pool.total
        or pool.archived
        or pool.per_account is not None
        or (bound is not None and loaded.counts.live_holds + view.grown[1] >= bound)
        or hold_key in holds.changed
        or hold_key in holds.base
    ):
        return None
    now = loaded.slot if loaded.slot > pool.slot else pool.slot  # noqa: FURB136  (a call would take longer)
    deadline = None if ttl is None else now + ttl
    if deadline is not None and not loaded.horizon < deadline <= MAX_SLOT:
        return None  # the hold is due at once, or may be within this batch; or the slot overflows
    held = view.same_legs
    if not held or held[0].quantity != quantity or held[0].pool != leg.pool:
        held = view.same_legs = (HeldLeg(leg.pool, quantity, quantity),)
    fence = pool.fence + 1
    metadata = None if command.metadata is None else canonical_json(command.metadata)
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    hold = StoredHold(
        tenant, hold_id, held, hash_owner(token), now, fence, deadline, HELD,
        command.entity, None, None, command.actor, correlation_id, metadata, None, 1, None, pool.closes)  # fmt: skip
    after = _moved(pool, now, fence, quantity, 0)
    view.entries.append(
        Entry(now, HOLD_HELD, hold_id, tenant, (Effect(after, 0, quantity),), hold, None, None, False, command.actor,
              correlation_id, command.reason, command.op, command.force, False, command.client_id, None, command.trace))  # fmt: skip
    view.pools.changed[key], holds.changed[hold_key] = after, hold
    view.grown[1] += 1
    return hold


def _find(view: View, command: ConfirmHold | ReleaseHold) -> tuple[StoredHold, Pool, Slot] | None:
    """Return the hold that the command ends as a whole, its pool, and the slot of the decision."""
    hold = view.holds.get((command.tenant, command.id))
    if (
        hold is None
        or command.quantity is not None
        or hold.state is not HELD
        or len(hold.legs) > 1
        or hold.account is not None
        or hold.above
        or not hold.legs[0].held
    ):
        return None
    pool = _plain_pool(view, (command.tenant, hold.legs[0].pool))
    if pool is None or pool.floor >= hold.fence:
        return None
    now = max(view.loaded.slot, pool.slot)
    if (hold.deadline is not None and hold.deadline <= now) or not same_owner(command.token, hold.owner_hash):
        return None
    return hold, pool, now


def _end(
    view: View,
    command: Consume | ConfirmHold | ReleaseHold,
    hold: StoredHold,
    pool: Pool,
    action: Action,
    state: State,
    entity: str | None,
    last_op: str | None,
    now: Slot,
) -> StoredHold:
    """End the hold: its units become consumed or available."""
    leg = hold.legs[0]
    units, consumed = leg.held, leg.held if state is CONFIRMED else 0
    legs = (HeldLeg(leg.pool, leg.quantity, 0, leg.confirmed + consumed, leg.returned),)
    reason = hold.reason if command.reason is None else command.reason
    change = Change(
        state,
        HELD,
        hold.version + 1,
        legs,
        hold.deadline,
        hold.deadline,
        entity,
        now,
        reason,
        last_op,
        hold.returned_at,
    )
    after, ended = _moved(pool, now, pool.fence, -units, consumed), changed(hold, change)
    correlation_id: str | None = command.correlation_id  # type: ignore[assignment]  # text by now
    view.entries.append(
        Entry(now, action, hold.id, hold.tenant, (Effect(after, 0, -units, consumed),), None, change, None, False,
              command.actor, correlation_id, command.reason, command.op, command.force, False, command.client_id, None, command.trace))  # fmt: skip
    view.pools.changed[pool.tenant, pool.id], view.holds.changed[hold.tenant, hold.id] = after, ended
    view.grown[1] -= 1
    return ended


def _moved(pool: Pool, now: Slot, fence: int, held: int, consumed: int) -> Pool:
    """Return the pool after the move. (A plain pool has no label.)"""
    return Pool(pool.tenant, pool.id, pool.total, pool.held + held, pool.consumed + consumed, fence, now, pool.version + 1,
                pool.on_demand, None, pool.closes, pool.holder, pool.entity, pool.archived, pool.loose, pool.floor, pool.waiting,
                pool.last_number, pool.children, pool.per_account, pool.line)  # fmt: skip
