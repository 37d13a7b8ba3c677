"""Times: datetimes as slots, and slots as datetimes. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, overload

from ..core.model import MAX_SLOT, Slot
from ..core.validation import invalid

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)
"""What a time beyond the calendar reads as, so that None only means that there is no time."""
FAR: Final = MAX_SLOT + 1
"""Beyond the last slot."""


def moment(value: Any, field: str = "deadline") -> Any:
    """Return a point in time as a slot; a datetime must know its time zone. A number beyond every clock becomes `FAR` or `-FAR`, which is
    answered alike. Anything else is passed on, for validation to refuse."""
    if type(value) is int:
        return max(-FAR, min(value, FAR))
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise invalid(field, f"{field}_naive", "a datetime must know its time zone: datetime.now(timezone.utc)")
        gap = value - EPOCH
        return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
    return value


@overload
def datetime_of(slot: Slot) -> datetime: ...


@overload
def datetime_of(slot: Slot | None) -> datetime | None: ...


def datetime_of(slot: Slot | None) -> datetime | None:
    """Return a slot as an aware datetime in UTC: one beyond the calendar, as in simulations, as its last or first moment."""
    if slot is None:
        return None
    try:
        return EPOCH + timedelta(microseconds=slot)
    except OverflowError:
        return FIRST if slot < 0 else LAST


def is_in_calendar(slot: Slot) -> bool:
    """Return whether a datetime can express the slot."""
    return FIRST < datetime_of(slot) < LAST


@overload
def text_of(slot: Slot) -> str: ...


@overload
def text_of(slot: Slot | None) -> str | None: ...


def text_of(slot: Slot | None) -> str | None:
    """Return a slot as ISO 8601 text."""
    at = datetime_of(slot)
    return None if at is None else at.isoformat(timespec="microseconds")


_TIMES: Final = {"held_at": ("held_slot", "held_at"), "joined_at": ("joined_slot", "joined_at"), "ended_at": ("ended_slot", "ended_at"),
                 "deadline": ("deadline", "deadline_at"), "slot": ("slot", "at")}  # fmt: skip
"""The names that stored times have for users: as a slot, and as a datetime."""
_SLOTS: Final = frozenset(slot for slot, _ in _TIMES.values())


def with_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored fields under the names that users know; each time as a slot and as an aware datetime."""
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _TIMES:
            slot, at = _TIMES[name]
            shown[slot], shown[at] = value, datetime_of(value)
        else:
            shown[name] = value
    return shown


def with_datetimes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the fields of `with_times` from those of `without_slots` after a round trip through JSON: lists become tuples again."""
    shown = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    for slot, at in _TIMES.values():
        sent = "deadline" if at == "deadline_at" else at
        if sent in fields:
            time = None if fields[sent] is None else datetime.fromisoformat(fields[sent])
            shown[slot], shown[at] = moment(time), time
    return shown


def without_slots(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the two forms of each time by one datetime: `deadline`, `held_at`, `joined_at`, `ended_at`, `at`."""
    return {"deadline" if name == "deadline_at" else name: value for name, value in shown.items() if name not in _SLOTS}


def for_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a result with texts in place of datetimes and enums, also in dictionaries within it."""
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, Mapping):
        return for_json(value)
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return str(value) if isinstance(value, StrEnum) else value
