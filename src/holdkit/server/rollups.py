"""Roll-ups: what happened per pool and per server, by intervals of 10 s, 5 min and 1 h, in the engine's own database.

Theory of operation
-------------------

*Two kinds of rows.* What is in the journal is counted from the journal, by one writer per database, whatever process made the
change. What is not there (requests, latencies, refusals) each server counts itself and writes under a source of its own, so that
each row has one writer; a read adds the sources up. A refusal in a process that embeds Holdkit is seen by no server.

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

*Servers that are away.* Each server writes a row every interval, even if nothing happened: where there is none, nobody was
recording, and a plot has a gap. Refusals and requests of the last seconds of a server that is killed are lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ..core.entries import Action
from ..core.model import SECOND, Slot
from ..engines.rollups import RollupPosition, RollupRow, RollupStore
from ..errors import CursorLost, HoldkitError, Refused
from ..kernel._async.following import AsyncFollower, end_of_journal
from ..kernel.results import JournalEntry
from .rollup_counts import (
    FACES,
    REST,
    SERVER,
    STEPS,
    PoolCounts,
    Series,
    ServerCounts,
    count_effect,
    decode_pool,
    floor,
    refusals_of,
)

if TYPE_CHECKING:
    from .application import Running

log = logging.getLogger("holdkit.server")

MAX_SERIES: Final = 2_000
"""Pools of a database that have a series of their own; of refusals, pools of one server process and one interval."""
QUIET: Final = 3_600 * SECOND
"""A series that has not changed for so long may make room for another one."""
LEASE: Final = 60 * SECOND
PAGE: Final = 500
SHORTEST: Final = min(STEPS) * SECOND
MAX_UNSTORED: Final = 20_000
"""Entries that are counted before their rows are stored."""
BACK: Final = 20_000
"""Entries per lane that are counted when a database is recorded for the first time."""
PRUNE_EVERY: Final = 60.0
PRUNED: Final = 5_000
"""Rows that one transaction prunes."""
MAX_PRUNES: Final = 20
"""Transactions of one round of pruning, for each step."""

Key = tuple[int, str, str, Slot]
"""Step, tenant, series, beginning of the interval."""


class Head(Struct, frozen=True):
    """The body of the stored position."""

    cursor: str
    holder: str
    until: Slot
    """The end of the holder's lease."""
    latest: Slot
    """No row begins later."""


_decode_head: Final = msgspec.json.Decoder(Head).decode


class OpenRows:
    """The rows that are still growing, and which of them are not stored yet."""

    def __init__(self) -> None:
        self.pools: dict[Key, PoolCounts] = {}
        self.changed: set[Key] = set()

    def add(self, series: Series, slot: Slot, counts: PoolCounts) -> None:
        """Count something in the intervals that this slot is in."""
        for step in STEPS:
            key = (step, *series, floor(slot, step))
            known = self.pools.get(key)
            if known is None:
                self.pools[key] = known = PoolCounts()
            known.add(counts)
            self.changed.add(key)

    def rows(self, source: str) -> list[RollupRow]:
        """What is to be stored."""
        return [RollupRow(*key, source, _encode(self.pools[key])) for key in sorted(self.changed)]

    def stored(self, now: Slot) -> None:
        """Everything is stored: keep only the intervals that may still grow."""
        self.changed.clear()
        self.pools = {key: counts for key, counts in self.pools.items() if key[3] + 2 * key[0] * SECOND > now}


def _encode(counts: PoolCounts | ServerCounts) -> str:
    return msgspec.json.encode(counts).decode()


class JournalCounter:
    """Counts the journal, if no other server does."""

    def __init__(self, running: Running, store: RollupStore, me: str) -> None:
        self._executor, self._store, self._me = running.kernel.executor, store, me
        self._follower: AsyncFollower | None = None
        self._version = -1
        self._cursor = ""
        self._open = OpenRows()
        self._fresh: dict[tuple[str, str, int], PoolCounts] = {}
        """By tenant, pool and number of the shortest interval: what is not in the rows yet."""
        self._latest: Slot = 0
        self._before: Slot = 0
        """Rows of intervals up to here may be stored already."""
        self._members: OrderedDict[Series, Slot] = OrderedDict()
        """Pools with a series of their own, and when they changed last; the one that rested longest first."""

    async def round(self) -> None:
        """Count what is new."""
        position = await self._executor.run_blocking(self._store.load_position)
        head = _decode_head(position.body) if position.version else None
        now = self._executor.now()
        if head is not None and head.holder != self._me and 0 < head.until - now <= LEASE:
            self._follower = None
            return
        try:
            if self._follower is None or position.version != self._version:
                await self._begin(position.version, head)
            await self._count()
        except CursorLost:
            log.warning("the journal was cut back or archived: statistics go on from its end, with a gap")
            await self._begin(position.version, None)
        except PositionMoved:
            self._follower = None  # another server has counted them: the next round reads on from its position
        except BaseException:
            self._follower = None  # what was counted and not stored is counted again
            raise

    async def _begin(self, version: int, head: Head | None) -> None:
        self._open, self._version = OpenRows(), version
        self._fresh.clear()
        self._follower = None
        self._latest = self._before = 0 if head is None else head.latest
        back = BACK if version == 0 else 0
        self._cursor = await end_of_journal(self._executor, back) if head is None else head.cursor
        follower = AsyncFollower(self._executor, None)
        await follower.begin(self._cursor)
        self._follower = follower

    async def _count(self) -> None:
        assert self._follower is not None
        unstored = 0
        while True:
            entries = await self._follower.page(PAGE)
            for entry in entries:
                self._take(entry)
            unstored += len(entries)
            if entries:
                self._cursor = entries[-1].cursor
            if unstored and (self._follower.at_end or unstored >= MAX_UNSTORED):
                await self._write()
                unstored = 0
            if self._follower.at_end or self._follower is None:
                return

    def _take(self, entry: JournalEntry) -> None:
        row = entry.entry
        if row.action is Action.JOURNAL_BASELINE:
            return
        interval = row.slot // SHORTEST
        for effect in row.effects:
            key = (row.tenant, effect.pool.id, interval)
            counts = self._fresh.get(key)
            if counts is None:
                self._fresh[key] = counts = PoolCounts()
            count_effect(counts, row, effect)

    async def _roll_up(self) -> None:
        """Add what was counted to the rows of its intervals."""
        for (tenant, pool, interval), counts in self._fresh.items():
            slot = interval * SHORTEST
            series = self._series(tenant, pool, slot)
            await self._recall(series, slot)
            self._open.add(series, slot, counts.flows() if series[1].startswith("~") else counts)
            self._latest = max(self._latest, slot)
        self._fresh.clear()

    def _series(self, tenant: str, pool: str, slot: Slot) -> Series:
        """The series that counts a pool."""
        if pool.startswith("~"):
            return (tenant, FACES)
        members, series = self._members, (tenant, pool)
        if series not in members and len(members) >= MAX_SERIES:
            if slot - next(iter(members.values())) < QUIET:
                return (tenant, REST)
            members.popitem(last=False)
        members[series] = slot
        members.move_to_end(series)
        return series

    async def _recall(self, series: Series, slot: Slot) -> None:
        """Read rows that may be stored and are not in memory: of intervals before our time, or that are no longer kept open."""
        for step in STEPS:
            at = floor(slot, step)
            key = (step, *series, at)
            if key not in self._open.pools and at <= self._before:
                asked = partial(self._store.load, step, *series, at, at + 1, 1_000)
                rows = await self._executor.run_blocking(asked)
                mine = [row for row in rows if not row.source]
                if mine:
                    self._open.pools[key] = decode_pool(mine[0].body)

    async def _write(self) -> None:
        await self._roll_up()
        now = self._executor.now()
        head = Head(self._cursor, self._me, now + LEASE, self._latest)
        rows = self._open.rows("")
        position = RollupPosition(self._version, _encode_head(head))
        if not await self._executor.run_blocking(lambda: self._store.store(rows, position)):
            raise PositionMoved("another server has counted the journal meanwhile")
        self._version += 1
        self._open.stored(now)
        self._before = max(self._before, now - 10 * SECOND)


class PositionMoved(HoldkitError):
    """Another server has counted the journal meanwhile."""


def _encode_head(head: Head) -> str:
    return msgspec.json.encode(head).decode()


class Rollups:
    """The roll-ups of one server: counts what this process sees, and the journal if it is the one that does."""

    def __init__(self, running: Running, store: RollupStore) -> None:
        self.store = store
        self._running, self._executor = running, running.kernel.executor
        self._me = os.urandom(8).hex()
        self._journal = JournalCounter(running, store, self._me)
        self._refused: dict[Series, PoolCounts] = {}
        self._open = OpenRows()
        self._servers: dict[Key, ServerCounts] = {}
        self._last = ServerCounts(latencies=list(running.metrics.latencies))
        self._pruned = float("-inf")
        self._one_round = asyncio.Lock()

    def refused(self, tenant: str, error: Refused, named: Iterable[str] = ()) -> None:
        """Count a refusal; a repeated answer is none."""
        if error.replayed:
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
        while True:
            try:
                await self.round()
            except HoldkitError as failed:
                log.warning("statistics could not be recorded, will retry: %s", failed)
            await asyncio.sleep(every)

    async def round(self) -> None:
        """Store what happened since the last round."""
        async with self._one_round:
            await self._report()
            await self._journal.round()
            if time.monotonic() - self._pruned > PRUNE_EVERY:
                self._pruned = time.monotonic()
                await self._prune()

    async def _report(self) -> None:
        """Store what this process has seen."""
        now, metrics = self._executor.now(), self._running.metrics
        seen = ServerCounts(
            requests=metrics.requests,
            errors=sum(count for status, count in metrics.statuses.items() if status >= 500),
            latencies=list(metrics.latencies),
        )
        fresh = ServerCounts(
            requests=seen.requests - self._last.requests,
            errors=seen.errors - self._last.errors,
            latencies=[a - b for a, b in zip(seen.latencies, self._last.latencies, strict=True)],
            queue=self._running.kernel.stats.waiting,
        )
        self._last = seen
        for step in STEPS:
            self._servers.setdefault((step, "", SERVER, floor(now, step)), ServerCounts()).add(fresh)
        refused, self._refused = self._refused, {}
        for series, counts in refused.items():
            self._open.add(series, now, counts)
        rows = [
            *[RollupRow(*key, self._me, _encode(counts)) for key, counts in self._servers.items()],
            *self._open.rows(self._me),
        ]
        await self._executor.run_blocking(lambda: self.store.store(rows))
        self._open.stored(now)
        self._servers = {key: counts for key, counts in self._servers.items() if key[3] == floor(now, key[0])}

    async def _prune(self) -> None:
        now = self._executor.now()
        for step, kept in STEPS.items():
            work = partial(self.store.prune, step, floor(now - kept * SECOND, step), PRUNED)
            for _ in range(MAX_PRUNES):
                if await self._executor.run_blocking(work) < PRUNED:
                    break
