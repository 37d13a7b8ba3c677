"""Outcomes as users see them: holds, pools, records, reports; and refusals as exceptions that say what to do."""

from __future__ import annotations

from typing import Any, Final

from .. import errors
from ..core.commands import AnyCommand, Sweep
from ..core.model import Pool, Record
from ..core.outcomes import Done, Invalid, Outcome, Refusal
from .surface import Hold, SweepReport

Answer = Hold | Pool | Record | SweepReport | errors.Refused | errors.InvalidRequest | None
"""What `apply` gives per command: the thing itself, a refusal as a value, or None where there is nothing to show."""


def answer_of(command: AnyCommand, outcome: Outcome) -> Answer:
    """An outcome as users see it."""
    if isinstance(outcome, Refusal):
        return refusal_of(outcome)
    if isinstance(outcome, Invalid):
        return errors.InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
    if outcome.hold is not None:
        return hold_of(outcome, getattr(command, "owner", None))
    if isinstance(command, Sweep):
        return SweepReport(outcome.expired, outcome.slot, outcome.more)
    return outcome.pool or outcome.record


def hold_of(done: Done, owner: str | None) -> Hold:
    """The hold of a done outcome; a recorded token wins over the one just minted for the retry."""
    assert done.hold is not None
    token = owner if done.token is None else done.token
    return Hold(done.hold, token, seq=done.seq, uncovered=done.uncovered, replayed=done.replayed)


_CLASSES: Final[dict[str, type[errors.Refused]]] = {cls.reason: cls for cls in errors.Refused.__subclasses__()}


def refusal_of(refusal: Refusal) -> errors.Refused:
    """A refusal as its exception, with its numbers and a message that says what to do."""
    cls = _CLASSES[refusal.reason]
    details: dict[str, Any] = {"subject": refusal.subject}
    if refusal.shortfalls:
        first = refusal.shortfalls[0]
        details |= {"shortfalls": refusal.shortfalls, "requested": first.requested, "available": first.available,
                    "total": first.total}  # fmt: skip
    if refusal.found is not None:
        details["found"] = refusal.found
    return cls(_message(refusal), replayed=refusal.replayed, **details)


def _message(refusal: Refusal) -> str:
    if refusal.shortfalls:
        return "; ".join(
            f"pool {short.pool!r} has {short.available} of {short.total} available, {short.requested} requested"
            for short in refusal.shortfalls[:5]
        ) + (f"; and {len(refusal.shortfalls) - 5} more" if len(refusal.shortfalls) > 5 else "")
    said = _SAID.get(refusal.reason, "")
    return said.format(subject=repr(refusal.subject), found=refusal.found)


_SAID: Final = {
    "operation_conflict": "operation id {subject} was used before with another payload: take a new id",
    "operation_table_full": "no room to remember operation id {subject}: try again later, or raise max_operations",
    "pool_exists": "pool {subject} is there already: use resize_pool to change its total",
    "pool_table_full": "the bound max_pools is reached",
    "pool_not_found": "there is no pool {subject}: create it with create_pool",
    "below_in_use": "pool {subject} has {found} units in use: the total cannot go below that",
    "slot_overflow": "the deadline lies beyond the last slot",
    "deadline_passed": "the deadline must lie after the present slot {found}",
    "lifetime_exceeded": "no hold lives longer than max_lifetime ({found} slots) from the moment it was placed",
    "hold_exists": "hold {subject} is there already: choose another id, or none",
    "hold_table_full": "the bound max_holds is reached by live holds",
    "hold_not_found": "there is no hold {subject}",
    "hold_retired": "hold {subject} ended longer ago than the retention; see history()",
    "not_owner": "the owner token is missing or not that of hold {subject}: pass the Hold, its ticket, or owner=",
    "already_confirmed": "hold {subject} was confirmed before",
    "already_released": "hold {subject} was released before",
    "hold_expired": "hold {subject} passed its deadline {found}; its units are free for others",
    "not_due": "hold {subject} is alive until {found}",
    "not_confirmed": "nothing of hold {subject} was confirmed",
    "quantity_exceeds_hold": "hold {subject} has {found} units left",
    "version_conflict": "record {subject} is at version {found}",
    "aborted": "another command of the same atomic batch was refused ({subject})",
}
