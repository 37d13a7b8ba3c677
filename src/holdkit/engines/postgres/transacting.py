"""Transactions of our own: prepared, run, tried again while they certainly did nothing, and never once they may have been
committed. What the server and its connections say is told here as what it means. Decides nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from ...core.commands import Group
from ...core.model import Slot
from ...errors import EngineError, HoldkitError, OutcomeUnknown
from ..clocks import steady
from ..deadlines import within
from ..port import Applied, BatchRejected
from .batch_options import BatchOptions, bounded, lock_timeout
from .connections import Connections
from .distributed import BatchPart
from .driver import ConnectionFailed, NotReplicated, StatementFailed
from .in_doubt import InDoubt
from .loading import SeveralLanes
from .loop_batches import Attempt, apply_on_loop
from .opening import IMPATIENCE, Address, not_replicated, trouble
from .retrying import FEW, RETRYABLE, TAKEN, Retry, retry
from .script import RetryState, ScriptResult, apply_script
from .splitting import by_lane

CHECK_AGAIN_FOR: Final = 64
"""After a retry or a refusal was met, so many batches look for operations and ids before they write them."""


class Transactions:
    """Batches, each in a transaction of its own on one of our connections."""

    def __init__(
        self,
        address: Address,
        no_wait: Connections,
        wait_for_locks: Connections,
        options: Callable[..., BatchOptions],
        *,
        prune_every: float,
        wrote: Callable[[], None],
        suspect: Callable[[], None],
        heard: Callable[[Slot | None, float], None],
    ) -> None:
        self._address, self._no_wait, self._wait_for_locks, self._options = address, no_wait, wait_for_locks, options
        self._wrote, self._suspect, self._heard = wrote, suspect, heard
        """Called when something was written; when our other connections may lead to a server that is gone; and with what
        the server's clock said in an attempt that began then."""
        self._prune_every, self._pruned = prune_every, 0.0
        self._check_again_for = 0  # so many batches more look for what they are about to write: retries come in swarms

    def run(self, share: BatchPart, wait_for_locks: bool) -> ScriptResult:
        """One transaction, tried again while it certainly did nothing."""
        retry_state = RetryState()

        def run() -> ScriptResult:
            ran = self._attempt(share, retry_state, wait_for_locks)
            while ran.outcomes is None:
                ran = self._attempt(share, retry_state, wait_for_locks)
            return ran

        return retry(run)

    async def apply_on_loop(self, groups: Sequence[Group], sent: Callable[[], None]) -> Applied:
        """The same on an event loop, or `NeedsThread`."""
        return await apply_on_loop(self._no_wait, self._usual, self._conclude, self._lost, groups, sent)

    def _usual(self, groups: Sequence[Group], retry_state: RetryState) -> Attempt:
        return self._prepare(BatchPart(groups), retry_state, wait_for_locks=False)

    def _prepare(self, share: BatchPart, retry_state: RetryState, wait_for_locks: bool) -> Attempt:
        options = self._options(wait_for_locks=wait_for_locks, several=share.several)
        waits = lock_timeout(options.limits) if wait_for_locks else None
        if waits is not None and not options.distributed:  # no longer than the call may take
            waits = str(max(1, int(within(int(waits) / 1000) * 1000)))
        if waits is None and (self._address.pooled or options.distributed):  # the connection's own does not count there
            waits = str(IMPATIENCE)
        self._check_again_for = CHECK_AGAIN_FOR if retry_state.check_again else max(0, self._check_again_for - 1)
        assume_new = not (self._check_again_for or options.distributed or bounded(options.limits))
        apart = not (self._address.pooled or options.distributed)
        options = options._replace(lock_timeout=waits, assume_new=assume_new, proof_apart=apart)
        pruning = time.monotonic() - self._pruned > self._prune_every
        batch = random.getrandbits(62)
        script = apply_script(
            share.groups, options, retry_state, batch, pruning=pruning, listed=share.listed, growing=share.growing
        )
        return Attempt(
            by_lane(script, share.lanes, writing=True) if options.distributed else script, assume_new, pruning, steady()
        )

    def _attempt(self, share: BatchPart, retry_state: RetryState, wait_for_locks: bool) -> ScriptResult:
        attempt = self._prepare(share, retry_state, wait_for_locks)
        with (self._wait_for_locks if wait_for_locks else self._no_wait).one() as driver:
            try:
                ran = driver.run(attempt.script)
            except StatementFailed as failed:
                return self._refused(share.groups, failed, wait_for_locks, retry_state if attempt.assume_new else None)
            except (ConnectionFailed, NotReplicated) as failed:
                raise self._lost(failed) from failed
            except SeveralLanes:
                raise
            except InDoubt as doubt:
                raise Retry(doubt.told()) from doubt
            except Exception as error:
                if driver.committing:
                    raise OutcomeUnknown(
                        f"interrupted while {self._address.shown} was committing: ask again"
                    ) from error
                raise BatchRejected(f"unexpected {type(error).__name__} while deciding; nothing was done") from error
            self._conclude(attempt, ran)
        return ran

    def _conclude(self, attempt: Attempt, ran: ScriptResult) -> None:
        """It was committed: who has to hear of it?"""
        self._heard(ran.slot, attempt.began)
        if attempt.pruning:
            self._pruned = time.monotonic()
        if ran.wrote:
            self._wrote()

    def _refused(
        self, groups: Sequence[Group], failed: StatementFailed, wait_for_locks: bool, assumed_new: RetryState | None
    ) -> ScriptResult:
        """The server refused a statement, so nothing was committed."""
        if assumed_new is not None and failed.sqlstate in TAKEN:
            assumed_new.check_again = True
            return ScriptResult(None, {}, False)
        error = trouble(self._address, failed)
        error.__cause__ = failed
        if failed.sqlstate in RETRYABLE:
            raise Retry(error)
        if failed.sqlstate == "55P03" and not wait_for_locks:  # something new, that another transaction is just making
            if len(groups) > 1:
                raise BatchRejected(str(error)) from failed  # for one of them: it is left out once it is alone
            return ScriptResult([[]], {0: "what is being made"}, False)
        if failed.sqlstate[:2] == "08":  # a worker behind the server
            raise Retry(error, FEW)
        if failed.sqlstate == "25006" or failed.sqlstate[:3] == "57P":  # a failover: our other connections are old too
            self._suspect()
            raise Retry(error)
        if isinstance(error, EngineError) and len(groups) > 1:
            raise BatchRejected(str(error)) from failed
        raise error

    def _lost(self, failed: ConnectionFailed | NotReplicated) -> HoldkitError:
        if isinstance(failed, NotReplicated):
            return not_replicated(self._address)
        self._suspect()
        if failed.sent_commit:
            return OutcomeUnknown(
                f"the connection to {self._address.shown} was lost during COMMIT ({failed}): ask again"
            )
        return Retry(EngineError(f"the connection to {self._address.shown} was lost: {failed}"))
