"""Feeds: the changes of a tenant's pools, collected once for all watchers, however many pools and events there are.

One task per tenant follows the journal and keeps the latest state of each pool. A watcher reads what changed since its last
read, at most a few times a second. A slow watcher gets fewer and larger summaries; nothing is queued for it, and no hold ever
waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from heapq import nlargest
from typing import Final, Protocol, TypeVar

from ..core.entries import Effect
from ..core.model import Pool
from ..core.trees import parent_of
from ..errors import CursorLost, HoldkitError
from ..faces._async.kernel import AsyncKernel
from ..kernel._async.following import AsyncFollower
from ..kernel.results import JournalEntry
from ..wire.problems import Problem
from ..wire.stats import Sums as SumsDocument

log = logging.getLogger("holdkit.server")

T = TypeVar("T")

MAX_POOLS: Final = 50_000
"""Pools kept in memory per tenant; with more, an overview reports that it is not complete."""
MAX_SHOWN: Final = 1_000
"""Pools per summary; the rest is in the next one."""
PAGE: Final = 500
POLL: Final = 0.5
PAUSE: Final = 1.0
IDLE: Final = 60.0
"""Seconds after which an unused feed is closed."""


FULLEST: Final = 20
"""Pools that an overview names."""
FEW: Final = 1_000
"""Pools that can be ranked on the event loop."""
RANK_EVERY: Final = 1.0


class OffLoop(Protocol):
    """Does work that takes long on another thread."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Run the work there and return its result."""
        ...


class Feed:
    """The pools of one tenant, kept current from the journal."""

    def __init__(self, kernel: AsyncKernel, tenant: str) -> None:
        self._kernel, self._tenant = kernel, tenant
        self.pools: dict[str, Pool] = {}
        self.complete = True
        self.sums = Sums()
        self.actions: Counter[str] = Counter()
        """Entries since the feed started, by action."""
        self.tick = 0
        """Counts the entries that were applied."""
        self.epoch = 0
        """Counts full reloads: a watcher that knows an older epoch must reload too."""
        self._changed: OrderedDict[str, int] = OrderedDict()
        """Pool → the tick of its last change, in order of ticks."""
        self.forgotten = -1
        """Changes up to this tick may be missing in `_changed`: a watcher that is further behind must reload."""
        self._updated = asyncio.Event()
        self._ranking = asyncio.Lock()
        self._ranked: list[str] = []
        self._ranked_at = float("-inf")
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
                log.warning("the journal was truncated: the feed reloads", extra={"event": "feed_reloads"})
            except HoldkitError as failed:
                if self._kernel._executor.closed:
                    return
                log.warning("the feed cannot read the journal, will retry: %s", failed, extra={"event": "feed_unread"})
                await asyncio.sleep(PAUSE)

    async def _follow(self) -> None:
        executor = self._kernel._executor
        cursor = (
            await self._kernel.journal.cursor()
        )  # before the pools are read: a change in between is then seen twice, not never
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
                self._put(pool.raw)
            if len(page) < 1_000:
                break
            if len(self.pools) >= MAX_POOLS:
                self.complete = False
                break
            after = page[-1].id
        self._changed.clear()
        self.epoch += 1
        self.ready.set()
        self.notify()

    def _take(self, entries: list[JournalEntry]) -> None:
        for entry in entries:
            self.tick += 1
            row = entry.raw.entry
            if not row.part:
                self.actions[row.action.value] += 1
            removed = row.action.value == "pool.removed"
            for effect in row.effects:
                self._change(effect, removed or effect.pool.archived)
        self.notify()

    def _change(self, effect: Effect, removed: bool) -> None:
        pool = effect.pool
        if pool.id.startswith("~"):
            return
        known = self.pools.get(pool.id)
        if known is not None and (pool.slot, pool.version) < (known.slot, known.version) and pool.slot <= known.slot:
            return  # already seen when the pools were read
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

    async def fullest(self, off_loop: OffLoop) -> list[Pool]:
        """Return the fullest pools as they are now. With many pools, search for them at most once a second, off the loop."""
        if len(self.pools) <= FEW:
            return nlargest(FULLEST, self.pools.values(), key=_fullness)
        async with self._ranking:
            if time.monotonic() - self._ranked_at > RANK_EVERY:
                pools = list(self.pools.values())
                self._ranked = [pool.id for pool in await off_loop(lambda: nlargest(FULLEST, pools, key=_fullness))]
                self._ranked_at = time.monotonic()
        return [self.pools[id] for id in self._ranked if id in self.pools]

    def notify(self) -> None:
        """Wake the watchers."""
        self._updated.set()
        self._updated = asyncio.Event()

    async def wait(self, tick: int, seconds: float) -> None:
        """Wait until there is a change after `tick`, or the time is over."""
        if self.tick > tick:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._updated.wait()
        except TimeoutError:
            return

    def since(self, tick: int) -> tuple[list[Pool], list[str], int]:
        """Return the pools that changed after `tick`, the ids of those that were removed, and the tick that this covers."""
        names: list[str] = []
        for name in reversed(self._changed):
            if self._changed[name] <= tick:
                break
            names.append(name)
        names.reverse()
        reached = self.tick
        if len(names) > MAX_SHOWN:
            reached = self._changed[names[MAX_SHOWN - 1]] - 1
            if reached <= tick:  # one entry has as many pools as a summary: report the whole entry
                reached = self._changed[names[0]]
            names = [name for name in names if self._changed[name] <= reached]
        found = [self.pools[name] for name in names if name in self.pools]
        return found, [name for name in names if name not in self.pools], reached

    async def close(self) -> None:
        """Stop the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _fullness(pool: Pool) -> tuple[float, int]:
    used = pool.held + pool.consumed
    return (used / pool.total if pool.total else float(used > 0), used)


class Sums:
    """Sums over all pools, updated with each change. A pool has the units of those below it, too,
    so units are summed over the pools that are below no other."""

    def __init__(self) -> None:
        self.pools = self.total = self.held = self.consumed = self.available = self.over = self.full = 0

    def take(self, pool: Pool | None, sign: int) -> None:
        """Add a pool, or subtract it."""
        if pool is None:
            return
        self.pools += sign
        self.over += sign * pool.over
        self.full += sign * (pool.available == 0)
        if parent_of(pool.id) is None:
            self.total += sign * pool.total
            self.held += sign * pool.held
            self.consumed += sign * pool.consumed
            self.available += sign * pool.available

    def document(self) -> SumsDocument:
        """Return the sums as a document."""
        return SumsDocument(**vars(self))


class Feeds:
    """The feeds of all tenants that were requested recently."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._feeds: OrderedDict[str, Feed] = OrderedDict()
        """The least recently used first."""
        self._closing: set[asyncio.Task[None]] = set()

    def get(self, kernel: AsyncKernel, tenant: str) -> Feed:
        """Return a tenant's feed; start it if it is not running. At the limit of feeds, close one without watchers first."""
        feed = self._feeds.get(tenant)
        if feed is None:
            if len(self._feeds) >= self._most:
                self._close_one()
            feed = self._feeds[tenant] = Feed(kernel, tenant)
        self._feeds.move_to_end(tenant)
        feed.used = time.monotonic()
        return feed

    def _close_one(self) -> None:
        for tenant, feed in self._feeds.items():
            if not feed.watchers:
                del self._feeds[tenant]
                task = asyncio.create_task(feed.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
                return
        raise Problem(503, "feeds_too_many", "too many tenants are being watched: retry later", retry_after=5.0)

    def wake(self) -> None:
        """Wake all watchers, because the server is stopping."""
        for feed in self._feeds.values():
            feed.notify()

    async def close_idle(self) -> None:
        """Close feeds that have no watchers and were not used for `IDLE` seconds."""
        horizon = time.monotonic() - IDLE
        for tenant, feed in list(self._feeds.items()):
            if not feed.watchers and feed.used < horizon:
                del self._feeds[tenant]
                await feed.close()

    async def close(self) -> None:
        """Close all feeds."""
        feeds = list(self._feeds.values())
        self._feeds.clear()
        for feed in feeds:
            await feed.close()
