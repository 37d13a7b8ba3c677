"""The limits that are stored with the data: how they are kept, and how a change is made of them.

What was changed since the data was created is one record, of a kind that only `ChangeLimits` writes. So engines keep,
replay, export and verify it like any other record, and its version is the version of the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from .commands import ChangeLimits
from .model import MAX_QUANTITY, MAX_SLOT, MEANING, Limits, Record, RecordKey, Slot
from .retention import PastRetention
from .values import for_faces, invalid, whole

LIMITS_KEY: Final[RecordKey] = ("", "~limits", "limits")
"""Of no tenant: they hold for all."""
SUBJECT: Final = "~limits"
"""What journal entries about them are filed under."""
MOST_PAST: Final = 100
"""Past retentions that are kept at most; beyond that the two oldest count as one."""


def subject_of(record: Record) -> str:
    """What journal entries about a record are filed under."""
    return SUBJECT if record.key == LIMITS_KEY else f"{record.kind}/{record.id}"


class Changed(Struct, frozen=True):
    """The record's body: a complete effect."""

    limits: dict[str, int | None]
    """Every limit that was ever changed, as it is now."""
    was: dict[str, int | None]
    """What the last change changed, as it was before."""
    past: tuple[PastRetention, ...] = ()
    bounded: bool = False
    """Whether `max_holds` was set before this change or is set by it: ended holds may have left early, for room."""


_decoder: Final = msgspec.json.Decoder(Changed)


def changed_of(record: Record) -> Changed:
    """What a record says."""
    return _decoder.decode(record.body)


UNBOUNDED: Final = ("max_pools", "max_holds", "max_operations")
"""Limits that may be None."""
SPANS: Final = ("retry_window", "retention", "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "lock_timeout",
                "call_timeout")  # fmt: skip
"""Limits that are intervals."""


def limit_value(name: str, value: object) -> None:
    """One of the limits: a whole number, or None where there may be no bound."""
    unbounded = value is None and name in UNBOUNDED
    if not unbounded and (type(value) is not int or not 0 <= value <= MAX_SLOT):
        raise invalid(name, f"{name}_malformed", f"is {value!r}, which is no whole number from 0 on")


def check_change(command: ChangeLimits, _limits: Limits, faces: bool) -> None:
    """New values by name: at least one, each of a limit that is stored; and nobody's who is bound to a tenant."""
    for_faces(True, "commands", faces, "limits are changed by change_limits alone")
    if command.tenant:
        raise invalid("tenant", "tenant_bound", "limits hold for all tenants: change them on a kernel without a tenant")
    if not command.changes:
        raise invalid("limits", "limits_required", "name at least one limit to change")
    for name, value in command.changes.items():
        if name not in MEANING:
            raise invalid(name, "limit_unknown", f"is not a limit that is stored with the data: {', '.join(MEANING)}")
        limit_value(name, value)
    if command.if_version is not None:
        whole(command.if_version, "if_version", 0, MAX_QUANTITY)


def in_force(created: Limits, record: Record | None) -> Limits:
    """The limits as they are, from those that the data was created with and what was changed since."""
    if record is None:
        return structs.replace(created, version=0, past=())
    changed = changed_of(record)
    known = {name: value for name, value in changed.limits.items() if name in MEANING}
    return structs.replace(created, **known, version=record.version, past=changed.past)


def journaled(created: Limits, record: Record | None) -> Limits:
    """The same, where the journal may be damaged: one that cannot be read changes nothing."""
    try:
        return in_force(created, record)
    except msgspec.DecodeError:
        return created


def was_bounded(limits: Limits, record: Record | None) -> bool:
    """Whether `max_holds` is set under these limits, or was at any time before the record that they come from."""
    if limits.max_holds is not None:
        return True
    try:
        return record is not None and changed_of(record).bounded
    except msgspec.DecodeError:
        return False


def changed_record(limits: Limits, changes: Mapping[str, int | None], before: Record | None, now: Slot) -> Record:
    """The record after a change of the limits in force."""
    earlier = {} if before is None else changed_of(before).limits
    was = {name: getattr(limits, name) for name in changes}
    after = structs.replace(limits, **changes)
    bounded = was_bounded(limits, before) or after.max_holds is not None
    said = Changed({**earlier, **changes}, was, _past(limits, after, now), bounded)
    body = msgspec.json.encode(said, order="sorted").decode()
    return Record(*LIMITS_KEY, body, limits.version + 1, now)


def _past(before: Limits, after: Limits, now: Slot) -> tuple[PastRetention, ...]:
    """The past retentions that can still decide whether an id has retired: each shorter than all that came later, and not so
    long ago that the present one decides it anyway."""
    if after.retention == before.retention:
        return before.past
    later, kept = after.retention, list[PastRetention]()
    for past in (PastRetention(now, before.retention), *reversed(before.past)):
        if past.retention < later and past.until > now - after.retention:
            kept.append(past)
            later = past.retention
    kept.reverse()
    while len(kept) > MOST_PAST:
        kept[:2] = [PastRetention(kept[1].until, kept[0].retention)]
    return tuple(kept)
