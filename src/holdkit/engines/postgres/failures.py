"""What can fail between us and the server, what is certain then, and what is retried.

Theory of operation. The caller must always know which of three things happened: the transaction was committed, nothing was done, or the
outcome is unknown. The answer depends on whether COMMIT may have left this process:

- Before that, nothing was done, whatever went wrong: the server ends the transaction when the connection is lost. The attempt is repeated
  from the beginning, with a new connection if need be, at most `ATTEMPTS` times and never beyond the call's own deadline (`retry`). If no
  attempt succeeds, the caller gets the error of the last one: nothing was done.
- From then on a lost connection proves nothing. The server may have committed, or may still do so after we have disconnected, so reading
  the tables proves nothing either. The engine never repeats the batch: it raises `OutcomeUnknown`, and the kernel resolves it by the
  operation id, or passes it to the caller. An *error* in answer to COMMIT is treated alike: a server may report one for a transaction that
  it has committed (Citus, when a worker is killed).
- A COMMIT whose wait for a standby was cancelled has succeeded on this server only. A failover may undo it, so that is `OutcomeUnknown`
  too.

An interrupt follows the same rule: before COMMIT nothing was done, after it the outcome is unknown. The interrupted connection is out of
step with its server, and the pool drops it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ...errors import HoldkitError
from ..deadlines import passed, too_late

T = TypeVar("T")

ATTEMPTS: Final = 20
"""How often an attempt that certainly did nothing is made."""
FEW: Final = 3
"""How often it is made if the server has lost its connection to a worker (Citus). A stale session is replaced at once. The engine does not
wait for a worker that is down, because every other call of this process would wait as well."""
ID_TAKEN: Final = frozenset({"22012", "23505"})
"""Our own check of a row count (division by zero), unique violation: a row exists that the batch did not know of."""
RETRYABLE: Final = ID_TAKEN | {"40001", "40P01"}
"""`ID_TAKEN`, serialization failure, deadlock: run the transaction again."""
_TLS_LOST: Final = "SSL SYSCALL error"
"""In the message of a server whose connection to a worker has ended: Citus reports it as an internal error."""


class StatementFailed(Exception):
    """The server refused a statement: the transaction is aborted, and a COMMIT behind it was skipped."""

    def __init__(self, name: str, sqlstate: str, message: str) -> None:
        super().__init__(f"{message} ({sqlstate}, in {name})")
        self.name, self.sqlstate, self.message = name, sqlstate, message

    @property
    def lost_worker(self) -> bool:
        """Whether the server has lost its connection to a worker (Citus). With TLS libpq reports that without a SQLSTATE."""
        return self.sqlstate[:2] == "08" or (self.sqlstate == "XX000" and _TLS_LOST in self.message)

    @property
    def shut_down(self) -> bool:
        """Whether the server itself is going down, or has just been replaced."""
        return self.sqlstate[:3] == "57P"


class ConnectionFailed(Exception):
    """The connection is lost, or did not answer in time; `sent_commit` says whether a COMMIT may have left."""

    def __init__(self, message: str, *, sent_commit: bool) -> None:
        super().__init__(message)
        self.sent_commit = sent_commit


class NotReplicated(Exception):
    """COMMIT succeeded, but its wait for a standby was cancelled: a failover may lose what it wrote, and what it read."""


class Retry(HoldkitError):
    """Certainly nothing was done, and another attempt may succeed. After `attempts` attempts `error` is raised."""

    def __init__(self, error: HoldkitError, attempts: int = ATTEMPTS) -> None:
        super().__init__(str(error))
        self.error, self.attempts = error, attempts


def retry(attempt: Callable[[], T]) -> T:
    """Call `attempt` until it returns or raises anything but `Retry`, with growing random pauses. Begin no attempt after the call's
    deadline."""
    if passed():
        raise too_late()
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except Retry as failed:
            if passed():
                raise too_late() from failed.error
            if number >= failed.attempts:
                raise failed.error from failed.error.__cause__
            time.sleep(random.uniform(0, min(0.1, 0.0005 * 2**number)))
    raise AssertionError("the last attempt returns or raises")
