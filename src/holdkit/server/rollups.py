"""Statistics over time: what happened to each pool, and what each server process did.

Theory of operation
-------------------

*Two kinds of counts.* The counts of a pool in the journal (granted, confirmed, released, expired; held and consumed at the end) are a
function of its entries. They are counted in intervals of five minutes into rows of the engine's own database, and in intervals of
ten seconds in the memory of each process, for six hours. Requests, latencies and refusals are in no journal: each process counts
its own, in memory only. Prometheus keeps them for longer. (Where refusals are audited, the journal has them; then each process
counts them from there.)

*The invariant.* A row counts those entries of its pools and its interval that are before the stored position, and no others. Rows
change only together with the position, in one transaction, which is refused if the position is not the one that the added
counts begin at. So no entry is counted twice or missed, whichever process stores, and whenever one dies.

*A round.* Every ten seconds each process reads the journal from where it has stopped, and adds what is new to its memory and to
its *fresh* counts: those behind the stored position. Then it adds the fresh counts to the rows. If another process has moved the
position since, it stores nothing in this round, drops its fresh counts and reads again from the new position; by the numbers that
it has seen in each lane it counts nothing in memory again. So of several servers the same one stores, until it stops.

*An interval is never closed.* Entries go by their slots. An entry that comes late (its caller's transaction was long, its lane is
behind, no server was running) is behind the position, and is added to the row of its interval when it is read.

*Gaps.* The process that stores also stores that the present interval was recorded. Where no server was, only pools that changed
have a row, and a plot has a gap. In memory, intervals before the process began are such a gap.

*The journal is cut.* If entries left (`CursorLost`: they were archived before they were counted, or a restore or a failover took them
back), counting continues at the stored position or else at the end, and memory begins again. An erasure changes no count.

*Bounds.* A pool that does not change has no row. In one interval a tenant has at most `MAX_SERIES` rows: its other pools are summed
in `REST`. In memory the tenant with the most counts loses its oldest first. So no tenant can take the place of another's.

*Clocks.* No row is removed by the clock: those of the newest `MAX_INTERVALS` recorded intervals are kept. A clock that is set by
mistake puts what happens meanwhile into the wrong intervals; if by more than six hours, memory begins again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from ..core.model import SECOND, Slot
from ..errors import HoldkitError, Refused
from .journal_counter import JournalCounter
from .metrics import Metrics
from .rollup_counts import RECENT_STEP, PoolCounts, Recent, Refusals, ServerCounts, refusals_of, series_of

if TYPE_CHECKING:
    from ..kernel._async.executor import AsyncExecutor

log = logging.getLogger("holdkit.server")

SELF: Final = ("", "")
"""The series of this process."""


def until_next(now: Slot, phase: float) -> float:
    """Return the seconds until the next multiple of ten seconds plus `phase`: far from the end of an interval, so that a late round is
    still in its own."""
    length = RECENT_STEP * SECOND
    return (length - (now - round(phase * SECOND)) % length) / SECOND


class Rollups:
    """The statistics of one server process, and the rows of its database."""

    def __init__(self, executor: AsyncExecutor, metrics: Metrics) -> None:
        self.pools = Recent(PoolCounts)
        self.refusals = Recent(Refusals)
        self.requests = Recent(ServerCounts)
        self.store = executor.engine.capabilities.rollups
        self._executor, self._metrics = executor, metrics
        self._journal: JournalCounter | None = None
        if self.store is not None:
            self._journal = JournalCounter(executor, self.store, self.pools, self.refusals)
        self._last = ServerCounts()
        """Since the process began, as it was in the last round."""
        self._one_round = asyncio.Lock()

    def refused(self, tenant: str, error: Refused, named: Iterable[str] = (), *, journaled: bool = True) -> None:
        """Count a refusal; a repeated answer is none. Where refusals are audited, one that is `journaled` then is counted from there."""
        if error.replayed or (journaled and self._executor.limits.audit_refusals and self.store is not None):
            return
        for pool, refusals in refusals_of(error, named):
            self.refusals.at(series_of(tenant, pool), self._executor.now()).add(refusals)

    async def run(self) -> None:
        """Record until the server stops."""
        phase = random.random() * RECENT_STEP / 2  # servers that began together do not write together
        while True:
            await asyncio.sleep(until_next(self._executor.now(), phase))
            try:
                await self.round()
            except HoldkitError as failed:
                log.warning(
                    "statistics could not be recorded, will retry: %s", failed, extra={"event": "statistics_unwritten"}
                )

    async def round(self) -> None:
        """Count what happened since the last round."""
        async with self._one_round:
            self._count_requests(self._executor.now())
            if self._journal is not None:
                await self._journal.round()

    def _count_requests(self, now: Slot) -> None:
        metrics, last = self._metrics, self._last
        self._last = ServerCounts(
            requests=metrics.requests,
            errors=sum(count for status, count in metrics.statuses.items() if status >= 500),
            latencies=list(metrics.latencies),
        )
        fresh = ServerCounts(
            requests=self._last.requests - last.requests,
            errors=self._last.errors - last.errors,
            latencies=[a - b for a, b in zip_longest(self._last.latencies, last.latencies, fillvalue=0)],
            queue=self._executor.stats.waiting,
        )
        self.requests.at(SELF, now).add(fresh)
        for counts in (self.requests, self.refusals):
            counts.trim(now)
