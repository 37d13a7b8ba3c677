"""When to ask again, and what a call has come to when there is no more asking. Neither sync nor async, and without a clock of its own.

*Turned away* after an attempt whose fate is unknown does not settle that attempt: the call stays unknown.
"""

from __future__ import annotations

import random
from typing import Final

from msgspec import Struct

from .. import errors

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0


class Policy(Struct, frozen=True):
    """How often, and for how long."""

    attempts: int = 6
    seconds: float = 30.0
    """Of the whole call, attempts and pauses included; `holdkit.context(timeout=…)` says otherwise for the calls in its block."""


class Asking:
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
        said = "an earlier attempt may have happened, and the server does not tell"
        unknown = errors.OutcomeUnknown(f"{said}: {str(error).removeprefix('holdkit: ')}")
        unknown.__cause__ = error
        return unknown
