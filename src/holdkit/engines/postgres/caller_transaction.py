"""Calls in a caller's transaction: both happen or neither.

Theory of operation. Each call runs in a savepoint of its own, on the caller's connection, in pipeline mode; usually in two round trips. A
command that a guard may decide is tried in one round trip first (`guarded_batch`). Every other call has three states:

1. *Entering.* One round trip begins the transaction if psycopg would have to, makes the savepoint, checks the transaction, and locks and
   loads what the call needs. The connection itself is checked before. The check of the transaction (our own database, READ COMMITTED, may
   write, a search path without surprises) is a statement that raises. The server then skips what follows in the pipeline, so that no
   statement of ours ever runs in an unsuitable transaction. After the rollback to the savepoint the call asks for the reason.
2. *Inside.* The script of the batch runs, without its BEGIN, COMMIT and ROLLBACK.
3. *Leaving.* One round trip writes, and releases the savepoint: the changes then belong to the caller's transaction. A write that finds an
   unexpected number of rows raises, so that the release behind it is skipped, and the call runs again from its savepoint, at most
   `ATTEMPTS` times (`Contention`). Under the call's locks that does not happen, except if two callers use one id for different pools at
   once. Where it is likely, because pools or records that do not exist yet cannot be locked, the statement does not raise: the call
   compares the count afterwards, and the release is a round trip of its own.

A refusal, an error or an interrupt at any point leaves the caller's transaction as usable as it was: the connection is brought back in step
(`CallerPipeline.drain`), then rolled back to the savepoint. We never roll back to a savepoint that may not exist, for there may be an older
one of the same name: `SavepointCall` records which statements of each exchange were sent. An interrupt that strikes while the release is
being sent comes after everything was done.

On a connection of asyncpg these calls run one statement at a time, through asyncpg itself (`asyncpg_connections`).

We never commit, close or change a setting of the caller's connection, prepare nothing on it, and roll back nothing but our savepoint. We
wait for locks up to `lock_timeout`: then the statement is cancelled, and nothing was done. Entries get no journal number here
(`journal_rows` says why), and no pool is removed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
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
from .asyncpg_connections import AsyncpgPipeline, check_asyncpg, is_asyncpg, run_on_asyncpg
from .database import Database
from .distributed import lanes_of
from .driver import OnStatement, Script, Steps
from .encoding import Sql
from .failures import ConnectionFailed
from .guard_routing import Guards
from .guarded_batch import GuardedCall
from .reading import read_script, with_clock
from .savepoints import CallerPipeline, SavepointCall, SavepointPipeline
from .script import Contention, RetryState, ScriptResult, apply_script, lock_pools
from .statements import split_by_lane
from .waiting import GRACE, wait, wait_async

T = TypeVar("T")
MakeScript: TypeAlias = Callable[[], Script[T]]
First: TypeAlias = Callable[[SavepointCall], Steps[T | None]]
"""Tried before the script. It returns None if it changed nothing."""
AnyConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

ATTEMPTS: Final = 10
"""How often a call runs if other transactions change the rows that it loaded."""
_BUSY: Final = "another thread or task is using the connection of tx"


class CallerTransactions:
    """Applies batches and answers queries in transactions of other code."""

    def __init__(self, database: Database, on_statement: OnStatement | None, guards: Guards) -> None:
        self._database, self.on_statement, self.guards = database, on_statement, guards
        self._statements = database.statements()
        self.timeout = database.asked.lock_timeout / SECOND

    def apply(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Apply these groups in the transaction of `tx`. The pools in `lock` are locked first, in the order that all callers use."""
        began = steady()
        return self._applied(self._run(tx, self._batch(groups, lock), self._guarded(groups, lock)), began)

    async def apply_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Apply these groups in a task, on an async connection."""
        connection, began = await driver_connection_async(tx), steady()
        batch, guarded = self._batch(groups, lock), self._guarded(groups, lock)
        return self._applied(await self._run_async(connection, batch, guarded), began)

    def read(self, tx: Any, query: Query[T]) -> T:
        """Answer a query about pools, holds or records. The answer includes what the transaction has not committed yet."""
        began = steady()
        result, slot = self._run(tx, lambda: self._query(query), reading=True)
        self._database.heard(slot, began)
        return result

    async def read_async(self, tx: Any, query: Query[T]) -> T:
        """Answer a query in a task, on an async connection."""
        connection, began = await driver_connection_async(tx), steady()
        result, slot = await self._run_async(connection, lambda: self._query(query), reading=True)
        self._database.heard(slot, began)
        return result

    def _applied(self, result: ScriptResult, began: float) -> Applied:
        assert result.outcomes is not None
        self._database.heard(result.slot, began)
        return Applied(
            result.outcomes, None, result.wrote, positions=result.positions, unfed=tuple(sorted(result.unfed))
        )

    def _guarded(self, groups: Sequence[Group], lock: Sequence[Key]) -> First[ScriptResult] | None:
        """Return the guarded call to try first, if a guard may decide these groups."""
        if len(groups) != 1 or lock:
            return None
        batch = self.guards.select(groups, self._database.options_in_caller())
        return None if batch is None else partial(self.guards.run_call, GuardedCall(batch, self._database.identity))

    def _batch(self, groups: Sequence[Group], lock: Sequence[Key]) -> MakeScript[ScriptResult]:
        state, database = RetryState(), self._database

        def script() -> Script[ScriptResult]:
            while True:  # a backlog goes first, in the caller's transaction too
                if lock:
                    yield from lock_pools(lock, database.lanes)
                if not groups:
                    return ScriptResult([], {}, False)
                options = database.options_in_caller()
                result = yield from apply_script(groups, options, state, random.getrandbits(62))
                if result.skipped_locked:  # another transaction inserted or removed a row while we waited for its lock
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

    def _run(self, tx: Any, make: MakeScript[T], first: First[T] | None = None, *, reading: bool = False) -> T:
        """Run a script on this thread. If the transaction could not be kept usable, make the caller's framework roll it back."""
        connection = driver_connection(tx)
        try:
            return self._run_on(check_connection(connection, psycopg.Connection), make, first, reading)
        except BaseException:
            if (
                isinstance(connection, psycopg.Connection)
                and connection.pgconn.transaction_status == pq.TransactionStatus.INERROR
            ):
                spoil(tx)
            raise

    def _run_on(
        self, connection: psycopg.Connection[Any], make: MakeScript[T], first: First[T] | None, reading: bool
    ) -> T:
        if not connection.lock.acquire(timeout=self.timeout):
            raise Overloaded(_BUSY)
        try:
            pgconn = check_connection(connection, psycopg.Connection).pgconn
            steps = self._call(connection, make, first, reading)
            return wait(steps, pgconn.socket, self.timeout, lambda: connection.cancel_safe(timeout=GRACE))
        finally:
            connection.lock.release()

    async def _run_async(
        self, tx: object, make: MakeScript[T], first: First[T] | None = None, *, reading: bool = False
    ) -> T:
        """Run a script in a task, on an async connection of psycopg or asyncpg."""
        if is_asyncpg(tx):
            pipeline = AsyncpgPipeline(
                check_asyncpg(tx),
                self._statements,
                self.on_statement,
                self.timeout,
                distributed=self._database.distributed,
            )
            return await run_on_asyncpg(self._attempts(pipeline, make, first, reading))
        connection: psycopg.AsyncConnection[Any] = check_connection(tx, psycopg.AsyncConnection)
        try:
            async with asyncio.timeout(self.timeout):
                await connection.lock.acquire()
        except TimeoutError:
            raise Overloaded(_BUSY) from None
        try:
            pgconn = check_connection(connection, psycopg.AsyncConnection).pgconn
            steps = self._call(connection, make, first, reading)
            return await wait_async(steps, pgconn.socket, self.timeout, lambda: connection.cancel_safe(timeout=GRACE))
        finally:
            connection.lock.release()

    def _call(self, connection: AnyConnection, make: MakeScript[T], first: First[T] | None, reading: bool) -> Steps[T]:
        """Run the call in pipeline mode."""
        pgconn, statements = connection.pgconn, self._statements
        if pgconn.transaction_status == pq.TransactionStatus.IDLE:
            statements = {**statements, "begin": begin_like(connection)}
        pipeline = CallerPipeline(pgconn, prepare=False, on_statement=self.on_statement, statements=statements)
        pgconn.enter_pipeline_mode()
        try:
            return (yield from self._attempts(pipeline, make, first, reading))
        finally:
            if pgconn.status == pq.ConnStatus.OK and not pipeline.busy:
                pgconn.exit_pipeline_mode()

    def _attempts(
        self, pipeline: SavepointPipeline, make: MakeScript[T], first: First[T] | None, reading: bool
    ) -> Steps[T]:
        """Try `first`. If it did nothing, run the script in a savepoint, and again if another transaction changed its rows."""
        identity = self._database.identity

        def savepoint() -> SavepointCall:
            return SavepointCall(pipeline, identity, reading=reading, begin=pipeline.unbegun)

        try:
            if first is not None and (result := (yield from first(savepoint()))) is not None:
                return result
            for _ in range(ATTEMPTS):
                try:
                    return (yield from savepoint().run(make()))
                except Contention:
                    continue
            raise EngineError("other transactions came between each time; this call did nothing: try again")
        except ConnectionFailed as error:
            raise EngineError(
                f"the connection of tx was lost or does not answer ({error}): nothing of your transaction will be committed"
            ) from error


# Preconditions


def begin_like(connection: AnyConnection) -> Sql:
    """Return the BEGIN that psycopg would send on this connection, with the caller's own attributes."""
    words = ["begin"]
    if connection.isolation_level is not None:
        words.append(
            f"isolation level {psycopg.IsolationLevel(connection.isolation_level).name.replace('_', ' ').lower()}"
        )
    if connection.read_only is not None:
        words.append("read only" if connection.read_only else "read write")
    if connection.deferrable is not None:
        words.append("deferrable" if connection.deferrable else "not deferrable")
    return Sql("begin", " ".join(words))


def check_connection(tx: object, kind: type[Any]) -> Any:
    """Return a psycopg connection of this kind, sync or async, inside a transaction or able to begin one. Raise if it cannot be used."""
    if not isinstance(tx, kind):
        raise invalid("tx", "tx_unsupported", _advice(tx, kind))
    pgconn = tx.pgconn
    if pgconn.status != pq.ConnStatus.OK:
        raise invalid("tx", "tx_unusable", "the connection is closed or broken")
    if pgconn.pipeline_status != pq.PipelineStatus.OFF:
        if (
            getattr(tx, "_pipeline", tx) is None
        ):  # the caller is in no pipeline block: an earlier call of ours left it like that
            raise invalid(
                "tx",
                "tx_unusable",
                "the server did not answer after an earlier call was cancelled: close the connection",
            )
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
    if is_asyncpg(tx):
        return "is a connection of asyncpg, which is async: use holdkit.connect_async with it"
    if isinstance(getattr(tx, "connection", None), psycopg.Connection | psycopg.AsyncConnection):
        return f"must be the connection itself, not its {type(tx).__name__}"
    name = f"a psycopg {kind.__name__}"
    others = (
        "or one of asyncpg, or SQLAlchemy's around either"
        if kind is psycopg.AsyncConnection
        else "or SQLAlchemy's or Django's around one"
    )
    return f"must be {name}, {others}, not {type(tx).__module__}.{type(tx).__name__}"
