"""ExtendHold: a later deadline, never an earlier one, never beyond `max_lifetime`; or, for faces, none."""

from __future__ import annotations

from ..commands import ExtendHold
from ..entries import Action
from ..model import MAX_SLOT, Slot, StoredHold
from ..outcomes import Done, Outcome, Reason, Refusal
from ..view import View
from .finding import find_live
from .recording import became, record


def extend_hold(view: View, command: ExtendHold, now: Slot) -> Outcome:
    """Move the deadline; an earlier one changes nothing."""
    hold = find_live(view, command.tenant, command.id, command.owner, now, force=command.trusted)
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
    record(view, Action.HOLD_EXTENDED, hold.id, now, command, change=change)
    return Done(slot=now, hold=view.holds.get(hold.key))
