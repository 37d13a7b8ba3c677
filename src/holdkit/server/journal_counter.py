"""Counting the journal, in memory and in the database. The theory of operation is in `rollups.py`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from ..core.entries import Action
from ..core.model import Slot
from ..engines.rollups import RECORDED, RollupPosition, RollupRow, RollupStore
from ..errors import CursorLost
from ..kernel._async.executor import AsyncExecutor
from ..kernel._async.following import PAGE, AsyncFollower, end_of_journal
from ..kernel.results import JournalEntry
from .rollup_counts import (
    FACES,
    MAX_INTERVALS,
    RECENT_STEP,
    REST,
    STEP,
    PoolCounts,
    Recent,
    Refusals,
    decode_pool,
    floor,
    journaled_refusals,
    series_of,
)

log = logging.getLogger("holdkit.server")

MAX_SERIES: Final = 2_000
"""Pools of a tenant that have a row of their own in one interval."""
MAX_UNSTORED: Final = 20_000
"""Entries that are counted before their rows are stored."""
BACK: Final = 20_000
"""Entries per lane that are counted when a database is recorded for the first time."""
PRUNED: Final = 5_000
"""Rows that one transaction prunes."""
MAX_PRUNES: Final = 20


class JournalCounter:
    """Counts the journal as it grows."""

    def __init__(
        self, executor: AsyncExecutor, store: RollupStore, pools: Recent[PoolCounts], refusals: Recent[Refusals]
    ) -> None:
        self._executor, self._store, self._pools, self._refusals = executor, store, pools, refusals
        self._follower: AsyncFollower | None = None
        self._version: int | None = None
        """Of the stored position behind which the fresh counts begin."""
        self._seen: dict[int, int] = {}
        """By lane, the number of the last entry that is counted in memory."""
        self._read_counts: dict[tuple[str, str, Slot, bool], PoolCounts] = {}
        """By tenant, pool, recent interval and whether they are in memory already: counts that are in no others yet."""
        self._fresh: dict[tuple[str, Slot], dict[str, PoolCounts]] = {}
        """By tenant and interval, then by series: counts that are in no row yet."""
        self._recorded: Slot | None = None
        """The last interval in which this process has stored anything."""

    async def round(self) -> None:
        """Count new entries, and store the counts unless another process has stored since our last round."""
        position = await self._executor.run_blocking(self._store.load_position)
        try:
            overtaken = self._version not in (None, position.version)
            if overtaken and self._follower is not None:
                while not await self._read():  # up to the new position at least, before reading begins again there
                    pass
            if overtaken or self._follower is None:
                await self._begin(position)
            while True:
                at_end = await self._read()
                if overtaken or not await self._store_fresh() or at_end:
                    return
        except CursorLost:
            self._seen.clear()
            for counts in (self._pools, self._refusals):
                counts.clear(self._executor.now())
            await self._begin(position)

    async def _begin(self, position: RollupPosition) -> None:
        """Read from the stored position on."""
        self._follower, self._version = None, position.version
        self._fresh.clear()
        self._read_counts.clear()
        cursor = position.cursor if position.version else await end_of_journal(self._executor, BACK)
        follower = AsyncFollower(self._executor, None)
        try:
            await follower.begin(cursor)
        except CursorLost:
            log.warning(
                "the journal was cut back or archived: statistics continue from its end, with a gap",
                extra={"event": "statistics_gap"},
            )
            follower = AsyncFollower(self._executor, None)
            await follower.begin(await end_of_journal(self._executor))
        self._follower = follower

    async def _read(self) -> bool:
        """Count entries, at most about `MAX_UNSTORED`. Return whether the end of the journal is reached."""
        assert self._follower is not None
        count = 0
        while True:
            entries = await self._follower.page(PAGE)
            for entry in entries:
                self._count(entry)
            count += len(entries)
            if self._follower.at_end or count >= MAX_UNSTORED:
                break
        for (tenant, pool, at, in_memory), counts in self._read_counts.items():
            series = series_of(tenant, pool)
            if series[1] == FACES:
                counts = counts.flows()
            if not in_memory:
                self._pools.at(series, at).add(counts)
            self._fresh.setdefault((tenant, floor(at, STEP)), {}).setdefault(series[1], PoolCounts()).add(counts)
        self._read_counts.clear()
        self._pools.trim(self._executor.now())
        return self._follower.at_end

    def _count(self, row: JournalEntry) -> None:
        entry, lane, number = row.raw.entry, row.raw.row.lane, row.raw.row.seq
        if entry.action is Action.JOURNAL_BASELINE:
            return
        in_memory = number <= self._seen.get(lane, 0)
        if not in_memory:
            self._seen[lane] = number
        at = floor(entry.slot, RECENT_STEP)
        for effect in entry.effects:
            key = entry.tenant, effect.pool.id, at, in_memory
            counts = self._read_counts.get(key)
            if counts is None:
                self._read_counts[key] = counts = PoolCounts()
            counts.count(entry, effect)
        if entry.refused is not None and not in_memory:
            for pool, refused in journaled_refusals(entry.refused):
                self._refusals.at(series_of(entry.tenant, pool), at).add(refused)

    async def _store_fresh(self) -> bool:
        """Add the fresh counts to the rows, and move the position behind them. Return False if another process has moved it."""
        assert self._follower is not None
        assert self._version is not None
        now = floor(self._executor.now(), STEP)
        if not self._fresh and self._recorded == now:
            return True
        position = RollupPosition(self._version, self._follower.cursor())
        if not await self._executor.run_blocking(lambda: self._store.store([*self._rows(now)], position)):
            return False
        self._version += 1
        self._fresh.clear()
        if self._recorded != now:
            self._recorded = now
            for _ in range(MAX_PRUNES):
                if await self._executor.run_blocking(partial(self._store.prune, MAX_INTERVALS, PRUNED)) < PRUNED:
                    break
        return True

    def _rows(self, recorded: Slot) -> Iterator[RollupRow]:
        """Yield the rows of the fresh counts, with what is stored of their intervals."""
        yield RollupRow("", RECORDED, recorded, "[]")
        for (tenant, at), fresh in self._fresh.items():
            stored = {row.series: row.body for row in self._store.load_interval(tenant, at)}
            rows: dict[str, PoolCounts] = {}
            for series, counts in fresh.items():
                if series not in stored and series != FACES and len({*stored, *rows}) >= MAX_SERIES:
                    series, counts = REST, counts.flows()
                if series not in rows:
                    rows[series] = decode_pool(stored[series]) if series in stored else PoolCounts()
                rows[series].add(counts)
            for series, counts in rows.items():
                yield RollupRow(tenant, series, at, msgspec.json.encode(counts).decode())
