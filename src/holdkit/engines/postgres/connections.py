"""Connections of our own, and the pool that keeps them.

The pool opens connections on demand, up to a limit, and lends each to one thread or task at a time. It rolls back a connection that comes
back inside a transaction. It drops one that is broken, out of step or connected to a replaced primary. It tests an idle connection before
lending it, so that no caller gets a connection to a server that has gone away. It reads the server's durability settings
(`opening.DurabilityCheck`) on every new connection, and again before it lends one whose settings are stale.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import pq

from ...errors import EngineError, Overloaded
from ..deadlines import at_most, within
from .driver import (
    COMMIT,
    ROLLBACK,
    OnStatement,
    Pipeline,
    Row,
    Script,
    Statement,
    Steps,
    run_on_loop,
    run_on_thread,
    standby_given_up,
)
from .encoding import Sql
from .failures import FEW, ConnectionFailed, NotReplicated, Retry, StatementFailed, retry
from .hosts import Primary
from .statements import FETCHED
from .waiting import BRIEF, GRACE, PrimaryWatch, wait

if TYPE_CHECKING:
    from .opening import DurabilityCheck

T = TypeVar("T")

IDLE: Final = 5.0
"""Seconds after which an idle connection is tested before it is lent."""
_NOTICE_FIELDS: Final = (pq.DiagnosticField.SOURCE_FUNCTION, pq.DiagnosticField.MESSAGE_PRIMARY)
"""The server's own function, which is never translated, and the message, which may be."""


class PipelineConnection(Pipeline):
    """A connection of our own, always in pipeline mode, used by one thread or task at a time."""

    def __init__(
        self,
        pgconn: pq.abc.PGconn,
        *,
        prepare: bool = True,
        timeout: float = 30.0,
        on_statement: OnStatement | None = None,
        statements: Mapping[str, Sql],
    ) -> None:
        super().__init__(pgconn, prepare=prepare, on_statement=on_statement, statements=statements)
        self.timeout = timeout
        """Seconds that an exchange may take."""
        self.notices: list[str] = []
        self.owner: psycopg.Connection[Any] | None = None
        """The psycopg connection, which would close this one if it were collected."""
        self.cancels = False
        """Whether an exchange that takes too long is cancelled at the server, where a wait for a standby would otherwise remain with
        its session. The connection can be used again."""
        self._poll: select.poll | None = None
        self.primary: Primary | None = None
        """The server it leads to, if that is known."""
        self.watch: PrimaryWatch | None = None
        """Learns of every wait, so that it can end a wait for a host that was replaced."""
        pgconn.nonblocking = 1
        pgconn.notice_handler = self._notice
        pgconn.enter_pipeline_mode()

    def _watched(self, watch: PrimaryWatch, steps: Steps[T]) -> Steps[T]:
        watch.begin(self)
        try:
            return (yield from steps)
        finally:
            watch.end(self)

    def disconnect(self) -> None:
        """Close the connection to the server."""
        if self.watch is not None:
            self.watch.end(self)
        super().disconnect()

    def _notice(self, result: pq.abc.PGresult) -> None:
        fields = [result.error_field(field) or b"" for field in _NOTICE_FIELDS]
        self.notices.append(b": ".join(fields).decode("utf-8", "replace"))

    def run(self, script: Script[T]) -> T:
        """Run a script to its end on this thread; close it if a statement fails."""
        try:
            statements = next(script)
            while True:
                statements = script.send(self.execute(statements))
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            script.close()

    async def run_async(self, script: Script[T], sent: Callable[[], None] | None, until: float) -> T:
        """Run a script to its end on the event loop, until a deadline; `sent` is called when COMMIT is on its way."""
        try:
            statements = next(script)
            while True:
                statements = script.send(await self.execute_async(statements, sent, until))
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            script.close()

    async def execute_async(
        self, statements: Sequence[Statement], sent: Callable[[], None] | None, until: float
    ) -> list[list[Row]]:
        """Run one exchange on the event loop, until a deadline; `sent` is called when everything is on its way, if the last statement is
        COMMIT."""
        self.notices.clear()
        steps = self.exchange(statements)
        if self.watch is not None:
            steps = self._watched(self.watch, steps)
        begun = sent if statements[-1] is COMMIT else None
        seconds = max(0.0, min(self.timeout, until - time.monotonic()))
        answers = await run_on_loop(steps, self.pgconn.socket, seconds, begun)
        if self.notices:
            self._check_replicated()
        return answers

    async def roll_back_async(self, until: float) -> None:
        """Roll back after a statement was refused, so that the connection can be used again; if that fails, the pool drops it."""
        with suppress(ConnectionFailed, StatementFailed):
            await self.execute_async((ROLLBACK,), lambda: None, until)

    def execute(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run one exchange on this thread, within the connection's timeout and the time left to the call."""
        self.notices.clear()
        steps = self.exchange(statements)
        if self.watch is not None:
            steps = self._watched(self.watch, steps)
        seconds = within(self.timeout)
        if self.cancels:
            answers = wait(steps, self.pgconn.socket, seconds, self.cancel)
        else:
            answers = run_on_thread(steps, self.pgconn.socket, seconds)
        if self.notices:
            self._check_replicated()
        return answers

    def cancel(self) -> None:
        """Ask the server to cancel the statement that runs on this connection. Safe from any thread."""
        if self.owner is not None:
            self.owner.cancel_safe(timeout=GRACE)

    def fetch(self, name: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return one statement's rows."""
        return self.execute(((name, parameters),))[0]

    def fetch_each(self, name: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield the rows of a statement that declares a cursor, fetched when they are needed, in an open transaction."""
        rows = self.execute(((name, parameters), (f"{name}_next", ())))[1]
        while len(rows) == FETCHED:
            yield from rows
            rows = self.fetch(f"{name}_next")
        self.fetch(f"{name}_end")
        yield from rows

    def _check_replicated(self) -> None:
        """Raise `NotReplicated` if the server gave up its wait for a standby. Runs after every exchange with notices, so no commit can miss
        it.
        """
        if standby_given_up(self.notices):
            raise NotReplicated

    @property
    def in_transaction(self) -> bool:
        """Whether libpq knows of an open transaction, aborted or not."""
        return self.pgconn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

    @property
    def usable(self) -> bool:
        """Whether it is connected, and to a primary that was not replaced."""
        primary = self.primary
        return self.pgconn.status == pq.ConnStatus.OK and (primary is None or primary.timeline == max(primary.seen))

    @property
    def has_news(self) -> bool:
        """Whether the server has sent something since the last exchange, or has hung up: usually because it is going down. This check costs
        less than a batch with an unknown outcome.
        """
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.pgconn.socket, select.POLLIN)
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Disconnect; closing twice is harmless."""
        self.disconnect()


class ConnectionPool:
    """A bounded number of connections. Safe to share between threads."""

    def __init__(
        self,
        connect: Callable[[], PipelineConnection],
        size: int,
        timeout: float,
        durability: DurabilityCheck,
        *,
        cancels: bool = False,
    ) -> None:
        """`cancels`: an exchange that takes too long, or that runs while the pool is closed, is cancelled at the server."""
        self._connect, self._size, self._timeout, self._durability = connect, size, timeout, durability
        self._changed = Condition()
        self._free: list[tuple[float, PipelineConnection]] = []
        self._lent = 0
        self._cancels, self._opened = cancels, WeakSet[PipelineConnection]()
        self._pid = os.getpid()
        self.closed = False

    @contextmanager
    def connection(self) -> Iterator[PipelineConnection]:
        """Lend a connection. Wait for a free one, up to the timeout."""
        connection = self._acquire()
        try:
            yield connection
        finally:
            self._release(connection)

    @contextmanager
    def idle_connection(self) -> Iterator[PipelineConnection | None]:
        """Lend a recently used connection, or None: for callers that must not block. A connection that comes back inside a transaction is
        dropped, because a rollback would block.
        """
        connection = None
        with self._changed:
            if self._free and not self.closed and self._recently_used(*self._free[-1]):
                _, connection = self._free.pop()
                self._lent += 1
        try:
            yield connection
        finally:
            if connection is not None:
                if connection.busy or connection.in_transaction:
                    connection.close()
                self._release(connection)

    def _acquire(self) -> PipelineConnection:
        deadline = time.monotonic() + within(self._timeout)
        with self._changed:
            while not self._free and self._lent >= self._size and not self.closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise Overloaded(f"all {self._size} connections are in use", retry_after=1.0)
            if self.closed:
                raise EngineError("this engine is closed")
            self._lent += 1
            since, connection = self._free.pop() if self._free else (0.0, None)
        try:
            if connection is not None:
                if self._recently_used(since, connection) or (connection.usable and self._answers(connection)):
                    return connection
                connection.close()
            return retry(self._new_connection)
        except BaseException:
            with self._changed:
                self._lent -= 1
                self._changed.notify()
            raise

    def _release(self, connection: PipelineConnection) -> None:
        good = False
        try:
            if connection.usable and not connection.busy:
                if connection.in_transaction:
                    with at_most(BRIEF):
                        connection.execute((ROLLBACK,))
                good = True
        except (ConnectionFailed, StatementFailed):
            pass  # dropped
        finally:
            with self._changed:
                self._lent -= 1
                if good and not self.closed:
                    self._free.append((time.monotonic(), connection))
                else:
                    connection.close()
                self._changed.notify()

    def drop_idle(self) -> None:
        """Close all connections that are not lent: after a failover they lead to the wrong server."""
        with self._changed:
            idle, self._free = self._free, []
        for _, connection in idle:
            connection.close()

    def close(self) -> None:
        """Lend no more connections, and close all that are not lent."""
        self.closed = True
        if os.getpid() == self._pid:
            self.drop_idle()
            with self._changed:
                self._changed.notify_all()
            for connection in [*self._opened]:
                if connection.busy:
                    with suppress(psycopg.Error):
                        connection.cancel()

    def _recently_used(self, since: float, connection: PipelineConnection) -> bool:
        """Return whether this connection can be lent without a test."""
        now = time.monotonic()
        return now < self._durability.stale_at and now - since < IDLE and connection.usable and not connection.has_news

    def _new_connection(self) -> PipelineConnection:
        connection = self._connect()
        try:
            self._test(connection)
        except StatementFailed as failed:
            raise Retry(self._durability.address.statement_error(failed), FEW) from failed
        except ConnectionFailed as failed:
            raise Retry(EngineError(f"a new connection cannot be used: {failed}"), FEW) from failed
        if self._cancels:
            connection.cancels = True
            self._opened.add(connection)
        return connection

    def _answers(self, connection: PipelineConnection) -> bool:
        try:
            self._test(connection)
        except (ConnectionFailed, StatementFailed):
            return False
        return True

    def _test(self, connection: PipelineConnection) -> None:
        """Read the durability settings. Close a connection that does not answer, or whose settings are refused, and raise."""
        try:
            with at_most(BRIEF):
                self._durability.read(connection)
        except BaseException:
            connection.close()
            raise
