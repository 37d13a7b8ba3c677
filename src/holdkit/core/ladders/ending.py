"""Changes of a hold by its owner, or by force: confirm, release, return, and extend. `force` skips the check of the token,
and of the limits per account if a confirm takes more than was held; no other rung."""

from __future__ import annotations

from ..codec import same_owner
from ..commands import Amounts, ConfirmHold, ExtendHold, ReleaseHold, ReturnUnits
from ..entries import Action, Effect
from ..model import MAX_SLOT, HeldLeg, Slot, State, StoredHold
from ..outcomes import Done, Invalid, Outcome, Reason, Refusal
from ..outstanding import Level
from ..view import View
from .finding import find_hold, find_live
from .lines import leave
from .overage import grant_overage
from .recording import became, effects_of, levels_after, pools_of, record


def confirm_hold(view: View, command: ConfirmHold, now: Slot) -> Outcome:
    """Consume held units; without `keep_rest` release those that are not confirmed. Confirming 0 of every leg is a
    release, unless the rest is kept."""
    hold = find_live(view, command.tenant, command.id, command.token, now, force=command.force or command.trusted)
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
    if any(extras):
        granted = grant_overage(view, command, hold, extras, now)
        if isinstance(granted, Refusal):
            return granted
    else:
        granted = extras
    legs, held, consumed, uncovered = [], [], [], {}
    for leg, amount, extra, covered in zip(hold.legs, amounts, extras, granted, strict=True):
        if extra > covered:
            uncovered[leg.pool] = extra - covered
        taken = min(amount, leg.held)
        rest = leg.held - taken if command.keep_rest else 0
        held.append(rest - leg.held)
        consumed.append(taken + covered)
        legs.append(HeldLeg(leg.pool, leg.quantity, rest, leg.confirmed + taken + covered, leg.returned))
    effects = effects_of(view, hold, pools, now, held, consumed, command.entity or hold.entity)
    above = levels_after(hold, held)
    ended = not any(leg.held for leg in legs)
    action = Action.HOLD_CONFIRMED if ended else Action.HOLD_PARTLY_CONFIRMED
    state = State.CONFIRMED if ended else State.HELD
    return finish(view, command, hold, legs, above, effects, action, state, now, uncovered or None)


def _as_release(command: ConfirmHold) -> ReleaseHold:
    return ReleaseHold(
        id=command.id,
        token=command.token,
        force=command.force,
        trusted=command.trusted,
        tenant=command.tenant,
        op=command.op,
        actor=command.actor,
        correlation_id=command.correlation_id,
        reason=command.reason,
        fingerprint=command.fingerprint,
        client_id=command.client_id,
        trace=command.trace,
    )


def release_hold(view: View, command: ReleaseHold, now: Slot) -> Outcome:
    """Make held units available; a part of them if an amount is given."""
    force = command.force or command.trusted
    hold = find_live(view, command.tenant, command.id, command.token, now, force=force, waiting=True)
    if isinstance(hold, Refusal):
        return hold
    if hold.state is State.WAITING:
        return leave(view, command, hold, now)
    held = [leg.held for leg in hold.legs]
    amounts = amounts_of(hold, command.quantity, held)
    if isinstance(amounts, Invalid):
        return amounts
    if any(amount > leg.held for amount, leg in zip(amounts, hold.legs, strict=True)):
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=sum(held))
    freed = [-amount for amount in amounts]
    effects = effects_of(view, hold, pools_of(view, hold), now, freed, [0] * len(freed))
    legs = [
        HeldLeg(leg.pool, leg.quantity, leg.held - amount, leg.confirmed, leg.returned)
        for leg, amount in zip(hold.legs, amounts, strict=True)
    ]
    ended = not any(leg.held for leg in legs)
    action = Action.HOLD_RELEASED if ended else Action.HOLD_PARTLY_RELEASED
    state = State.RELEASED if ended else State.HELD
    above = levels_after(hold, freed)
    return finish(view, command, hold, legs, above, effects, action, state, now)


def return_units(view: View, command: ReturnUnits, now: Slot) -> Outcome:
    """Make consumed units available again; the hold keeps its state, and records the return."""
    hold = find_hold(view, command.tenant, command.id, now)
    if isinstance(hold, Refusal):
        return hold
    if not (command.force or command.trusted or same_owner(command.token, hold.owner_hash)):
        return Refusal(Reason.NOT_OWNER, hold.id)
    if not any(leg.confirmed for leg in hold.legs):
        return Refusal(Reason.NOT_CONFIRMED, hold.id)
    left = [leg.consumed for leg in hold.legs]
    amounts = amounts_of(hold, command.quantity, left)
    if isinstance(amounts, Invalid):
        return amounts
    if not any(amounts) or any(amount > rest for amount, rest in zip(amounts, left, strict=True)):
        return Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold.id, found=sum(left))
    legs = [
        HeldLeg(leg.pool, leg.quantity, leg.held, leg.confirmed, leg.returned + amount)
        for leg, amount in zip(hold.legs, amounts, strict=True)
    ]
    effects = effects_of(view, hold, pools_of(view, hold), now, [0] * len(legs), [-amount for amount in amounts])
    change = became(hold, tuple(legs), command=command, returned_at=now)
    record(view, Action.HOLD_RETURNED, hold.id, now, command, effects=effects, change=change, forced=command.force)
    return Done(slot=now, hold=view.holds.get(hold.key))


def amounts_of(
    hold: StoredHold, quantity: Amounts, everything: list[int], *, others: bool = False
) -> list[int] | Invalid:
    """Return the amount of each leg, in leg order; 0 for a leg that is not named, or with `others` all of it."""
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


def finish(
    view: View,
    command: ConfirmHold | ReleaseHold,
    hold: StoredHold,
    legs: list[HeldLeg],
    above: tuple[Level, ...],
    effects: tuple[Effect, ...],
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
        above=above,
    )
    record(view, action, hold.id, now, command, effects=effects, change=change, forced=command.force)
    return Done(slot=now, hold=view.holds.get(hold.key), uncovered=uncovered)


def extend_hold(view: View, command: ExtendHold, now: Slot) -> Outcome:
    """Move the deadline, or the end of waiting; an earlier one changes nothing."""
    force = command.force or command.trusted
    hold = find_live(view, command.tenant, command.id, command.token, now, force=force, waiting=True)
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
    if deadline - hold.began > view.limits.max_lifetime:
        return Refusal(Reason.LIFETIME_EXCEEDED, hold.id, found=view.limits.max_lifetime)
    if deadline <= hold.deadline:
        return Done(slot=now, hold=hold)
    return _extended(view, command, hold, deadline, now)


def _extended(view: View, command: ExtendHold, hold: StoredHold, deadline: Slot | None, now: Slot) -> Outcome:
    change = became(hold, hold.legs, deadline=deadline, endless=deadline is None, command=command)
    record(view, Action.HOLD_EXTENDED, hold.id, now, command, change=change, forced=command.force)
    return Done(slot=now, hold=view.holds.get(hold.key))
