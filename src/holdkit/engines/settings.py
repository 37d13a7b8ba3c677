"""Limits that change what stored data means are stored with the data, not chosen by each `connect`: this module reconciles the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from ..core.bounds import MEANING, Limits
from ..core.erased_names import ErasedNames, names_of
from ..core.limits import SPANS, in_force
from ..core.model import DAY, SECOND, Record
from ..core.validation import invalid
from ..errors import EngineError


class StoredLimits:
    """The limits that this process read last. A transaction that finds another version stored adopts it before it decides anything, and
    so does a call that asks for the limits."""

    __slots__ = ("_lanes", "_secret", "created", "in_force")

    def __init__(
        self, created: Limits, record: Record | None = None, *, secret: bytes | None = None, lanes: int = 1
    ) -> None:
        self.created = created
        """The limits that the data was created with where they change its meaning; the others as this process asked for."""
        self.in_force = in_force(created, record)
        self._secret, self._lanes = secret, lanes

    def names(self, limits: Limits) -> ErasedNames | None:
        """Return what recognises erased names under these limits; None if there are none, or the engine cannot erase."""
        return None if self._secret is None else names_of(limits, self._secret, self._lanes)

    def bound(self, **unstored: int) -> None:
        """Set limits that are not stored with the data, for this process. Those of the kernel's queue are set when it is opened."""
        assert not unstored.keys() & set(MEANING), "a stored limit is changed by a command"
        self.created = structs.replace(self.created, **unstored)
        self.in_force = structs.replace(self.in_force, **unstored)

    def adopt(self, record: Record | None) -> Limits:
        """Apply the changes that were made since the data was created."""
        if self.in_force.version != (0 if record is None else record.version):
            self.in_force = in_force(self.created, record)
        return self.in_force


def stored_form(limits: Limits) -> dict[str, Any]:
    """Return what is stored when the data is created."""
    return {name: getattr(limits, name) for name in MEANING}


BEFORE: Final = {"retention_consumed": 400 * DAY, "max_line": 100_000, "max_claim_ttl": DAY}
"""Limits that did not exist yet when some data was created, and what counts for such data: what the default was when they came. It
stays, whatever the default becomes."""


def limits_as_created(where: str, stored: Mapping[str, Any], asked: Limits | None, defaults: Limits) -> Limits:
    """Return the limits that change meaning as stored, the others as asked for."""
    asked = asked or defaults
    found = {**BEFORE, **stored}
    for name in MEANING:
        if name not in found:
            raise EngineError(f"cannot open {where}: its settings lack {name}; restore a backup")
    return structs.replace(asked, **{name: found[name] for name in MEANING})


def check_asked(where: str, asked: Limits | None, stored: StoredLimits) -> StoredLimits:
    """Raise `InvalidRequest` unless what was asked for is the default, what the data was created with, or what is in force."""
    for name in MEANING if asked is not None else ():
        wanted, present = getattr(asked, name), getattr(stored.in_force, name)
        if wanted not in (getattr(Limits(), name), getattr(stored.created, name), present):
            raise invalid(
                "limits",
                "limits_differ",
                f"{name} is {_shown(name, present)} in {where}, not {_shown(name, wanted)}: it is stored with the data, and changed by change_limits",
            )
    return stored


def _shown(name: str, value: int | None) -> str:
    """Return a limit as callers write it: intervals in seconds."""
    return f"{value / SECOND:.12g} s" if name in SPANS and value is not None else str(value)
