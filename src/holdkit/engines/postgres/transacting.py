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
from .apart import Share
from .connections import Connections
from .driver import ConnectionFailed, NotReplicated, StatementFailed
from .flying import Attempt, fly
from .in_doubt import InDoubt
from .loading import SeveralLanes
from .opening import IMPATIENCE, Address, not_replicated, trouble
from .script import Ran, Stage, apply_script
from .splitting import by_lane
from .terms import Terms, bounded, lock_timeout
from .trying import AGAIN, FEW, TAKEN, Again, keep_trying

DOUBTS: Final = 64
"""After a retry or a refusal was met, so many batches look for operations and ids before they write them."""


class Transactions:
    """Batches, each in a transaction of its own on one of our connections."""

    def __init__(
        self,
        address: Address,
        hasty: Connections,
        patient: Connections,
        terms: Callable[..., Terms],
        *,
        prune_every: float,
        wrote: Callable[[], None],
        suspect: Callable[[], None],
        heard: Callable[[Slot | None, float], None],
    ) -> None:
        self._address, self._hasty, self._patient, self._terms = address, hasty, patient, terms
        self._wrote, self._suspect, self._heard = wrote, suspect, heard
        """Called when something was written; when our other connections may lead to a server that is gone; and with what
        the server's clock said in an attempt that began then."""
        self._prune_every, self._pruned = prune_every, 0.0
        self._doubts = 0  # so many batches more look for what they are about to write: retries come in swarms

    def run(self, share: Share, patient: bool) -> Ran:
        """One transaction, tried again while it certainly did nothing."""
        stage = Stage()

        def run() -> Ran:
            ran = self._attempt(share, stage, patient)
            while ran.outcomes is None:
                ran = self._attempt(share, stage, patient)
            return ran

        return keep_trying(run)

    async def fly(self, groups: Sequence[Group], sent: Callable[[], None]) -> Applied:
        """The same on an event loop, or `Grounded`."""
        return await fly(self._hasty, self._usual, self._conclude, self._lost, groups, sent)

    def _usual(self, groups: Sequence[Group], stage: Stage) -> Attempt:
        return self._prepare(Share(groups), stage, patient=False)

    def _prepare(self, share: Share, stage: Stage, patient: bool) -> Attempt:
        terms = self._terms(patient=patient, several=share.several)
        waits = lock_timeout(terms.limits) if patient else None
        if waits is not None and not terms.distributed:  # no longer than the call may take
            waits = str(max(1, int(within(int(waits) / 1000) * 1000)))
        if waits is None and (self._address.pooled or terms.distributed):  # the connection's own does not count there
            waits = str(IMPATIENCE)
        self._doubts = DOUBTS if stage.distrust else max(0, self._doubts - 1)
        trusting = not (self._doubts or terms.distributed or bounded(terms.limits))
        apart = not (self._address.pooled or terms.distributed)
        terms = terms._replace(lock_timeout=waits, trusting=trusting, proof_apart=apart)
        pruning = time.monotonic() - self._pruned > self._prune_every
        batch = random.getrandbits(62)
        script = apply_script(share.groups, terms, stage, batch, pruning=pruning, listed=share.listed, gate=share.gate)
        return Attempt(
            by_lane(script, share.lanes, writing=True) if terms.distributed else script, trusting, pruning, steady()
        )

    def _attempt(self, share: Share, stage: Stage, patient: bool) -> Ran:
        attempt = self._prepare(share, stage, patient)
        with (self._patient if patient else self._hasty).one() as driver:
            try:
                ran = driver.run(attempt.script)
            except StatementFailed as failed:
                return self._refused(share.groups, failed, patient, stage if attempt.trusting else None)
            except (ConnectionFailed, NotReplicated) as failed:
                raise self._lost(failed) from failed
            except SeveralLanes:
                raise
            except InDoubt as doubt:
                raise Again(doubt.told()) from doubt
            except Exception as error:
                if driver.committing:
                    raise OutcomeUnknown(
                        f"interrupted while {self._address.shown} was committing: ask again"
                    ) from error
                raise BatchRejected(f"unexpected {type(error).__name__} while deciding; nothing was done") from error
            self._conclude(attempt, ran)
        return ran

    def _conclude(self, attempt: Attempt, ran: Ran) -> None:
        """It was committed: who has to hear of it?"""
        self._heard(ran.slot, attempt.began)
        if attempt.pruning:
            self._pruned = time.monotonic()
        if ran.wrote:
            self._wrote()

    def _refused(self, groups: Sequence[Group], failed: StatementFailed, patient: bool, trusted: Stage | None) -> Ran:
        """The server refused a statement, so nothing was committed."""
        if trusted is not None and failed.sqlstate in TAKEN:
            trusted.distrust = True
            return Ran(None, {}, False)
        error = trouble(self._address, failed)
        error.__cause__ = failed
        if failed.sqlstate in AGAIN:
            raise Again(error)
        if failed.sqlstate == "55P03" and not patient:  # something new, that another transaction is just making
            if len(groups) > 1:
                raise BatchRejected(str(error)) from failed  # for one of them: it is left out once it is alone
            return Ran([[]], {0: "what is being made"}, False)
        if failed.sqlstate[:2] == "08":  # a worker behind the server
            raise Again(error, FEW)
        if failed.sqlstate == "25006" or failed.sqlstate[:3] == "57P":  # a failover: our other connections are old too
            self._suspect()
            raise Again(error)
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
        return Again(EngineError(f"the connection to {self._address.shown} was lost: {failed}"))
