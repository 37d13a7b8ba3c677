"""The routing of batches: choosing the commands that a guard decides, sending them, and learning from their misses.

Theory of operation. A batch is guarded if a guard may decide nearly all of its groups; a round trip for a few of them would make all others
wait. It is sent as a guarded batch (`guarded_batch`): one exchange, with its COMMIT in it. Groups that it does not answer follow in the
same call, on the ordinary path (`transactions`). If that fails, the answers of the guarded batch stand, and only the other groups get the
error.

*Learning.* A pool that missed takes the ordinary path for a while: longer, the less likely it is that the cause has disappeared. A command
that ends a hold does not name its pool. So if most of these commands miss in consecutive batches (claims, items, holds of several legs),
all of them take the ordinary path for a moment, then one batch tries again. Nothing of this is stored, and no answer depends on it: a wrong
guess costs a round trip.

*Errors.* Once COMMIT may have left, a lost connection or an interrupt makes the outcome unknown. An error of any statement before it means
that nothing was done, and the ordinary path decides everything. The event loop must not be blocked: a step that would block raises
`NeedsThread`, with nothing done, and a thread applies the batch from the beginning.

A batch that waits for locks is guarded too if it can be: if several processes share a busy pool, most calls wait for it, and the guarded
batch itself waits briefly for a lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...core.commands import Group, PlaceHold
from ...core.guards import Ending, guardable
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import Key
from ...errors import HoldkitError, OutcomeUnknown
from ..clocks import steady
from ..port import AddLate, Applied, BatchRejected, GuardStats, NeedsThread
from .database import BatchOptions, Database
from .driver import Row, Statement, Steps
from .failures import ID_TAKEN, ConnectionFailed, NotReplicated, StatementFailed
from .guarded_batch import NOTHING_PASSED, GuardedBatch, GuardedCall, GuardedResult
from .notifications import Notifier
from .savepoints import SavepointCall, statement_error
from .script import RetryState, ScriptResult

if TYPE_CHECKING:
    from .transactions import Connections, Transactions

MAX_GUARDED_POOLS: Final = 2
"""Pools of a guarded batch: with more the statement costs the server more than the ordinary path does."""
PAUSE_SECONDS: Final = {
    "special": 10.0,
    "line": 1.0,
    "lock": 1.0,
    "due": 0.05,
    "pool": 0.05,
    "capacity": 0.05,
    "unnumbered": 0.01,
    "limits": 0.0,
}
"""Seconds for which a pool takes the ordinary path, by the cause of its miss."""
SPREAD_PAUSE_SECONDS: Final = 1.0
"""Seconds for which ends take the ordinary path after those of one batch were spread over more than `MAX_GUARDED_POOLS`."""
EXPECT_DUE_SECONDS: Final = 2.0
"""Seconds for which more legs are expected to be due on a pool that had due legs."""
MAX_REMEMBERED_POOLS: Final = 4_096
GROUPS_PER_EXCEPTION: Final = 8
"""A batch is guarded if it has at least this many groups for each group that the guard cannot decide."""
MAX_MISSED_BATCHES: Final = 2
"""Consecutive batches in which most guarded ends missed before ends take the ordinary path, for `PAUSE_SECONDS["pool"]`."""
BATCHES_HELD_OFF: Final = 16
"""Batches that take the ordinary path after an id was found that exists already: retries come in swarms."""
CALLERS_ERRORS: Final = frozenset({"57014", "55P03", "40001", "40P01"})
"""Errors of a guarded call that its caller gets, because the ordinary path would meet them again: cancelled, no lock in time, serialization
failure, deadlock."""
ANY_POOL: Final[Key] = ("", "")
"""Stands for the pools of holds that are to end, which are not known here. (No pool has an empty name.)"""


class Guards:
    """Selects the commands that a guard may decide, and learns from their misses. Used by several threads; a count may be off by a few."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._paused: dict[Key, float] = {}
        """Until when, by `time.monotonic`."""
        self._due: dict[Key, float] = {}
        """Until when more legs are expected to be due on a pool that had due legs, by `time.monotonic`."""
        self._batches = self._commands = self._passed = 0
        self._returned = 0
        self._held_off = 0
        """The number of coming batches that will take the ordinary path."""
        self._misses: Counter[str] = Counter()
        self._missed_batches = 0
        """Consecutive batches in which most ends missed."""

    @property
    def stats(self) -> GuardStats:
        """The counts of guarded batches, and of the commands in them."""
        return GuardStats(self._batches, self._commands, self._passed, self._returned, dict(self._misses))

    def stats_with(self, other: Guards) -> GuardStats:
        """Return the sums of both."""
        return GuardStats(
            batches=self._batches + other._batches,
            commands=self._commands + other._commands,
            passed=self._passed + other._passed,
            returned=self._returned + other._returned,
            misses=dict(self._misses + other._misses),
        )

    def select(self, groups: Sequence[Group], options: BatchOptions) -> GuardedBatch | None:
        """Return the groups that a guard may decide; None if the whole batch takes the ordinary path."""
        limits = options.limits
        if not self.enabled or options.bounded or options.distributed or len(groups) > limits.max_touched_legs:
            return None
        if self._held_off:
            self._held_off -= 1
            return None
        batch, now = GuardedBatch(groups, options), time.monotonic()
        exceptions = len(groups) // GROUPS_PER_EXCEPTION
        for index, group in enumerate(groups):
            command = guardable(group, limits)
            if command is None or not self._admit(command, batch, now):
                exceptions -= 1
                if exceptions < 0:
                    return None
                continue
            if len(batch.pools) > MAX_GUARDED_POOLS:
                return None
            batch.indexes.append(index)
            batch.commands.append(command)
        if not batch.commands:
            return None
        if self._due and not batch.ends:
            batch.may_be_due = any(self._due.get(key, 0.0) > now for key in batch.pools)
        return batch

    def hold_off(self, batches: int = 1) -> None:
        """Let this number of batches take the ordinary path."""
        self._held_off = batches

    def _admit(self, command: PlaceHold | Ending, batch: GuardedBatch, now: float) -> bool:
        """Add pool and ids of this command to the batch if the guard may decide it. Return False if it may not, or if the batch has one of
        the ids."""
        tenant, hold_id, op, options = command.tenant, command.id, command.op, batch.options
        assert hold_id is not None
        key, lane = ANY_POOL, 0
        if type(command) is PlaceHold:
            key = (tenant, command.legs[0].pool)
            lane = lane_of_pool(key, options.lanes)
            if lane_of_hold(hold_id, options.lanes) != lane:
                return False
        elif options.lines is not None and options.lines.has((tenant, hold_id)):
            return False  # others may wait for the units that it would free. (Where it places, the pool is paused after its first miss.)
        if self._paused and self._paused.get(key, 0.0) > now:
            return False
        if (tenant, hold_id) in batch.ids or (op is not None and (tenant, "op", op) in batch.ids):
            return False
        batch.ids.add((tenant, hold_id))
        if op is not None:
            batch.ids.add((tenant, "op", op))
        if key is ANY_POOL:
            batch.ends += 1
        else:
            batch.pools[key] = lane
        return True

    def learn(self, batch: GuardedBatch, result: GuardedResult) -> None:
        """Count passes and misses, and let pools that missed take the ordinary path for a while."""
        passed, causes = result.passed, result.causes
        self._count(batch)
        self._passed += len(passed)
        self._returned += result.returned
        for key, cause in causes.items():
            if cause == "due" and batch.places_on_one_pool:
                self._expect_due(key)
            else:
                self._pause(key, cause)
        if batch.ends and result.pools > MAX_GUARDED_POOLS:
            self._pause_for(ANY_POOL, SPREAD_PAUSE_SECONDS)
        if result.returned:
            for key in batch.pools:
                self._expect_due(key)
        all_passed = len(passed) == len(batch.commands)
        ended = batch.ends if all_passed else self._learn_misses(batch, result)
        if batch.ends:
            self._learn_ends(batch.ends, ended)

    def _learn_misses(self, batch: GuardedBatch, result: GuardedResult) -> int:
        """Count the misses by cause, and return how many holds were ended."""
        ended = 0
        for index, command in zip(batch.indexes, batch.commands, strict=True):
            if index in result.passed:
                ended += type(command) is not PlaceHold
                continue
            if type(command) is not PlaceHold:
                self._misses["hold"] += 1
                continue
            key = (command.tenant, command.legs[0].pool)
            cause = result.causes.get(key, "capacity")
            self._misses[cause] += 1
            if cause == "capacity":
                self._pause(key, cause)
        return ended

    def _learn_ends(self, ends: int, ended: int) -> None:
        """Record how often guarded ends miss."""
        self._missed_batches = 0 if 2 * ended >= ends else self._missed_batches + 1
        if self._missed_batches >= MAX_MISSED_BATCHES:
            self._pause_for(ANY_POOL, PAUSE_SECONDS["pool"])

    def refused(self, batch: GuardedBatch, failed: StatementFailed) -> bool:
        """Count a batch that the server refused, with nothing done. Return whether an id exists already."""
        cause = "duplicate" if failed.sqlstate in ID_TAKEN else "lock" if failed.sqlstate == "55P03" else "error"
        self._count(batch)
        self._misses[cause] += len(batch.commands)
        if cause == "lock":
            for key in [*batch.pools, *([ANY_POOL] if batch.ends else [])]:
                self._pause(key, cause)
        elif cause == "duplicate":
            self.hold_off(BATCHES_HELD_OFF)
        return cause == "duplicate"

    def run_call(self, guarded: GuardedCall, call: SavepointCall) -> Steps[ScriptResult | None]:
        """Send one command in a caller's transaction. Return its result; None if nothing was done and the ordinary script must follow."""
        batch = guarded.batch
        try:
            ((answer,),) = yield from call.run_alone(guarded.statement)
        except StatementFailed as failed:
            if failed.sqlstate in CALLERS_ERRORS:
                raise statement_error(failed) from failed
            self.refused(batch, failed)
            return None
        miss, clock, slot, fence, *columns_before = answer
        self._count(batch)
        if batch.ends:
            self._learn_ends(1, miss is None)
        if miss is None:
            self._passed += 1
            return ScriptResult([[guarded.outcome(slot, fence, columns_before)]], {}, True, clock, [[None]])
        self._misses[miss] += 1
        for key in batch.pools:
            self._pause_for(key, PAUSE_SECONDS.get(miss, 0.0))
        return None

    def _expect_due(self, key: Key) -> None:
        if len(self._due) >= MAX_REMEMBERED_POOLS:
            self._due.clear()
        self._due[key] = time.monotonic() + EXPECT_DUE_SECONDS

    def _count(self, batch: GuardedBatch) -> None:
        self._batches += 1
        self._commands += len(batch.commands)

    def _pause(self, key: Key, cause: str) -> None:
        self._pause_for(key, PAUSE_SECONDS[cause])

    def _pause_for(self, key: Key, seconds: float) -> None:
        if seconds:
            if len(self._paused) >= MAX_REMEMBERED_POOLS:
                self._paused.clear()  # the next miss adds each of them again
            self._paused[key] = time.monotonic() + seconds


class GuardRouting:
    """Applies batches: sends the groups that a guard may decide first, then the other groups on the ordinary path."""

    def __init__(
        self,
        database: Database,
        connections: Connections,
        transactions: Transactions,
        notifier: Notifier,
        guards: Guards,
    ) -> None:
        self._database, self._connections, self._ordinary = database, connections, transactions
        self._notifier, self._guards = notifier, guards

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool, add_late: AddLate | None = None) -> Applied:
        """Apply these groups on this thread. `add_late` may add groups once a batch that waits has locked its pools."""
        batch, state = self._select(groups), RetryState()
        if batch is None:
            return self._ordinary.apply(groups, state, wait_for_locks=wait_for_locks, add_late=add_late)
        result = self._send(batch, state, wait_for_locks)
        missed = result.missed(groups)
        if not missed:
            return result.applied(groups)
        if not (result.passed or result.returned):
            return self._ordinary.apply(groups, state, wait_for_locks=wait_for_locks, add_late=add_late)
        missed_groups = [groups[index] for index in missed]
        try:
            ordinary = self._ordinary.apply(missed_groups, state, wait_for_locks=wait_for_locks)
        except HoldkitError as error:
            if not result.passed:
                raise
            ordinary = _not_applied(missed_groups, error)
        return result.applied(groups, missed, ordinary)

    async def apply_async(self, groups: Sequence[Group], sent: Callable[[], None] | None, until: float) -> Applied:
        """Apply these groups on the event loop. Raise `NeedsThread` for a batch that would block it."""
        batch, state = self._select(groups), RetryState()
        if batch is None:
            return await self._ordinary.apply_on_loop(groups, state, sent, until)
        result = await self._send_on_loop(batch, state, sent, until)
        missed = result.missed(groups)
        if not missed:
            return result.applied(groups)
        missed_groups = [groups[index] for index in missed]
        try:
            ordinary = await self._ordinary.apply_on_loop(missed_groups, state, sent, until)
        except (NeedsThread, HoldkitError) as error:
            if not result.passed:
                raise
            if isinstance(error, NeedsThread):
                self._guards.hold_off()  # so that the next batch, which begins with these, is left to a thread as a whole
            ordinary = _not_applied(missed_groups, error)
        return result.applied(groups, missed, ordinary)

    def _select(self, groups: Sequence[Group]) -> GuardedBatch | None:
        """Return the guarded batch of these groups; None if they take the ordinary path, perhaps only because that prunes."""
        if time.monotonic() > self._ordinary.prune_at:
            return None
        return self._guards.select(groups, self._database.options(wait_for_locks=False))

    def _send(self, batch: GuardedBatch, state: RetryState, wait_for_locks: bool) -> GuardedResult:
        """Send the batch on this thread. Set `state.check_again` if an id exists that was assumed to be new."""
        statements, began, address = _statements_of(batch), steady(), self._database.address
        with self._connections.for_batch(wait_for_locks).connection() as connection:
            try:
                answers = connection.execute(statements)
            except StatementFailed as failed:
                state.check_again = self._guards.refused(batch, failed)
                return NOTHING_PASSED
            except (ConnectionFailed, NotReplicated) as failed:
                if isinstance(failed, ConnectionFailed) and not failed.sent_commit:
                    return NOTHING_PASSED
                raise self._connections.lost(failed, address) from failed
            except Exception as error:
                if connection.committing:
                    raise OutcomeUnknown(f"interrupted while {address.shown} was committing: ask again") from error
                raise BatchRejected(f"unexpected {type(error).__name__} while sending; nothing was done") from error
        return self._conclude(batch, answers, began)

    async def _send_on_loop(
        self, batch: GuardedBatch, state: RetryState, sent: Callable[[], None] | None, until: float
    ) -> GuardedResult:
        """Send the batch on the event loop. Raise `NeedsThread`, with nothing done, if it would block the loop."""
        statements, began = _statements_of(batch), steady()
        with self._connections.no_wait.idle_connection() as connection:
            if connection is None:
                raise NeedsThread
            try:
                answers = await connection.execute_async(statements, sent, until)
            except StatementFailed as failed:
                state.check_again = self._guards.refused(batch, failed)
                await connection.roll_back_async(until)
                return NOTHING_PASSED
            except (ConnectionFailed, NotReplicated) as failed:
                if isinstance(failed, ConnectionFailed) and not failed.sent_commit:
                    raise NeedsThread from failed
                raise self._connections.lost(failed, self._database.address) from failed
            except Exception as error:
                if connection.committing:
                    raise OutcomeUnknown("interrupted while a batch was being committed: ask again") from error
                raise NeedsThread from error
        return self._conclude(batch, answers, began)

    def _conclude(self, batch: GuardedBatch, answers: Sequence[list[Row]], began: float) -> GuardedResult:
        """Read the answers after COMMIT. (Outside the exchange: an error in here must not claim that nothing was done.)"""
        result = batch.read(answers)
        self._guards.learn(batch, result)
        self._database.heard(result.slot, began)
        if result.passed or result.returned:
            self._notifier.notify_soon()
        return result


def _statements_of(batch: GuardedBatch) -> Sequence[Statement]:
    """Return the statements of a batch, made before a connection is lent. An error in here comes from one of its commands."""
    try:
        return batch.statements()
    except Exception as error:
        raise BatchRejected(f"unexpected {type(error).__name__} while encoding; nothing was done") from error


def _not_applied(groups: Sequence[Group], error: NeedsThread | HoldkitError) -> Applied:
    """Return an answer that applies none of these groups: they failed with this error, or are left for a thread."""
    every = range(len(groups))
    return Applied(
        [[] for _ in every],
        None,
        False,
        failed=dict.fromkeys(every, error) if isinstance(error, HoldkitError) else {},
        put_off=frozenset(every if isinstance(error, NeedsThread) else ()),
        positions=[[] for _ in every],
    )
