"""Storage quotas: what a tenant may store, checked at admission.

Theory of operation. Nothing is counted where commands are decided, so a hold costs the same with and without a quota. A server
counts what a tenant with a quota has stored every minute (`CheckpointedCounter`, in bounded steps, off the event loop), and in
between adds an estimate for each request that it admits: `used = counted + estimated since`. A request that may store something
new is refused while `used` exceeds the quota. A request that ends or changes what exists (confirm, release, extend, return,
expire, resize, archive, and all that removes) adds to the estimate and is never refused: otherwise a full quota would leave
units held that nobody can give back.

A table that is bounded for all tenants together (`max_pools`, `max_holds`, `max_operations`: on the memory and log engines, or
where an operator has set them) is divided in the same way: one tenant may have `table_share` of it, so that it cannot fill it alone.

A server counts at once when its own estimate has reached an eighth of the quota, and when it begins to refuse. So one server
exceeds a quota by the requests under way, and n servers together by about n eighths. Until the first count is over (at the
start of a server, and for a tenant's first request) nothing is refused. The default tenant is the operator's, and has no quota.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from ..errors import HoldkitError
from ..kernel._async.executor import AsyncExecutor
from ..kernel.results import StorageUsage
from ..wire.batches import Batch
from ..wire.budgets import BudgetConsume, BudgetHold, BudgetSet
from ..wire.claims import NewClaim
from ..wire.holds import NewConsume, NewHold
from ..wire.items import AddItems, BestItems, ReserveItems
from ..wire.journal import MoveCursor
from ..wire.pools import NewPool
from ..wire.records import PutRecordBody
from ..wire.tenants import Quota
from ..wire.windows import WindowConsume, Windowed, WindowHold
from .checkpoints import CheckpointedCounter
from .directory import Directory
from .problems import Problem
from .rates import weight
from .settings import Settings

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
NO_QUOTA: Final = Quota()

GROWING: Final = (
    NewPool,
    NewHold,
    NewConsume,
    NewClaim,
    AddItems,
    ReserveItems,
    BestItems,
    BudgetHold,
    BudgetConsume,
    BudgetSet,
    WindowHold,
    WindowConsume,
)
"""Bodies, and commands of a batch, that store something new."""


def grows(body: Any) -> bool:
    """Whether a request may store something new. What it cannot refuse it lets pass: see the theory of operation."""
    if isinstance(body, Batch | Windowed):
        return any(isinstance(command, GROWING) for command in body.commands)
    if isinstance(body, PutRecordBody):
        return body.body is not None
    if isinstance(body, MoveCursor):
        return body.if_version == 0
    return isinstance(body, GROWING)


class Amounts(NamedTuple):
    """What is used, added or allowed, of each thing that is bounded. Allowed: None is no bound."""

    bytes: int | None
    rows: int | None
    pools: int | None
    live_holds: int | None
    operations: int | None


class Estimate:
    """What one tenant has stored: as it was counted last, and the estimate since."""

    __slots__ = ("added_bytes", "commands", "counted", "counted_at", "wanted")

    def __init__(self) -> None:
        self.counted: StorageUsage | None = None
        self.counted_at = float("-inf")
        self.added_bytes = self.commands = 0
        self.wanted = True
        """Whether it is to be counted now."""

    def added(self) -> Amounts:
        """What may have been added since the last count."""
        commands = self.commands
        return Amounts(self.added_bytes, COMMAND_ROWS * commands, commands, commands, commands)

    def used(self) -> Amounts | None:
        """What is stored; None before the first count."""
        counted = self.counted
        if counted is None:
            return None
        found = (counted.bytes, counted.rows, counted.pools, counted.live_holds, counted.operations)
        return Amounts(*[one + (more or 0) for one, more in zip(found, self.added(), strict=True)])


class Quotas:
    """The storage quotas of all tenants, as far as this server knows."""

    def __init__(self, executor: AsyncExecutor, directory: Directory, settings: Settings) -> None:
        self._executor, self._directory, self._every = executor, directory, settings.usage_every
        self._default = Quota(bytes=settings.quota_bytes, rows=settings.quota_rows)
        self._share = settings.table_share
        self._counter = CheckpointedCounter(executor)
        self._counting = asyncio.Lock()
        self._estimates: OrderedDict[str, Estimate] = OrderedDict()
        self._recent: OrderedDict[str, tuple[float, StorageUsage]] = OrderedDict()
        """What was counted last, and when: many requests in a row cost one count."""
        self._wake = asyncio.Event()

    def quota_of(self, tenant: str) -> Quota:
        """The quota of a tenant: its own, or that of the settings."""
        if not tenant:
            return NO_QUOTA
        stored = self._directory.tenants.get(tenant)
        return self._default if stored is None or stored.quota is None else stored.quota

    def _allowed(self, tenant: str) -> Amounts | None:
        """What a tenant may store; None: anything."""
        if not tenant:
            return None
        quota, limits = self.quota_of(tenant), self._executor.limits
        found = (quota.bytes, quota.rows, limits.max_pools, limits.max_holds, limits.max_operations)
        if found == UNBOUNDED:
            return None
        shares = [None if bound is None else max(1, int(self._share * bound)) for bound in found[2:]]
        return Amounts(quota.bytes, quota.rows, *shares)

    def admit(self, tenant: str, body: Any, size: int) -> None:
        """Count a request with a body of this size; raises `Problem` if it would store something new and may not."""
        allowed = self._allowed(tenant)
        if allowed is None:
            return
        estimate = self._estimates.get(tenant)
        if estimate is None:
            estimate = self._estimates[tenant] = Estimate()
            if len(self._estimates) > MAX_ESTIMATES:
                self._estimates.popitem(last=False)
            self._wake.set()
        else:
            self._estimates.move_to_end(tenant)
        used = estimate.used()
        if used is not None and (over := _first_over(used, allowed)) is not None and grows(body):
            self._count_soon(estimate)
            raise _exceeded(over, used, allowed)
        commands = weight(body)
        estimate.added_bytes += COPIES * size + COMMAND_BYTES * commands
        estimate.commands += commands
        if _first_over(estimate.added(), allowed, PART) is not None:
            self._count_soon(estimate)

    def _count_soon(self, estimate: Estimate) -> None:
        if not estimate.wanted and time.monotonic() - estimate.counted_at > FRESH:
            estimate.wanted = True
            self._wake.set()

    async def usage(self, tenant: str) -> StorageUsage:
        """Count what a tenant has stored; the answer may be a second old. One count at a time in this process."""
        async with self._counting:
            found = self._recent.get(tenant)
            if found is not None and time.monotonic() - found[0] < FRESH:
                return found[1]
            await self._counter.catch_up()
            return await self._count(tenant)

    async def _count(self, tenant: str) -> StorageUsage:
        estimate = self._estimates.get(tenant, Estimate())
        estimate.wanted = False
        added_bytes, commands = estimate.added_bytes, estimate.commands
        counted = estimate.counted = await self._counter.usage(tenant)
        estimate.added_bytes -= added_bytes  # what was added meanwhile may not have been counted
        estimate.commands -= commands
        estimate.counted_at = time.monotonic()
        self._recent[tenant] = (estimate.counted_at, counted)
        self._recent.move_to_end(tenant)
        if len(self._recent) > MAX_ESTIMATES:
            self._recent.popitem(last=False)
        return counted

    async def stay_current(self) -> None:
        """Count until cancelled: what has changed every minute, and an estimate that is wanted at once."""
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
                log.warning("cannot count what tenants have stored, will retry: %s", failed)
                await asyncio.sleep(1.0)

    async def _count_all(self, *, due: bool) -> None:
        found = [name for name, one in self._estimates.items() if one.wanted or (due and one.commands)]
        if not found:
            return
        async with self._counting:
            await self._counter.catch_up()
            for tenant in found:
                await self._count(tenant)


UNBOUNDED: Final = (None,) * len(Amounts._fields)


def _first_over(used: Amounts, allowed: Amounts, times: int = 1) -> str | None:
    """The first thing of which so many times as much is used as is allowed; None if there is none."""
    for name, one, most in zip(Amounts._fields, used, allowed, strict=True):
        if most is not None and one is not None and one * times >= most:
            return name
    return None


def _exceeded(what: str, used: Amounts, allowed: Amounts) -> Problem:
    its, most, name = getattr(used, what), getattr(allowed, what), what.replace("_", " ")
    return Problem(
        403,
        "storage_quota_exceeded",
        f"the tenant has stored about {its} {name}, and may store {most}: remove pools or records, or wait until ended holds and "
        "recorded answers have gone with their retention; confirm, release, extend and return still work",
        what=what,
        used=its,
        allowed=most,
    )
