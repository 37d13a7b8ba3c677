"""PutRecord: compare-and-set on a small durable document."""

from __future__ import annotations

from ..commands import PutRecord
from ..entries import Action
from ..limits import subject_of
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
    record(view, Action.RECORD_PUT, subject_of(after), now, command, stored=after, removed=command.body is None)
    return Done(slot=now, record=None if command.body is None else after)
