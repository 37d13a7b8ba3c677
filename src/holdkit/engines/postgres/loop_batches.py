"""A batch on the event loop, without a thread: the usual course only. Whatever needs a new connection, a pause or a second
thought is *grounded*: nothing was done, and a thread does it from the beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from ...core.commands import Group
from ...errors import HoldkitError, OutcomeUnknown
from ..port import Applied, NeedsThread
from .connections import Connections
from .driver import ROLLBACK, ConnectionFailed, Driver, NotReplicated, Script, StatementFailed
from .retrying import TAKEN
from .script import RetryState, ScriptResult
from .waiting import run_on_loop


class Attempt(Struct, frozen=True):
    """One run of a batch, ready to begin."""

    script: Script[ScriptResult]
    assume_new: bool
    pruning: bool
    began: float
    """When, by `steady`."""


async def apply_on_loop(
    connections: Connections,
    prepare: Callable[[Sequence[Group], RetryState], Attempt],
    conclude: Callable[[Attempt, ScriptResult], None],
    lost: Callable[[ConnectionFailed | NotReplicated], HoldkitError],
    groups: Sequence[Group],
    sent: Callable[[], None],
) -> Applied:
    """Apply these groups, or say that it cannot be done from here."""
    retry_state = RetryState()
    while True:
        with connections.at_hand() as driver:
            if driver is None:
                raise NeedsThread
            attempt = prepare(groups, retry_state)
            try:
                ran = await driver.run_async(attempt.script, sent)
            except StatementFailed as failed:
                if not attempt.assume_new or failed.sqlstate not in TAKEN:
                    raise NeedsThread from failed
                retry_state.check_again = True
                await _roll_back(driver)
                continue
            except ConnectionFailed as failed:
                if failed.sent_commit:
                    raise lost(failed) from failed
                raise NeedsThread from failed
            except NotReplicated as failed:
                raise lost(failed) from failed
            except Exception as error:
                if driver.committing:
                    raise OutcomeUnknown("interrupted while a batch was being committed: ask again") from error
                raise NeedsThread from error
            conclude(attempt, ran)
        if ran.outcomes is not None:
            return Applied(ran.outcomes, None, ran.wrote, ran.skipped_locked)


async def _roll_back(driver: Driver) -> None:
    """So that the connection can be used again; one that cannot is dropped when it comes back."""
    with suppress(ConnectionFailed, StatementFailed):
        await run_on_loop(driver.exchange((ROLLBACK,)), driver.pgconn.socket, driver.patience)
