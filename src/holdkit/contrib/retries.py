"""Which errors run a task again, and when: temporary refusals (the slot is taken), overload, failures of the storage, unknown outcomes.
A final refusal (a pool that does not exist, a malformed call) does not: the next call would be refused too.
"""

from __future__ import annotations

import random

from .. import errors

SOON = 1.0
"""Seconds until a task is run again whose error does not say when."""


def seconds_until_retry(error: BaseException, *, taken: float = 30.0) -> float | None:
    """Return after how many seconds a task that raised this error may be run again; None if that would not help.

    `taken` is used where the refusal does not say when to retry: another task has the slot.
    """
    if isinstance(error, errors.Overloaded):
        return spread(error.retry_after)
    if isinstance(error, errors.Refused):
        if not error.transient:
            return None
        told = getattr(error, "retry_after", None)
        return taken * random.uniform(0.75, 1.25) if told is None else spread(told)
    if isinstance(error, errors.MissingExtra):
        return None
    return spread(SOON) if isinstance(error, errors.EngineError | errors.OutcomeUnknown) else None


def spread(seconds: float) -> float:
    """Add up to half of the delay at random, so that callers who were refused together do not retry together."""
    return seconds * random.uniform(1.0, 1.5)


class RunAgain(Exception):
    """Raised by a task that is to run again after `seconds`, where the queue decides by the exception."""

    def __init__(self, error: errors.HoldkitError, seconds: float) -> None:
        super().__init__(f"to be run again in {seconds:.1f} s: {errors.plain(error)}")
        self.seconds = seconds
