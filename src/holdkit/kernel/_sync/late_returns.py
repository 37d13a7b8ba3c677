# Generated from ../_async/late_returns.py by tools/gen_sync.py: do not edit.
"""Returns that come too late: the history of a hold that was dropped says until when it could return its units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.commands import AnyCommand, ReturnUnits
from ...core.ladders.retiring import returnable_until
from ...core.outcomes import Reply
from ...core.reading import ReadHistory, entry_of
from ...errors import HoldkitError, HoldRetired, Refused
from ..answers import Answer, answer_of, too_late_to_return

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .executor import Executor

MAX_ENTRIES: Final = 1_000
"""Entries of a hold that are read. A longer history is not read at all."""
MAX_EXPLAINED: Final = 10
"""Returns of one batch whose refusals are explained: each reads a history."""


def explain_late_return(executor: Executor, command: AnyCommand, refusal: Refused) -> Refused:
    """Return the refusal; if the journal knows until when the dropped hold could return its units, add that time."""
    if not (isinstance(command, ReturnUnits) and isinstance(refusal, HoldRetired)):
        return refusal
    try:
        rows = executor.read(ReadHistory(command.tenant, refusal.subject, limit=MAX_ENTRIES))
    except HoldkitError:
        return refusal
    kept = None if rows.more else returnable_until(map(entry_of, rows), executor.limits)
    return refusal if kept is None else too_late_to_return(refusal, *kept)


def explained_answers(executor: Executor, commands: Sequence[AnyCommand], outcomes: Sequence[Reply]) -> list[Answer]:
    """Return the outcomes of a batch as users see them; of its first returns that come too late with until when they were possible."""
    answers = [answer_of(command, outcome) for command, outcome in zip(commands, outcomes, strict=True)]
    explained = 0
    for index, answer in enumerate(answers):
        if isinstance(answer, HoldRetired) and isinstance(commands[index], ReturnUnits) and explained < MAX_EXPLAINED:
            answers[index] = explain_late_return(executor, commands[index], answer)
            explained += 1
    return answers
