"""Lending: a transaction of our own, on a psycopg connection of its own, with application code in it.

READ COMMITTED, begun and committed by us; the application can read and write through the connection, and end nothing. What
`work` raises rolls everything back. A serialization failure, a deadlock, a lock timeout or a lost connection before COMMIT
was sent did nothing for certain: the whole is run again, bounded in number and in time. Any error of COMMIT is *unknown*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import BoundedSemaphore, Lock
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from ...core.commands import Group
from ...core.model import SECOND, Limits
from ...errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from ..deadlines import within
from ..port import Applied, Lent
from .batch_options import lock_timeout
from .driver import StatementFailed, gave_up_standby, notice_text
from .hosts import Opened
from .opening import Address, not_replicated, open_connection
from .retrying import Retry, retry
from .watching import BRIEF, Watch

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]
Join: TypeAlias = Callable[[Connection, Sequence[Group]], Applied]

IDLE: Final = 5.0
"""Seconds after which a connection is tried before it is lent again."""
PASSING: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock timeout: worth another attempt."""
CHECK_NOW: Final = "set constraints all immediate"
"""What would fail at COMMIT fails before it, and so for certain."""
AS_NEW: Final = (
    "close all; set session authorization default; reset all; unlisten *; select pg_catalog.pg_advisory_unlock_all(); "
    "discard temp; discard sequences"
)
"""What DISCARD ALL does, without forgetting prepared statements, which psycopg would not notice."""


class _Loan:
    """One transaction that was lent."""

    def __init__(self, opened: Opened, join: Join) -> None:
        self.tx, self._join = opened.connection, join
        self.pgconn, self.primary = opened.connection.pgconn, opened.primary
        self.wrote = False

    def apply(self, groups: Sequence[Group]) -> Applied:
        """In a savepoint of its own, like any call in a caller's transaction."""
        applied = self._join(self.tx, groups)
        self.wrote = self.wrote or applied.wrote
        return applied


class Lending:
    """Connections to lend, and the transactions on them."""

    def __init__(self, address: Address, limits: Limits, join: Join, wrote: Callable[[], None], watch: Watch) -> None:
        self._address, self._join, self._wrote, self._watch = address, join, wrote, watch
        self._seconds = limits.lock_timeout / SECOND
        wait = int(lock_timeout(limits))
        self._settings = (str(wait), str(2 * wait + 5_000), str(2 * wait + 10_000))
        self._longest = 2 * self._seconds + 10
        self._room = BoundedSemaphore(address.shares.lent)
        self._lock = Lock()
        self._idle: list[tuple[float, Opened]] = []
        self._closed = False

    def run(self, work: Callable[[Lent], T]) -> T:
        """Begin, run `work`, commit; again while it certainly did nothing."""
        seconds = within(self._seconds)
        deadline = time.monotonic() + seconds
        if not self._room.acquire(timeout=seconds):
            raise Overloaded(f"all {self._address.shares.lent} connections for resources are in use", retry_after=1.0)
        try:
            return retry(lambda: self._attempt(work, deadline))
        finally:
            self._room.release()

    def _attempt(self, work: Callable[[Lent], T], deadline: float) -> T:
        opened = self._take()
        connection = opened.connection
        notices: list[str] = []

        def note(diagnostic: psycopg.errors.Diagnostic) -> None:
            notices.append(notice_text(diagnostic))

        connection.add_notice_handler(note)
        loan = _Loan(opened, self._join)
        self._watch.begin(loan, time.monotonic() + within(self._longest))
        block = connection.transaction()
        try:
            try:
                block.__enter__()
                connection.execute(_SET, self._settings, prepare=False)
                result = work(loan)
                self._check_open(connection)
                connection.execute(CHECK_NOW)
            except BaseException as error:
                with suppress(psycopg.Error):
                    block.__exit__(type(error), error, error.__traceback__)
                again = self._worth_another(connection, error, deadline)
                if again is None:
                    raise
                raise again from error
            try:
                block.__exit__(None, None, None)
            except BaseException as error:
                self._watch.end(loan)
                connection.close()
                raise OutcomeUnknown(
                    f"the commit to {self._address.shown} did not come back ({error}): ask again"
                ) from error
        finally:
            self._watch.end(loan)
            connection.remove_notice_handler(note)
            self._give_back(opened)
        if gave_up_standby(notices):
            raise not_replicated(self._address)
        if loan.wrote:
            self._wrote()
        return result

    def _check_open(self, connection: Connection) -> None:
        status = connection.pgconn.transaction_status
        if status == pq.TransactionStatus.INERROR:
            raise EngineError(
                "a statement of your function failed inside the transaction it was lent, so nothing of it can be committed: "
                "let the error through, or use a savepoint (tx.transaction())"
            )
        if status != pq.TransactionStatus.INTRANS:
            if connection.pgconn.status != pq.ConnStatus.OK:
                raise EngineError(f"the connection to {self._address.shown} was lost: nothing was done")
            raise OutcomeUnknown("your function ended the transaction it was lent: what it did before may be there")

    def _worth_another(self, connection: Connection, error: BaseException, deadline: float) -> Retry | None:
        """Whether nothing was done, by nobody's fault, and there is time left."""
        if isinstance(error, OutcomeUnknown) or not isinstance(error, psycopg.Error | HoldkitError):
            return None
        cause = error.__cause__ if isinstance(error.__cause__, StatementFailed) else error
        state = getattr(cause, "sqlstate", None)
        lost = connection.pgconn.status != pq.ConnStatus.OK
        if not lost and state not in PASSING:
            return None
        words = f"the connection to {self._address.shown} was lost: {error}" if lost else str(error)
        told: HoldkitError = EngineError(words) if lost else Overloaded(words, retry_after=0.5)
        if time.monotonic() >= deadline:
            raise told from error
        return Retry(told)

    def _take(self) -> Opened:
        while True:
            with self._lock:
                if self._closed:
                    raise EngineError("this engine is closed")
                since, opened = self._idle.pop() if self._idle else (0.0, None)
            if opened is None:
                return self._connect()
            if not opened.outdated and (time.monotonic() - since < IDLE or self._answers(opened)):
                return opened
            opened.close()

    def _connect(self) -> Opened:
        opened = open_connection(self._address, autocommit=False)
        opened.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if self._address.pooled:
            opened.connection.prepare_threshold = None
        return opened

    def _answers(self, opened: Opened) -> bool:
        loan = _Loan(opened, self._join)
        self._watch.begin(loan, time.monotonic() + BRIEF)
        try:
            opened.connection.execute("select 1")
            opened.connection.rollback()
        except psycopg.Error:
            return False
        finally:
            self._watch.end(loan)
        return True

    def _give_back(self, opened: Opened) -> None:
        """As new, or not at all: nothing that an application set may wait there for the next."""
        good = False
        connection, loan = opened.connection, _Loan(opened, self._join)
        self._watch.begin(loan, time.monotonic() + BRIEF)
        with suppress(psycopg.Error):
            if not connection.closed and connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
                connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor
                connection.autocommit = True
                if not self._address.pooled:
                    connection.execute(AS_NEW, prepare=False)
                connection.autocommit = False
                good = not opened.outdated
        self._watch.end(loan)
        with self._lock:
            good = good and not self._closed
            if good:
                self._idle.append((time.monotonic(), opened))
        if not good:
            connection.close()

    def drop_idle(self) -> None:
        """Hang up on all that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, opened in idle:
            opened.close()

    def close(self) -> None:
        """Lend no more, and hang up."""
        self._closed = True
        self.drop_idle()


_SET: Final = (
    "select set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true), "
    "set_config('idle_in_transaction_session_timeout', %s, true)"
)
