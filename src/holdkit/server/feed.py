"""The feed: what changed, gathered once per tenant for everybody who watches, however many pools and events there are.

One task follows the journal and keeps the latest of each pool; a watcher takes what changed since it last looked, at most a
few times a second. A slow watcher gets fewer and fuller summaries; nothing is queued for it, and no hold ever waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from typing import Any, Final

from ..core.entries import Effect
from ..core.model import Pool
from ..errors import CursorLost, HoldkitError
from ..faces._async.kernel import AsyncKernel
from ..kernel._async.following import AsyncFollower
from ..kernel.results import JournalEntry
from .problems import Problem

log = logging.getLogger("holdkit.server")

MAX_POOLS: Final = 50_000
"""Pools kept in memory per tenant; beyond that an overview says that it is not complete."""
MAX_SHOWN: Final = 1_000
"""Pools of one summary; the rest is in the next one."""
PAGE: Final = 500
POLL: Final = 0.5
PAUSE: Final = 1.0
MAX_FEEDS: Final = 100
"""Tenants that can be watched at a time: each costs a follower, and memory for its pools."""
IDLE: Final = 60.0
"""Seconds that a feed lives on after the last one who asked."""


class Feed:
    """One tenant's pools as the journal tells of them."""

    def __init__(self, kernel: AsyncKernel, tenant: str) -> None:
        self._kernel, self._tenant = kernel, tenant
        self.pools: dict[str, Pool] = {}
        self.complete = True
        self.sums = Sums()
        self.actions: Counter[str] = Counter()
        """Entries seen since the feed began, by action."""
        self.tick = 0
        """Grows with every page of news."""
        self.epoch = 0
        """Grows when everything was read anew: who knows an older one must too."""
        self._changed: OrderedDict[str, int] = OrderedDict()
        """Pool → the tick of its last change, in order of ticks."""
        self.forgotten = -1
        """Changes up to this tick may be missing there: who is that far behind must read everything anew."""
        self._news = asyncio.Event()
        self.watchers = 0
        self.used = time.monotonic()
        self.ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="holdkit-feed")

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
                return
            except CursorLost:
                log.warning("the journal was cut back: the feed begins anew")
            except HoldkitError as failed:
                if self._kernel.closed:
                    return
                log.warning("the feed could not read, will try again: %s", failed)
                await asyncio.sleep(PAUSE)

    async def _follow(self) -> None:
        executor = self._kernel.executor
        cursor = (
            await self._kernel.cursor()
        )  # before the pools are read: what happens meanwhile is told twice, not never
        await self._load()
        follower = AsyncFollower(executor, self._tenant)
        await follower.begin(cursor)
        committed = executor.committed
        executor.listen()
        while not committed.closed:
            count = committed.count
            entries = await follower.page(PAGE)
            if entries:
                self._take(entries)
            if follower.at_end:
                await committed.wait(count, POLL)

    async def _load(self) -> None:
        self.pools.clear()
        self.sums = Sums()
        self.complete = True
        after = ""
        while True:
            page = await self._kernel.pools(after=after, limit=1_000)
            for pool in page:
                self._put(pool)
            if len(page) < 1_000:
                break
            if len(self.pools) >= MAX_POOLS:
                self.complete = False
                break
            after = page[-1].id
        self._changed.clear()
        self.epoch += 1
        self.ready.set()
        self.tell()

    def _take(self, entries: list[JournalEntry]) -> None:
        self.tick += 1
        for entry in entries:
            told = entry.entry
            if not told.part:
                self.actions[told.action.value] += 1
            removed = told.action.value == "pool.removed"
            for effect in told.effects:
                self._change(effect, removed or effect.pool.archived)
        self.tell()

    def _change(self, effect: Effect, removed: bool) -> None:
        pool = effect.pool
        if pool.id.startswith("~"):
            return
        known = self.pools.get(pool.id)
        if known is not None and (pool.slot, pool.version) < (known.slot, known.version) and pool.slot <= known.slot:
            return  # told of already, when the pools were read
        if removed:
            self.sums.take(self.pools.pop(pool.id, None), -1)
        elif known is not None or len(self.pools) < MAX_POOLS:
            self._put(pool)
        else:
            self.complete = False
            return
        self._changed[pool.id] = self.tick
        self._changed.move_to_end(pool.id)
        if len(self._changed) > MAX_POOLS:
            _, self.forgotten = self._changed.popitem(last=False)

    def _put(self, pool: Pool) -> None:
        self.sums.take(self.pools.get(pool.id), -1)
        self.sums.take(pool, 1)
        self.pools[pool.id] = pool

    def tell(self) -> None:
        """Wake whoever waits for news."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, tick: int, seconds: float) -> None:
        """Wait until there is something after `tick`, or the time is over."""
        if self.tick > tick:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    def since(self, tick: int) -> tuple[list[Pool], list[str], int]:
        """Pools that changed after `tick` as they are now, ids of those that are gone, and the tick this brings one to."""
        names: list[str] = []
        for name in reversed(self._changed):
            if self._changed[name] <= tick:
                break
            names.append(name)
        names.reverse()
        reached = self.tick
        if len(names) > MAX_SHOWN:
            reached = self._changed[names[MAX_SHOWN - 1]] - 1
            if reached <= tick:  # one page of news was larger than a summary: tell all of that page
                reached = self._changed[names[0]]
            names = [name for name in names if self._changed[name] <= reached]
        found = [self.pools[name] for name in names if name in self.pools]
        return found, [name for name in names if name not in self.pools], reached

    async def close(self) -> None:
        """End the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Sums:
    """Counters over all pools, kept current change by change."""

    def __init__(self) -> None:
        self.pools = self.total = self.held = self.consumed = self.available = self.over = self.full = 0

    def take(self, pool: Pool | None, sign: int) -> None:
        """Count a pool in, or out."""
        if pool is None:
            return
        self.pools += sign
        self.total += sign * pool.total
        self.held += sign * pool.held
        self.consumed += sign * pool.consumed
        self.available += sign * pool.available
        self.over += sign * pool.over
        self.full += sign * (pool.available == 0)

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


class Feeds:
    """The feeds of all tenants that anybody asked for lately."""

    def __init__(self) -> None:
        self._feeds: OrderedDict[str, Feed] = OrderedDict()

    def get(self, kernel: AsyncKernel, tenant: str) -> Feed:
        """A tenant's feed, begun if there is none."""
        feed = self._feeds.get(tenant)
        if feed is None:
            if len(self._feeds) >= MAX_FEEDS:
                raise Problem(503, "feeds_too_many", "too many tenants are being watched", retry_after=IDLE)
            feed = self._feeds[tenant] = Feed(kernel, tenant)
        feed.used = time.monotonic()
        return feed

    def wake(self) -> None:
        """Let everybody who waits for news look up: the server is stopping."""
        for feed in self._feeds.values():
            feed.tell()

    async def tidy(self) -> None:
        """End those that nobody has asked for in a while."""
        horizon = time.monotonic() - IDLE
        for tenant, feed in list(self._feeds.items()):
            if not feed.watchers and feed.used < horizon:
                del self._feeds[tenant]
                await feed.close()

    async def close(self) -> None:
        """End all."""
        feeds = list(self._feeds.values())
        self._feeds.clear()
        for feed in feeds:
            await feed.close()
