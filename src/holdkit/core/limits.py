"""The limits that are stored with the data: how they are stored, and how they change.

All changes since the data was created are one record, of a kind that only `ChangeLimits` writes. So engines store,
replay, export and verify it like any other record, and its version is the version of the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from .bounds import ERASED_NAMES, MEANING, Limits
from .commands import ChangeLimits
from .model import MAX_QUANTITY, MAX_SLOT, Record, RecordKey, Slot
from .retention import PastRetention
from .values import for_faces, invalid, whole

LIMITS_KEY: Final[RecordKey] = ("", "~limits", "limits")
"""They belong to no tenant, and apply to all."""
SUBJECT: Final = "~limits"
"""The subject of journal entries about the limits."""
MOST_PAST: Final = 100
"""The most past retentions that are kept; beyond that the two oldest are merged."""


def subject_of(record: Record) -> str:
    """The subject of journal entries about a record."""
    return SUBJECT if record.key == LIMITS_KEY else f"{record.kind}/{record.id}"


class Changed(Struct, frozen=True):
    """The record's body: a complete effect."""

    limits: dict[str, int | None]
    """Every limit that was ever changed, as it is now."""
    was: dict[str, int | None]
    """The values that the last change replaced."""
    past: tuple[PastRetention, ...] = ()
    bounded: bool = False
    """Whether `max_holds` was set before this change or is set by it: ended holds may have been dropped early, to make room."""


_decoder: Final = msgspec.json.Decoder(Changed)


def changed_of(record: Record) -> Changed:
    """The content of the record."""
    return _decoder.decode(record.body)


UNBOUNDED: Final = ("max_pools", "max_holds", "max_operations")
"""Limits that may be None."""
SPANS: Final = ("retry_window", "retention", "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "lock_timeout",
                "call_timeout")  # fmt: skip
"""Limits that are intervals."""


def limit_value(name: str, value: object) -> None:
    """One of the limits: an integer, or None if it may be unbounded."""
    unbounded = value is None and name in UNBOUNDED
    if not unbounded and (type(value) is not int or not 0 <= value <= MAX_SLOT):
        raise invalid(name, f"{name}_malformed", f"is {value!r}, which is no whole number from 0 on")


def check_change(command: ChangeLimits, _limits: Limits, faces: bool) -> None:
    """Check new values by name: at least one, each for a stored limit, and not from a kernel bound to a tenant."""
    for_faces(True, "commands", faces, "limits are changed by change_limits alone")
    if command.tenant:
        raise invalid("tenant", "tenant_bound", "limits hold for all tenants: change them on a kernel without a tenant")
    if not command.changes:
        raise invalid("limits", "limits_required", "name at least one limit to change")
    for name, value in command.changes.items():
        if name not in MEANING and name not in ERASED_NAMES:
            raise invalid(name, "limit_unknown", f"is not a limit that is stored with the data: {', '.join(MEANING)}")
        limit_value(name, value)
    if command.if_version is not None:
        whole(command.if_version, "if_version", 0, MAX_QUANTITY)


def in_force(created: Limits, record: Record | None) -> Limits:
    """The current limits: those with which the data was created, and the changes since."""
    if record is None:
        return structs.replace(created, version=0, past=())
    changed = changed_of(record)
    known = {name: value for name, value in changed.limits.items() if name in MEANING or name in ERASED_NAMES}
    return structs.replace(created, **known, version=record.version, past=changed.past)


def journaled(created: Limits, record: Record | None) -> Limits:
    """The same for a journal that may be damaged: an unreadable record changes nothing."""
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
    """The past retentions that can still decide whether an id has retired: each shorter than all later ones, and recent
    enough that the current one does not decide it anyway."""
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
