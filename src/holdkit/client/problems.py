"""When to ask again, and what a call has come to when there is no more asking. Neither sync nor async, and without a clock of its own.

*Turned away* after an attempt whose fate is unknown does not settle that attempt: the call stays unknown.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
from msgspec import Struct

from .. import errors
from ..core.model import SECOND
from ..core.outcomes import Shortfall
from ..kernel.answers import TIMES
from ..kernel.normalise import datetime_of

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0


_FACTS: Final = ("in_use", "now", "max_lifetime", "ended_slot", "deadline", "left", "version")
_FACE_FACTS: Final = {
    "already_claimed": ("claim", "state", "remaining"),
    "items_taken": ("taken", "holders"),
    "part_of_hold": ("hold",),
    "quantity_exceeds_consumed": ("requested", "loose", "consumed"),
    "insufficient_capacity": ("budgets", "retry_after"),
}
"""The facts that faces add to a refusal."""


class NotAdmitted(errors.EngineError):
    """The server did not let the call in: the key is missing, refused, or of too small a scope. Nothing was done."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def refusal_from(reason: str, detail: str, facts: dict[str, Any], replayed: bool) -> errors.Refused | None:
    """The exception of a refusal, with its numbers; None if it is none of the kernel's."""
    cls = errors.REFUSALS.get(reason)
    if cls is None:
        return None
    details: dict[str, Any] = {"subject": facts.get("subject", "")}
    for name in _FACTS:
        if name in facts:
            value = facts[name]
            value = round(value * SECOND) if name == "max_lifetime" else value
            details[name] = value
            if name in TIMES:
                details[TIMES[name]] = datetime_of(value)
            if reason not in _FACE_FACTS:
                details["found"] = value
    if "shortfalls" in facts:
        details["shortfalls"] = msgspec.convert(facts["shortfalls"], tuple[Shortfall, ...])
        details |= {name: facts[name] for name in ("requested", "available", "total") if name in facts}
    details |= {name: facts[name] for name in _FACE_FACTS.get(reason, ()) if name in facts}
    if reason == "already_claimed":
        details["deadline_at"] = datetime_of(details.setdefault("deadline", None))
    if "taken" in details:
        details["taken"] = tuple(details["taken"])
    declared = {name: value for name, value in details.items() if name in cls.fields}  # a newer server may send more
    return cls(detail.removeprefix(f"{reason}: "), replayed=replayed, **declared)


def error_from(problem: dict[str, Any], status: int) -> errors.HoldkitError:
    """The exception of a problem."""
    reason, detail = str(problem.get("reason", "")), str(problem.get("detail", ""))
    refusal = refusal_from(reason, detail, problem, bool(problem.get("replayed")))
    if refusal is not None:
        return refusal
    if problem.get("effect", "unknown") != "none":
        return errors.OutcomeUnknown(detail or f"the server answered {status}")
    if reason == "invalid_request" or "code" in problem:
        field = str(problem.get("field", "body"))
        return errors.InvalidRequest(detail.removeprefix(f"{field}: "), field=field, code=str(problem.get("code", "")))
    if status in (401, 403):
        return NotAdmitted(detail, reason=reason)
    if reason == "cursor_lost":
        return errors.CursorLost(detail)
    if status in (409, 429, 503):
        busy = errors.SagaBusy if reason == "saga_busy" else errors.Overloaded
        return busy(detail, retry_after=float(problem.get("retry_after", 0.1)))
    if 400 <= status < 500:
        return errors.InvalidRequest(detail, field="request", code=reason)
    return errors.EngineError(detail)


class Policy(Struct, frozen=True):
    """How often, and for how long."""

    attempts: int = 6
    seconds: float = 30.0
    """Of the whole call, attempts and pauses included; `holdkit.context(timeout=…)` says otherwise for the calls in its block."""


class Attempts:
    """One call on its way, attempt by attempt."""

    def __init__(self, policy: Policy, began: float, seconds: float | None = None) -> None:
        self._policy, self._began = policy, began
        self._seconds = policy.seconds if seconds is None else seconds
        self._attempts = 0
        self._uncertain: errors.OutcomeUnknown | None = None

    def pause(self, error: errors.HoldkitError, now: float) -> float:
        """Seconds to wait before the next attempt; raises if there is none."""
        self._attempts += 1
        if isinstance(error, errors.OutcomeUnknown):
            self._uncertain = error
        elif not isinstance(error, errors.Overloaded | errors.OperationTableFull):
            raise self.settled(error)
        if self._attempts >= self._policy.attempts:
            raise self.settled(error)
        jittered = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._attempts) * random.random()
        wait = max(jittered, error.retry_after if isinstance(error, errors.Overloaded) else 0.0)
        if wait >= self.left(now):
            raise self.settled(error)
        return wait

    def left(self, now: float) -> float:
        """Seconds that the whole call may take yet."""
        return self._began + self._seconds - now

    def settled(self, error: errors.HoldkitError) -> errors.HoldkitError:
        """What to raise: an attempt that may have happened is settled by the rules' own answer, and by nothing else."""
        if self._uncertain is None or isinstance(error, errors.OutcomeUnknown):
            return error
        if isinstance(error, errors.Refused) and not isinstance(error, errors.OperationTableFull):
            return error
        if isinstance(error, errors.CursorLost):
            return error
        message = "an earlier attempt may have happened, and the server does not tell"
        unknown = errors.OutcomeUnknown(f"{message}: {str(error).removeprefix('holdkit: ')}")
        unknown.__cause__ = error
        return unknown
