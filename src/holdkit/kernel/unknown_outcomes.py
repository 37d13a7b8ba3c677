"""Unknown outcomes: find out whether a commit happened when the engine could not tell.

Theory of operation
-------------------

A connection that breaks during COMMIT leaves the outcome unknown. The kernel then asks once, where asking is proof:

  - By operation id. The group is sent again; the operation id is a retry key. If the first attempt was committed, the engine
    answers with the recorded outcomes; if not, the group is decided now. The record must outlive the question, so nothing
    is asked where the retry window is very short.
  - By the id of a hold that the kernel minted. No other call can have placed that hold, so the journal knows whether the first
    attempt happened. If the hold is not there, it is asked for once more: its id can be taken only once. A `Consume` is not
    asked for again, because it ends at once, and a hold that has ended may leave the tables.

No other command is ever sent twice.

*Invariant:* nothing here turns "unknown" into "refused". That a second attempt was turned away says nothing about the first
one. A refusal counts only where the journal proves that the first attempt did not happen; and where others write at the same
time, its absence from the journal proves nothing, because the server may still be at work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol, TypeVar

from ..core.bounds import Limits
from ..core.codec import hash_owner
from ..core.command_kinds import Placing
from ..core.commands import Consume, Group
from ..core.entries import Action, Entry
from ..core.fold import reconstruct
from ..core.model import SECOND
from ..core.outcomes import Position, Reason, Receipt, Refusal, Reply
from ..core.reading import Query, ReadHistory, entry_of
from ..engines.deadlines import run_until
from ..engines.durability import Durability
from ..engines.port import Applied
from ..errors import Overloaded
from .results import replies_of

T = TypeVar("T")

SHORTEST_WINDOW: Final = 60 * SECOND
"""With a shorter retry window the record of an operation might not outlive the question."""
MOST_PUT_OFF: Final = 1_000
"""How often a group is sent again because the lines of its pools are being fed."""
_NOT_RECORDED: Final = frozenset({Reason.OPERATION_TABLE_FULL, Reason.WINDOW_CLOSED})  # prove nothing


class Askable(Protocol):
    """The part of an engine that asking again needs."""

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        ...

    @property
    def durability(self) -> Durability:
        """What an answer survives."""
        ...

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Send the group again."""
        ...

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Read the journal."""
        ...


def ask_again(
    engine: Askable,
    group: Group,
    *,
    minted: bool,
    until: float,
    wait_for_locks: bool = False,
    applied: Callable[[Applied], None] | None = None,
) -> list[Reply] | None:
    """Return the outcomes of a group that was sent before; None if they cannot be found out. Errors of the engine pass through. Call
    `applied` with the result of each transaction."""

    def send() -> Applied:
        return _send(engine, group, until, wait_for_locks, applied)

    if all(command.op is not None for command in group.commands):
        return _by_operation(engine, send)
    command = group.commands[0]
    if minted and len(group.commands) == 1 and command.names == "legs":
        outcome = _by_hold(engine, command, until, send)
        return None if outcome is None else [outcome]
    return None


def _send(
    engine: Askable, group: Group, until: float, wait_for_locks: bool, applied: Callable[[Applied], None] | None
) -> Applied:
    """Send the group again. While lines before it have more to feed than one transaction may, it is put off."""
    for _ in range(MOST_PUT_OFF):
        result = engine.apply([group], until=until, wait_for_locks=wait_for_locks)
        if applied is not None:
            applied(result)
        if not result.put_off:
            return result
    raise Overloaded("the lines of its pools are being fed: try again a little later")


def _by_operation(engine: Askable, send: Callable[[], Applied]) -> list[Reply] | None:
    """Return the recorded outcomes if it happened; if it did not, it happens now."""
    if engine.limits.retry_window < SHORTEST_WINDOW:
        return None
    applied = send()
    if applied.skipped_locked:
        return None
    (outcomes,) = replies_of(applied, engine.durability.level)
    not_recorded = any(isinstance(outcome, Refusal) and outcome.reason in _NOT_RECORDED for outcome in outcomes)
    return None if not_recorded else outcomes


def _by_hold(engine: Askable, command: Placing, until: float, send: Callable[[], Applied]) -> Reply | None:
    """Return the outcome of placing a hold whose id we minted, by the journal; else by placing it now."""
    outcome: Reply | None = _placed(engine, command, until)
    if outcome is not None or isinstance(command, Consume):
        return outcome
    applied = send()
    if applied.skipped_locked:
        return None
    ((outcome,),) = replies_of(applied, engine.durability.level)
    if isinstance(outcome, Receipt):
        return outcome
    placed = _placed(engine, command, until)  # the first attempt may have been committed only just now
    if (
        applied.last_seq is None
    ):  # or may still be at work: a server finishes a statement even when its client has disconnected
        return placed
    if placed is None and isinstance(outcome, Refusal) and outcome.reason is Reason.HOLD_EXISTS:
        return None
    return placed or outcome


def _placed(engine: Askable, command: Placing, until: float) -> Receipt | None:
    """Return the answer that was lost, rebuilt from the first entries of the hold; None if the journal does not have them."""
    assert command.id is not None
    assert command.token is not None
    history = ReadHistory(command.tenant, command.id)
    rows = run_until(until, partial(engine.read, history, durable=True))
    story: list[Entry] = []
    for row in rows:
        entry = entry_of(row)
        if entry.part:
            continue
        if entry.action.begins or (story and entry.action is Action.HOLD_CONFIRMED):
            story.append(entry)
        if len(story) == (2 if isinstance(command, Consume) else 1):
            hold = reconstruct(story)
            if hold is None or hold.owner_hash != hash_owner(command.token):
                return None
            position, survives = Position(row.lane, row.seq), engine.durability.level
            return Receipt(entry.slot, hold, token=command.token, position=position, durability=survives)
    return None
