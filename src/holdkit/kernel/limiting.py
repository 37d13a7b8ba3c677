"""Limits that are stored with the data, as callers name and see them: spans as intervals, all else as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..core.model import MEANING, SECOND, Limits
from ..core.validation import invalid
from .spelling import span

SPANS: Final = tuple(name for name in MEANING if not name.startswith("max_") or name in ("max_ttl", "max_lifetime"))
"""Those that are intervals."""


def changes_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """New values by name, spans as slots; what is wrong with a value that is no span is for the command's own check."""
    for name in given:
        if name not in MEANING:
            raise invalid(name, "limit_unknown", f"is not a limit that is stored with the data: {', '.join(MEANING)}")
    return {name: span(value, name) if name in SPANS else value for name, value in given.items()}


def in_seconds(limits: Limits) -> dict[str, float | int | None]:
    """The stored limits for documents: spans in seconds."""
    found = {name: getattr(limits, name) for name in MEANING}
    return {name: value / SECOND if name in SPANS else value for name, value in found.items()}


def from_seconds(told: Mapping[str, Any], version: int) -> Limits:
    """The same the other way."""
    read = {name: round(value * SECOND) if name in SPANS else value for name, value in told.items()}
    return Limits(**read, version=version)
