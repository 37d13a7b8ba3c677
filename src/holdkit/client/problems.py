"""What an unsuccessful answer means: the exception of a problem, and whether the call is retried. Reads no clock.

An attempt whose outcome is unknown may have been applied. Only an answer that the kernel decided (a success or a refusal)
to a later attempt settles it; an overloaded server does not, and the outcome of the call stays unknown.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET, Struct

from .. import errors
from ..core.bounds import BOUNDS
from ..core.keyed import CLAIMS, ITEMS, label_of
from ..core.model import SECOND
from ..core.outcomes import Shortfall
from ..core.validation import invalid, whole
from ..kernel.hints import in_words_of
from ..wire.fields import decoder
from ..wire.problems import Facts, ProblemAnswer, ShortfallAnswer

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0
MAX_ATTEMPTS: Final = 1_000_000_000
_SHORTEST: Final = BOUNDS["call_timeout"].least / SECOND
_LONGEST: Final = BOUNDS["call_timeout"].greatest / SECOND
"""Seconds that a call may be given, as those of a kernel without a server."""


_NUMBERS: Final = ("in_use", "now", "max_lifetime", "ended_at", "deadline", "left", "version", "waiting", "number")
"""The number that stood in the way: each refusal has at most one of them."""
_OTHERS: Final = {
    "already_claimed": ("claim", "state", "remaining"),
    "items_taken": ("taken",),
    "part_of_hold": ("hold",),
    "already_confirmed": ("entity",),
    "quantity_exceeds_consumed": ("requested", "loose", "consumed"),
    "account_limit": ("shortfalls", "requested", "used", "limit"),
    "insufficient_capacity": ("shortfalls", "requested", "available", "total", "budgets", "retry_after"),
}
"""The other facts, by reason."""


read_problem: Final = decoder(ProblemAnswer).decode
"""Made once, here: msgspec crashes if two threads use a type for the first time at the same moment."""


class NotAdmitted(errors.EngineError):
    """The server did not admit the call: the API key is missing, unknown, or its scope is too small. Nothing was
    done."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def refusal_from(reason: str, detail: str, facts: Facts, *, replayed: bool) -> errors.Refused | None:
    """Return the exception of a refusal, with its attributes; None if the kernel has no such reason."""
    cls = errors.REFUSALS.get(reason)
    if cls is None:
        return None
    details: dict[str, Any] = {"subject": facts.subject}
    for name in _NUMBERS:
        value = getattr(facts, name)
        if value is UNSET:
            continue
        details[name] = timedelta(seconds=value) if name == "max_lifetime" else value
    details |= {name: value for name in _OTHERS.get(reason, ()) if (value := getattr(facts, name)) is not UNSET}
    if "shortfalls" in details:
        details["shortfalls"] = tuple(map(_shortfall_from, details["shortfalls"]))
    if reason == "already_claimed":
        details.setdefault("deadline", None)
    if reason == "items_taken":
        details["holders"] = {}
    details |= _shortfalls(reason, details)
    declared = {name: value for name, value in details.items() if name in cls.fields}  # a newer server may send more
    message = in_words_of("python", reason, detail.removeprefix(f"{reason}: "))
    return cls(message, replayed=replayed, **declared)


def _shortfalls(reason: str, details: dict[str, Any]) -> dict[str, Any]:
    """Return the shortfalls of a refusal that names a key or items: pools of one unit, which another hold has."""
    if reason == "already_claimed" and "claim" in details:
        short = Shortfall(CLAIMS + details["claim"], 1, 0, 1, label=details["subject"])
        return {"shortfalls": (short,)}
    if reason == "items_taken":
        taken = details.get("taken", ())
        return {"shortfalls": tuple([Shortfall(ITEMS + name, 1, 0, 1, label=name) for name in taken])}
    return {}


def _shortfall_from(sent: ShortfallAnswer) -> Shortfall:
    label = label_of(sent.pool, sent.name)
    return Shortfall(
        sent.pool, sent.requested, sent.available, sent.total, label, confirmed=sent.confirmed, used=sent.used
    )


def error_from(problem: ProblemAnswer, status: int) -> errors.HoldkitError:
    """Return the exception of a problem. No problem whose effect is unknown becomes an error that says that nothing was done."""
    reason, detail = problem.reason, problem.detail
    refusal = refusal_from(reason, detail, problem, replayed=problem.replayed)
    if refusal is not None:
        return refusal
    if problem.effect != "none":
        return errors.OutcomeUnknown(detail or f"the server answered {status}")
    if reason == "invalid_request" or problem.code is not None:
        field = problem.field or "body"
        return errors.InvalidRequest(detail.removeprefix(f"{field}: "), field=field, code=problem.code or "")
    if status in (401, 403):
        return NotAdmitted(detail, reason=reason)
    if reason == "cursor_lost":
        return errors.CursorLost(detail, archived_to="" if problem.archived else None)
    if status in (409, 429, 503, 507):
        kinds: dict[str, type[errors.Overloaded]] = {"saga_busy": errors.SagaBusy, "storage_full": errors.StorageFull}
        busy = kinds.get(reason, errors.Overloaded)
        return busy(detail, retry_after=problem.retry_after if isinstance(problem.retry_after, float) else 0.1)
    if 400 <= status < 500:
        return errors.InvalidRequest(detail, field="request", code=reason)
    return errors.EngineError(detail)


class Policy(Struct, frozen=True):
    """How often, and for how long, a call is tried."""

    attempts: int = 6
    """From 1 to a billion."""
    seconds: float = 30.0
    """For the whole call, attempts and pauses included, from a thousandth to 100,000 days; `holdkit.context(timeout=…)` sets another
    limit for the calls in its block."""

    def __post_init__(self) -> None:
        whole(self.attempts, "attempts", 1, MAX_ATTEMPTS)
        if type(self.seconds) not in (int, float) or not _SHORTEST <= self.seconds <= _LONGEST:
            raise invalid("seconds", "seconds_out_of_range", f"must be a number from {_SHORTEST:g} to {_LONGEST:.12g}")


class Attempts:
    """The attempts of one call."""

    def __init__(self, policy: Policy, began: float, seconds: float | None = None) -> None:
        self._policy, self._began = policy, began
        self._seconds = policy.seconds if seconds is None else seconds
        self._attempts = 0
        self._uncertain: errors.OutcomeUnknown | None = None

    def pause(self, error: errors.HoldkitError, now: float) -> float:
        """Return the seconds to wait before the next attempt; raise if there is none."""
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
        """Return the seconds that are left for the whole call."""
        return self._began + self._seconds - now

    def settled(self, error: errors.HoldkitError) -> errors.HoldkitError:
        """Return what to raise: an attempt that may have been applied is settled by a refusal that the kernel decided, and by no other
        error."""
        if self._uncertain is None or isinstance(error, errors.OutcomeUnknown):
            return error
        if isinstance(error, errors.Refused) and not isinstance(error, errors.OperationTableFull):
            return error
        if isinstance(error, errors.CursorLost):
            return error
        message = "an earlier attempt may have been applied, and the server did not settle it"
        unknown = errors.OutcomeUnknown(f"{message}: {str(error).removeprefix('holdkit: ')}")
        unknown.__cause__ = error
        return unknown
