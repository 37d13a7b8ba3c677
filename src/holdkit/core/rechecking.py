"""Second validation: for a command that a process validated before it knew of changed limits."""

from __future__ import annotations

from typing import Final

from ..errors import InvalidRequest, plain
from .commands import AnyCommand
from .model import Limits
from .outcomes import Invalid
from .validation import check

BY_LIMITS: Final = frozenset({"ttl_too_long", "ttl_too_short", "by_too_long", "by_too_short", "legs_too_many"})
"""The codes of what a stored limit refuses."""


def unfit_for(command: AnyCommand, limits: Limits) -> Invalid | None:
    """Why a command that was checked under other limits does not fit these; None if it does."""
    try:
        check(command, limits, faces=True)
    except InvalidRequest as error:
        return Invalid(error.field, error.code, plain(error).removeprefix(f"{error.field}: "))
    return None
