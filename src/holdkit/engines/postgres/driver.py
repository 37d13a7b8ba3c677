"""Statements on a libpq connection in pipeline mode: one round trip for many.

Theory of operation. Statements go to libpq through `psycopg.pq`, prepared once per connection; cursors cost twice as much. One round trip
is an *exchange*: a generator that sends everything up to a synchronisation point, yields the socket events that it waits for (`READ`,
`WRITE`), and returns the rows of each statement. `run_on_thread` and `run_on_loop` drive it; nothing else differs between threads and
tasks. Every exchange has a deadline. Nothing is decided or retried here.

While an exchange runs `busy` is true, and `committing` is true from before libpq gets COMMIT until its answer was read. An interrupt may
strike at any instruction. A connection that is `busy` although no exchange runs on it is out of step with its server and must be dropped;
if it is `committing` too, it is unknown whether the transaction was committed. `failures` says what follows from that.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import pq

from .encoding import Sql, decoder
from .failures import ConnectionFailed, StatementFailed

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[str, Sequence[Any]]
"""Name and parameters."""
Script: TypeAlias = Generator[tuple[Statement, ...], list[list[Row]], T]
"""Yields the statements of one round trip, receives the rows of each, returns its result."""
Steps: TypeAlias = Generator[int, None, T]
"""Yields the socket events that it waits for, continues after one of them, returns its result."""
OnStatement: TypeAlias = Callable[[str], None]
"""Called with each statement's name before it is sent; may raise."""

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
STANDBY_NOTICE: Final = ("SyncRepWaitForLSN", "canceling wait for synchronous replication")
"""In a notice: the function that gives up the wait for a standby, and its message in English."""
BEGIN: Statement = ("begin", ())
PROVE: Statement = ("prove_durable", ())
"""Right before COMMIT: what this transaction has read is then as durable as what it has written."""
COMMIT: Statement = ("commit", ())
ROLLBACK: Statement = ("rollback", ())
RELEASE: Statement = ("release_savepoint", ())
"""In a caller's transaction: our changes then belong to it."""


class Pipeline:
    """A libpq connection in pipeline mode. Each exchange is a generator, for threads and tasks alike."""

    def __init__(
        self,
        pgconn: pq.abc.PGconn,
        *,
        prepare: bool = True,
        on_statement: OnStatement | None = None,
        statements: Mapping[str, Sql],
    ) -> None:
        self.pgconn = pgconn
        self.on_statement = on_statement
        self.busy = False
        """Inside an exchange. If it is set when no exchange is running, an interrupt has struck, and the connection is out of step."""
        self.committing = False
        """The current exchange contains a COMMIT."""
        self.begun = 0
        """Statements of the last exchange that libpq has, or is just receiving."""
        self._prepare = prepare
        self._prepared: set[str] = set()
        self._columns: dict[str, list[tuple[int, Callable[[bytes], Any]]]] = {}
        self._statements = statements

    def exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Send these statements in one round trip, and return the rows of each."""
        expected: list[tuple[str, bool]] = []  # statement, and whether this is only its preparation
        self.busy, self.begun = True, 0
        encoded = [self._statements[name].encode(parameters) for name, parameters in statements]
        try:
            for (name, _), (sql, raw) in zip(statements, encoded, strict=True):
                if self.on_statement is not None:
                    self.on_statement(name)
                if name == "commit":
                    self.committing = True  # before it is sent: libpq may send what it has at any time
                self.begun += 1
                self._send(name, sql, raw, expected)
            self.pgconn.pipeline_sync()
            results = yield from self._receive()
        except (OSError, psycopg.Error) as error:
            raise self._lost(str(error)) from error
        answers = self._rows(expected, results)
        self.busy = self.committing = False
        return answers

    def _send(self, name: str, sql: Sql, raw: list[bytes | None], expected: list[tuple[str, bool]]) -> None:
        pgconn, formats = self.pgconn, [pq.Format.BINARY] * len(raw)
        if not self._prepare:
            pgconn.send_query_params(sql.text.encode(), raw, sql.oids, formats)
        else:
            if sql.name not in self._prepared:
                pgconn.send_prepare(sql.name.encode(), sql.text.encode(), sql.oids)
                self._prepared.add(sql.name)
                expected.append((sql.name, True))
            pgconn.send_query_prepared(sql.name.encode(), raw, formats)
        expected.append((name, False))

    def _receive(self) -> Steps[list[pq.abc.PGresult]]:
        """Return all results up to the synchronisation point. Write while reading, so that neither end blocks."""
        pgconn = self.pgconn
        results: list[pq.abc.PGresult] = []
        sending = pgconn.flush() == 1
        while True:
            yield READ | WRITE if sending else READ
            pgconn.consume_input()
            if sending:
                sending = pgconn.flush() == 1
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:  # the end of one statement's results
                    if pgconn.status == pq.ConnStatus.BAD:
                        return results
                    continue
                results.append(result)
                if result.status == pq.ExecStatus.PIPELINE_SYNC or pgconn.status == pq.ConnStatus.BAD:
                    return results

    def _rows(self, expected: Sequence[tuple[str, bool]], results: Sequence[pq.abc.PGresult]) -> list[list[Row]]:
        answers: list[list[Row]] = []
        for index, ((name, preparing), result) in enumerate(zip(expected, results, strict=False)):
            if result.status == pq.ExecStatus.TUPLES_OK:
                answers.append(self._tuples(name, result))
            elif result.status != pq.ExecStatus.COMMAND_OK:
                self._prepared.difference_update(later for later, only in expected[index:] if only)
                raise self._failed(name, result)
            elif not preparing:
                if (
                    name == "commit" and result.command_status != b"COMMIT"
                ):  # it ended a transaction that was aborted before
                    self.busy = self.committing = False
                    raise StatementFailed(name, "25P02", "the transaction was aborted, and COMMIT rolled it back")
                answers.append([])
        if len(results) <= len(expected):
            raise self._lost("the connection was lost")
        return answers

    def _tuples(self, name: str, result: pq.abc.PGresult) -> list[Row]:
        rows = result.ntuples
        if not rows:  # as nearly always, where a batch looks for what might exist already
            return []
        columns = self._columns.get(name)
        if columns is None:
            columns = [(column, decoder(result.ftype(column))) for column in range(result.nfields)]
            self._columns[name] = columns
        value = result.get_value
        return [
            tuple([None if (raw := value(row, column)) is None else decode(raw) for column, decode in columns])
            for row in range(rows)
        ]

    def _failed(self, name: str, result: pq.abc.PGresult) -> StatementFailed | ConnectionFailed:
        sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
        if name == "commit" or not sqlstate:  # without a SQLSTATE it is libpq's own message, for a lost connection
            return self._lost(message or self.pgconn.get_error_message())
        self.busy = self.committing = False
        return StatementFailed(name, sqlstate, message)

    def _lost(self, message: str) -> ConnectionFailed:
        failed = ConnectionFailed(message.strip() or "the connection was lost", sent_commit=self.committing)
        self.disconnect()
        return failed

    def disconnect(self) -> None:
        """Close the connection to the server."""
        self.pgconn.finish()


def notice_text(notice: psycopg.errors.Diagnostic) -> str:
    """Return a notice of a psycopg connection in the form that `standby_given_up` reads."""
    return f"{notice.source_function}: {notice.message_primary}"


def standby_given_up(notices: Iterable[str]) -> bool:
    """Return whether a notice says that the server gave up the wait for a standby during a COMMIT."""
    return any(sign in notice for notice in notices for sign in STANDBY_NOTICE)


# Running an exchange


def run_on_thread(steps: Steps[T], socket: int, seconds: float) -> T:
    """Run an exchange to its end on this thread."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    try:
        wanted = next(steps)
        poll.register(socket, wanted)
        while True:
            left = deadline - time.monotonic()
            now = next(steps) if left > 0 and poll.poll(left * 1000) else steps.throw(timed_out(seconds))
            if now != wanted:
                wanted = now
                poll.modify(socket, wanted)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def run_on_loop(steps: Steps[T], socket: int, seconds: float, begun: Callable[[], None] | None = None) -> T:
    """Run an exchange to its end on the event loop. Call `begun` after the first step, when all statements are on their way. If the task is
    cancelled, the connection is out of step: the pool drops it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    try:
        wanted = next(steps)
        if begun is not None:
            begun()
        while True:
            ready: asyncio.Future[bool] = loop.create_future()
            timer = loop.call_at(deadline, _settle, ready, False)
            loop.add_reader(socket, _settle, ready, True)
            if wanted & WRITE:
                loop.add_writer(socket, _settle, ready, True)
            try:
                in_time = await ready
            finally:
                timer.cancel()
                loop.remove_reader(socket)
                if wanted & WRITE:
                    loop.remove_writer(socket)
            wanted = next(steps) if in_time else steps.throw(timed_out(seconds))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _settle(ready: asyncio.Future[bool], value: bool) -> None:
    if not ready.done():
        ready.set_result(value)


def timed_out(seconds: float) -> TimeoutError:
    """Return the error to throw into an exchange when its time is over."""
    return TimeoutError(f"no answer within {seconds:g} seconds")
