"""Trying again what certainly did nothing: bounded, with growing random pauses. Never what may have been committed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ...errors import HoldkitError
from ..deadlines import passed, too_late

T = TypeVar("T")

ATTEMPTS: Final = 20
"""How often a transaction that certainly did nothing is tried again."""
TAKEN: Final = frozenset({"22012", "23505"})
"""Our own check of a row count, a key that was taken: something is there that we did not know of."""
RETRYABLE: Final = TAKEN | {"40001", "40P01"}
"""The same, serialization failure, deadlock: run it again."""


FEW: Final = 3
"""The same where a worker behind the server hung up: a session that is stale is made anew, one that is down is not waited for,
because everybody else in this process would wait as well."""


class Retry(HoldkitError):
    """Nothing was done for certain: worth another attempt, up to so many; `error` is what to say if there is none left."""

    def __init__(self, error: HoldkitError, attempts: int = ATTEMPTS) -> None:
        super().__init__(str(error))
        self.error, self.attempts = error, attempts


def retry(call: Callable[[], T]) -> T:
    """What it gives in the end, or what its last attempt has to say; nothing is begun once the call's time is up."""
    if passed():
        raise too_late()
    for attempt in range(ATTEMPTS):
        try:
            return call()
        except Retry as again:
            if passed():
                raise too_late() from again.error
            if attempt + 1 >= again.attempts:
                raise again.error from again.error.__cause__
            time.sleep(random.uniform(0, min(0.1, 0.001 * 2**attempt)))
    raise AssertionError("the last attempt returns or raises")
