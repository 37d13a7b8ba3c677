"""Waiting in line: joining, offering, leaving.

Theory of operation. A waiter is a hold in state `waiting`: it has a number in the line of one pool, and no units. The pool's row counts
the waiters and remembers the last number, so the pool's lock guards its line too.

*Offers.* Before and after every command that touches the pool, `feed` offers what is available, in the order of the numbers, until
a waiter does not fit. So a waiter gets free units in the next transaction that touches the pool at the latest: there is
always one, because the sweep touches every pool whose line could be fed. Inside an atomic group nothing is offered, so that the group
can be undone; the line is fed before and after it. A caller's own transaction offers nothing, because an offer could end before that
commits.

*No overtaking.* While a waiter asks for no more than the total, every other command that would take units of the pool
is refused with `line_ahead`, whether or not its line has been fed.

*Bounds.* A transaction makes at most `max_offers` offers for each tenant, so that one with a long line does not delay the offers of
others, and at most `TENANTS` times as many in all. A group whose pools have more to offer is put off until they are fed; what a
command leaves to be fed is reported in `View.unfed`, and the kernel sends a `FeedLine` for it at once.

*Wake-ups.* `served` names the holds that wait no longer after a batch, so that only their callers are woken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from ..codec import canonical_json, hash_owner, same_owner
from ..command_kinds import Command
from ..commands import FeedLine, JoinLine, LeaveLine, PlaceHold, ReleaseHold
from ..entries import Action, Change, Effect
from ..model import MAX_SLOT, HeldLeg, Key, Pool, Slot, State, StoredHold
from ..outcomes import Done, Invalid, Outcome, Reason, Refusal, Shortfall
from ..trees import parent_of
from ..view import View
from .accounts import over_limit
from .finding import find_hold, taken_id
from .recording import became, counted, moved, record

SKIPPED: Final = 100
"""How many who do not fit a `skip` line passes over."""
TENANTS: Final = 4
"""How many tenants may make as many offers as they may in one transaction."""


def join_line(view: View, command: JoinLine, now: Slot) -> Outcome:
    """Take a place in the line; if units are available and the line is empty, offer them at once."""
    assert command.ttl_slots is not None
    assert command.offer_slots is not None
    return enter(view, command, command.ttl_slots, command.offer_slots, now)


def enter(view: View, command: JoinLine | PlaceHold, wait: Slot, offer_ttl: Slot, now: Slot) -> Outcome:
    """Check the rungs of joining and add a place at the end of the line."""
    assert command.id is not None
    assert command.token is not None
    leg = command.legs[0]
    if now + wait > MAX_SLOT:
        return Refusal(Reason.SLOT_OVERFLOW, found=now + wait)
    if max(wait, offer_ttl) > view.limits.max_lifetime:
        return Refusal(Reason.LIFETIME_EXCEEDED, found=view.limits.max_lifetime)
    pool = view.pools.get((command.tenant, leg.pool))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, leg.pool)
    if pool.on_demand or parent_of(pool.id) is not None:
        why = "a line stands only at a pool that was created as one, not on demand, and that is below no other"
        return Invalid("pool", "pool_without_line", why)
    refusal = _refused(view, command, pool, now)
    if refusal is not None:
        return refusal
    number = pool.last_number + 1
    hold = StoredHold(
        command.tenant,
        command.id,
        (HeldLeg(leg.pool, leg.quantity),),
        hash_owner(command.token),
        None,
        0,
        now + wait,
        State.WAITING,
        entity=command.entity,
        actor=command.actor,
        correlation_id=command.correlation_id,  # type: ignore[arg-type]  # text by now
        metadata=None if command.metadata is None else canonical_json(command.metadata),
        account=command.account,
        joined_at=now,
        number=number,
        offer_ttl=offer_ttl,
    )
    effect = moved(structs.replace(pool, last_number=number), now, waiting=1)
    view.grown[1] += 1
    effects = (counted(view, effect, command.account, leg.quantity),)
    record(view, Action.HOLD_WAITING, hold.id, now, command, effects=effects, hold=hold, forced=command.force)
    return Done(now, hold, token=command.token)


def _refused(view: View, command: JoinLine | PlaceHold, pool: Pool, now: Slot) -> Refusal | None:
    leg, limits = command.legs[0], view.limits
    assert command.id is not None
    if pool.archived:
        return Refusal(Reason.POOL_ARCHIVED, pool.id)
    if pool.per_account is not None and command.account is None and not command.force:
        return Refusal(Reason.ACCOUNT_REQUIRED, pool.id)
    if taken_id(view, command.tenant, command.id, now):
        return Refusal(Reason.HOLD_EXISTS, command.id)
    if pool.waiting >= limits.max_line:
        return Refusal(Reason.LINE_FULL, pool.id, found=pool.waiting)
    if limits.max_holds is not None and view.loaded.counts.live_holds + view.grown[1] >= limits.max_holds:
        return Refusal(Reason.HOLD_TABLE_FULL)
    beyond = None if command.force else over_limit(view, command.account, [(pool, leg.quantity)])
    if beyond is not None:
        return beyond
    if leg.quantity > pool.total:
        return _in_vain(pool, leg.quantity)
    return None


def _in_vain(pool: Pool, quantity: int) -> Refusal:
    """Return why a caller that asks for this quantity does not get it now."""
    if quantity > pool.available:
        short = Shortfall(pool.id, quantity, pool.available, pool.total)
        return Refusal(Reason.INSUFFICIENT_CAPACITY, pool.id, (short,))
    return Refusal(Reason.LINE_AHEAD, pool.id, found=pool.waiting)


def somebody_waits(view: View, pool: Pool) -> bool:
    """Return whether a hold waits at a pool that could be served some day: one that asks for no more than its total."""
    if not pool.waiting:
        return False
    key = (pool.tenant, pool.id)
    return any(hold.legs[0].quantity <= pool.total for hold in view.waiters(key)) or view.more_wait(key)


# Offers


def feed(view: View, tenant: str, names: Iterable[str], now: Slot) -> None:
    """Offer what is available on these pools to those who wait there."""
    if not view.loaded.may_offer:
        return
    for name in sorted(names):
        pool = view.pools.get((tenant, name))
        if pool is not None and pool.waiting and not pool.archived:
            _feed(view, pool.key, max(now, pool.slot))


def _feed(view: View, key: Key, now: Slot) -> None:
    view.unfed.discard(key)
    skipped = 0
    for hold in view.waiters(key):
        pool = view.pools.get(key)
        assert pool is not None
        quantity = hold.legs[0].quantity
        if quantity > pool.total or hold.due(now):
            continue  # its time is over, or the total was lowered below what it asks for: it blocks no other waiter
        if quantity > pool.available:
            skipped += 1
            if pool.line == "strict" or skipped == SKIPPED:
                return
            continue
        if _offered_enough(view, hold.tenant):
            view.unfed.add(key)
            return
        offer(view, pool, hold, now)
    pool = view.pools.get(key)
    if pool is not None and pool.available and view.more_wait(key):
        view.unfed.add(key)


def _offered_enough(view: View, tenant: str) -> bool:
    most = view.limits.max_offers
    return view.offers.get(tenant, 0) >= most or sum(view.offers.values()) >= TENANTS * most


def offer(view: View, pool: Pool, hold: StoredHold, now: Slot) -> None:
    """Grant the hold its units for `offer_ttl`. Its tally has counted them since it joined."""
    assert hold.offer_ttl is not None
    view.offers[hold.tenant] = view.offers.get(hold.tenant, 0) + 1
    quantity, fence = hold.legs[0].quantity, pool.fence + 1
    effect = moved(pool, now, held=quantity, waiting=-1, fence=fence)
    change = Change(
        state=State.HELD,
        was=hold.state,
        version=hold.version + 1,
        legs=(HeldLeg(pool.id, quantity, quantity),),
        deadline=min(now + hold.offer_ttl, MAX_SLOT),
        was_deadline=hold.deadline,
        entity=hold.entity,
        reason=hold.reason,
        last_op=hold.last_op,
        held_at=now,
        fence=fence,
    )
    clockwork = Command(tenant=hold.tenant, actor="system", correlation_id=hold.correlation_id)
    record(view, Action.HOLD_OFFERED, hold.id, now, clockwork, effects=(effect,), change=change)


def left_to_offer(view: View) -> set[Key]:
    """Return the pools that still have units for their waiters: more than this batch may offer. After a batch in a caller's own
    transaction, which offers nothing, return all of them."""
    if view.loaded.may_offer:
        return view.unfed
    changed = [pool for pool in view.pools.changed.values() if pool is not None]
    return {pool.key for pool in changed if pool.waiting and pool.available > 0 and not pool.archived}


def served(view: View) -> tuple[StoredHold, ...]:
    """Return the holds that waited until this batch, and wait no longer: because of an offer, or because they have ended."""
    if not view.has_lines:
        return ()
    changes = [(entry.tenant, entry.subject, entry.change) for entry in view.entries if entry.change is not None]
    keys = dict.fromkeys((tenant, id) for tenant, id, change in changes if change.was is State.WAITING)
    holds = [view.holds.get(key) for key in keys]
    return tuple([hold for hold in holds if hold is not None and hold.state is not State.WAITING])


def feed_line(view: View, command: FeedLine, now: Slot) -> Outcome:
    """Answer a FeedLine: whatever touches the pool feeds its line."""
    pool = view.pools.get((command.tenant, command.id))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, command.id)
    return Done(slot=now, pool=pool)


# Leaving


def leave(view: View, command: ReleaseHold | LeaveLine, hold: StoredHold, now: Slot) -> Outcome:
    """End a waiter's place as a whole; refuse a quantity, because a waiter has no units to release in part."""
    if isinstance(command, ReleaseHold) and command.quantity is not None:
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=0)
    view.grown[1] -= 1
    last_op = None if command.op is None else command.fingerprint + command.op
    change = became(hold, hold.legs, state=State.RELEASED, ended_at=now, command=command, last_op=last_op)
    effects = (vacated(view, hold, now),)
    forced = isinstance(command, ReleaseHold) and command.force
    record(view, Action.HOLD_RELEASED, hold.id, now, command, effects=effects, change=change, forced=forced)
    return Done(slot=now, hold=view.holds.get(hold.key))


def vacated(view: View, hold: StoredHold, now: Slot) -> Effect:
    """Return the effect of a place in the line that becomes vacant."""
    leg = hold.legs[0]
    pool = view.pools.get((hold.tenant, leg.pool))
    assert pool is not None, "a pool with a line is never removed"
    return counted(view, moved(pool, now, waiting=-1), hold.account, -leg.quantity)


def leave_line(view: View, command: LeaveLine, now: Slot) -> Outcome:
    """Leave, unless units have been offered and not expired; from now on a retry of the placing operation gets the refusal."""
    hold = find_hold(view, command.tenant, command.id, now)
    if isinstance(hold, Refusal):
        return hold
    if not same_owner(command.token, hold.owner_hash):
        return Refusal(Reason.NOT_OWNER, hold.id)
    if hold.held_at is not None and hold.state is not State.EXPIRED:
        return Done(slot=now, hold=hold)
    pool = view.pools.get((hold.tenant, hold.legs[0].pool))
    if pool is None:
        return Refusal(Reason.POOL_NOT_FOUND, hold.legs[0].pool)
    refusal = _in_vain(pool, hold.legs[0].quantity)
    if hold.state is State.WAITING:
        done = leave(view, command, hold, now)
        assert isinstance(done, Done)
        assert done.hold is not None
        hold = done.hold
    if command.placed_op is not None:
        _answer_anew(view, (command.tenant, command.placed_op), hold, refusal)
    return Done(slot=now, hold=hold, pool=pool, refusal=refusal)


def _answer_anew(view: View, operation: Key, hold: StoredHold, refusal: Refusal) -> None:
    """Replace the recorded answer of the operation, if it is the one that placed this hold."""
    placed = view.operations.get(operation)
    answered = None if placed is None or not isinstance(placed.outcome, Done) else placed.outcome.hold
    if placed is not None and answered is not None and answered.id == hold.id:
        view.operations.put(operation, structs.replace(placed, outcome=refusal, seq=0))
