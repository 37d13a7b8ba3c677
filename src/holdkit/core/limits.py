"""The limits that are stored with the data: how they are stored, and how they change.

All changes since the data was created are one record, of a kind that only `ChangeLimits` writes. So engines store,
replay, export and verify it like any other record, and its version is the version of the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from ..errors import InvalidRequest
from .bounds import BOUNDS, ERASED_NAMES, MEANING, Limits
from .commands import ChangeLimits
from .keyed import CLAIMS
from .model import MAX_QUANTITY, Leg, Record, RecordKey, Slot
from .retention import PastRetention
from .values import for_faces, invalid, spelled, whole

LIMITS_KEY: Final[RecordKey] = ("", "~limits", "limits")
"""They belong to no tenant, and apply to all."""
SUBJECT: Final = "~limits"
"""The subject of journal entries about the limits."""
MOST_PAST: Final = 100
"""The most past retentions that are kept; beyond that the two oldest are merged."""


def subject_of(record: Record) -> str:
    """Return the subject of journal entries about a record."""
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
    """Return the content of the record."""
    return _decoder.decode(record.body)


SPANS: Final = tuple(name for name, bound in BOUNDS.items() if bound.is_interval)
"""Limits that are intervals."""


def limit_value(name: str, value: object) -> None:
    """Refuse a value that the limit may not have. The message names what it may have."""
    bound = BOUNDS[name]
    if value is None and bound.may_be_none:
        return
    if type(value) is not int:
        raise invalid(name, f"{name}_malformed", allowed(name))
    if not bound.least <= value <= bound.greatest:
        raise beyond_bounds(name, too_much=value > bound.greatest)


def beyond_bounds(name: str, *, too_much: bool) -> InvalidRequest:
    """Return the error for a limit that is below its least value, or above its greatest."""
    small, large = ("short", "long") if BOUNDS[name].is_interval else ("small", "large")
    return invalid(name, f"{name}_too_{large if too_much else small}", allowed(name))


def allowed(name: str) -> str:
    """Describe the values that a limit may have, in words."""
    bound = BOUNDS[name]
    if bound.is_interval:
        return f"must lie between {spelled(bound.least)} and {spelled(bound.greatest)}"
    unbounded = ", or none for no bound" if bound.may_be_none else ""
    return f"must be a whole number between {bound.least} and {bound.greatest}{unbounded}"


def places_key(legs: tuple[Leg, ...]) -> bool:
    """Return whether any of the legs is a key."""
    return any(leg.pool.startswith(CLAIMS) for leg in legs)


def for_keys(limits: Limits) -> str:
    """Return the message for a key that would be held longer than `max_claim_ttl`."""
    return f"must be at most {spelled(limits.max_claim_ttl)} for a key (max_claim_ttl)"


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
        if name in BOUNDS:
            limit_value(name, value)
        else:
            whole(value, name, 0, MAX_QUANTITY)
    if command.if_version is not None:
        whole(command.if_version, "if_version", 0, MAX_QUANTITY)


def in_force(created: Limits, record: Record | None) -> Limits:
    """Return the current limits: those with which the data was created, and the changes since."""
    if record is None:
        return structs.replace(created, version=0, past=())
    changed = changed_of(record)
    known = {name: value for name, value in changed.limits.items() if name in MEANING or name in ERASED_NAMES}
    return structs.replace(created, **known, version=record.version, past=changed.past)


def journaled(created: Limits, record: Record | None) -> Limits:
    """Return the current limits by a journal that may be damaged: an unreadable record changes nothing."""
    try:
        return in_force(created, record)
    except msgspec.DecodeError:
        return created


def was_bounded(limits: Limits, record: Record | None) -> bool:
    """Return whether `max_holds` is set under these limits, or was at any time before the record that they come from."""
    if limits.max_holds is not None:
        return True
    try:
        return record is not None and changed_of(record).bounded
    except msgspec.DecodeError:
        return False


def changed_record(limits: Limits, changes: Mapping[str, int | None], before: Record | None, now: Slot) -> Record:
    """Return the record after a change of the limits in force."""
    earlier = {} if before is None else changed_of(before).limits
    was = {name: getattr(limits, name) for name in changes}
    after = structs.replace(limits, **changes)
    bounded = was_bounded(limits, before) or after.max_holds is not None
    said = Changed({**earlier, **changes}, was, _past(limits, after, now), bounded)
    body = msgspec.json.encode(said, order="sorted").decode()
    return Record(*LIMITS_KEY, body, limits.version + 1, now)


def _past(before: Limits, after: Limits, now: Slot) -> tuple[PastRetention, ...]:
    """Return the past retentions that can still decide whether an id has retired: each shorter than all later ones, and
    recent enough that the current one does not decide it anyway."""
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
