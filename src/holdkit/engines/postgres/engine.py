"""The PostgreSQL engine: holds in the application's own database, in a schema of their own.

Stores; the core decides, inside one transaction of READ COMMITTED and row locks, in two round trips. The server's clock is
the one authority on time, read after the locks. Any number of processes may write. A commit whose answer is lost is
*unknown*, never *refused*; everything before COMMIT was sent certainly did nothing, and is tried again, bounded.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from msgspec import structs

from ...core.audit_rows import Difference
from ...core.commands import Command, Group
from ...core.import_ import Carried
from ...core.model import SECOND, Key, Limits, Slot
from ...core.reading import Query
from ...core.repair import Repaired
from ...core.validation import invalid
from ...errors import EngineError, OutcomeUnknown
from ..clocks import Clock, RemoteClock, steady
from ..driver_connections import driver_connection, driver_connection_async, spoil
from ..durability import Durability
from ..metering import Progress
from ..port import AddLate, Applied, Lent, Mark, NeedsThread
from .audit import verify
from .batch_growth import GrowingBatch
from .batch_options import BatchOptions, bounded
from .caller_transaction import JoinOptions as Join
from .caller_transaction import check_connection, is_aborted, run_joined, run_joined_async
from .connections import Connections
from .distributed import BatchPart, apply_distributed, lanes_of
from .driver import ConnectionFailed, Driver, NotReplicated, OnStatement, Script, StatementFailed
from .durability import DurabilityCheck
from .import_ import receive
from .in_doubt import InDoubt
from .listening import Listener, Notifier
from .looking import look, with_clock
from .marking import SavepointMark
from .migrating import Schema, check_schema
from .one_lane import load_one_lane
from .opening import check_server, connect, not_replicated, read_url, trouble
from .own_transaction import Lending
from .reading import At, answer
from .repair import repair
from .retrying import FEW, Retry, retry
from .script import RetryState, ScriptResult, apply_script, lock_pools
from .splitting import by_lane
from .statements import load
from .sweeping import Listed, look_around
from .transacting import Transactions
from .watching import Watch

T = TypeVar("T")

STALE: Final = 1.0
"""Seconds after which a list, which does not bring the server's clock along, asks for it first."""


class PostgresEngine:
    """Holds in PostgreSQL."""

    sql = True
    serial = False

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        schema: str | None = None,
        pool_size: int | None = None,
        prune_every: float = 1.0,
        on_statement: OnStatement | None = None,
    ) -> None:
        self._address = read_url(url, schema=schema, pool_size=pool_size)
        self.url = self._address.url
        self._injected = clock
        self._server_clock = RemoteClock()
        self.clock: Clock = clock or self._server_clock
        self._durability = DurabilityCheck(self._address)
        asked = limits or Limits()
        seconds = asked.lock_timeout / SECOND
        self._watch = watch = Watch(self._address.hosts)
        self._connections, self._wait_for_locks = (
            Connections(
                lambda: connect(self._address, asked, on_statement, distributed=self.distributed, watch=watch),
                size,
                seconds,
                self._durability,
            )
            for size in (self._address.shares.quick, self._address.shares.wait_for_locks)
        )
        self.distributed = False
        """Whether the tables are distributed by lane: each statement then names one."""
        stored = self._look_around(limits)
        self.lanes, self.stored, self.distributed = stored.lanes, stored.stored, stored.distributed
        if self.distributed:
            self._connections.drop_idle()  # set up before that was known
        named = load_one_lane(self._address.schema)[0] if self.distributed else load(self._address.schema)
        self._join = Join(stored.identity, asked.lock_timeout / SECOND, on_statement, named)
        self._pid = os.getpid()
        self._notifier = Notifier(self._connections, self._address.schema)
        self._transactions = Transactions(
            self._address, self._connections, self._wait_for_locks, self._options,
            prune_every=prune_every, wrote=self._notifier.nudge, suspect=self._drop_idle, heard=self._heard,
        )  # fmt: skip
        self._listener: Listener | None = None
        self._lending = Lending(self._address, asked, self._lent, self._notifier.nudge, watch)

    def _look_around(self, limits: Limits | None) -> Schema:
        """What server and tables are like; the connections are given back if they cannot be used."""
        try:
            with self._connections.one() as driver:
                check_server(driver, self._address)
                found = check_schema(driver, self._address, limits)
                self._read_clock(driver)
                return found
        except BaseException as error:
            self._connections.close()
            if isinstance(error, StatementFailed):
                raise trouble(self._address, error) from error
            if isinstance(error, ConnectionFailed):
                raise EngineError(f"the connection to {self.url} was lost: {error}") from error
            raise

    @property
    def durability(self) -> Durability:
        """What a done answer survives, as the server told it when it was last asked: a few seconds before the last call."""
        assert self._durability.known is not None, "asked on opening"
        return self._durability.known

    @property
    def limits(self) -> Limits:
        """The limits in force, as this process knows them."""
        return self.stored.in_force

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:
        """Decide and write these groups, in order: in one transaction, or in one per lane where the tables are distributed.
        What others have locked is left out, or waited for."""
        self._check()
        if self.distributed:
            several = bounded(self.limits)  # who counts everything may have to sweep anywhere
            transact = partial(self._transactions.run, wait_for_locks=wait_for_locks)
            return apply_distributed(groups, self.lanes, transact, self._find_sweep, several=several)
        return self._applied(BatchPart(groups), wait_for_locks)

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate) -> Applied:
        """The same, patient; who wants the same pools may come along once they are locked."""
        self._check()
        if self.distributed or bounded(self.limits):
            return self.apply(groups, wait_for_locks=True)
        growing = GrowingBatch(groups, add_late, self._slot)
        return self._applied(BatchPart(growing.groups, growing=growing), True)

    def _applied(self, share: BatchPart, wait_for_locks: bool) -> Applied:
        ran = self._transactions.run(share, wait_for_locks)
        assert ran.outcomes is not None
        return Applied(ran.outcomes, None, ran.wrote, ran.skipped_locked)

    async def apply_async(self, groups: Sequence[Group], sent: Callable[[], None]) -> Applied:
        """The same on an event loop; what cannot be done there without waiting is `NeedsThread`."""
        self._check()
        if self.distributed:
            raise NeedsThread
        return await self._transactions.apply_on_loop(groups, sent)

    def _options(self, **options: Any) -> BatchOptions:
        return BatchOptions(
            self.limits, self.lanes, self._slot(), **options, distributed=self.distributed, stored=self.stored
        )

    def _slot(self) -> Slot | None:
        """An injected clock's, if there is one."""
        return None if self._injected is None else self._injected()

    def _heard(self, slot: Slot | None, began: float) -> None:
        """What the server's clock said in an exchange that began then."""
        if slot is not None and self._injected is None:
            self._server_clock.heard(slot, began)

    def _read_clock(self, driver: Driver) -> Slot:
        """The server's clock, or the injected one, right now."""
        began = steady()
        ((slot,),) = driver.ask("read_clock", (self._slot(),))
        self._heard(slot, began)
        found: Slot = slot
        return found

    def _find_sweep(self, limit: int) -> tuple[Listed, set[int]]:
        """What a sweep would find to do, and lanes with something to prune: looks without locks."""
        options = self._options(wait_for_locks=False)
        return self._ask(lambda driver: driver.run(look_around(limit, options, self._read_clock(driver))))

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same inside the caller's own transaction, in a savepoint."""
        self._check()
        began = steady()
        return self._joined(_run_in(tx, self._join, self._joined_script(groups, lock)), began)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same in a task, on an async connection."""
        self._check()
        connection, began = await driver_connection_async(tx), steady()
        ran = await run_joined_async(connection, self._join, self._joined_script(groups, lock))
        return self._joined(ran, began)

    def _joined(self, ran: ScriptResult, began: float) -> Applied:
        assert ran.outcomes is not None
        self._heard(ran.slot, began)
        return Applied(ran.outcomes, None, ran.wrote)

    def mark_in(self, tx: Any) -> Mark:
        """Mark an open transaction."""
        return SavepointMark(check_connection(driver_connection(tx), psycopg.Connection)).make()

    async def mark_in_async(self, tx: Any) -> Mark:
        """The same in a task, on an async connection."""
        connection = check_connection(await driver_connection_async(tx), psycopg.AsyncConnection)
        return await SavepointMark(connection).make_async()

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Answer a question about pools, holds or records inside the caller's own transaction."""
        self._check()
        found: list[T] = []
        began, join = steady(), structs.replace(self._join, reading=True)
        self._joined(_run_in(tx, join, partial(self._looking, query, found)), began)
        return found[-1]

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """The same in a task, on an async connection."""
        self._check()
        found: list[T] = []
        connection, join = await driver_connection_async(tx), structs.replace(self._join, reading=True)
        began = steady()
        self._joined(await run_joined_async(connection, join, partial(self._looking, query, found)), began)
        return found[-1]

    def _looking(self, query: Query[T], found: list[T]) -> Script[ScriptResult]:
        options = self._options(wait_for_locks=True, joined=True)
        script = look(options, query)
        assert script is not None, "this is not read in a caller's transaction"
        result, slot = yield from with_clock(options, script)
        found.append(result)
        return ScriptResult([], {}, False, slot)

    def lend(self, work: Callable[[Lent], T]) -> T:
        """A transaction of our own, with `work` in it."""
        self._check()
        return self._lending.run(work)

    def _lent(self, connection: Any, groups: Sequence[Group]) -> Applied:
        began = steady()
        return self._joined(run_joined(connection, self._join, self._joined_script(groups, ())), began)

    def _joined_script(self, groups: Sequence[Group], lock: Sequence[Key]) -> Callable[[], Script[ScriptResult]]:
        retry_state = RetryState()
        _, lanes = lanes_of(groups, self.lanes)

        def script() -> Script[ScriptResult]:
            options = self._options(wait_for_locks=True, joined=True, several=self.distributed)
            if lock:
                yield from lock_pools(lock, self.lanes)
            if not groups:
                return ScriptResult([], {}, False)
            return (yield from apply_script(groups, options, retry_state, random.getrandbits(62)))

        return (lambda: by_lane(script(), sorted(lanes) or (0,), writing=True)) if self.distributed else script

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer a question from committed state: as durable as what a command writes, if asked so (`proving`)."""
        self._check()

        def question(driver: Driver) -> T:
            options, began = self._options(wait_for_locks=True), steady()
            script, at = look(options, query), At(driver, options, durable)
            if script is None:
                if self._injected is None and self._server_clock.age > STALE:
                    self._read_clock(driver)
                result: T = answer(at, query)
                return result
            result, slot = driver.run(with_clock(options, at.proved(script, query)))
            self._heard(slot, began)
            return result

        return self._ask(question, durable=durable)

    def _ask(self, question: Callable[[Driver], T], *, durable: bool = False) -> T:
        """Something that decides nothing, asked again if the connection is lost: also where it was giving entries their
        numbers, which can be done twice."""

        def ask() -> T:
            try:
                with self._connections.one() as driver:
                    return question(driver)
            except InDoubt as doubt:
                raise Retry(doubt.told()) from doubt
            except StatementFailed as failed:
                error = trouble(self._address, failed)
                if failed.sqlstate[:2] == "08" or failed.sqlstate[:3] == "57P":  # a worker, or the server itself
                    raise Retry(error, FEW) from failed
                raise error from failed
            except ConnectionFailed as failed:
                self._drop_idle()
                if durable and failed.sent_commit and isinstance(failed.__cause__, TimeoutError):  # as it would again
                    raise OutcomeUnknown(f"{self.url} cannot show that its standbys have it: ask again") from failed
                raise Retry(EngineError(f"the connection to {self.url} was lost: {failed}")) from failed
            except NotReplicated as failed:
                raise not_replicated(self._address) from failed

        return retry(ask)

    def verify(self, progress: Progress | None = None) -> Iterator[Difference]:
        """Fold the whole journal and name every row that differs from it."""
        self._check()
        with self._connections.one() as driver:
            try:
                yield from verify(driver, self.stored.created, self.lanes, self._read_clock(driver), progress)
            except StatementFailed as failed:
                raise trouble(self._address, failed) from failed
            except ConnectionFailed as failed:
                raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed

    def repair(self, command: Command, *, dry_run: bool, progress: Progress | None = None) -> Repaired:
        """Make the rows again what the journal says; every writer waits meanwhile."""
        return self._alone(
            lambda driver: repair(
                driver, self.stored.created, self.lanes, self._read_clock(driver), command, progress, dry_run=dry_run
            )
        )

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Take another engine's journal as ours, in one transaction; every writer waits meanwhile."""
        self._alone(
            lambda driver: receive(
                driver, carried, self.stored.created, self.lanes, self._read_clock(driver), self.url, verify=verify
            )
        )

    def _alone(self, work: Callable[[Driver], T]) -> T:
        """Work that locks every table, in a transaction of its own making."""
        self._check()
        if self.distributed:
            raise invalid(
                "url", "tables_distributed", "distributed tables cannot be locked whole: this works on one server"
            )
        with self._wait_for_locks.one() as driver:
            try:
                return work(driver)
            except StatementFailed as failed:
                raise trouble(self._address, failed) from failed
            except ConnectionFailed as failed:
                if failed.sent_commit:
                    raise OutcomeUnknown(
                        f"the connection to {self.url} was lost during COMMIT: verify again"
                    ) from failed
                raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed
            except NotReplicated as failed:
                raise not_replicated(self._address) from failed

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
        self._wait_for_locks.close()
        self._lending.close()

    def _drop_idle(self) -> None:
        """Our connections may all lead to a server that is gone."""
        self._connections.drop_idle()
        self._wait_for_locks.drop_idle()
        self._lending.drop_idle()

    def _check(self) -> None:
        if self._connections.closed:
            raise EngineError(f"{self.url} is closed")
        if os.getpid() != self._pid:
            raise EngineError(f"{self.url} was opened before a fork; open it anew after fork")


def _run_in(tx: Any, join: Join, make: Callable[[], Script[ScriptResult]]) -> ScriptResult:
    """Run a script in the caller's transaction; a framework is told if that could not be kept usable."""
    connection = driver_connection(tx)
    try:
        return run_joined(connection, join, make)
    except BaseException:
        if is_aborted(connection):
            spoil(tx)
        raise


def open_engine(
    url: str,
    clock: Clock | None = None,
    limits: Limits | None = None,
    *,
    schema: str | None = None,
    pool_size: int | None = None,
    on_statement: OnStatement | None = None,
) -> PostgresEngine:
    """Open a ``postgresql://`` URL whose database has been migrated."""
    return PostgresEngine(
        url, clock=clock, limits=limits, schema=schema, pool_size=pool_size, on_statement=on_statement
    )
