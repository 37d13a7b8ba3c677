"""Outcomes as users see them: holds, pools, records and reports; and refusals as exceptions that say what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from .. import errors
from ..core.commands import AnyCommand, Group, ReleaseHold, Sweep
from ..core.face_legs import FaceLeg
from ..core.keyed import leg_name
from ..core.ladders.retiring import Keeping
from ..core.model import SECOND, Leg, Slot
from ..core.outcomes import Done, Invalid, Reason, Receipt, Refusal, Reply, Shortfall
from ..core.values import spelled
from .hints import NEXT, said
from .pool import Pool
from .reports import SweepReport
from .results import Hold, Record, hold_of, shown_record
from .times import datetime_of, is_in_calendar

Value: TypeAlias = Hold | Pool | Record | SweepReport | None
"""What a command gives that was done; None where there is nothing to show."""
Answer: TypeAlias = Value | errors.Refused | errors.InvalidRequest
"""A command's value, or its refusal."""


class Outcome(Struct, frozen=True):
    """The outcome of one command of a batch: it was done and has a `value`, or it was refused and has a `refusal`."""

    value: Value = None
    refusal: errors.Refused | errors.InvalidRequest | None = None

    @property
    def ok(self) -> bool:
        """Whether the command was done."""
        return self.refusal is None

    @property
    def reason(self) -> str | None:
        """The stable word for why it was refused; None if it was done."""
        if isinstance(self.refusal, errors.InvalidRequest):
            return "invalid_request"
        return None if self.refusal is None else self.refusal.reason

    def unwrap(self) -> Any:
        """Return the value, or raise the refusal."""
        if self.refusal is not None:
            raise self.refusal
        return self.value

    def __repr__(self) -> str:
        return f"<Outcome {self.reason or 'ok'}>"


class BatchTooLarge(errors.InvalidRequest):
    """The commands touch too many legs together. That was noticed when the holds that they name had been loaded."""


def answer_of(command: AnyCommand, outcome: Reply) -> Answer:
    """Return an outcome as users see it."""
    if isinstance(outcome, Receipt) and outcome.hold is not None:
        return hold_of(outcome, getattr(command, "token", None), command.legs if command.names == "legs" else ())
    if isinstance(outcome, Refusal):
        refused = refusal_of(outcome)
        return in_own_words(refused, command.legs) if command.names == "legs" else refused
    if isinstance(outcome, Invalid):
        return errors.InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
    if isinstance(command, Sweep):
        return report_of(outcome)
    return pool_of(outcome) or record_of(outcome)


def outcomes_of(answers: Sequence[Answer], *, atomic: bool, op: str | None) -> list[Outcome]:
    """Return the answers of a batch as users see them. Raise the refusal that stopped an atomic one, with the index of its command; it
    has none if `op` was used before for another batch."""
    outcomes = [
        Outcome(refusal=answer) if isinstance(answer, errors.Refused | errors.InvalidRequest) else Outcome(answer)
        for answer in answers
    ]
    for index, outcome in enumerate(outcomes if atomic else ()):
        if outcome.refusal is None or isinstance(outcome.refusal, errors.Aborted):
            continue
        is_whole = isinstance(outcome.refusal, errors.OperationConflict) and outcome.refusal.subject == op
        outcome.refusal.index = None if is_whole else index
        raise outcome.refusal
    return outcomes


def pool_of(done: Done) -> Pool | None:
    """Return the pool of a done outcome, marked as replayed if the answer was a recorded one."""
    if done.pool is None:
        return None
    return Pool(replace(done.pool, replayed=True) if done.replayed else done.pool)


def record_of(done: Done) -> Record | None:
    """Return the record of a done outcome, marked as replayed if the answer was a recorded one."""
    return None if done.record is None else shown_record(done.record, replayed=done.replayed)


def report_of(done: Done) -> SweepReport:
    """Return the report of a sweep."""
    holds, tenants = tuple(id for _, id in done.swept), tuple(tenant for tenant, _ in done.swept)
    return SweepReport(done.expired, holds, tenants, datetime_of(done.slot), done.more)


def refusal_of(refusal: Refusal) -> errors.Refused:
    """Return a refusal as its exception, with its numbers and a message that says what to do next."""
    cls = errors.REFUSALS[refusal.reason]
    details: dict[str, Any] = {"subject": refusal.subject}
    if refusal.shortfalls:
        first = refusal.shortfalls[0]
        details |= {"requested": first.requested}
        if refusal.reason is Reason.QUANTITY_EXCEEDS_CONSUMED:
            details |= {"loose": first.available, "consumed": first.total}
        elif refusal.reason is Reason.ACCOUNT_LIMIT:
            details |= {"shortfalls": refusal.shortfalls, "used": first.used, "limit": first.total}
        else:
            details |= {"shortfalls": refusal.shortfalls, "available": first.available, "total": first.total}
    if refusal.found is not None:
        details |= _number(refusal.reason, refusal.found)
    if refusal.entity is not None:
        details["entity"] = refusal.entity
    message = _message(refusal)
    if refusal.replayed:
        message += RECORDED
    return cls(message, replayed=refusal.replayed, **details)


def capacity_of(refusal: errors.InsufficientCapacity) -> dict[str, Any]:
    """Return the numbers of a refusal, for the one in a face's words that replaces it."""
    return {name: vars(refusal)[name] for name in CAPACITY if name in vars(refusal)}


def too_late_to_return(refused: errors.Refused, rule: Keeping, until: Slot) -> errors.Refused:
    """Return the refusal for a return whose hold was dropped: until when it could return its units, and the rule that ended it."""
    message = _RETURNABLE[rule].format(subject=repr(refused.subject), at=_when(until))
    return type(refused)(message + (RECORDED if refused.replayed else ""), replayed=refused.replayed, **refused.details)


def without_hidden_pools(refused: errors.Refused, may_read: Callable[[str], bool]) -> errors.Refused:
    """Return the refusal for a caller that may not read every pool: without the numbers and the names of the others.

    These can only be above a pool that the caller has named, because a hold takes units there too.
    """
    if refused.reason not in OF_POOLS:
        return refused
    short: tuple[Shortfall, ...] = getattr(refused, "shortfalls", ())
    readable = tuple([one for one in short if may_read(one.pool)])
    if len(readable) == len(short) and (short or may_read(refused.subject)):
        return refused
    is_named = refused.subject in [one.pool for one in short] or not short
    if readable:
        subject = readable[0].pool if is_named else refused.subject
        return refusal_of(Refusal(Reason(refused.reason), subject, readable, replayed=refused.replayed))
    message = _ABOVE[Reason(refused.reason)] + (RECORDED if refused.replayed else "")
    return type(refused)(message, replayed=refused.replayed, **({} if is_named else {"subject": refused.subject}))


def settled(outcomes: Iterable[Reply]) -> None:
    """Raise the refusal that stopped an atomic group, if any."""
    for outcome in outcomes:
        if isinstance(outcome, Refusal) and outcome.reason is not Reason.ABORTED:
            raise refusal_of(outcome)
        if isinstance(outcome, Invalid):
            raise errors.InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)


def undo_grant(outcomes: list[Reply]) -> Group | None:
    """Return the commands that release a grant whose caller was cancelled before it got the answer. None for a replayed grant: an
    earlier attempt received it, and may use it."""
    (outcome,) = outcomes
    if not isinstance(outcome, Receipt) or outcome.hold is None or outcome.replayed:
        return None
    hold = outcome.hold
    return Group((ReleaseHold(id=hold.id, tenant=hold.tenant, token=outcome.token, reason="cancelled"),))


def in_own_words(refusal: errors.Refused, legs: Iterable[Leg]) -> errors.Refused:
    """Let a refusal that names a face's pool use the face's own name for it."""
    labels = {leg.pool: leg.label for leg in legs if isinstance(leg, FaceLeg) and leg.label is not None}
    label = labels.get(refusal.subject)
    if label is None:
        return refusal
    if isinstance(refusal, errors.PoolNotFound):
        refusal = errors.PoolNotFound(
            f"there is no {label!r}: add it first", replayed=refusal.replayed, **refusal.details
        )
    refusal.subject = label
    return refusal


_RETURNABLE: Final = {
    Keeping.WINDOW: "hold {subject} is no longer kept: its units could be returned until {at}; after its last window, such as a night, "
    "a hold is kept for `retention`",
    Keeping.CONSUMED: "hold {subject} is no longer kept: its units could be returned until {at}; a hold with consumed units is kept for "
    "`retention_consumed`, and they are returned by pool then",
}
"""What is said of a return that comes too late, by the rule under which the hold was kept."""
RECORDED: Final = " (this is the recorded answer: to try again, use a new operation id)"
_ABOVE: Final = {
    Reason.POOL_NOT_FOUND: "a pool above does not exist: create it first",
    Reason.POOL_ARCHIVED: "a pool above is archived and grants nothing: use another pool",
    Reason.ACCOUNT_REQUIRED: "a pool above has a limit per account, and this hold is for none: place it for an account",
    Reason.ACCOUNT_LIMIT: "the account would have more of a pool above than one account may have",
    Reason.INSUFFICIENT_CAPACITY: "a pool above has too little available: try later, or request less",
    Reason.LINE_AHEAD: "others wait in line for a pool above, and nobody is served before them: try later",
}
"""Messages of refusals because of a pool that the caller may not read."""
OF_POOLS: Final = frozenset(_ABOVE)
"""Reasons of refusals that may name a pool above those that the request names."""
_FOUND: Final = {
    "below_in_use": "in_use",
    "pool_in_use": "in_use",
    "deadline_passed": "now",
    "window_closed": "now",
    "lifetime_exceeded": "max_lifetime",
    "already_confirmed": "ended_at",
    "already_released": "ended_at",
    "hold_expired": "deadline",
    "not_due": "deadline",
    "quantity_exceeds_hold": "left",
    "version_conflict": "version",
    "line_full": "waiting",
    "line_ahead": "waiting",
    "hold_waiting": "number",
}
"""The attribute that holds the number in a refusal, by reason."""
TIMES: Final = frozenset({"now", "ended_at", "deadline"})
"""Those of them that are times."""


def _number(reason: Reason, found: int) -> dict[str, Any]:
    """Return the number of a refusal under the name that its class has for it; a time as a datetime."""
    name = _FOUND.get(reason)
    if name is None:
        return {}
    if name == "max_lifetime":
        return {name: timedelta(microseconds=found)}
    return {name: datetime_of(found) if name in TIMES else found}


def _message(refusal: Refusal) -> str:
    if refusal.reason == "quantity_exceeds_consumed":
        (short,) = refusal.shortfalls
        if short.label is not None:
            return f"{short.label!r} is not confirmed, so there is nothing to free"
        return (
            f"{_called(short.pool)} has {short.total} units consumed, and {short.available} of them come back like this, not "
            f"{short.requested}: units of a hold that is still kept come back by the hold, {NEXT['quantity_exceeds_consumed'].python}"
        )
    if refusal.reason == "account_limit":
        short = refusal.shortfalls[0]
        return (
            f"the account uses {short.used} units of {_called(short.pool)}, {short.requested} more were requested, and "
            f"{short.total} is the most that one account may have"
        )
    if refusal.shortfalls:
        return "; ".join(
            f"{short.label!r} is taken"
            if short.label is not None
            else f"{_called(short.pool)} has {short.available} of {short.total} available, {short.requested} requested"
            for short in refusal.shortfalls[:5]
        ) + (f"; and {len(refusal.shortfalls) - 5} more" if len(refusal.shortfalls) > 5 else "")
    found = refusal.found or 0
    subject = str(refusal.subject)
    text = said(refusal.reason)
    if refusal.reason == "pool_not_found" and subject[:1] == "~":
        text = _UNSEEN
    elif refusal.reason == "line_ahead" and not found:
        text = _TOO_LATE
    return text.format(subject=repr(subject), pool=_called(subject), found=found, at=_when(found), span=spelled(found))


def _called(pool: str) -> str:
    """Return a pool's name in a message. A face makes its own pools (``~``): the caller knows only what they stand for."""
    return repr(leg_name(pool)) if pool[:1] == "~" else f"pool {pool!r}"


def _when(slot: Slot) -> str:
    """Return a slot in a message: as a time, if it comes from a wall clock."""
    is_time = slot >= _WALL and is_in_calendar(slot)
    return datetime_of(slot).isoformat(" ", "milliseconds") if is_time else f"slot {slot}"


CAPACITY: Final = ("shortfalls", "requested", "available", "total")
"""The attributes of every refusal for want of capacity."""
_UNSEEN: Final = "nothing was taken from {pool} yet, or nothing of it remains"
_TOO_LATE: Final = "the place in the line of {pool} ended before its units were taken, and they are free now: try again"
"""For a blocked call whose place or offer has ended meanwhile, while no other hold is in its way any more."""
_WALL: Final = 1_000_000_000 * SECOND  # the year 2001: simulated clocks begin at 0
