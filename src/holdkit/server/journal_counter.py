"""Counting the journal for roll-ups, by one server at a time. The theory of operation is in `rollups.py`."""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ..core.entries import Action
from ..core.model import SECOND, Slot
from ..engines.rollups import RollupPosition, RollupRow, RollupStore
from ..errors import CursorLost, HoldkitError
from ..kernel._async.following import AsyncFollower, end_of_journal
from ..kernel.results import JournalEntry
from .rollup_counts import (
    FACES,
    REST,
    STEPS,
    PoolCounts,
    Series,
    ServerCounts,
    count_effect,
    decode_pool,
    floor,
    journaled_refusals,
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
        return [RollupRow(*key, source, encode_counts(self.pools[key])) for key in sorted(self.changed)]

    def stored(self, now: Slot) -> None:
        """Everything is stored: keep only the intervals that may still grow."""
        self.changed.clear()
        self.pools = {key: counts for key, counts in self.pools.items() if key[3] + 2 * key[0] * SECOND > now}


def encode_counts(counts: PoolCounts | ServerCounts) -> str:
    """The body of a row."""
    return msgspec.json.encode(counts).decode()


class JournalCounter:
    """Counts the journal, if no other server does."""

    def __init__(self, running: Running, store: RollupStore, me: str) -> None:
        self._executor, self._store, self._me = running.kernel._executor, store, me
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
        self.latest_before: Slot = 0
        """The beginning of the latest interval that was stored when this process first looked; 0: none was."""

    async def round(self) -> None:
        """Count what is new."""
        position = await self._executor.run_blocking(self._store.load_position)
        head = _decode_head(position.body) if position.version else None
        if head is not None and not self.latest_before:
            self.latest_before = head.latest
        now = self._executor.now()
        if head is not None and head.holder != self._me and 0 < head.until - now <= LEASE:
            self._follower = None
            return
        try:
            if self._follower is None or position.version != self._version:
                await self._begin(position.version, head)
            await self._count()
        except CursorLost:
            log.warning(
                "the journal was cut back or archived: statistics go on from its end, with a gap",
                extra={"event": "statistics_gap"},
            )
            await self._begin(position.version, None)
        except PositionMoved:
            self._follower = (
                None  # another server has counted them meanwhile: the next round reads on from its position
            )
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
        row = entry.raw.entry
        if row.action is Action.JOURNAL_BASELINE:
            return
        interval = row.slot // SHORTEST
        for effect in row.effects:
            count_effect(self._counts(row.tenant, effect.pool.id, interval), row, effect)
        if row.refused is not None:
            for pool, counts in journaled_refusals(row.refused):
                self._counts(row.tenant, pool, interval).add(counts)

    def _counts(self, tenant: str, pool: str, interval: int) -> PoolCounts:
        key = (tenant, pool, interval)
        counts = self._fresh.get(key)
        if counts is None:
            self._fresh[key] = counts = PoolCounts()
        return counts

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
            if abs(slot - next(iter(members.values()))) < QUIET:  # far ahead: the clock was set back since
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
