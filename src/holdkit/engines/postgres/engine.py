"""The PostgreSQL engine: holds in the application's own database, in the schema `holdkit`.

Stores; the core decides, inside one transaction of READ COMMITTED and row locks, in two round trips. The server's clock is
the one authority on time, read after the locks. Any number of processes may write. A commit whose answer is lost is
*unknown*, never *refused*; everything before COMMIT was sent certainly did nothing, and is tried again, bounded.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ...core.audit import Difference
from ...core.commands import Group
from ...core.model import SECOND, Key, Limits, Slot
from ...core.reading import Query
from ...errors import EngineError, HoldkitError, OutcomeUnknown
from ..callers import driver_connection, driver_connection_async, spoil
from ..port import Applied, BatchRejected, Clock
from .auditing import verify
from .connections import Connections
from .driver import ConnectionFailed, OnStatement, Script, StatementFailed
from .joining import Terms as Join
from .joining import is_aborted, run_joined, run_joined_async
from .listening import Listener, Teller
from .loading import Terms, lock_timeout
from .migrating import check_schema
from .opening import IMPATIENCE, check_server, connect, read_url, trouble
from .reading import At, answer
from .script import Ran, Stage, apply_script, lock_pools

T = TypeVar("T")

SIZE: Final = 6
"""Connections at most for those who never wait long: batches and reads."""
PATIENT: Final = 16
"""The same for those who wait for a lock; apart from the others, so that these can never be without."""
ATTEMPTS: Final = 20
"""How often a transaction that certainly did nothing is tried again."""
AGAIN: Final = frozenset({"40001", "40P01", "22012", "23505"})
"""Serialization failure, deadlock, our own check of a row count, a key that was taken meanwhile: run it again."""
_STANDBY: Final = ("SyncRepWaitForLSN", "canceling wait for synchronous replication")
"""Where the server gave up its wait for a standby, and its words for it, unless they are translated."""


def wall_clock() -> Slot:
    """Microseconds UTC."""
    return time.time_ns() // 1000


class PostgresEngine:
    """Holds in PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        prune_every: float = 1.0,
        on_statement: OnStatement | None = None,
    ) -> None:
        self._address = read_url(url)
        self.url = self._address.shown
        self._injected = clock
        self.clock: Clock = clock or wall_clock
        asked = limits or Limits()
        seconds = asked.lock_timeout / SECOND
        self._connections, self._patient = (
            Connections(lambda: connect(self._address, asked, on_statement), size, seconds) for size in (SIZE, PATIENT)
        )
        try:
            with self._connections.one() as driver:
                self.unsafe = check_server(driver, self._address)
                """Settings of the server that may lose a done answer, allowed by name."""
                schema = check_schema(driver, self._address, limits)
        except BaseException as error:
            self._connections.close()
            if isinstance(error, StatementFailed):
                raise trouble(self._address, error) from error
            if isinstance(error, ConnectionFailed):
                raise EngineError(f"the connection to {self.url} was lost: {error}") from error
            raise
        self.lanes, self.limits = schema.lanes, schema.limits
        self._join = Join(schema.identity, asked.lock_timeout / SECOND, on_statement)
        self._pid = os.getpid()
        self._prune_every, self._pruned = prune_every, 0.0
        self._teller = Teller(self._connections)
        self._listener: Listener | None = None

    def apply(self, groups: Sequence[Group], *, patient: bool = False) -> Applied:
        """Decide and write these groups in one transaction, in order; what others have locked is left out, or waited for."""
        self._check()
        stage = Stage()
        for attempt in range(ATTEMPTS):
            try:
                ran = self._attempt(groups, stage, patient)
                while ran.outcomes is None:
                    ran = self._attempt(groups, stage, patient)
            except _Again as again:
                if attempt + 1 == ATTEMPTS:
                    raise again.error from again.error.__cause__
                time.sleep(random.uniform(0, min(0.1, 0.001 * 2**attempt)))
            else:
                return Applied(ran.outcomes, None, ran.wrote, ran.left_out)
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, groups: Sequence[Group], stage: Stage, patient: bool) -> Ran:
        slot = None if self._injected is None else self._injected()
        waits = lock_timeout(self.limits) if patient else str(IMPATIENCE) if self._address.pooled else None
        terms = Terms(self.limits, self.lanes, slot, patient, waits)
        pruning = time.monotonic() - self._pruned > self._prune_every
        script = apply_script(groups, terms, stage, random.getrandbits(62), pruning=pruning)
        with (self._patient if patient else self._connections).one() as driver:
            try:
                ran = driver.run(script)
            except StatementFailed as failed:
                return self._refused(groups, failed, patient)
            except ConnectionFailed as failed:
                raise self._lost(failed) from failed
            except Exception as error:
                if driver.committing:
                    raise OutcomeUnknown(f"interrupted while {self.url} was committing: ask again") from error
                raise BatchRejected(f"unexpected {type(error).__name__} while deciding; nothing was done") from error
            if any(sign in notice for notice in driver.notices for sign in _STANDBY):
                raise OutcomeUnknown(f"{self.url} committed, but a standby may not have it: ask again")
        if pruning:
            self._pruned = time.monotonic()
        if ran.wrote:
            self._teller.nudge()
        return ran

    def _refused(self, groups: Sequence[Group], failed: StatementFailed, patient: bool) -> Ran:
        """The server refused a statement, so nothing was committed."""
        error = trouble(self._address, failed)
        error.__cause__ = failed
        if failed.sqlstate in AGAIN:
            raise _Again(error)
        if failed.sqlstate == "55P03" and not patient:  # something new, that another transaction is just making
            if len(groups) > 1:
                raise BatchRejected(str(error)) from failed  # for one of them: it is left out once it is alone
            return Ran([[]], {0: "what is being made"}, False)
        if failed.sqlstate == "25006" or failed.sqlstate[:3] == "57P":  # a failover: our other connections are old too
            self._drop_idle()
            raise _Again(error)
        if isinstance(error, EngineError) and len(groups) > 1:
            raise BatchRejected(str(error)) from failed
        raise error

    def _lost(self, failed: ConnectionFailed) -> HoldkitError:
        self._drop_idle()
        if failed.sent_commit:
            return OutcomeUnknown(f"the connection to {self.url} was lost during COMMIT ({failed}): ask again")
        return _Again(EngineError(f"the connection to {self.url} was lost: {failed}"))

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same inside the caller's own transaction, in a savepoint."""
        self._check()
        connection = driver_connection(tx)
        try:
            ran = run_joined(connection, self._join, self._joined_script(groups, lock))
        except BaseException:
            if is_aborted(connection):
                spoil(tx)
            raise
        assert ran.outcomes is not None
        return Applied(ran.outcomes, None, ran.wrote)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same in a task, on an async connection."""
        self._check()
        connection = await driver_connection_async(tx)
        ran = await run_joined_async(connection, self._join, self._joined_script(groups, lock))
        assert ran.outcomes is not None
        return Applied(ran.outcomes, None, ran.wrote)

    def _joined_script(self, groups: Sequence[Group], lock: Sequence[Key]) -> Callable[[], Script[Ran]]:
        slot = None if self._injected is None else self._injected()
        terms = Terms(self.limits, self.lanes, slot, patient=True, joined=True)
        stage = Stage()

        def script() -> Script[Ran]:
            if lock:
                yield from lock_pools(lock, self.lanes)
            if not groups:
                return Ran([], {}, False)
            return (yield from apply_script(groups, terms, stage, random.getrandbits(62)))

        return script

    def read(self, query: Query[T]) -> T:
        """Answer a question from committed, durable state only."""
        self._check()
        for attempt in range(ATTEMPTS):
            try:
                with self._connections.one() as driver:
                    slot = None if self._injected is None else self._injected()
                    result: T = answer(At(driver, self.limits, self.lanes, slot), query)
                    return result
            except StatementFailed as failed:
                raise trouble(self._address, failed) from failed
            except ConnectionFailed as failed:
                self._drop_idle()
                if attempt + 1 == ATTEMPTS:
                    raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed
                time.sleep(random.uniform(0, min(0.1, 0.001 * 2**attempt)))
        raise AssertionError("the last attempt returns or raises")

    def verify(self) -> Iterator[Difference]:
        """Fold the whole journal and name every row that differs from it."""
        self._check()
        with self._connections.one() as driver:
            try:
                yield from verify(driver, self.limits, self.lanes, self.clock())
            except StatementFailed as failed:
                raise trouble(self._address, failed) from failed
            except ConnectionFailed as failed:
                raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread of its own, when other processes may have written."""
        self._check()
        if self._listener is None and not self._address.pooled:  # a pooler would give our ears to somebody else
            self._listener = Listener(self._address, wake)

    def close(self) -> None:
        """Give back every connection; closing twice is quiet."""
        if self._listener is not None:
            self._listener.close()
        self._connections.close()
        self._patient.close()

    def _drop_idle(self) -> None:
        """Our connections may all lead to a server that is gone."""
        self._connections.drop_idle()
        self._patient.drop_idle()

    def _check(self) -> None:
        if self._connections.closed:
            raise EngineError(f"{self.url} is closed")
        if os.getpid() != self._pid:
            raise EngineError(f"{self.url} was opened before a fork; open it anew after fork")


class _Again(HoldkitError):
    """Nothing was done for certain: worth another attempt; `error` is what to say if there is none left."""

    def __init__(self, error: HoldkitError) -> None:
        super().__init__(str(error))
        self.error = error


def open_engine(
    url: str, clock: Clock | None = None, limits: Limits | None = None, *, on_statement: OnStatement | None = None
) -> PostgresEngine:
    """Open a ``postgresql://`` URL whose database has been migrated."""
    return PostgresEngine(url, clock=clock, limits=limits, on_statement=on_statement)
