"""Erasure on PostgreSQL: the engine's ability to erase, and the schema in the form that the shared job (`engines.erase_job`) uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from ...core.erasure import Erased, Erasure
from ...core.hold_columns import hold_of
from ...core.lanes import lane_of_hold
from ...core.model import StoredHold
from ...core.reading import JournalRow
from ...errors import EngineError, Overloaded
from ..archive_erasing import ErasableArchive
from ..archived_store import erase
from ..clocks import steady
from ..erasing import Rewrites, Rows
from ..progress import Progress
from .audit import LONG
from .compact_entries import journal_row
from .connections import PipelineConnection
from .database import BatchOptions, Database
from .driver import BEGIN, COMMIT
from .erasing_rows import PostgresRows
from .failures import RETRYABLE, ConnectionFailed, NotReplicated, Retry, StatementFailed, retry
from .journal_reading import Reader, number
from .transactions import Connections, Transactions

T = TypeVar("T")

ERASING: Final = "erasing:"
"""The prefix of the settings that remember an erasure."""
SETTLE: Final = 60.0
"""Seconds that `settle` waits for other transactions, once in the life of a database."""
PAUSE: Final = 0.02
_encode: Final = msgspec.json.Encoder().encode


class PostgresErasing:
    """One engine's ability to erase."""

    def __init__(
        self, database: Database, connections: Connections, transactions: Transactions, check: Callable[[], None]
    ) -> None:
        self._store, self._database, self._check = PostgresStore(database, connections, transactions), database, check

    @property
    def secret(self) -> bytes:
        """The secret of this database's keyed names."""
        return self._database.secret

    def erase(
        self,
        erasure: Erasure,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        archive: ErasableArchive | None = None,
    ) -> Erased:
        """Rewrite rows, journal and archive in short transactions."""
        self._check()
        return erase(self._store, erasure, archive, progress, dry_run=dry_run)

    def finish_erasure(self, erasure: Erasure) -> None:
        """Renew the planner's statistics, which have values of old rows, and forget the erasure. The server vacuums the old rows as
        usual."""
        self._check()
        self._store.analyze_again()
        self._store.forget(erasure.id)

    def unfinished(self) -> bool:
        """Return whether an erasure was begun and has not ended."""
        return bool(self._store.begun())


class PostgresStore:
    """A schema, in the form that the shared job uses."""

    def __init__(self, database: Database, connections: Connections, transactions: Transactions) -> None:
        self._database, self._connections, self._transactions = database, connections, transactions

    def _read(self, work: Callable[[Reader], T]) -> T:
        options = self._database.options(wait_for_locks=True)
        return self._transactions.read(lambda connection: work(Reader(connection, options)))

    def ends(self) -> Mapping[int, int]:
        """Number callers' entries, then return the last number of every lane."""

        def work(reader: Reader) -> Mapping[int, int]:
            number(reader)
            return dict(reader.fetch("read_heads"))

        return self._read(work)

    def naming(self, tenant: str, texts: Sequence[str], lane: int, after: int, upto: int) -> list[JournalRow]:
        """Return the tenant's entries in a span of a lane whose text, or a column, contains any of these texts."""
        values = [msgspec.json.decode(text, type=str) for text in texts if text.startswith('"')]
        rows = self._read(lambda reader: reader.fetch("find_texts", (lane, after, upto, tenant, list(texts), values)))
        return [journal_row(row) for row in rows]

    def marked_holds(self, tenant: str, by: str, value: str, after: str, limit: int) -> list[StoredHold]:
        """Return stored holds with this entity, account or actor: by id; for an actor by lane first."""
        lanes, first = self._database.lanes, after or "0" * 32
        where: tuple[int, ...] = ((lane_of_hold(after, lanes) if after else -1),) if by == "actor" else ()
        rows = self._read(lambda reader: reader.fetch(f"find_holds_of_{by}", (tenant, value, first, limit, *where)))
        holds = [hold_of(row) for row in rows]
        holds.sort(key=lambda hold: (lane_of_hold(hold.id, lanes) if where else 0, hold.id))
        return holds[:limit]

    # Erasures that have begun

    def begun(self) -> dict[str, str]:
        """Return the stub of each erasure that has begun, by its id."""
        rows = self._read(lambda reader: reader.fetch("read_erasures"))
        return {name: msgspec.json.decode(value) for name, value in rows}

    def remembered(self, id: str) -> str | None:
        """Return the stub of an erasure that has begun and not ended."""
        return self.begun().get(ERASING + id)

    def remember(self, id: str, stub: str) -> str:
        """Store the stub of an erasure that begins, and return it. If the erasure has begun already, return its stored stub."""

        def work(connection: PipelineConnection, options: BatchOptions) -> str:
            PostgresRows(connection, options)
            known: dict[str, str] = dict(connection.fetch("read_erasures"))
            if ERASING + id not in known:
                connection.execute((("put_setting", (ERASING + id, _encode(stub).decode())),))
            connection.execute((COMMIT,))
            return msgspec.json.decode(known[ERASING + id], type=str) if ERASING + id in known else stub

        return self._transact(work)

    def forget(self, id: str) -> None:
        """Delete the setting of an erasure that has ended."""
        self._transact(lambda connection, _: connection.execute((BEGIN, ("drop_setting", (ERASING + id,)), COMMIT)))

    def analyze_again(self) -> None:
        """Recompute the planner's statistics of every table that has some, because they contain values of rows."""

        def work(connection: PipelineConnection, options: BatchOptions) -> None:
            usual, connection.timeout = connection.timeout, LONG
            try:
                connection.execute((BEGIN, ("set_repair_timeouts", (options.wait_ms,)), ("analyze_again", ()), COMMIT))
            finally:
                connection.timeout = usual

        self._transact(work)

    def settle(self) -> None:
        """Wait for the transactions that use pools now. Such a transaction may have looked for a pool before a claim was made and erased;
        it has nothing locked, and would create the claim's pool afterwards."""

        def users(reader: Reader) -> set[str]:
            is_cluster = reader.options.distributed and reader.fetch("has_citus")[0][0]
            name = "find_pool_users_of_nodes" if is_cluster else "find_pool_users"
            return {user for (user,) in reader.fetch(name)}

        left, until = self._read(users), steady() + SETTLE
        while left:
            if steady() > until:
                why = f"a transaction has been using pools for {SETTLE:g} s: end it, and erase again"
                raise Overloaded(why, retry_after=1.0)
            time.sleep(PAUSE)
            left &= self._read(users)

    def change(self, work: Callable[[Rows], Rewrites]) -> Rewrites:
        """Run `work` and write its result, in one transaction."""

        def attempt(connection: PipelineConnection, options: BatchOptions) -> Rewrites:
            rows = PostgresRows(connection, options)
            done = work(rows)
            rows.write(done)
            return done

        return self._transact(attempt)

    def _transact(self, work: Callable[[PipelineConnection, BatchOptions], T]) -> T:
        """Run `work`, and run it again after any error that may pass, even a connection lost in COMMIT."""
        address = self._database.address

        def attempt() -> T:
            try:
                with self._connections.wait_for_locks.connection() as connection:
                    return work(connection, self._database.options(wait_for_locks=True, several_lanes=True))
            except StatementFailed as failed:
                error = address.statement_error(failed)
                if failed.sqlstate in {*RETRYABLE, "55P03"} or failed.shut_down or failed.lost_worker:
                    raise Retry(error) from failed
                raise error from failed
            except ConnectionFailed as failed:
                self._connections.drop_idle()
                raise Retry(EngineError(f"the connection to {address.shown} was lost: {failed}")) from failed
            except NotReplicated as failed:
                raise address.not_replicated() from failed

        return retry(attempt)
