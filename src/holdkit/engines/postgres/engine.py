"""The PostgreSQL engine: holds in the application's own database, in a schema of their own.

The engine stores; the core decides, inside one READ COMMITTED transaction with row locks, in two round trips (`script`). The server's
clock is the one authority on time, read after the locks. Any number of processes may write. A commit whose answer is lost is
*unknown*, never *refused*; before COMMIT was sent certainly nothing was done, and the batch is tried again, bounded (`failures`).

Here are the port's methods; `transactions`, `caller_transaction`, `own_transaction`, `audit` and `repair` do the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any, TypeVar

import psycopg

from ...core.audit_rows import Difference
from ...core.bounds import Limits
from ...core.command_kinds import Command
from ...core.commands import Group
from ...core.import_ import Carried
from ...core.model import SECOND, Key
from ...core.reading import Query
from ...core.repair import Repaired
from ...errors import EngineError, OutcomeUnknown
from ..archiving import ArchivedEntries
from ..clocks import Clock, steady
from ..deadlines import run_until
from ..driver_connections import driver_connection, driver_connection_async
from ..durability import Durability
from ..port import AddLate, Applied, Capabilities, GuardStats, Lent, Mark
from ..progress import Progress
from .address import Address, read_notify_url, read_url
from .archiving import PostgresArchiver, archiver
from .asyncpg_connections import AsyncpgMark, check_asyncpg, is_asyncpg
from .audit import verify
from .caller_transaction import CallerTransactions, check_connection
from .connections import ConnectionPool, PipelineConnection
from .database import Database
from .driver import OnStatement
from .erasing import PostgresErasing
from .failures import ConnectionFailed, NotReplicated, StatementFailed
from .guard_routing import GuardRouting, Guards
from .journal_reading import Reader, answer
from .migrating import check_schema
from .notifications import Listener, NotificationChannels, Notifier
from .opening import DurabilityCheck, ServerDisk, check_same_database, check_server, connect
from .own_transaction import LentConnections, OwnTransactions
from .reading import read_script, with_clock
from .repair import import_journal, repair
from .rollups import PostgresRollups
from .savepoints import SavepointMark
from .seals import PostgresSeals
from .shown_reads import SHOWING, ShownReads
from .transactions import Connections, Transactions
from .waiting import PrimaryWatch

T = TypeVar("T")


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
        notify_url: str | None = None,
        prune_every: float = 1.0,
        on_statement: OnStatement | None = None,
        guarded: bool = True,
    ) -> None:
        """`guarded` is for tests and benches: without it every batch takes the ordinary path."""
        address = read_url(url, schema=schema, pool_size=pool_size)
        notifying = address if notify_url is None else read_notify_url(notify_url)
        self.url = address.url
        self._database = database = Database(address, limits or Limits(), clock)
        self.clock: Clock = clock or database.server_clock
        self._durability = DurabilityCheck(address)
        watch, timeout = PrimaryWatch(address.hosts), database.asked.lock_timeout / SECOND
        sizes, opened = address.sizes, partial(connect, database, on_statement, watch)

        def pool(size: int, *, cancels: bool = False) -> ConnectionPool:
            return ConnectionPool(opened, size, timeout, self._durability, cancels=cancels)

        lent, showing = LentConnections(address, watch), pool(SHOWING, cancels=True)
        self._connections = Connections(pool(sizes.no_wait), pool(sizes.wait_for_locks), lent, showing)
        self._read_schema(limits, notifying)
        self.lanes, self.stored, self.distributed = database.lanes, database.stored, database.distributed
        self._pid = os.getpid()
        self._notifier = notifier = Notifier(self._connections.no_wait, address.schema)
        self._guards = Guards(enabled=guarded)
        self._transactions = Transactions(database, self._connections, notifier, prune_every=prune_every)
        self._routing = GuardRouting(database, self._connections, self._transactions, notifier, self._guards)
        self._shown = ShownReads(database, self._transactions, self._durability)
        self._seals = PostgresSeals(database, self._transactions)
        self._rollups = PostgresRollups(self._transactions)
        self._erasing = PostgresErasing(database, self._connections, self._transactions, self._check)
        self._callers = CallerTransactions(database, on_statement, Guards(enabled=guarded))
        self._own = OwnTransactions(database, lent, self._callers, notifier, watch)
        self._listener = Listener(notifying, address.schema)
        self._channels = NotificationChannels(notifier, self._listener)

    def _read_schema(self, limits: Limits | None, notifying: Address) -> None:
        """Check server and tables, and take over the stored schema. Close the connections on an error."""
        database = self._database
        try:
            with self._connections.no_wait.connection() as connection:
                check_server(connection, database.address)
                database.adopt(check_schema(connection, database.address, limits))
                database.read_clock(connection)
                if notifying is not database.address:
                    check_same_database(connection, database.address, notifying)
        except BaseException as error:
            self._connections.close()
            if isinstance(error, StatementFailed):
                raise database.address.statement_error(error) from error
            if isinstance(error, ConnectionFailed):
                raise EngineError(f"the connection to {self.url} was lost: {error}") from error
            raise
        if database.distributed:
            self._connections.drop_idle()  # they were opened before the layout was known

    @property
    def capabilities(self) -> Capabilities:
        """The optional abilities of this engine. Distributed tables cannot be locked as a whole, as repair and import need."""
        whole = None if self.distributed else self
        rollups = None if self.distributed else self._rollups
        return Capabilities(repair=whole, import_=whole, lend=self, marks=self, growing_batches=self, async_apply=self,
                            channels=self._channels, lock_times=self._database.lock_timer, guards=self, seals=self._seals,
                            erasure=self._erasing, rollups=rollups, archive=whole,
                            on_disk=ServerDisk(self._database.address, self._transactions.read))  # fmt: skip

    @property
    def durability(self) -> Durability:
        """What a done answer survives, by settings that were read at most a few seconds before the last call."""
        assert self._durability.known is not None, "read on opening"
        return self._durability.known

    @property
    def limits(self) -> Limits:
        """The limits in force, as this process knows them."""
        return self._database.stored.in_force

    # Batches

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        self._check()
        return run_until(until, partial(self._routing.apply, groups, wait_for_locks=wait_for_locks))

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate, *, until: float = inf) -> Applied:
        self._check()
        return run_until(until, partial(self._routing.apply, groups, wait_for_locks=True, add_late=add_late))

    async def apply_async(
        self, groups: Sequence[Group], sent: Callable[[], None] | None, *, until: float = inf
    ) -> Applied:
        self._check()
        return await self._routing.apply_async(groups, sent, until)

    @property
    def guard_stats(self) -> GuardStats:
        return self._guards.stats_with(self._callers.guards)

    # Other people's transactions

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        self._check()
        return self._callers.apply(tx, groups, lock)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        self._check()
        return await self._callers.apply_async(tx, groups, lock)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        self._check()
        return self._callers.read(tx, query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        self._check()
        return await self._callers.read_async(tx, query)

    def mark_in(self, tx: Any) -> Mark:
        return SavepointMark(check_connection(driver_connection(tx), psycopg.Connection)).make()

    async def mark_in_async(self, tx: Any) -> Mark:
        connection = await driver_connection_async(tx)
        if is_asyncpg(connection):
            return await AsyncpgMark(check_asyncpg(connection)).make()
        return await SavepointMark(check_connection(connection, psycopg.AsyncConnection)).make_async()

    def lend(self, work: Callable[[Lent], T]) -> T:
        self._check()
        return self._own.run(work)

    # Reads

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        self._check()
        if query.shown:
            return self._shown.read(query, durable=durable)
        database = self._database

        def work(connection: PipelineConnection) -> T:
            options, began = database.options(wait_for_locks=True), steady()
            script, reader = read_script(options, query), Reader(connection, options, durable)
            if script is None:
                database.keep_time(connection)
                result: T = answer(reader, query)
                return result
            result, slot = connection.run(with_clock(options, reader.proved(script, query)))
            database.heard(slot, began)
            return result

        return self._transactions.read(work, durable=durable)

    def listen(self, wake: Callable[[], None]) -> None:
        self._check()
        self._listener.listen(wake)

    # The whole journal

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        return self._verify(None, progress)

    def verify_with(
        self, archive: ArchivedEntries, progress: Progress | None = None
    ) -> Generator[Difference, None, None]:
        return self._verify(archive, progress)

    def _verify(self, archive: ArchivedEntries | None, progress: Progress | None) -> Generator[Difference, None, None]:
        self._check()
        database = self._database
        with self._connections.no_wait.connection() as connection, self._as_engine_error():
            now = database.read_clock(connection)
            created, lanes = database.stored.created, database.lanes
            yield from verify(
                connection,
                created,
                lanes,
                now,
                progress=progress,
                archive=archive,
                distributed=self._database.distributed,
            )

    @contextmanager
    def archiver(self) -> Iterator[PostgresArchiver]:
        """Begin a run of archiving, on a connection of its own."""
        self._check()
        with (
            self._connections.wait_for_locks.connection() as connection,
            self._as_engine_error(),
            archiver(connection, self.url) as run,
        ):
            yield run

    @contextmanager
    def _as_engine_error(self) -> Iterator[None]:
        try:
            yield
        except StatementFailed as failed:
            raise self._database.address.statement_error(failed) from failed
        except ConnectionFailed as failed:
            raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed

    def repair(self, command: Command, *, dry_run: bool, progress: Progress | None = None) -> Repaired:
        database = self._database

        def work(connection: PipelineConnection) -> Repaired:
            created, now = database.stored.created, database.read_clock(connection)
            return repair(connection, created, database.lanes, now, command, progress=progress, dry_run=dry_run)

        return self._with_tables_locked(work)

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Import another engine's journal, in one transaction. Every writer waits meanwhile."""
        database = self._database

        def work(connection: PipelineConnection) -> None:
            created, now = database.stored.created, database.read_clock(connection)
            import_journal(connection, carried, created, database.lanes, now, where=self.url, verify=verify)

        self._with_tables_locked(work)

    def _with_tables_locked(self, work: Callable[[PipelineConnection], T]) -> T:
        self._check()
        address = self._database.address
        assert not self.distributed, "not declared as a capability"
        with self._connections.wait_for_locks.connection() as connection:
            try:
                return work(connection)
            except StatementFailed as failed:
                raise address.statement_error(failed) from failed
            except ConnectionFailed as failed:
                if failed.sent_commit:
                    raise OutcomeUnknown(
                        f"the connection to {self.url} was lost during COMMIT: verify again"
                    ) from failed
                raise EngineError(f"the connection to {self.url} was lost: {failed}") from failed
            except NotReplicated as failed:
                raise address.not_replicated() from failed

    def close(self) -> None:
        """Close every connection; closing twice is quiet."""
        self._listener.close()
        self._notifier.close()
        self._connections.close()

    def _check(self) -> None:
        if self._connections.no_wait.closed:
            raise EngineError(f"{self.url} is closed")
        if os.getpid() != self._pid:
            raise EngineError(f"{self.url} was opened before a fork; open it anew after fork")


def open_engine(
    url: str,
    clock: Clock | None = None,
    limits: Limits | None = None,
    *,
    schema: str | None = None,
    pool_size: int | None = None,
    notify_url: str | None = None,
    on_statement: OnStatement | None = None,
) -> PostgresEngine:
    """Open a ``postgresql://`` URL whose database has been migrated."""
    return PostgresEngine(
        url,
        clock=clock,
        limits=limits,
        schema=schema,
        pool_size=pool_size,
        notify_url=notify_url,
        on_statement=on_statement,
    )
