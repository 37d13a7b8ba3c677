"""Batches on the ordinary path, and reads, on connections of ours: run on a thread or on the event loop, and repeated while they certainly
did nothing.

Theory of operation. `script` says what one transaction does, `failures` what is certain when it fails. Here an attempt is one run of the
script on one connection. Its end decides what happens next:

- It returns outcomes: committed. The engine notifies followers and stores the server's time.
- It returns none: it did only what had to be done first, or found that an id it assumed to be new exists. It runs again at once.
- It raises before COMMIT may have left: nothing was done. An attempt that may succeed next time (deadlock, lost connection, failover) is
  repeated. If the batch has several groups and one of them may be at fault, `BatchRejected` asks the kernel to send them separately.
- It raises after that: `OutcomeUnknown`. It is never repeated.

A batch that waits for locks uses connections of another pool, so that waiting batches cannot block those that do not wait.

*On the event loop* (`apply_on_loop`) nothing may block, so only the usual course runs there: a recently used connection, and two exchanges.
An attempt that needs a new connection, a pause or a repetition raises `NeedsThread`: nothing was done, and a thread runs the batch from the
beginning. There is one exception: if an id that was assumed to be new exists, the batch runs again on the loop. A task that is cancelled
leaves a connection that is out of step, and the pool drops it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ...core.commands import Group
from ...errors import EngineError, HoldkitError, OutcomeUnknown
from ..clocks import steady
from ..deadlines import within
from ..port import AddLate, Applied, BatchRejected, NeedsThread
from .address import Address
from .connections import ConnectionPool, PipelineConnection
from .database import NO_WAIT_MS, Database, bounded
from .distributed import BatchPart, apply_distributed
from .driver import Script
from .failures import FEW, ID_TAKEN, RETRYABLE, ConnectionFailed, NotReplicated, Retry, StatementFailed, retry
from .in_doubt import InDoubt
from .loading import GrowingBatch, SeveralLanes
from .notifications import Notifier
from .own_transaction import LentConnections
from .script import RUN_AGAIN, RetryState, ScriptResult, apply_script
from .statements import SchemaMigrated, split_by_lane
from .sweeping import SweepCandidates, find_candidates_and_stale_lanes

T = TypeVar("T")

CHECK_AGAIN_FOR: Final = 64
"""Batches that look for ids before they insert, after an id that was assumed to be new was found to exist: retries come in swarms."""


class Connections(NamedTuple):
    """All connections of an engine, by the work they are for."""

    no_wait: ConnectionPool
    wait_for_locks: ConnectionPool
    lent: LentConnections
    showing: ConnectionPool
    """For reads that followers are about to show, where commits wait for standbys."""

    def for_batch(self, wait_for_locks: bool) -> ConnectionPool:
        """Return the pool that lends a batch its connection."""
        return self.wait_for_locks if wait_for_locks else self.no_wait

    def drop_idle(self) -> None:
        """Close all connections that are not in use: they may lead to a server that is gone."""
        for pool in self:
            pool.drop_idle()

    def lost(self, failed: ConnectionFailed | NotReplicated, address: Address) -> HoldkitError:
        """Return the error of a lost connection, or of a lost wait for a standby."""
        if isinstance(failed, NotReplicated):
            return address.not_replicated()
        self.drop_idle()
        if failed.sent_commit:
            return OutcomeUnknown(f"the connection to {address.shown} was lost during COMMIT ({failed}): ask again")
        return Retry(EngineError(f"the connection to {address.shown} was lost: {failed}"))

    def close(self) -> None:
        """Close all connections; closing twice is harmless."""
        for pool in self:
            pool.close()


class Attempt(NamedTuple):
    """One run of a batch, ready to begin."""

    script: Script[ScriptResult]
    state: RetryState
    assume_new: bool
    pruning: bool
    began: float
    """When, by `steady`."""


class Transactions:
    """Applies batches, each in a transaction on one of our connections."""

    def __init__(self, database: Database, connections: Connections, notifier: Notifier, *, prune_every: float) -> None:
        self._database, self._connections, self._notifier = database, connections, notifier
        self._address = database.address
        self._prune_every = prune_every
        self.prune_at = prune_every
        """When the next batch prunes, by `time.monotonic`."""
        self._check_again_for = 0

    def apply(
        self, groups: Sequence[Group], state: RetryState, *, wait_for_locks: bool, add_late: AddLate | None = None
    ) -> Applied:
        """Apply these groups: in one transaction, or in one per lane where the tables are distributed. `add_late` may add groups that want
        the same pools, once a batch that waits has locked them."""
        database = self._database
        if database.distributed:
            return apply_distributed(
                groups,
                database.lanes,
                lambda part: self._run(part, RetryState(), wait_for_locks),
                self._find_sweep,
                several_lanes=bounded(database.stored.in_force),  # to make room, any lane may have to be swept
            )
        part = BatchPart(groups)
        if add_late is not None and not bounded(database.stored.in_force):
            growing = GrowingBatch(groups, add_late, database)
            part = BatchPart(growing.groups, growing=growing)
        return self._run(part, state, wait_for_locks).applied()

    async def apply_on_loop(
        self, groups: Sequence[Group], state: RetryState, sent: Callable[[], None] | None, until: float
    ) -> Applied:
        """Apply these groups on the event loop. Raise `NeedsThread` for a batch that would block it."""
        if self._database.distributed:
            raise NeedsThread
        while (result := await self._attempt_on_loop(groups, state, sent, until)).outcomes is None:
            pass
        return result.applied()

    async def _attempt_on_loop(
        self, groups: Sequence[Group], state: RetryState, sent: Callable[[], None] | None, until: float
    ) -> ScriptResult:
        with self._connections.no_wait.idle_connection() as connection:
            if connection is None:
                raise NeedsThread
            attempt = self._prepare(BatchPart(groups), state, wait_for_locks=False)
            try:
                result = await connection.run_async(attempt.script, sent, until)
            except StatementFailed as failed:
                if not attempt.assume_new or failed.sqlstate not in ID_TAKEN:
                    raise NeedsThread from failed
                state.check_again = True
                await connection.roll_back_async(until)
                return RUN_AGAIN
            except (ConnectionFailed, NotReplicated) as failed:
                if isinstance(failed, ConnectionFailed) and not failed.sent_commit:
                    raise NeedsThread from failed
                raise self._connections.lost(failed, self._address) from failed
            except Exception as error:
                if connection.committing:
                    raise OutcomeUnknown("interrupted while a batch was being committed: ask again") from error
                raise NeedsThread from error
            self._conclude(attempt, result)
        return result

    # Scripts

    def _run(self, part: BatchPart, state: RetryState, wait_for_locks: bool) -> ScriptResult:
        """Run one transaction, and repeat an attempt that certainly did nothing."""

        def run() -> ScriptResult:
            while (result := self._attempt(part, state, wait_for_locks)).outcomes is None:
                pass
            return result

        return retry(run)

    def _prepare(self, part: BatchPart, state: RetryState, wait_for_locks: bool) -> Attempt:
        options = self._database.options(wait_for_locks=wait_for_locks, several_lanes=part.several_lanes)
        one_session = not (self._address.pooled or options.distributed)
        """The connection's own settings count, and its next transaction reaches the same server."""
        timeout = None
        if wait_for_locks:
            timeout = options.wait_ms
            if not options.distributed:  # no longer than the call may take
                timeout = str(max(1, int(within(int(timeout) / 1000) * 1000)))
        elif not one_session:
            timeout = str(NO_WAIT_MS)
        self._check_again_for = CHECK_AGAIN_FOR if state.check_again else max(0, self._check_again_for - 1)
        assume_new = not (self._check_again_for or options.distributed or options.bounded)
        options = options._replace(lock_timeout=timeout, assume_new=assume_new, proof_in_own_transaction=one_session)
        pruning = time.monotonic() > self.prune_at
        script = apply_script(part.groups, options, state, random.getrandbits(62), pruning=pruning,
                              candidates=part.candidates, growing=part.growing)  # fmt: skip
        if options.distributed:
            script = split_by_lane(script, part.lanes, writing=True)
        return Attempt(script, state, assume_new, pruning, steady())

    def _attempt(self, part: BatchPart, state: RetryState, wait_for_locks: bool) -> ScriptResult:
        attempt = self._prepare(part, state, wait_for_locks)
        with self._connections.for_batch(wait_for_locks).connection() as connection:
            try:
                result = connection.run(attempt.script)
            except StatementFailed as failed:
                return self._refused(part.groups, failed, wait_for_locks, attempt)
            except (ConnectionFailed, NotReplicated) as failed:
                raise self._connections.lost(failed, self._address) from failed
            except (SeveralLanes, SchemaMigrated):
                raise
            except InDoubt as in_doubt:
                raise Retry(in_doubt.error()) from in_doubt
            except Exception as error:
                if connection.committing:
                    raise OutcomeUnknown(
                        f"interrupted while {self._address.shown} was committing: ask again"
                    ) from error
                raise BatchRejected(f"unexpected {type(error).__name__} while deciding; nothing was done") from error
            self._conclude(attempt, result)
        return result

    def _conclude(self, attempt: Attempt, result: ScriptResult) -> None:
        """Store what a successful attempt says: the time, its locks, the pruning; notify followers if it wrote."""
        self._database.heard(result.slot, attempt.began)
        if result.locked_at is not None:
            self._database.lock_timer.add(steady() - result.locked_at)
        if attempt.pruning:
            self.prune_at = time.monotonic() + self._prune_every
        if result.wrote:
            self._notifier.notify_soon()

    def _refused(
        self, groups: Sequence[Group], failed: StatementFailed, wait_for_locks: bool, attempt: Attempt
    ) -> ScriptResult:
        """Handle a statement that the server refused, so that nothing was committed: run again, skip the group, or raise."""
        if attempt.assume_new and failed.sqlstate in ID_TAKEN:
            attempt.state.check_again = True
            return RUN_AGAIN
        error = self._address.statement_error(failed)
        error.__cause__ = failed
        if failed.sqlstate in RETRYABLE:
            raise Retry(error)
        if failed.sqlstate == "55P03" and not wait_for_locks:  # a row that another transaction is just inserting
            if len(groups) > 1:
                raise BatchRejected(str(error)) from failed  # one of them meets it, and is skipped once it is alone
            return ScriptResult([[]], {0: "what is being made"}, False, positions=[[]])
        if failed.lost_worker:
            raise Retry(error, FEW)
        if failed.shut_down or failed.sqlstate == "25006":  # a failover: our other connections are old too
            self._connections.drop_idle()
            raise Retry(error)
        if isinstance(error, EngineError) and len(groups) > 1:
            raise BatchRejected(str(error)) from failed
        raise error

    def _find_sweep(self, limit: int) -> tuple[SweepCandidates, set[int]]:
        """Find the candidates of a sweep, and the lanes that have rows to prune, without locks."""
        options = self._database.options(wait_for_locks=False)

        def find(connection: PipelineConnection) -> tuple[SweepCandidates, set[int]]:
            now = self._database.read_clock(connection)
            return connection.run(find_candidates_and_stale_lanes(limit, options, now))

        return self.read(find)

    def read(self, work: Callable[[PipelineConnection], T], *, durable: bool = False) -> T:
        """Run a read. Repeat it if the connection is lost, even during COMMIT: it may number entries that callers' transactions have left,
        which can be done twice."""
        return self._read(work, self._connections.no_wait, durable=durable)

    def read_to_show(self, work: Callable[[PipelineConnection], T]) -> T:
        """Run a durable read, on connections that nothing else waits for."""
        return self._read(work, self._connections.showing, durable=True)

    def _read(self, work: Callable[[PipelineConnection], T], connections: ConnectionPool, *, durable: bool) -> T:
        def attempt() -> T:
            try:
                with connections.connection() as connection:
                    return work(connection)
            except InDoubt as in_doubt:
                raise Retry(in_doubt.error()) from in_doubt
            except StatementFailed as failed:
                error = self._address.statement_error(failed)
                if failed.lost_worker or failed.shut_down:
                    raise Retry(error, FEW) from failed
                raise error from failed
            except ConnectionFailed as failed:
                self._connections.drop_idle()
                url = self._address.url
                if durable and failed.sent_commit and isinstance(failed.__cause__, TimeoutError):  # as it would again
                    raise OutcomeUnknown(f"{url} cannot show that its standbys have it: ask again") from failed
                raise Retry(EngineError(f"the connection to {url} was lost: {failed}")) from failed
            except NotReplicated as failed:
                raise self._address.not_replicated() from failed

        return retry(attempt)
