"""Sending a guarded batch, on a thread or on the event loop; and its answers beside those of the groups that it left to the ordinary way.

COMMIT is part of the one exchange. Once it may have left, a lost connection or an interrupt makes the outcome unknown; an error of any
statement before it means that nothing was done, and the ordinary way decides everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from ...core.commands import Group
from ...core.outcomes import Outcome, Position
from ...errors import HoldkitError, OutcomeUnknown
from ..clocks import steady
from ..port import Applied, BatchRejected, NeedsThread
from .connections import ConnectionPool, PipelineConnection
from .database import Database
from .driver import ROLLBACK, Row, Script
from .failures import ConnectionFailed, NotReplicated, StatementFailed
from .guarded import NOTHING_PASSED, GuardedBatch, GuardedResult
from .guards import Guards
from .notifications import Notifier
from .script import RetryState, ScriptResult

if TYPE_CHECKING:
    from .transactions import Connections


class GuardedSender:
    """Sends guarded batches on connections of ours."""

    def __init__(self, database: Database, connections: Connections, notifier: Notifier, guards: Guards) -> None:
        self._database, self._connections, self._notifier, self._guards = database, connections, notifier, guards

    def send(self, batch: GuardedBatch, state: RetryState, pool: ConnectionPool) -> GuardedResult:
        """On this thread. Notes in `state` whether an id exists that was assumed to be new."""
        began, address = steady(), self._database.address
        with pool.connection() as connection:
            try:
                rows = connection.run(batch.script())
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
        return self._conclude(batch, rows, began)

    async def send_on_loop(self, batch: GuardedBatch, state: RetryState, sent: Callable[[], None]) -> GuardedResult:
        """The same on the event loop; what cannot be done there raises `NeedsThread`, with nothing done."""
        began = steady()
        with self._connections.no_wait.idle_connection() as connection:
            if connection is None:
                raise NeedsThread
            try:
                rows = await connection.run_async(batch.script(), sent)
            except StatementFailed as failed:
                state.check_again = self._guards.refused(batch, failed)
                await roll_back_on_loop(connection, sent)
                return NOTHING_PASSED
            except (ConnectionFailed, NotReplicated) as failed:
                if isinstance(failed, ConnectionFailed) and not failed.sent_commit:
                    raise NeedsThread from failed
                raise self._connections.lost(failed, self._database.address) from failed
            except Exception as error:
                if connection.committing:
                    raise OutcomeUnknown("interrupted while a batch was being committed: ask again") from error
                raise NeedsThread from error
        return self._conclude(batch, rows, began)

    def _conclude(self, batch: GuardedBatch, rows: Sequence[Row], began: float) -> GuardedResult:
        """After COMMIT. (Outside the exchange: an error in here must not claim that nothing was done.)"""
        result = batch.read(rows)
        self._guards.learn(batch, result)
        self._database.heard(result.slot, began)
        if result.passed or result.returned:
            self._notifier.notify_soon()
        return result


def merged(
    groups: Sequence[Group], result: GuardedResult, left: Sequence[int] = (), rest: ScriptResult | None = None
) -> ScriptResult:
    """The answers of a guarded batch, and those of the groups that it left."""
    outcomes: list[list[Outcome]] = [[] for _ in groups]
    positions: list[list[Position | None]] = [[] for _ in groups]
    for index, (outcome, position) in result.passed.items():
        outcomes[index], positions[index] = [outcome], [position]
    if rest is None:
        return ScriptResult(outcomes, {}, True, result.slot, positions)
    assert rest.outcomes is not None
    for number, index in enumerate(left):
        outcomes[index], positions[index] = rest.outcomes[number], rest.positions[number]
    skipped = {left[number]: lock for number, lock in rest.skipped_locked.items()}
    put_off = frozenset([left[number] for number in rest.put_off])
    wrote = rest.wrote or bool(result.passed or result.returned)
    return ScriptResult(outcomes, skipped, wrote, rest.slot, positions, put_off, rest.unfed, rest.served)


def not_done(groups: Sequence[int], *, put_off: bool = False) -> ScriptResult:
    """Nothing was done of these groups."""
    later = frozenset(range(len(groups))) if put_off else frozenset[int]()
    return ScriptResult([[] for _ in groups], {}, False, positions=[[] for _ in groups], put_off=later)


def applied(result: ScriptResult) -> Applied:
    """What the port wants to know of it."""
    assert result.outcomes is not None
    return Applied(
        result.outcomes,
        None,
        result.wrote,
        result.skipped_locked,
        put_off=result.put_off,
        positions=result.positions,
        unfed=tuple(sorted(result.unfed)) if result.unfed else (),
        served=result.served,
    )


def partly_failed(groups: Sequence[Group], result: GuardedResult, left: Sequence[int], error: HoldkitError) -> Applied:
    """The guarded batch is committed, and the rest failed."""
    return structs.replace(applied(merged(groups, result, left, not_done(left))), failed=dict.fromkeys(left, error))


async def roll_back_on_loop(connection: PipelineConnection, sent: Callable[[], None]) -> None:
    """So that the connection can be used again; if that fails, the pool drops it."""
    with suppress(ConnectionFailed, StatementFailed):
        await connection.run_async(_roll_back(), sent)


def _roll_back() -> Script[None]:
    yield (ROLLBACK,)
