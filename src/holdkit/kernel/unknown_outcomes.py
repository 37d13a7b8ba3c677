"""What became of a commit whose fate the engine could not tell: asked again, once, where asking is proof.

An operation id is a retry key; so is the id of a hold that we minted ourselves, because nobody else can have placed it. No
other command is ever sent twice. No path here turns *unknown* into *refused*: being turned away says nothing of the first
attempt, and a refusal counts only where the journal shows that the first attempt did not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from ..core.codec import hash_owner
from ..core.commands import Consume, Group, PlaceHold
from ..core.entries import Action, Entry
from ..core.fold import reconstruct
from ..core.model import SECOND, Limits
from ..core.outcomes import Done, Outcome, Reason, Refusal
from ..core.reading import Query, ReadHistory, entry_of
from ..engines.port import Applied

T = TypeVar("T")

SHORTEST_WINDOW: Final = 60 * SECOND
"""An operation record must outlive the question: where it does not, nothing is asked."""


class Askable(Protocol):
    """As much of an engine as asking again needs."""

    @property
    def limits(self) -> Limits:
        """Those in force."""
        ...

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:
        """Send it again."""
        ...

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Look."""
        ...


def ask_again(engine: Askable, group: Group, *, minted: bool, wait_for_locks: bool = False) -> list[Outcome] | None:
    """The outcomes of a group that was sent before, or None if they cannot be told. May raise what the engine raises."""
    if all(command.op is not None for command in group.commands):
        return _by_operation(engine, group, wait_for_locks)
    command = group.commands[0]
    if minted and len(group.commands) == 1 and isinstance(command, PlaceHold | Consume):
        outcome = _by_hold(engine, group, command, wait_for_locks)
        return None if outcome is None else [outcome]
    return None


def _by_operation(engine: Askable, group: Group, wait_for_locks: bool) -> list[Outcome] | None:
    """The recorded answers if it happened; if it did not, it happens now."""
    if engine.limits.retry_window < SHORTEST_WINDOW:
        return None
    applied = engine.apply([group], wait_for_locks=wait_for_locks)
    if applied.skipped_locked:
        return None
    (outcomes,) = applied.outcomes
    turned_away = any(isinstance(outcome, Refusal) and outcome.reason in _TURNED_AWAY for outcome in outcomes)
    return None if turned_away else outcomes


_TURNED_AWAY: Final = frozenset({Reason.OPERATION_TABLE_FULL, Reason.WINDOW_CLOSED})  # not remembered: no proof


def _by_hold(engine: Askable, group: Group, command: PlaceHold | Consume, wait_for_locks: bool) -> Outcome | None:
    """The journal knows whether our hold was born. If not, a hold may be asked for once more: its id can be taken only
    once. (A consume may not: it ends at once, and an ended hold may leave the tables.) What is read is proved, and that nothing
    is there is no proof where others write: there the first attempt may land at any time."""
    outcome: Outcome | None = _born(engine, command)
    if outcome is not None or isinstance(command, Consume):
        return outcome
    applied = engine.apply([group], wait_for_locks=wait_for_locks)
    if applied.skipped_locked:
        return None
    ((outcome,),) = applied.outcomes
    if isinstance(outcome, Done):
        return outcome
    born = _born(engine, command)  # the first attempt may have landed only just now
    if applied.last_seq is None:  # or be under way still: a server goes on with what it was sent when we hang up
        return born
    if born is None and isinstance(outcome, Refusal) and outcome.reason is Reason.HOLD_EXISTS:
        return None
    return born or outcome


def _born(engine: Askable, command: PlaceHold | Consume) -> Done | None:
    """The answer that was lost, rebuilt from the hold's first entries."""
    assert command.id is not None
    assert command.owner is not None
    rows = engine.read(ReadHistory(command.tenant, command.id), durable=True)
    story: list[Entry] = []
    for row in rows:
        entry = entry_of(row)
        if entry.part:
            continue
        if entry.action is Action.HOLD_HELD or (story and entry.action is Action.HOLD_CONFIRMED):
            story.append(entry)
        if len(story) == (2 if isinstance(command, Consume) else 1):
            hold = reconstruct(story)
            if hold is None or hold.owner_hash != hash_owner(command.owner):
                return None
            return Done(slot=entry.slot, seq=row.seq, lane=row.lane, hold=hold, token=command.owner)
    return None
