"""Roll-ups: what happened per pool and per server, by intervals of 10 s, 5 min and 1 h, in the engine's own database.

Theory of operation
-------------------

*Two kinds of rows.* What is in the journal is counted from the journal, by one writer per database, whatever process made the
change. What is not there (requests, latencies, refusals) each server counts itself and writes under a source of its own, so that
each row has one writer; a read adds the sources up. A refusal in a process that embeds Holdkit is seen by no server. A process that
audits refusals has them in the journal: those are counted from there, and its server does not count them a second time.

*Nothing twice, nothing missed.* The rows of the journal are stored in one transaction with the cursor behind the last entry that
they count, and only in place of the version of that position which the writer has read. A writer that dies loses what it has not
stored, and the next one counts that again from the cursor. Of two writers one finds another version, drops what it has counted
since, and begins at the stored cursor. So the lease, which is part of the position (`Head`), only keeps servers from doing the
same work; safety does not depend on it, nor on a clock.

*Rows of an interval are replaced*, with all that is counted of it so far. The rows that are still growing are kept in memory.
An entry of an earlier interval, after a take-over or of a lane that is behind, adds to the row that is stored. Intervals go by
the slots of the entries, so a writer that catches up after an outage puts every entry where it belongs.

*Bounds.* At most `MAX_SERIES` pools have a series of their own; when another one changes, it takes the place of one that has
not changed for an hour, or else is counted in the series `REST` of its tenant. Rows are pruned by age. A journal that was cut
(`CursorLost`) is counted from its end on.

*Clocks.* The lease counts only within its own length of now, so a clock that was set back frees it. Pruning waits for an hour after a
jump, so that a clock that is set ahead by mistake can be noticed before a year of rows is gone. A server whose clock was set back
begins rows of its own beside those that it has stored under the later time, and a read adds them up.

*Servers that are away.* Each server writes a row every interval, even if nothing happened: where there is none, nobody was
recording, and a plot has a gap. So rounds keep to the clock: if each began so long after the end of the one before, they would
slip, and now and then an interval would have none. Refusals and requests of the last seconds of a server that is killed are lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from ..core.model import SECOND, Slot
from ..engines.clocks import steady
from ..engines.rollups import RollupRow, RollupStore
from ..errors import HoldkitError, Refused
from .journal_counter import MAX_SERIES, JournalCounter, Key, OpenRows, encode_counts
from .rollup_counts import FACES, REST, SERVER, STEPS, PoolCounts, Series, ServerCounts, floor, refusals_of

if TYPE_CHECKING:
    from .application import Running

log = logging.getLogger("holdkit.server")

JUMP: Final = 60 * SECOND
"""A difference between the engine's clock and this process's that is taken for a jump."""
AWAY: Final = 86_400 * SECOND
"""The same between the clock and what was recorded before this process began: nobody may have recorded for that long."""
SETTLE: Final = 3_600.0
"""Seconds without a jump after which old rows are removed again."""
PRUNE_EVERY: Final = 60.0
PRUNED: Final = 5_000
"""Rows that one transaction prunes."""
MAX_PRUNES: Final = 20
"""Transactions of one round of pruning, for each step."""


def until_next(now: Slot, every: float, phase: float) -> float:
    """Seconds until the clock shows a multiple of `every`, and `phase` beyond it: far from the end of an interval, so that a round
    that is late is still in its own."""
    length = max(1, round(every * SECOND))
    return (length - (now - round(phase * SECOND)) % length) / SECOND


class ClockWatch:
    """Whether the engine's clock can be trusted with removing what is old by it: a clock that was set ahead makes everything look old."""

    def __init__(self) -> None:
        self._last: tuple[Slot, float] | None = None
        """What the clock said at which moment of this process."""
        self._trusted_from = float("-inf")

    def went_back(self, now: Slot) -> bool:
        """Whether the clock is behind what it said before."""
        return self._last is not None and now < self._last[0]

    def look(self, now: Slot, recorded: Slot) -> None:
        """Compare the clock with the time that has passed since the last look or, the first time, with the latest interval that is
        stored. If it has jumped, either way, nothing is removed for an hour."""
        moment = steady()
        if self._last is None:
            expected, slack = recorded or now, AWAY
        else:
            expected, slack = self._last[0] + round((moment - self._last[1]) * SECOND), JUMP
        if abs(now - expected) > slack:
            log.warning(
                "the clock is %d s from where it was expected (it was set, or nobody recorded meanwhile): old statistics are kept "
                "for another hour",
                (now - expected) // SECOND,
                extra={"event": "clock_jumped", "seconds": (now - expected) // SECOND},
            )
            self._trusted_from = moment + SETTLE
        self._last = now, moment

    @property
    def trusted(self) -> bool:
        """Whether it has not jumped lately."""
        return steady() >= self._trusted_from


class Rollups:
    """The roll-ups of one server: counts what this process sees, and the journal if it is the one that does."""

    def __init__(self, running: Running, store: RollupStore) -> None:
        self.store = store
        self._running, self._executor = running, running.kernel._executor
        self._journal = JournalCounter(running, store, os.urandom(8).hex())
        self._source = os.urandom(8).hex()
        """Under which this process stores what it counts itself."""
        self._clock = ClockWatch()
        self._refused: dict[Series, PoolCounts] = {}
        self._open = OpenRows()
        self._servers: dict[Key, ServerCounts] = {}
        self._last = ServerCounts(latencies=list(running.metrics.latencies))
        self._pruned = float("-inf")
        self._one_round = asyncio.Lock()

    def refused(self, tenant: str, error: Refused, named: Iterable[str] = (), *, journaled: bool = True) -> None:
        """Count a refusal; a repeated answer is none. Where refusals are audited, one that is `journaled` then is counted from there."""
        if error.replayed or (journaled and self._executor.limits.audit_refusals):
            return
        for pool, counts in refusals_of(error, named):
            series = (tenant, FACES if pool.startswith("~") else pool)
            if series not in self._refused and len(self._refused) >= MAX_SERIES:
                series = (tenant, REST) if len(self._refused) < 2 * MAX_SERIES else ("", REST)
            known = self._refused.get(series)
            if known is None:
                self._refused[series] = counts
            else:
                known.add(counts)

    async def run(self, every: float) -> None:
        """Record until the server stops."""
        phase = random.random() * every / 2  # servers that began together do not write together
        await asyncio.sleep(every)
        while True:
            try:
                await self.round()
            except HoldkitError as failed:
                log.warning(
                    "statistics could not be recorded, will retry: %s", failed, extra={"event": "statistics_unwritten"}
                )
            await asyncio.sleep(until_next(self._executor.now(), every, phase))

    async def round(self) -> None:
        """Store what happened since the last round."""
        async with self._one_round:
            now = self._executor.now()
            if self._clock.went_back(now):
                # rows of these intervals are stored, and no longer in memory: begin others beside them
                self._source, self._open, self._servers = os.urandom(8).hex(), OpenRows(), {}
            await self._report(now)
            await self._journal.round()
            self._clock.look(now, self._journal.latest_before)
            if self._clock.trusted and steady() - self._pruned > PRUNE_EVERY:
                self._pruned = steady()
                await self._prune(now)

    async def _report(self, now: Slot) -> None:
        """Store what this process has seen."""
        metrics = self._running.metrics
        seen = ServerCounts(
            requests=metrics.requests,
            errors=sum(count for status, count in metrics.statuses.items() if status >= 500),
            latencies=list(metrics.latencies),
        )
        fresh = ServerCounts(
            requests=seen.requests - self._last.requests,
            errors=seen.errors - self._last.errors,
            latencies=[a - b for a, b in zip(seen.latencies, self._last.latencies, strict=True)],
            queue=self._running.kernel._executor.stats.waiting,
        )
        self._last = seen
        for step in STEPS:
            self._servers.setdefault((step, "", SERVER, floor(now, step)), ServerCounts()).add(fresh)
        refused, self._refused = self._refused, {}
        for series, counts in refused.items():
            self._open.add(series, now, counts)
        rows = [
            *[RollupRow(*key, self._source, encode_counts(counts)) for key, counts in self._servers.items()],
            *self._open.rows(self._source),
        ]
        await self._executor.run_blocking(lambda: self.store.store(rows))
        self._open.stored(now)
        self._servers = {key: counts for key, counts in self._servers.items() if key[3] == floor(now, key[0])}

    async def _prune(self, now: Slot) -> None:
        for step, kept in STEPS.items():
            work = partial(self.store.prune, step, floor(now - kept * SECOND, step), PRUNED)
            for _ in range(MAX_PRUNES):
                if await self._executor.run_blocking(work) < PRUNED:
                    break
