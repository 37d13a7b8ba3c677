"""ChangeLimits: new values for stored limits. A lowered limit cancels nothing that exists."""

from __future__ import annotations

from ..commands import ChangeLimits
from ..entries import Action
from ..limits import LIMITS_KEY, SUBJECT, changed_record, in_force, subject_of
from ..model import Slot
from ..outcomes import Done, Outcome, Reason, Refusal
from ..view import View
from .recording import record


def change_limits(view: View, command: ChangeLimits, now: Slot) -> Outcome:
    """Write what differs; later commands are decided under the new limits."""
    limits, before = view.limits, view.records.get(LIMITS_KEY)
    if command.if_version is not None and command.if_version != limits.version:
        return Refusal(Reason.VERSION_CONFLICT, SUBJECT, found=limits.version)
    changes = {name: value for name, value in command.changes.items() if value != getattr(limits, name)}
    if not changes:
        return Done(slot=now, record=before)
    after = changed_record(limits, changes, before, now)
    record(view, Action.LIMITS_CHANGED, subject_of(after), now, command, stored=after)
    view.limits = in_force(limits, after)
    return Done(slot=now, record=after)
