"""Requests: the paths and answers of operations; commands, legs, intervals and times as JSON has them.

Keys and items are named as their faces name them, never by the pool behind them; a window is named by its pool, and
by when it opens and closes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ..core.commands import AnyCommand, Consume, CreatePool, JoinLine, PlaceHold, ReturnToPool, Ttl
from ..core.face_legs import FaceLeg
from ..core.keyed import CLAIMS
from ..core.model import SECOND, Leg, Slot
from ..core.validation import invalid
from ..kernel.arguments import span
from ..kernel.times import datetime_of, is_in_calendar, moment
from ..operations import OPERATIONS, Operation
from ..wire.batches import DOCUMENTS
from ..wire.fields import decoder

USE_THE_BUDGET: Final = "use hold and consume of the budget itself"
_NOT_SENT: Final = frozenset(
    (
        "tenant", "fingerprint", "client_id", "trace", "ttl_slots", "by_slots", "offer_slots", "wait_slots", "if_version", "late_overage"
    )
)  # fmt: skip


_SPANS: Final = (("ttl", "ttl_slots"), ("by", "by_slots"), ("offer_ttl", "offer_slots"), ("wait", "wait_slots"))
"""Intervals as the caller wrote them, and after normalisation."""


def verb_of(command: AnyCommand) -> str:
    """Return the name of a command in a request."""
    if command.verb not in DOCUMENTS:
        raise invalid("commands", "command_unknown", f"{type(command).__name__} cannot be sent to a server")
    return command.verb


def command_json(
    command: AnyCommand, legs: Callable[[tuple[Leg, ...]], list[dict[str, Any]]] | None = None
) -> dict[str, Any]:
    """Return a command as one of a batch."""
    kind = verb_of(command)
    given = msgspec.to_builtins(command)  # without what is at its default
    found = {
        name: getattr(command, name)
        for name, encoded in zip(command.__struct_fields__, command.__struct_encode_fields__, strict=True)
        if encoded in given and name not in _NOT_SENT
    }
    if isinstance(command, PlaceHold | Consume):
        found["legs"] = (legs or legs_json)(command.legs)
    elif isinstance(command, JoinLine):
        (leg,) = found.pop("legs")
        found |= {"pool": leg.pool, "quantity": leg.quantity}
    elif isinstance(command, ReturnToPool):
        found.pop("force", None)  # it is always forced
    for field, normalised in _SPANS:
        if found.get(field) is not None:
            found[field] = seconds(found[field], field)
        elif (slots := getattr(command, normalised, None)) is not None:
            found[field] = _seconds(slots)
    for field in ("deadline", "until"):
        if found.get(field) is not None:
            found[field] = instant(found[field], field)
    return {"type": kind, **found}


def verb_json(command: AnyCommand) -> dict[str, Any]:
    """Encode a command with a path of its own, which says the verb and, for an existing hold, the id."""
    in_address: tuple[str, ...] = ("type", "op", "id")
    if isinstance(command, PlaceHold | Consume | CreatePool):
        in_address = ("type", "op")
    elif isinstance(command, JoinLine):
        in_address = ("type", "op", "pool")
    return {name: value for name, value in command_json(command).items() if name not in in_address}


def window_json(command: AnyCommand) -> dict[str, Any]:
    """Return a command on pools by window; its retry key is that of the request."""
    found = command_json(command, windows_json)
    found.pop("op", None)
    return found


def legs_json(legs: tuple[Leg, ...]) -> list[dict[str, Any]]:
    """Encode legs as JSON has them."""
    return [_face_leg(leg) if isinstance(leg, FaceLeg) else msgspec.to_builtins(leg) for leg in legs]


def _face_leg(leg: FaceLeg) -> dict[str, Any]:
    if leg.asked is not None:
        raise invalid(
            "legs",
            "legs_windowed",
            "windows cannot be sent in a batch: use hold and consume",
        )
    return {"claim" if leg.pool.startswith(CLAIMS) else "item": leg.label}


def windows_json(legs: tuple[Leg, ...]) -> list[dict[str, Any]]:
    """Encode legs, some on windows, as JSON has them."""
    return [_window_leg(leg) for leg in legs]


def _window_leg(leg: Leg) -> dict[str, Any]:
    if isinstance(leg, FaceLeg) and leg.label is not None:
        return _face_leg(leg)
    fields: dict[str, Any] = {
        "pool": leg.pool,
        "quantity": leg.quantity,
        "create_with_total": leg.create_with_total,
    }
    if isinstance(leg, FaceLeg):
        fields |= {"opens": instant(leg.opens, "opens"), "closes": instant(leg.closes, "closes")}
    return {name: value for name, value in fields.items() if value is not None}


def seconds(value: Ttl | None, field: str = "ttl") -> int | float | None:
    """Return an interval as JSON has it, if there is one."""
    return None if value is None else duration(value, field)


def duration(value: Ttl, field: str = "ttl") -> int | float:
    """Return an interval as JSON has it."""
    return _seconds(span(value, field))


def _seconds(slots: Slot) -> int | float:
    return slots // SECOND if slots % SECOND == 0 else slots / SECOND


def instant(value: Slot | datetime | None, field: str) -> str | None:
    """Return a point in time as JSON has it."""
    if value is None:
        return None
    slot = moment(value, field)
    if type(slot) is not int or not is_in_calendar(slot):
        raise invalid(field, f"{field}_malformed", "must be an aware datetime, or a slot before the year 10000")
    return datetime_of(slot).isoformat()


def _part(id: str) -> str:
    if id in (".", ".."):
        raise invalid("id", "id_unaddressable", "cannot be part of a URL: every proxy would resolve it")
    return quote(id, safe="")


OPERATION: Final[dict[str, Operation]] = {operation.name: operation for operation in OPERATIONS}
_PATHS: Final = {name: re.sub(r"{\w+}", "%s", operation.path) for name, operation in OPERATION.items()}
READ: Final = {
    name: decoder(operation.answer).decode
    for name, operation in OPERATION.items()
    if operation.media == "application/json"
}
"""Reads the answer of an operation. Made once, here: msgspec crashes if two threads use a type for the first time at the same moment."""


def path_of(operation: str, *ids: str) -> str:
    """Return the path of an operation, such as `/v1/pools/show%2F42`: ids are percent-encoded completely, slashes too."""
    return _PATHS[operation] % tuple([_part(id) for id in ids])
