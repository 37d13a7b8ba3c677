"""Storage quotas: what a tenant may store, checked at admission.

Theory of operation. Nothing is counted where commands are decided, so a quota does not make a hold slower. A server
counts what a tenant with a quota has stored, every minute if it can (`CheckpointedCounter`, in bounded steps, off the event loop), and
in between adds an estimate for each request that it admits: `used = counted + estimated since`. A refused request stores nothing, or an
answer for retries, so its estimate is taken back: otherwise one key could use up a quota with refused requests. A request that
may store something new is refused while `used` exceeds the quota. A request that ends or changes what exists (confirm, release, extend, return,
expire, resize, archive, and all that removes) adds to the estimate and is never refused: otherwise units that are held at a full quota
could not be given back.

A table that is bounded for all tenants together (`max_pools`, `max_holds`, `max_operations`: on the memory engine, or
where an operator has set them) is divided in the same way: one tenant may have `tenants.table_share` of it, so that it cannot fill it alone.

A tenant is counted before others when this server's own estimate has reached an eighth of the quota, and when it begins to refuse. So
one server exceeds a quota by the requests under way, and n servers together by about n eighths. Until the first count is over (at the
start of a server, and for a tenant's first request) nothing is refused. The default tenant has a quota like any other, but may have
all of a bounded table.

*What counting costs.* A count reads every row of a tenant: 45 ms of processor time for 100,000 rows on SQLite. So the server rests after
each count of a tenant that it has counted before, `REST_FACTOR` times as long as the count took, however many tenants there are.
Requests that ask for a usage meanwhile get the last count. Many large tenants are counted less often than every minute; until its turn
comes a tenant is judged by its estimate.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from ..core.bounds import Limits
from ..errors import HoldkitError
from ..kernel._async.executor import AsyncExecutor
from ..kernel.reports import StorageUsage
from ..wire.problems import Problem
from ..wire.tenants import Quota
from .checkpoints import CheckpointedCounter
from .directory import Directory
from .settings import Settings
from .tenants import StoredTenant

log = logging.getLogger("holdkit.server")

COMMAND_BYTES: Final = 1_300
"""What a hold stores beside its text: a row of its own, an entry, and its recorded answer. Measured on SQLite."""
COPIES: Final = 3
"""How often the text of a request is stored: in these three rows."""
COMMAND_ROWS: Final = 3
PART: Final = 8
"""The part of a quota that a server lets its estimate reach before it counts."""
MAX_ESTIMATES: Final = 10_000
"""Tenants whose estimates are kept; the least recently active are forgotten, and counted anew when they return."""
FRESH: Final = 1.0
"""Seconds for which a count is not repeated."""
REST_FACTOR: Final = 49
"""The rest after a count, in times its duration: so counting takes a fiftieth of one processor at most."""
COUNTS: Final = 2
"""Counts at a time: each keeps a thread that reads busy."""


class Amounts(NamedTuple):
    """What is used, added or allowed, of each thing that is bounded. Allowed: None is no bound."""

    bytes: int | None
    rows: int | None
    pools: int | None
    live_holds: int | None
    operations: int | None


UNBOUNDED: Final = Amounts(None, None, None, None, None)


class Estimate:
    """The storage of one tenant: the last count, the estimate since, and how much more it may store.

    A new count or quota recomputes how much more it may store, so that a request costs two comparisons.
    """

    __slots__ = (
        "added_bytes", "allowed", "commands", "counted", "full_bytes", "full_commands", "limits", "next_count", "soon_bytes",
        "soon_commands", "stored", "wanted",
    )  # fmt: skip

    def __init__(self, allowed: Amounts | None, stored: StoredTenant | None, limits: Limits) -> None:
        self.counted: StorageUsage | None = None
        self.added_bytes = self.commands = 0
        self.next_count = 0.0
        """When it may be counted again, on the process's own clock."""
        self.wanted = allowed is not None
        """Whether it is to be counted now."""
        self.allow(allowed, stored, limits)

    def allow(self, allowed: Amounts | None, stored: StoredTenant | None, limits: Limits) -> None:
        """Set what the tenant may store (None: anything), and the record and limits that this was computed from."""
        self.allowed, self.stored, self.limits = allowed, stored, limits
        self.measure()

    def measure(self) -> None:
        """Compute what may be added until the quota is full, and until it is to be counted again."""
        counted, allowed = self.counted, self.allowed
        self.full_bytes = self.full_commands = self.soon_bytes = self.soon_commands = math.inf
        if counted is None or allowed is None:
            return
        if allowed.bytes is not None:
            self.full_bytes, self.soon_bytes = allowed.bytes - counted.bytes, allowed.bytes / PART
        rows = (counted.rows, counted.pools, counted.live_holds, counted.operations)
        for most, its, each in zip(allowed[1:], rows, (COMMAND_ROWS, 1, 1, 1), strict=True):
            if most is not None:
                self.full_commands = min(self.full_commands, (most - its) / each)
                self.soon_commands = min(self.soon_commands, most / PART / each)

    @property
    def full(self) -> bool:
        """Return whether nothing more may be stored."""
        return self.added_bytes >= self.full_bytes or self.commands >= self.full_commands

    def used(self) -> Amounts:
        """Return the estimated amounts that are stored."""
        found, more = self.counted or StorageUsage(), self.commands
        return Amounts(
            found.bytes + self.added_bytes,
            found.rows + COMMAND_ROWS * more,
            found.pools + more,
            found.live_holds + more,
            found.operations + more,
        )


class Quotas:
    """The storage quotas of all tenants, by the counts and estimates of this server."""

    def __init__(
        self,
        executor: AsyncExecutor,
        directory: Directory,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor, self._directory, self._every = executor, directory, settings.upkeep.usage_every
        tenants = settings.tenants
        self._default = Quota(bytes=tenants.quota_bytes, rows=tenants.quota_rows)
        self._share = tenants.table_share
        self._clock = clock
        self._counter = CheckpointedCounter(executor)
        self._journal = asyncio.Lock()
        self._semaphore = asyncio.Semaphore(COUNTS)
        self._tasks: dict[str, asyncio.Task[StorageUsage]] = {}
        """The counts that are under way, by tenant."""
        self._estimates: OrderedDict[str, Estimate] = OrderedDict()
        self._recent: OrderedDict[str, tuple[float, StorageUsage]] = OrderedDict()
        """What was counted last, and until when it is not counted again."""
        self._rests_until = float("-inf")
        self._wake = asyncio.Event()

    @property
    def full(self) -> int:
        """Return how many tenants may store nothing more."""
        return sum(estimate.full for estimate in self._estimates.values())

    def quota_of(self, tenant: str) -> Quota:
        """Return the quota of a tenant: its own, or that of the settings."""
        stored = self._directory.tenants.get(tenant)
        return self._default if stored is None or stored.quota is None else stored.quota

    def _estimate(self, tenant: str, stored: StoredTenant | None, limits: Limits) -> Estimate:
        """Make the estimate of a tenant that is new here, or whose quota or limits have changed."""
        quota = self._default if stored is None or stored.quota is None else stored.quota
        tables = [
            None if bound is None or not tenant else max(1, int(self._share * bound))  # the default tenant may have all
            for bound in (limits.max_pools, limits.max_holds, limits.max_operations)
        ]
        found = Amounts(quota.bytes, quota.rows, *tables)
        allowed = None if found == UNBOUNDED else found
        estimate = self._estimates.get(tenant)
        if estimate is None:
            estimate = self._estimates[tenant] = Estimate(allowed, stored, limits)
            if len(self._estimates) > MAX_ESTIMATES:
                self._estimates.popitem(last=False)
        else:
            estimate.allow(allowed, stored, limits)
            estimate.wanted = allowed is not None and estimate.counted is None
        if estimate.wanted:
            self._wake.set()
        return estimate

    def add(self, tenant: str, commands: int, size: int) -> Problem | None:
        """Add a request, by its commands and the bytes of its body, to the estimate of its tenant. Return the problem of a request that
        would store something new now, or None if it may."""
        stored, limits = self._directory.tenants.get(tenant), self._executor.engine.stored.in_force
        estimate = self._estimates.get(tenant)
        if estimate is None or estimate.stored is not stored or estimate.limits is not limits:
            estimate = self._estimate(tenant, stored, limits)
        allowed = estimate.allowed
        if allowed is None:
            return None
        full = estimate.full
        if full or estimate.added_bytes >= estimate.soon_bytes or estimate.commands >= estimate.soon_commands:
            self._count_soon(estimate)
        refusal = _exceeded(estimate.used(), allowed) if full else None
        self._estimates.move_to_end(tenant)
        estimate.added_bytes += COPIES * size + COMMAND_BYTES * commands
        estimate.commands += commands
        return refusal

    def take_back(self, tenant: str, commands: int, size: int) -> None:
        """Take commands and bytes out of the estimate again that a request has added and not stored. A count that was made meanwhile may
        have taken them out already."""
        estimate = self._estimates.get(tenant)
        if estimate is not None:
            estimate.added_bytes = max(0, estimate.added_bytes - COPIES * size - COMMAND_BYTES * commands)
            estimate.commands = max(0, estimate.commands - commands)

    def _count_soon(self, estimate: Estimate) -> None:
        if not estimate.wanted and self._clock() >= estimate.next_count:
            estimate.wanted = True
            self._wake.set()

    async def usage(self, tenant: str) -> StorageUsage:
        """Count what a tenant has stored. Return the last count instead if it is recent, or if counts rest. Cancelling the caller does not
        stop a count, so that the next caller finds its result."""
        recent = self._recent.get(tenant)
        if recent is not None and self._clock() < max(recent[0], self._rests_until):
            return recent[1]
        return await asyncio.shield(self._count(tenant))

    def _count(self, tenant: str) -> asyncio.Task[StorageUsage]:
        """Start counting a tenant, or join the count that runs. Few tenants are counted at a time."""
        task = self._tasks.get(tenant)
        if task is None:
            task = self._tasks[tenant] = asyncio.create_task(self._count_now(tenant), name="holdkit-usage")
            task.add_done_callback(lambda _: self._tasks.pop(tenant, None))
        return task

    async def _count_now(self, tenant: str) -> StorageUsage:
        estimate = self._estimates.get(tenant) or Estimate(None, None, self._executor.limits)
        async with self._semaphore:
            began = self._clock()
            async with self._journal:
                await self._counter.catch_up()
            added_bytes, commands = estimate.added_bytes, estimate.commands
            counted = await self._counter.usage(tenant)
        estimate.counted, estimate.wanted = counted, False
        estimate.added_bytes -= added_bytes  # what was added meanwhile may not have been counted
        estimate.commands -= commands
        estimate.measure()
        now = self._clock()
        if tenant in self._recent:
            self._rests_until = max(self._rests_until, now) + REST_FACTOR * (now - began)
        estimate.next_count = now + FRESH
        self._recent[tenant] = (estimate.next_count, counted)
        self._recent.move_to_end(tenant)
        if len(self._recent) > MAX_ESTIMATES:
            self._recent.popitem(last=False)
        return counted

    def forget(self, tenant: str) -> None:
        """Forget what was counted: the tenant was deleted, and its name may be used again."""
        self._estimates.pop(tenant, None)
        self._recent.pop(tenant, None)

    async def close(self) -> None:
        """Stop counting."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stay_current(self) -> None:
        """Count until cancelled: changed tenants every minute, and first those whose count is wanted."""
        while True:
            try:
                async with asyncio.timeout(self._every):
                    await self._wake.wait()
                due = False
            except TimeoutError:
                due = True
            self._wake.clear()
            try:
                await self._count_all(due=due)
            except HoldkitError as failed:
                log.warning(
                    "cannot count what tenants have stored, will retry: %s",
                    failed,
                    extra={"event": "storage_uncounted"},
                )
                await asyncio.sleep(1.0)

    async def _count_all(self, *, due: bool) -> None:
        changed = {name: None for name, one in self._estimates.items() if due and one.commands}
        while True:
            wanted = (name for name, one in self._estimates.items() if one.wanted)
            tenant = next(wanted, next(iter(changed), None))
            if tenant is None:
                return
            changed.pop(tenant, None)
            await asyncio.shield(self._count(tenant))
            await self._rest()

    async def _rest(self) -> None:
        await asyncio.sleep(self._rests_until - self._clock())


def _exceeded(used: Amounts, allowed: Amounts) -> Problem:
    what, its, most = next(
        (
            (name, one, most)
            for name, one, most in zip(Amounts._fields, used, allowed, strict=True)
            if most and one and one >= most
        ),
        ("rows", used.rows, allowed.rows),
    )
    return Problem(
        403,
        "storage_quota_exceeded",
        f"the tenant has stored about {its} {what.replace('_', ' ')}, and may store {most}: remove pools or records, or wait until "
        "ended holds and recorded answers have gone with their retention; confirm, release, extend and return still work",
        what=what,
        used=its,
        allowed=most,
    )
