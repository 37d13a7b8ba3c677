"""Rung 0: recorded answers of operation ids, for commands and for guards."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import structs

from .commands import AnyCommand, Guard
from .ladders.finding import retired
from .model import MAX_SLOT
from .outcomes import Done, Invalid, Operation, Outcome, Reason, Refusal
from .view import View

Askable: TypeAlias = AnyCommand | Guard


def recall(view: View, command: Askable) -> Outcome | None:
    """Return the recorded answer of this operation id, if there is one."""
    view.written = 0
    if command.op is None:
        return None
    slot = view.loaded.slot
    operation = view.operations.get((command.tenant, command.op))
    if operation is not None and slot < operation.until:
        if operation.fingerprint != command.fingerprint:
            return Refusal(Reason.OPERATION_CONFLICT, command.op)
        view.written = operation.seq
        return structs.replace(operation.outcome, replayed=True)
    if not isinstance(command, Guard) and command.kept_by_hold and command.names == "hold":
        hold = view.holds.get((command.tenant, command.id))
        if hold is None or hold.last_op is None or retired(hold, view.limits, slot):
            return None
        if hold.last_op[32:] == command.op:
            if hold.last_op[:32] != command.fingerprint:
                return Refusal(Reason.OPERATION_CONFLICT, command.op)
            return Done(slot=slot, hold=hold, replayed=True)
    return None


def operations_full(view: View) -> bool:
    """Return whether there is no room for one more operation record."""
    limit = view.limits.max_operations
    return limit is not None and view.loaded.counts.operations + view.grown[2] >= limit


def remember(view: View, command: Askable, outcome: Outcome, *, has_room: bool = False) -> None:
    """Record the answer for retries, if it settles the operation and there is room.

    `has_room` says that there was room before the command was decided. A command that lowers `max_operations` may leave none, and
    still needs its record: without it, a retry would change the limits twice.
    """
    if command.op is None or isinstance(outcome, Invalid) or outcome.replayed:
        return
    if not has_room and operations_full(view):
        return
    if isinstance(outcome, Refusal) and outcome.reason in UNSETTLED:
        return
    until = min(view.loaded.slot + view.loaded.limits.retry_window, MAX_SLOT)
    stored = Operation(command.tenant, command.op, command.fingerprint, until, outcome, view.written)
    view.grown[2] += 1
    view.operations.put((command.tenant, command.op), stored)


UNSETTLED: Final = frozenset({Reason.OPERATION_CONFLICT, Reason.OPERATION_TABLE_FULL, Reason.WINDOW_CLOSED})
"""Refusals that concern only this attempt, not the operation."""
