"""Records: compare-and-set on a small durable document; and the limits, which are a record too."""

from __future__ import annotations

from ..bounds import ERASED_NAMES, Limits
from ..commands import ChangeLimits, PutRecord
from ..entries import Action
from ..erasure import ERASURES
from ..limits import LIMITS_KEY, SUBJECT, changed_record, in_force, subject_of
from ..model import Record, Slot
from ..outcomes import Done, Outcome, Reason, Refusal
from ..view import View
from .recording import record


def put_record(view: View, command: PutRecord, now: Slot) -> Outcome:
    """Write, replace or remove, if the record has the version that the caller saw."""
    before = view.records.get((command.tenant, command.kind, command.id))
    version = 0 if before is None else before.version
    if command.if_version is not None and command.if_version != version:
        return Refusal(Reason.VERSION_CONFLICT, f"{command.kind}/{command.id}", found=version)
    if command.body is None and before is None:
        return Done(slot=now)
    after = Record(command.tenant, command.kind, command.id, command.body or "", version + 1, now)
    action = Action.JOURNAL_ERASED if command.kind == ERASURES else Action.RECORD_PUT
    record(view, action, subject_of(after), now, command, stored=after, removed=command.body is None)
    return Done(slot=now, record=None if command.body is None else after)


def change_limits(view: View, command: ChangeLimits, now: Slot) -> Outcome:
    """Write what differs; later commands are decided under the new limits."""
    limits, before = view.limits, view.records.get(LIMITS_KEY)
    if command.if_version is not None and command.if_version != limits.version:
        return Refusal(Reason.VERSION_CONFLICT, SUBJECT, found=limits.version)
    changes = {name: value for name, value in command.changes.items() if _differs(limits, name, value)}
    if not changes:
        return Done(slot=now, record=before)
    after = changed_record(limits, changes, before, now)
    record(view, Action.LIMITS_CHANGED, subject_of(after), now, command, stored=after)
    view.limits = in_force(limits, after)
    return Done(slot=now, record=after)


def _differs(limits: Limits, name: str, value: int | None) -> bool:
    """Return whether this is a change: the number of erased names only grows."""
    present = getattr(limits, name)
    return bool((value or 0) > present if name in ERASED_NAMES else value != present)
