"""The driver: runs statements on a connection of ours, in pipeline mode, one round trip for many.

Speaks to libpq through `psycopg.pq`, with statements prepared once per connection: cursors cost twice as much. Every
exchange has a deadline. Decides nothing and retries nothing; what went wrong is told with the place where it did.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import pq

from ..deadlines import within
from .encoding import ENCODERS, decoder, encode
from .hosts import Primary
from .statements import FETCHED, Sql
from .waiting import READ, WRITE, Steps, run_on_loop, wait
from .watching import Watch

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[str, Sequence[Any]]
"""Name and parameters."""
Script: TypeAlias = Generator[tuple[Statement, ...], list[list[Row]], T]
"""Yields the statements of one round trip, receives the rows of each, returns its result."""
OnStatement: TypeAlias = Callable[[str], None]
"""Called with each statement's name before it is sent; may raise."""

_SAID = (pq.DiagnosticField.SOURCE_FUNCTION, pq.DiagnosticField.MESSAGE_PRIMARY)
"""Of a notice: the server's own function, which is never translated, and the words, which may be."""
STANDBY: Final = ("SyncRepWaitForLSN", "canceling wait for synchronous replication")
"""Of a notice: where the server gave up its wait for a standby, and its words for it, unless they are translated."""
BEGIN: Statement = ("begin", ())
PROVE: Statement = ("prove_durable", ())
"""Right before COMMIT: what was read in this transaction is then as durable as what it wrote."""
COMMIT: Statement = ("commit", ())
ROLLBACK: Statement = ("rollback", ())


class StatementFailed(Exception):
    """The server refused a statement: the transaction is aborted, and a COMMIT behind it was skipped."""

    def __init__(self, name: str, sqlstate: str, message: str) -> None:
        super().__init__(f"{message} ({sqlstate}, in {name})")
        self.name, self.sqlstate, self.message = name, sqlstate, message


class ConnectionFailed(Exception):
    """The connection is gone, or did not answer in time; `sent_commit` says whether a COMMIT was on its way."""

    def __init__(self, message: str, *, sent_commit: bool) -> None:
        super().__init__(message)
        self.sent_commit = sent_commit


class NotReplicated(Exception):
    """COMMIT succeeded here, but its wait for a standby was cancelled: a failover may lose what it wrote, and what it read."""


class Wire:
    """A libpq connection, spoken to in pipeline mode. Neither sync nor async: each exchange is a generator that says what it waits for."""

    def __init__(
        self,
        pgconn: pq.abc.PGconn,
        *,
        prepare: bool = True,
        on_statement: OnStatement | None = None,
        named: Mapping[str, Sql],
    ) -> None:
        self.pgconn = pgconn
        self.on_statement = on_statement
        self.busy = False
        """Inside an exchange: if it is so when nobody runs one, an interrupt struck, and nothing is known any more."""
        self.committing = False
        """That exchange has a COMMIT in it."""
        self._prepare = prepare
        self._prepared: set[str] = set()
        self._columns: dict[str, list[tuple[int, Callable[[bytes], Any]]]] = {}
        self._named = named

    def exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Send these in one go, and give the rows of each."""
        expected: list[tuple[str, bool]] = []  # statement, and whether this is only its preparation
        self.busy = True
        try:
            for name, parameters in statements:
                if self.on_statement is not None:
                    self.on_statement(name)
                if name == "commit":
                    self.committing = True  # before it is sent: what is written may leave at any time
                self._send(name, self._named[name], parameters, expected)
            self.pgconn.pipeline_sync()
            results = yield from self._receive()
        except (OSError, psycopg.Error) as error:
            raise self._gone(str(error)) from error
        answers = self._rows(expected, results)
        self.busy = self.committing = False
        return answers

    def _send(self, name: str, sql: Sql, parameters: Sequence[Any], expected: list[tuple[str, bool]]) -> None:
        pgconn = self.pgconn
        raw = encode(sql.types, parameters)
        formats = [pq.Format.BINARY] * len(raw)
        if not self._prepare:
            oids = [ENCODERS[kind][0] for kind in sql.types]
            pgconn.send_query_params(sql.text.encode(), raw, oids, formats)
        else:
            if name not in self._prepared:
                pgconn.send_prepare(name.encode(), sql.text.encode(), [ENCODERS[kind][0] for kind in sql.types])
                self._prepared.add(name)
                expected.append((name, True))
            pgconn.send_query_prepared(name.encode(), raw, formats)
        expected.append((name, False))

    def _receive(self) -> Steps[list[pq.abc.PGresult]]:
        """All results up to the synchronisation point; writes while it reads, so that neither end blocks."""
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
                answers.append([])
        if len(results) <= len(expected):
            raise self._gone("the connection was lost")
        return answers

    def _tuples(self, name: str, result: pq.abc.PGresult) -> list[Row]:
        rows = result.ntuples
        if not rows:  # as most looks for what might be there already
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
        if name == "commit" or not sqlstate:  # no SQLSTATE: libpq's own words, for a connection that is gone
            return self._gone(message or self.pgconn.get_error_message())
        self.busy = self.committing = False
        return StatementFailed(name, sqlstate, message)

    def _gone(self, message: str) -> ConnectionFailed:
        failed = ConnectionFailed(message.strip() or "the connection was lost", sent_commit=self.committing)
        self.hang_up()
        return failed

    def hang_up(self) -> None:
        """Nothing more can be said on this connection."""
        self.pgconn.finish()


def notice_text(said: psycopg.errors.Diagnostic) -> str:
    """A notice on a connection of psycopg's, as `gave_up_standby` reads it."""
    return f"{said.source_function}: {said.message_primary}"


def gave_up_standby(notices: Iterable[str]) -> bool:
    """Whether the server says that a COMMIT was not waited for to its end."""
    return any(sign in notice for notice in notices for sign in STANDBY)


class Driver(Wire):
    """A connection of our own, always in pipeline mode, for one thread at a time."""

    def __init__(
        self,
        pgconn: pq.abc.PGconn,
        *,
        prepare: bool = True,
        patience: float = 30.0,
        on_statement: OnStatement | None = None,
        named: Mapping[str, Sql],
    ) -> None:
        super().__init__(pgconn, prepare=prepare, on_statement=on_statement, named=named)
        self.patience = patience
        """Seconds an exchange may take."""
        self.notices: list[str] = []
        self.owner: object = None
        """Whoever would hang up if it were collected."""
        self.primary: Primary | None = None
        """Where it leads, if that is known."""
        self.watch: Watch | None = None
        """Who is told of every wait, so that one for a host that has been replaced comes to an end."""
        pgconn.nonblocking = 1
        pgconn.notice_handler = self._notice
        pgconn.enter_pipeline_mode()

    def exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Send these in one go, and give the rows of each."""
        steps = super().exchange(statements)
        return steps if self.watch is None else self._watched(self.watch, steps)

    def _watched(self, watch: Watch, steps: Steps[T]) -> Steps[T]:
        watch.begin(self)
        try:
            return (yield from steps)
        finally:
            watch.end(self)

    def hang_up(self) -> None:
        """Nothing more can be said on this connection."""
        if self.watch is not None:
            self.watch.end(self)
        super().hang_up()

    def _notice(self, result: pq.abc.PGresult) -> None:
        said = [result.error_field(field) or b"" for field in _SAID]
        self.notices.append(b": ".join(said).decode("utf-8", "replace"))

    def run(self, script: Script[T]) -> T:
        """Run a script to its end; an error stops it where it is."""
        try:
            statements = next(script)
            while True:
                statements = script.send(self.say(statements))
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            script.close()

    async def run_async(self, script: Script[T], sent: Callable[[], None]) -> T:
        """The same on an event loop; `sent` is called when COMMIT is on its way."""
        self.notices.clear()
        try:
            statements = next(script)
            while True:
                last = statements[-1] is COMMIT
                answers = await run_on_loop(
                    self.exchange(statements), self.pgconn.socket, within(self.patience), sent if last else None
                )
                self._check_replicated()
                statements = script.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            script.close()

    def ask(self, name: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """One statement's rows."""
        return self.say(((name, parameters),))[0]

    def each(self, name: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement that declares a cursor, fetched as they are needed, in a transaction that is open."""
        rows = self.say(((name, parameters), (f"{name}_next", ())))[1]
        while len(rows) == FETCHED:
            yield from rows
            rows = self.ask(f"{name}_next")
        self.ask(f"{name}_end")
        yield from rows

    def say(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """One exchange, within our patience and what is left of the call."""
        self.notices.clear()
        answers = wait(self.exchange(statements), self.pgconn.socket, within(self.patience))
        self._check_replicated()
        return answers

    def _check_replicated(self) -> None:
        """Nobody who commits here can overlook it."""
        if self.notices and gave_up_standby(self.notices):
            raise NotReplicated

    @property
    def in_transaction(self) -> bool:
        """Whether one is open, aborted or not, as far as the server has told."""
        return self.pgconn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

    @property
    def usable(self) -> bool:
        """Whether it is worth keeping."""
        return self.pgconn.status == pq.ConnStatus.OK and not (self.primary is not None and self.primary.outdated)

    def close(self) -> None:
        """Hang up."""
        self.hang_up()
