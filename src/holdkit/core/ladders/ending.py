"""Changes of a hold by its owner, or by force: confirm, release, return, and extend. `force` skips the check of the owner token
and no other rung."""

from __future__ import annotations

from ..codec import same_owner
from ..commands import Amounts, ConfirmHold, ExtendHold, ReleaseHold, ReturnUnits
from ..entries import Action, Effect
from ..model import MAX_SLOT, HeldLeg, Pool, Slot, State, StoredHold
from ..outcomes import Done, Invalid, Outcome, Reason, Refusal, Shortfall
from ..view import View
from .finding import find_hold, find_live
from .recording import became, linked, moved, record


def confirm_hold(view: View, command: ConfirmHold, now: Slot) -> Outcome:
    """Held units become consumed; without `keep_rest` what is not confirmed is released. Confirming 0 of every leg is a
    release, unless the rest is kept."""
    hold = find_live(view, command.tenant, command.id, command.owner, now, force=command.force or command.trusted)
    if isinstance(hold, Refusal):
        return hold
    amounts = amounts_of(hold, command.quantity, [leg.held for leg in hold.legs], others=command.others_as_held)
    if isinstance(amounts, Invalid):
        return amounts
    if not any(amounts) and not command.keep_rest:
        return release_hold(view, _as_release(command), now)
    extras = [max(0, amount - leg.held) for amount, leg in zip(amounts, hold.legs, strict=True)]
    if command.overage == "reject" and any(extras):
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=sum(leg.held for leg in hold.legs))
    pools = pools_of(view, hold)
    refusals = [shut_to_overage(pool, now, late=command.late_overage) for pool in pools]
    if command.overage == "if_available":
        for extra, refusal in zip(extras, refusals, strict=True):
            if extra and refusal is not None:
                return refusal
        shortfalls = tuple(
            Shortfall(pool.id, extra, pool.available, pool.total)
            for extra, pool in zip(extras, pools, strict=True)
            if extra > pool.available
        )
        if shortfalls:
            return Refusal(Reason.INSUFFICIENT_CAPACITY, hold.id, shortfalls)
    legs, effects, uncovered = [], [], {}
    for leg, pool, amount, extra, refusal in zip(hold.legs, pools, amounts, extras, refusals, strict=True):
        covered = 0 if refusal is not None else min(extra, pool.available)
        if extra > covered:
            uncovered[pool.id] = extra - covered
        taken = min(amount, leg.held)
        rest = leg.held - taken if command.keep_rest else 0
        if leg.held - rest or covered:
            effect = moved(pool, now, held=rest - leg.held, consumed=taken + covered)
            effects.append(linked(effect, command.entity or hold.entity) if taken + covered else effect)
        legs.append(HeldLeg(leg.pool, leg.quantity, rest, leg.confirmed + taken + covered, leg.returned))
    ended = not any(leg.held for leg in legs)
    action = Action.HOLD_CONFIRMED if ended else Action.HOLD_PARTLY_CONFIRMED
    state = State.CONFIRMED if ended else State.HELD
    return finish(view, command, hold, legs, effects, action, state, now, uncovered or None)


def shut_to_overage(pool: Pool, now: Slot, *, late: bool) -> Refusal | None:
    """Why this pool grants no overage, however much is available."""
    if pool.archived:
        return Refusal(Reason.POOL_ARCHIVED, pool.id)
    if pool.closes is not None and pool.closes <= now and not late:
        return Refusal(Reason.WINDOW_CLOSED, pool.id, found=now)
    return None


def _as_release(command: ConfirmHold) -> ReleaseHold:
    return ReleaseHold(
        id=command.id,
        owner=command.owner,
        force=command.force,
        trusted=command.trusted,
        tenant=command.tenant,
        op=command.op,
        actor=command.actor,
        correlation_id=command.correlation_id,
        reason=command.reason,
        fingerprint=command.fingerprint,
        client_id=command.client_id,
    )


def release_hold(view: View, command: ReleaseHold, now: Slot) -> Outcome:
    """Held units become available; a part of them if an amount is given."""
    hold = find_live(view, command.tenant, command.id, command.owner, now, force=command.force or command.trusted)
    if isinstance(hold, Refusal):
        return hold
    held = [leg.held for leg in hold.legs]
    amounts = amounts_of(hold, command.quantity, held)
    if isinstance(amounts, Invalid):
        return amounts
    if any(amount > leg.held for amount, leg in zip(amounts, hold.legs, strict=True)):
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=sum(held))
    legs, effects = [], []
    for leg, pool, amount in zip(hold.legs, pools_of(view, hold), amounts, strict=True):
        if amount:
            effects.append(moved(pool, now, held=-amount))
        legs.append(HeldLeg(leg.pool, leg.quantity, leg.held - amount, leg.confirmed, leg.returned))
    ended = not any(leg.held for leg in legs)
    action = Action.HOLD_RELEASED if ended else Action.HOLD_PARTLY_RELEASED
    state = State.RELEASED if ended else State.HELD
    return finish(view, command, hold, legs, effects, action, state, now)


def return_units(view: View, command: ReturnUnits, now: Slot) -> Outcome:
    """Consumed units become available again; the hold keeps its state, and records what was returned."""
    hold = find_hold(view, command.tenant, command.id, now)
    if isinstance(hold, Refusal):
        return hold
    if not (command.force or command.trusted or same_owner(command.owner, hold.owner_hash)):
        return Refusal(Reason.NOT_OWNER, hold.id)
    if not any(leg.confirmed for leg in hold.legs):
        return Refusal(Reason.NOT_CONFIRMED, hold.id)
    left = [leg.consumed for leg in hold.legs]
    amounts = amounts_of(hold, command.quantity, left)
    if isinstance(amounts, Invalid):
        return amounts
    if not any(amounts) or any(amount > rest for amount, rest in zip(amounts, left, strict=True)):
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=sum(left))
    legs, effects = [], []
    for leg, pool, amount in zip(hold.legs, pools_of(view, hold), amounts, strict=True):
        if amount and pool.version:  # otherwise its window was swept away with what was consumed there
            effects.append(linked(moved(pool, now, consumed=-amount), None))
        legs.append(HeldLeg(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned + amount))
    change = became(hold, tuple(legs), state=hold.state, command=command, returned_at=now)
    record(
        view, Action.HOLD_RETURNED, hold.id, now, command, effects=tuple(effects), change=change, forced=command.force
    )
    return Done(slot=now, hold=view.holds.get(hold.key))


def amounts_of(
    hold: StoredHold, quantity: Amounts, everything: list[int], *, others: bool = False
) -> list[int] | Invalid:
    """The amount of each leg, in leg order; 0 for a leg that is not named, or with `others` all of it."""
    if quantity is None:
        return everything
    if isinstance(quantity, int):
        if len(hold.legs) != 1:
            return Invalid("quantity", "amount_ambiguous", f"the hold has {len(hold.legs)} legs: name amounts by pool")
        return [quantity]
    known = {leg.pool for leg in hold.legs}
    unknown = sorted(set(quantity) - known)
    if unknown:
        return Invalid("quantity", "leg_unknown", f"the hold has no leg on pool {unknown[0]!r}")
    return [quantity.get(leg.pool, all_ if others else 0) for leg, all_ in zip(hold.legs, everything, strict=True)]


def pools_of(view: View, hold: StoredHold) -> list[Pool]:
    """The pools of a hold's legs, in leg order. A pool that was swept away is replaced by an empty one of version 0, even if
    another pool has its id by now."""
    pools = []
    for leg in hold.legs:
        pool = view.pools.get((hold.tenant, leg.pool))
        there = pool is not None and pool.floor < hold.fence
        pools.append(pool if pool is not None and there else Pool(hold.tenant, leg.pool, 0, version=0))
    return pools


def finish(
    view: View,
    command: ConfirmHold | ReleaseHold,
    hold: StoredHold,
    legs: list[HeldLeg],
    effects: list[Effect],
    action: Action,
    state: State,
    now: Slot,
    uncovered: dict[str, int] | None = None,
) -> Outcome:
    """Write a confirm or a release, partial or last."""
    ended_at = None if state is State.HELD else now
    view.grown[1] -= ended_at is not None
    change = became(
        hold,
        tuple(legs),
        state=state,
        ended_at=ended_at,
        command=command,
        entity=command.entity if isinstance(command, ConfirmHold) else None,
        last_op=None if command.op is None else command.fingerprint + command.op,
    )
    record(view, action, hold.id, now, command, effects=tuple(effects), change=change, forced=command.force)
    return Done(slot=now, hold=view.holds.get(hold.key), uncovered=uncovered)


def extend_hold(view: View, command: ExtendHold, now: Slot) -> Outcome:
    """Move the deadline; an earlier one changes nothing."""
    hold = find_live(view, command.tenant, command.id, command.owner, now, force=command.force or command.trusted)
    if isinstance(hold, Refusal):
        return hold
    if hold.deadline is None:
        return Done(slot=now, hold=hold)
    if command.forever:
        return _extended(view, command, hold, None, now)
    deadline = command.until
    if command.by_slots is not None:
        deadline = hold.deadline + command.by_slots
    elif command.ttl_slots is not None:
        deadline = now + command.ttl_slots
    assert isinstance(deadline, int), "the kernel normalises spellings of time"
    if deadline > MAX_SLOT:
        return Refusal(Reason.SLOT_OVERFLOW, hold.id, found=deadline)
    if deadline <= now:
        return Refusal(Reason.DEADLINE_PASSED, hold.id, found=now)
    if deadline - hold.held_at > view.limits.max_lifetime:
        return Refusal(Reason.LIFETIME_EXCEEDED, hold.id, found=view.limits.max_lifetime)
    if deadline <= hold.deadline:
        return Done(slot=now, hold=hold)
    return _extended(view, command, hold, deadline, now)


def _extended(view: View, command: ExtendHold, hold: StoredHold, deadline: Slot | None, now: Slot) -> Outcome:
    change = became(hold, hold.legs, deadline=deadline, endless=deadline is None, command=command)
    record(view, Action.HOLD_EXTENDED, hold.id, now, command, change=change, forced=command.force)
    return Done(slot=now, hold=view.holds.get(hold.key))
