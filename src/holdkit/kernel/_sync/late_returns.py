# Generated from ../_async/late_returns.py by tools/gen_sync.py: do not edit.
"""A return that comes too late: the history of a hold that was dropped says until when it could return its units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.commands import AnyCommand, ReturnUnits
from ...core.ladders.retiring import returnable_until
from ...core.reading import ReadHistory, entry_of
from ...errors import HoldkitError, HoldRetired, Refused
from ..answers import too_late_to_return

if TYPE_CHECKING:
    from .executor import Executor

MAX_ENTRIES: Final = 1_000
"""Entries of a hold that are read. A longer history is not read at all."""


def explain_late_return(executor: Executor, command: AnyCommand, refusal: Refused) -> Refused:
    """Return the refusal; of a return whose hold was dropped with until when it could return its units, if the journal tells."""
    if not (isinstance(command, ReturnUnits) and isinstance(refusal, HoldRetired)):
        return refusal
    try:
        rows = executor.read(ReadHistory(command.tenant, refusal.subject, limit=MAX_ENTRIES))
    except HoldkitError:
        return refusal
    kept = None if rows.more else returnable_until(map(entry_of, rows), executor.limits)
    return refusal if kept is None else too_late_to_return(refusal, *kept)
