"""Limits that change meaning live with the data, not with each `connect`: the one place that reconciles the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from ..core.model import MEANING, Limits
from ..core.validation import invalid
from ..errors import EngineError


def stored_form(limits: Limits) -> dict[str, Any]:
    """What is written down when the data is created."""
    return {name: getattr(limits, name) for name in MEANING}


def limits_in_force(where: str, stored: Mapping[str, Any], asked: Limits | None, defaults: Limits) -> Limits:
    """Those that change meaning as stored, the others as asked for; `InvalidRequest` where the two disagree."""
    asked = asked or defaults
    for name in MEANING:
        if name not in stored:
            raise EngineError(f"cannot open {where}: its settings lack {name}; restore a backup")
        wanted = getattr(asked, name)
        if wanted not in (getattr(defaults, name), getattr(Limits(), name), stored[name]):
            raise invalid(
                "limits",
                "limits_differ",
                f"{name} is {stored[name]} in {where}, not {wanted}: it was fixed when the data was created",
            )
    return structs.replace(asked, **{name: stored[name] for name in MEANING})
