"""Transactions of ours with application code in them, on psycopg connections of their own.

Theory of operation. The engine begins a READ COMMITTED transaction, runs the application's function in it, and commits. The application can
read and write through the connection, but not end the transaction. Holdkit's own calls inside run as in any caller's transaction
(`caller_transaction`). If the function raises, everything is rolled back. Before COMMIT nothing was done: a serialization failure, a
deadlock, a lock timeout or a lost connection there is retried, function included, bounded in number and in time. Deferred constraints are
checked before COMMIT, so that they fail there. After any error of COMMIT the outcome is unknown, and the connection is closed. A connection
returns to the pool only when no setting of an application remains on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import BoundedSemaphore, Lock
from typing import Any, Final, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from ...core.commands import Group
from ...core.model import SECOND
from ...errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from ..clocks import steady
from ..deadlines import within
from ..port import Applied, Lent
from .address import Address
from .caller_transaction import CallerTransactions
from .database import Database, lock_timeout_ms
from .driver import notice_text, standby_given_up
from .failures import Retry, StatementFailed, retry
from .hosts import HostConnection, Primary
from .notifications import Notifier
from .opening import open_connection
from .waiting import BRIEF, PrimaryWatch

T = TypeVar("T")

IDLE: Final = 5.0
"""Seconds after which an idle connection is tested before it is lent again."""
TRANSIENT: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock timeout: worth another attempt."""
CHECK_CONSTRAINTS: Final = "set constraints all immediate"
"""Sent before COMMIT, so that a deferred constraint fails while it is certain that nothing was done."""
RESET: Final = (
    "close all; set session authorization default; reset all; unlisten *; select pg_catalog.pg_advisory_unlock_all(); "
    "discard temp; discard sequences"
)
"""Does the work of DISCARD ALL, except for the prepared statements, whose loss psycopg would not notice."""
_SET_TIMEOUTS: Final = (
    "select set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true), "
    "set_config('idle_in_transaction_session_timeout', %s, true)"
)


class _Watched:
    """A connection that is waited on, in the form that the watch takes."""

    def __init__(self, opened: HostConnection) -> None:
        self.pgconn: pq.abc.PGconn = opened.connection.pgconn
        self.primary: Primary | None = opened.primary


class OwnTransaction(_Watched):
    """A transaction that is lent to application code."""

    def __init__(self, opened: HostConnection, callers: CallerTransactions) -> None:
        super().__init__(opened)
        self.tx, self._callers = opened.connection, callers
        self.wrote = False
        self.locked_at: float | None = None
        """When the first call that wrote had returned, by `steady`: since then its pools are locked."""

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Apply these groups in a savepoint of their own."""
        applied = self._callers.apply(self.tx, groups)
        if self.locked_at is None and applied.wrote:
            self.locked_at = steady()
        self.wrote = self.wrote or applied.wrote
        return applied


class LentConnections:
    """The psycopg connections that application code gets. Safe to share between threads."""

    def __init__(self, address: Address, watch: PrimaryWatch) -> None:
        self._address, self._watch = address, watch
        self._lock = Lock()
        self._idle: list[tuple[float, HostConnection]] = []
        self._closed = False

    def acquire(self) -> HostConnection:
        """Return an idle connection that still answers, or a new one."""
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

    def _connect(self) -> HostConnection:
        opened = open_connection(self._address, autocommit=False)
        opened.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if self._address.pooled:
            opened.connection.prepare_threshold = None
        return opened

    def _answers(self, opened: HostConnection) -> bool:
        watched = _Watched(opened)
        self._watch.begin(watched, time.monotonic() + BRIEF)
        try:
            opened.connection.execute("select 1")
            opened.connection.rollback()
        except psycopg.Error:
            return False
        finally:
            self._watch.end(watched)
        return True

    def release(self, opened: HostConnection) -> None:
        """Take a connection back reset, or close it: no setting of one application may reach the next."""
        good = False
        connection, watched = opened.connection, _Watched(opened)
        self._watch.begin(watched, time.monotonic() + BRIEF)
        with suppress(psycopg.Error):
            if not connection.closed and connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
                connection.row_factory, connection.cursor_factory = tuple_row, psycopg.Cursor
                connection.autocommit = True
                if not self._address.pooled:
                    connection.execute(RESET, prepare=False)
                connection.autocommit = False
                good = not opened.outdated
        self._watch.end(watched)
        with self._lock:
            good = good and not self._closed
            if good:
                self._idle.append((time.monotonic(), opened))
        if not good:
            connection.close()

    def drop_idle(self) -> None:
        """Close all connections that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, opened in idle:
            opened.close()

    def close(self) -> None:
        """Lend no more connections, and close all that are not lent."""
        self._closed = True
        self.drop_idle()


class OwnTransactions:
    """Runs application code in transactions of ours, a bounded number at a time."""

    def __init__(
        self,
        database: Database,
        connections: LentConnections,
        callers: CallerTransactions,
        notifier: Notifier,
        watch: PrimaryWatch,
    ) -> None:
        self._address, self._connections, self._callers = database.address, connections, callers
        self._notifier, self._watch = notifier, watch
        self._timer = database.lock_timer
        self._seconds = database.asked.lock_timeout / SECOND
        wait = int(lock_timeout_ms(database.asked))
        self._settings = (str(wait), str(2 * wait + 5_000), str(2 * wait + 10_000))
        self._longest = 2 * self._seconds + 10
        self._available = BoundedSemaphore(self._address.sizes.lent)

    def run(self, work: Callable[[Lent], T]) -> T:
        """Begin, run `work`, commit. Repeat an attempt that certainly did nothing."""
        seconds = within(self._seconds)
        deadline = time.monotonic() + seconds
        if not self._available.acquire(timeout=seconds):
            raise Overloaded(f"all {self._address.sizes.lent} connections for resources are in use", retry_after=1.0)
        try:
            return retry(lambda: self._attempt(work, deadline))
        finally:
            self._available.release()

    def _attempt(self, work: Callable[[Lent], T], deadline: float) -> T:
        opened = self._connections.acquire()
        connection = opened.connection
        notices: list[str] = []

        def note(diagnostic: psycopg.errors.Diagnostic) -> None:
            notices.append(notice_text(diagnostic))

        connection.add_notice_handler(note)
        transaction = OwnTransaction(opened, self._callers)
        self._watch.begin(transaction, time.monotonic() + within(self._longest))
        try:
            result = self._run(transaction, work, deadline)
        finally:
            self._watch.end(transaction)
            connection.remove_notice_handler(note)
            self._connections.release(opened)
        if standby_given_up(notices):
            raise self._address.not_replicated()
        if transaction.wrote:
            self._notifier.notify_soon()
        return result

    def _run(self, transaction: OwnTransaction, work: Callable[[Lent], T], deadline: float) -> T:
        connection = transaction.tx
        block = connection.transaction()
        try:
            block.__enter__()
            connection.execute(_SET_TIMEOUTS, self._settings, prepare=False)
            result = work(transaction)
            self._check_open(connection)
            connection.execute(CHECK_CONSTRAINTS)
        except BaseException as error:
            with suppress(psycopg.Error):
                block.__exit__(type(error), error, error.__traceback__)
            again = self._worth_retrying(connection, error, deadline)
            if again is None:
                raise
            raise again from error
        try:
            block.__exit__(None, None, None)
        except BaseException as error:
            self._watch.end(transaction)
            connection.close()
            raise OutcomeUnknown(
                f"the commit to {self._address.shown} did not come back ({error}): ask again"
            ) from error
        if transaction.locked_at is not None:
            self._timer.add(steady() - transaction.locked_at)
        return result

    def _check_open(self, connection: psycopg.Connection[Any]) -> None:
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

    def _worth_retrying(
        self, connection: psycopg.Connection[Any], error: BaseException, deadline: float
    ) -> Retry | None:
        """Return a `Retry` if nothing was done and another attempt may succeed, else None. Raise the final error if the time is over."""
        if isinstance(error, OutcomeUnknown) or not isinstance(error, psycopg.Error | HoldkitError):
            return None
        cause = error.__cause__ if isinstance(error.__cause__, StatementFailed) else error
        state = getattr(cause, "sqlstate", None)
        lost = connection.pgconn.status != pq.ConnStatus.OK
        if not lost and state not in TRANSIENT:
            return None
        message = f"the connection to {self._address.shown} was lost: {error}" if lost else str(error)
        final: HoldkitError = EngineError(message) if lost else Overloaded(message, retry_after=0.5)
        if time.monotonic() >= deadline:
            raise final from error
        return Retry(final)
