"""Calls in a caller's transaction: both happen or neither.

Theory of operation. Each call runs in a savepoint of its own, on the caller's connection, in pipeline mode. Its states:

1. *Entering.* The savepoint is made, and in the same round trip the transaction's properties are read. Every precondition is checked
   before anything is written: a psycopg connection of the right kind, inside a transaction that is READ COMMITTED and may write, in our
   own database.
2. *Inside.* The script of the batch runs, without its BEGIN, COMMIT and ROLLBACK. Statements do not raise on contention here, because
   that would abort the caller's transaction: a wrong row count is noticed after the fact (`Contention`), and the call is run again from
   its savepoint, at most `ATTEMPTS` times.
3. *Leaving.* The savepoint is released: what was done counts with the caller's transaction.

A refusal, an error or an interrupt at any point leaves the caller's transaction as usable as it was: the connection is brought back
in step (`CallerPipeline.drain`), then rolled back to the savepoint. An interrupt that strikes while the savepoint is being made has
changed nothing, and one that strikes while it is being released comes after everything was done: in neither case may we roll back to a
savepoint that does not exist, so `_inside` says when it certainly does.

We never commit, close or change a setting of the caller's connection, prepare nothing on it, and roll back nothing but our savepoint. We
wait for locks at most as long as `lock_timeout`: then the statement is cancelled, and nothing was done. Entries get no journal
number here (`journal_rows` says why), and no pool is removed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import pq

from ...core.commands import Group
from ...core.model import SECOND, Key, Slot
from ...core.reading import Query
from ...core.validation import invalid
from ...errors import EngineError, Overloaded
from ..clocks import steady
from ..driver_connections import driver_connection, driver_connection_async, spoil
from ..port import Applied
from .database import Database
from .distributed import lanes_of
from .driver import OnStatement, Script, Steps
from .failures import ConnectionFailed
from .reading import read_script, with_clock
from .savepoints import CallerPipeline, SavepointCall
from .script import Contention, RetryState, ScriptResult, apply_script, lock_pools
from .statements import split_by_lane
from .waiting import GRACE, wait, wait_async

T = TypeVar("T")
MakeScript: TypeAlias = Callable[[], Script[T]]

ATTEMPTS: Final = 10
"""How often a call is run because other transactions wrote what it had loaded."""
_BUSY: Final = "another thread or task is using the connection of tx"


class CallerTransactions:
    """Applies batches and answers queries in transactions that others have begun."""

    def __init__(self, database: Database, on_statement: OnStatement | None) -> None:
        self._database, self.on_statement = database, on_statement
        self._statements = database.statements()
        self.timeout = database.asked.lock_timeout / SECOND

    def apply(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Apply these groups in the transaction of `tx`; the pools to `lock` are locked first, in one order for all."""
        began = steady()
        return self._applied(self._run(tx, self._batch(groups, lock)), began)

    async def apply_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same in a task, on an async connection."""
        connection, began = await driver_connection_async(tx), steady()
        return self._applied(await self._run_async(connection, self._batch(groups, lock)), began)

    def read(self, tx: Any, query: Query[T]) -> T:
        """Answer a question about pools, holds or records, counting what the transaction has not committed yet."""
        began = steady()
        result, slot = self._run(tx, lambda: self._query(query), reading=True)
        self._database.heard(slot, began)
        return result

    async def read_async(self, tx: Any, query: Query[T]) -> T:
        """The same in a task, on an async connection."""
        connection, began = await driver_connection_async(tx), steady()
        result, slot = await self._run_async(connection, lambda: self._query(query), reading=True)
        self._database.heard(slot, began)
        return result

    def _applied(self, result: ScriptResult, began: float) -> Applied:
        assert result.outcomes is not None
        self._database.heard(result.slot, began)
        return Applied(result.outcomes, None, result.wrote, positions=result.positions)

    def _batch(self, groups: Sequence[Group], lock: Sequence[Key]) -> MakeScript[ScriptResult]:
        state, database = RetryState(), self._database

        def script() -> Script[ScriptResult]:
            while True:  # a backlog goes first; it is in the caller's transaction too, whose length is theirs
                if lock:
                    yield from lock_pools(lock, database.lanes)
                if not groups:
                    return ScriptResult([], {}, False)
                options = database.options_in_caller()
                result = yield from apply_script(groups, options, state, random.getrandbits(62))
                if result.skipped_locked:  # inserted or removed while we waited for its lock
                    raise Contention("skipped")
                if result.outcomes is not None:
                    return result

        if not database.distributed:
            return script
        _, lanes = lanes_of(groups, database.lanes)
        return lambda: split_by_lane(script(), sorted(lanes) or (0,), writing=True)

    def _query(self, query: Query[T]) -> Script[tuple[T, Slot | None]]:
        options = self._database.options_in_caller()
        script = read_script(options, query)
        assert script is not None, "this is not read in a caller's transaction"
        return with_clock(options, script)

    def _run(self, tx: Any, make: MakeScript[T], *, reading: bool = False) -> T:
        """Run a script on this thread. If the transaction could not be kept usable, the framework is made to roll it back."""
        connection = driver_connection(tx)
        try:
            return self._run_on(check_connection(connection, psycopg.Connection), make, reading)
        except BaseException:
            if (
                isinstance(connection, psycopg.Connection)
                and connection.pgconn.transaction_status == pq.TransactionStatus.INERROR
            ):
                spoil(tx)
            raise

    def _run_on(self, connection: psycopg.Connection[Any], make: MakeScript[T], reading: bool) -> T:
        if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            try:
                psycopg.RawCursor(connection).execute(
                    self._statements["ping"].text, prepare=False
                )  # psycopg begins here
            except psycopg.Error as error:
                raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
        if not connection.lock.acquire(timeout=self.timeout):
            raise Overloaded(_BUSY)
        try:
            pgconn = check_connection(connection, psycopg.Connection).pgconn
            steps = self._call(pgconn, make, reading)
            return wait(steps, pgconn.socket, self.timeout, lambda: connection.cancel_safe(timeout=GRACE))
        finally:
            connection.lock.release()

    async def _run_async(self, tx: object, make: MakeScript[T], *, reading: bool = False) -> T:
        """The same in a task, on an async connection."""
        connection: psycopg.AsyncConnection[Any] = check_connection(tx, psycopg.AsyncConnection)
        if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            try:
                await psycopg.AsyncRawCursor(connection).execute(self._statements["ping"].text, prepare=False)
            except psycopg.Error as error:
                raise EngineError(f"tx cannot be used: {str(error).strip()}") from error
        try:
            async with asyncio.timeout(self.timeout):
                await connection.lock.acquire()
        except TimeoutError:
            raise Overloaded(_BUSY) from None
        try:
            pgconn = check_connection(connection, psycopg.AsyncConnection).pgconn
            steps = self._call(pgconn, make, reading)
            return await wait_async(steps, pgconn.socket, self.timeout, lambda: connection.cancel_safe(timeout=GRACE))
        finally:
            connection.lock.release()

    def _call(self, pgconn: pq.abc.PGconn, make: MakeScript[T], reading: bool) -> Steps[T]:
        """Run the script in a savepoint, again if another transaction wrote what it had loaded."""
        pipeline = CallerPipeline(pgconn, prepare=False, on_statement=self.on_statement, statements=self._statements)
        pgconn.enter_pipeline_mode()
        try:
            for _ in range(ATTEMPTS):
                try:
                    return (yield from SavepointCall(pipeline, self._database.identity, reading).run(make()))
                except Contention:
                    continue
            raise EngineError("other transactions came between each time; this call did nothing: try again")
        except ConnectionFailed as error:
            raise EngineError(
                f"the connection of tx was lost or does not answer ({error}): nothing of your transaction will be committed"
            ) from error
        finally:
            if pgconn.status == pq.ConnStatus.OK and not pipeline.busy:
                pgconn.exit_pipeline_mode()


# Preconditions


def check_connection(tx: object, kind: type[Any]) -> Any:
    """A psycopg connection of the right kind, sync or async, inside a transaction or about to begin one."""
    if not isinstance(tx, kind):
        raise invalid("tx", "tx_unsupported", _advice(tx, kind))
    pgconn = tx.pgconn
    if pgconn.status != pq.ConnStatus.OK:
        raise invalid("tx", "tx_unusable", "the connection is closed or broken")
    if pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise invalid("tx", "tx_in_pipeline", "leave the pipeline block first: Holdkit has round trips of its own")
    status = pgconn.transaction_status
    if status == pq.TransactionStatus.INERROR:
        raise invalid("tx", "tx_aborted", "the transaction is aborted: roll it back first")
    if status == pq.TransactionStatus.ACTIVE:
        raise invalid("tx", "tx_busy", "the connection is in the middle of something else, such as a COPY")
    if status == pq.TransactionStatus.IDLE and tx.autocommit:
        raise invalid("tx", "tx_autocommit", "there is no open transaction: begin one, for example with transaction()")
    if pgconn.parameter_status(b"client_encoding") != b"UTF8":
        raise invalid(
            "tx", "tx_encoding", "the connection's client_encoding must be UTF8: others cannot write all text"
        )
    return tx


def _advice(tx: object, kind: type[Any]) -> str:
    if isinstance(tx, psycopg.Connection):
        return "is a sync connection, which would stop the event loop: use an AsyncConnection, or holdkit.connect"
    if isinstance(tx, psycopg.AsyncConnection):
        return "is an async connection: use holdkit.connect_async with it"
    if isinstance(getattr(tx, "connection", None), psycopg.Connection | psycopg.AsyncConnection):
        return f"must be the connection itself, not its {type(tx).__name__}"
    name = f"a psycopg {kind.__name__}"
    return f"must be {name}, or SQLAlchemy's or Django's around one, not {type(tx).__module__}.{type(tx).__name__}"
