"""A caller's asyncpg connection: calls run in savepoints, one statement at a time, in asyncpg's own encoding.

Theory of operation. asyncpg speaks the protocol itself, so there is no libpq connection to pipeline statements on. `AsyncpgPipeline` offers
`SavepointCall` the generator interface of `CallerPipeline`. A `CallerPipeline` yields the socket events that it waits for; an
`AsyncpgPipeline` yields an awaitable, and `run_on_asyncpg` awaits it and sends back the result. So savepoints, guards, retries and their
undoing are written once (`caller_transaction`, `savepoints`).

- *Nothing is prepared by name.* Every statement is parsed under the empty name (`prepare(…, name="")`), so it enters neither the server's
  list of prepared statements nor asyncpg's cache, from which it would evict the caller's statements.
- *Types.* When asyncpg meets an array type for the first time on a connection, it asks the server about it. The first call asks for all our
  types before its savepoint (`_learn_types`), so that no pool is locked meanwhile: on Citus it may take seconds.
- *Values.* The server tells asyncpg the type of every parameter, which each statement casts; text that is encoded already is decoded for
  it. Rows come back as Python values: numbers of type numeric become `int`, and uuids become text, as in libpq's answers.
- *Interrupts.* If the time is over or the task is cancelled, asyncpg asks the server to cancel the statement, and awaits that before the
  next one. The call is then rolled back to its savepoint in the same task; only the first cancellation counts (`cancelled_once`). The
  statements that make, release and roll back to the savepoint are never interrupted: they wait for nothing, and afterwards it is known
  whether there is a savepoint. A cancellation during the release comes after everything was done.
- *An aborted transaction* cannot be told from an open one beforehand, but the savepoint cannot be made in it; nothing was done then.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Generator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID
from weakref import WeakSet

from ...core.validation import invalid
from ...errors import EngineError, HoldkitError
from ..driver_connections import transaction_ended
from .driver import OnStatement, Row, Statement, Steps
from .encoding import Sql
from .failures import ConnectionFailed, StatementFailed
from .waiting import GRACE, cancelled_once

T = TypeVar("T")

_CONTROL: Final = frozenset({"make_savepoint", "release_savepoint", "roll_back_to_savepoint"})
"""Statements that say where the savepoint is: never interrupted."""
_LOST: Final = "08"
"""The class of SQLSTATEs of a lost connection."""
_LEARNED: Final[WeakSet[Any]] = WeakSet()
"""Connections that know our array types."""
_SHOW_SHARDS: Final = "set local citus.override_table_visibility = off"
_LEAVE_TYPES: Final = "rollback to savepoint holdkit_types; release savepoint holdkit_types"


def is_asyncpg(tx: object) -> bool:
    """Return whether this is an object of asyncpg, a connection or another."""
    return not isinstance(tx, type) and any(base.__module__.partition(".")[0] == "asyncpg" for base in type(tx).__mro__)


def check_asyncpg(tx: Any) -> Any:
    """Return an open asyncpg connection, or a pool's proxy of one, inside a transaction. Raise `InvalidRequest` for anything else."""
    if not hasattr(tx, "is_in_transaction"):
        raise invalid(
            "tx",
            "tx_unsupported",
            f"must be a connection of asyncpg, not its {type(tx).__name__}: use `async with pool.acquire() as tx`",
        )
    try:
        closed = tx.is_closed()
    except Exception as error:  # a connection that went back to its pool
        raise invalid("tx", "tx_unusable", f"the connection cannot be used: {error}") from error
    if closed:
        raise invalid("tx", "tx_unusable", "the connection is closed")
    if not tx.is_in_transaction():
        raise invalid(
            "tx", "tx_autocommit", "there is no open transaction: begin one, with `async with connection.transaction()`"
        )
    return tx


async def run_on_asyncpg(steps: Steps[T]) -> T:
    """Run a call to its end, in a task of its own; the first cancellation undoes it."""
    return await cancelled_once(_drive(steps))


async def _drive(steps: Generator[Any, Any, T]) -> T:
    try:
        awaited: Awaitable[Any] = next(steps)
        while True:
            try:
                answer = await awaited
            except BaseException as error:  # noqa: BLE001 - thrown into the call, which raises it again at its end
                awaited = steps.throw(error)
            else:
                awaited = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _awaited(work: Awaitable[T]) -> Generator[Any, Any, T]:
    """Yield an awaitable to `_drive`, and return its result."""
    result: T = yield work
    return result


class AsyncpgPipeline:
    """A caller's connection, for one call."""

    busy = False
    unbegun = False

    def __init__(
        self,
        connection: Any,
        statements: Mapping[str, Sql],
        on_statement: OnStatement | None,
        seconds: float,
        *,
        distributed: bool,
    ) -> None:
        self._connection, self._statements, self._hook = connection, statements, on_statement
        self._distributed = distributed
        self._deadline = asyncio.get_running_loop().time() + seconds
        self.begun = 0
        self.aborted = False
        """A statement behind our savepoint has failed, or was interrupted."""

    def exchange(self, statements: Sequence[Statement]) -> Steps[list[list[Row]]]:
        """Run the statements one after the other, up to the first that fails."""
        self.begun = 0
        return (yield from _awaited(self._run(statements)))

    def drain(self) -> Steps[None]:
        """Do nothing: asyncpg itself awaits outstanding answers."""
        yield from ()

    async def _run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        answers: list[list[Row]] = []
        for name, parameters in statements:
            if self._hook is not None:
                self._hook(name)
            self.begun += 1
            try:
                if name == "make_savepoint":
                    await self._learn_types()
                if name in _CONTROL:
                    await _uninterrupted(self._connection.execute(self._statements[name].text, timeout=GRACE))
                    answers.append([])
                else:
                    answers.append(await self._fetch(name, parameters))
            except _Done:
                if name == "make_savepoint":
                    self.begun += 1  # there is one now, as if the statement behind it had been begun
                raise asyncio.CancelledError from None
            except BaseException as error:
                self.aborted = name != "make_savepoint"
                raise self._meaning(name, error) from error
            if name == "roll_back_to_savepoint":
                self.aborted = False
        return answers

    async def _learn_types(self) -> None:
        """Have asyncpg ask the server about our array types, unless this connection knows them."""
        connection = getattr(self._connection, "_con", self._connection)  # a pool lends a proxy
        if connection in _LEARNED:
            return
        kinds = sorted({kind for sql in self._statements.values() for kind in sql.types if kind.endswith("[]")})
        text = "select " + ", ".join([f"${number}::{kind}" for number, kind in enumerate(kinds, 1)])
        try:
            await _uninterrupted(self._connection.execute("savepoint holdkit_types", timeout=GRACE))
            try:
                if self._distributed:  # the query is slow where Citus hides shards from it
                    await self._connection.execute(_SHOW_SHARDS, timeout=GRACE)
                await self._connection.prepare(text, name="", timeout=self._seconds_left())
            finally:
                await _uninterrupted(self._connection.execute(_LEAVE_TYPES, timeout=GRACE))
        except _Done:
            raise asyncio.CancelledError from None
        _LEARNED.add(connection)

    def _seconds_left(self) -> float:
        return max(0.001, self._deadline - asyncio.get_running_loop().time())

    async def _fetch(self, name: str, parameters: Sequence[Any]) -> list[Row]:
        sql, parameters = self._statements[name].form_for(parameters)
        seconds = self._seconds_left()
        values = [_encoded(value) for value in parameters]
        statement = await self._connection.prepare(sql.text, name="", timeout=seconds)
        rows = await statement.fetch(*values, timeout=seconds)
        return [tuple([_decoded(value) for value in row.values()]) for row in rows]

    def _meaning(self, name: str, error: BaseException) -> BaseException:
        """Return the error as `SavepointCall` knows it. An interrupt and an error of ours are returned unchanged."""
        state = getattr(error, "sqlstate", None)
        if isinstance(error, TimeoutError):
            return StatementFailed(name, "57014", "no answer in time")
        if name == "make_savepoint" and state == "25P02":
            return invalid("tx", "tx_aborted", "the transaction is aborted: roll it back first")
        if state is not None and not state.startswith(_LOST):
            return StatementFailed(name, state, str(error))
        if isinstance(error, OSError) or state is not None or self._connection.is_closed():
            return ConnectionFailed(str(error), sent_commit=False)
        if isinstance(error, HoldkitError) or not is_asyncpg(error):
            return error
        return invalid("tx", "tx_busy", f"the connection cannot be used now: {error}")


class _Done(BaseException):
    """A cancellation arrived while a statement ran, and the statement then succeeded."""


async def _uninterrupted(statement: Awaitable[T]) -> T:
    """Await a statement to its end and return its result. After a cancellation meanwhile, raise `_Done`, unless the statement failed."""
    running = asyncio.ensure_future(statement)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        running.result()
        raise _Done from None


def _encoded(value: Any) -> Any:
    """Decode text that is encoded already, alone or in an array."""
    if type(value) is bytes:
        return value.decode()
    if type(value) is list and any(type(item) is bytes for item in value):
        return [item.decode() if type(item) is bytes else item for item in value]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    return str(value) if isinstance(value, UUID) else value


class AsyncpgMark:
    """A mark in an open transaction of asyncpg; the counterpart of `SavepointMark`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._name = f"holdkit_{secrets.token_hex(8)}"

    async def make(self) -> AsyncpgMark:
        """Set the mark."""
        await self._execute("savepoint")
        return self

    def check(self) -> None:
        """Fail: asyncpg has no sync connection."""
        raise AssertionError("asyncpg is async")

    async def check_async(self) -> None:
        """Remove the mark; `InvalidRequest` if it is gone."""
        if not self._connection.is_in_transaction():
            raise transaction_ended()
        await self._execute("release savepoint")

    async def _execute(self, command: str) -> None:
        try:
            await self._connection.execute(f"{command} {self._name}", timeout=GRACE)
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == "3B001":  # there is no such savepoint
                raise transaction_ended() from error
            if state != "25P02":  # aborted: whatever is sent next finds that
                raise EngineError(f"tx cannot be used: {error}") from error
