"""Limits that change meaning live with the data, not with each `connect`: the one place that reconciles the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from ..core.limits import SPANS, in_force
from ..core.model import MEANING, SECOND, Limits, Record
from ..core.validation import invalid
from ..errors import EngineError


class StoredLimits:
    """The limits in force as this process knows them. A transaction that finds another version than theirs takes over the
    record before it decides anything; so does whoever asks."""

    __slots__ = ("created", "in_force")

    def __init__(self, created: Limits, record: Record | None = None) -> None:
        self.created = created
        """Those that change meaning as the data was created with, the others as this process asked for."""
        self.in_force = in_force(created, record)

    def adopt(self, record: Record | None) -> Limits:
        """Take over what was changed since the data was created."""
        if self.in_force.version != (0 if record is None else record.version):
            self.in_force = in_force(self.created, record)
        return self.in_force


def stored_form(limits: Limits) -> dict[str, Any]:
    """What is written down when the data is created."""
    return {name: getattr(limits, name) for name in MEANING}


def limits_as_created(where: str, stored: Mapping[str, Any], asked: Limits | None, defaults: Limits) -> Limits:
    """Those that change meaning as stored, the others as asked for; `InvalidRequest` where the two disagree."""
    asked = asked or defaults
    for name in MEANING:
        if name not in stored:
            raise EngineError(f"cannot open {where}: its settings lack {name}; restore a backup")
    return structs.replace(asked, **{name: stored[name] for name in MEANING})


def check_asked(where: str, asked: Limits | None, stored: StoredLimits, defaults: Limits) -> StoredLimits:
    """Whoever opens may ask for the defaults, for what the data was created with, or for what is in force."""
    for name in MEANING if asked is not None else ():
        wanted, present = getattr(asked, name), getattr(stored.in_force, name)
        if wanted not in (getattr(defaults, name), getattr(Limits(), name), getattr(stored.created, name), present):
            raise invalid(
                "limits",
                "limits_differ",
                f"{name} is {_shown(name, present)} in {where}, not {_shown(name, wanted)}: it is stored with the data, and changed by change_limits",
            )
    return stored


def _shown(name: str, value: int | None) -> str:
    """A limit as callers spell it: intervals in seconds."""
    return f"{value / SECOND:.12g} s" if name in SPANS and value is not None else str(value)
