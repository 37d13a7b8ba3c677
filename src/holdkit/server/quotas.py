"""Storage quotas: what a tenant may store, checked at admission.

Theory of operation. Nothing is counted where commands are decided, so a hold costs the same with and without a quota. A server
counts what a tenant with a quota has stored every minute (`AsyncUsageCounter`, in bounded steps, off the event loop), and in
between adds an estimate for each request that it admits: `used = counted + estimated since`. A request that may store something
new is refused while `used` exceeds the quota. A request that ends or changes what exists (confirm, release, extend, return,
expire, resize, archive, and all that removes) adds to the estimate and is never refused: otherwise a full quota would leave
units held that nobody can give back.

A server counts at once when its own estimate has reached an eighth of the quota, and when it begins to refuse. So one server
exceeds a quota by the requests under way, and n servers together by about n eighths. Until the first count is over (at the
start of a server, and for a tenant's first request) nothing is refused. The default tenant is the operator's, and has no quota.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any, Final

from ..errors import HoldkitError
from ..kernel._async.executor import AsyncExecutor
from ..kernel._async.usage import AsyncUsageCounter
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


class Estimate:
    """What one tenant has stored: as it was counted last, and the estimate since."""

    __slots__ = ("added_bytes", "added_rows", "counted", "counted_at", "wanted")

    def __init__(self) -> None:
        self.counted: StorageUsage | None = None
        self.counted_at = float("-inf")
        self.added_bytes = self.added_rows = 0
        self.wanted = True
        """Whether it is to be counted now."""

    def used(self) -> tuple[int, int]:
        """Bytes and rows; 0 before the first count."""
        if self.counted is None:
            return 0, 0
        return self.counted.bytes + self.added_bytes, self.counted.rows + self.added_rows


class Quotas:
    """The storage quotas of all tenants, as far as this server knows."""

    def __init__(self, executor: AsyncExecutor, directory: Directory, settings: Settings) -> None:
        self._directory, self._every = directory, settings.usage_every
        self._default = Quota(bytes=settings.quota_bytes, rows=settings.quota_rows)
        self._counter = AsyncUsageCounter(executor)
        self._counting = asyncio.Lock()
        self._estimates: OrderedDict[str, Estimate] = OrderedDict()
        self._wake = asyncio.Event()

    def quota_of(self, tenant: str) -> Quota:
        """The quota of a tenant: its own, or that of the settings."""
        if not tenant:
            return NO_QUOTA
        stored = self._directory.tenants.get(tenant)
        return self._default if stored is None or stored.quota is None else stored.quota

    def admit(self, tenant: str, body: Any, size: int) -> None:
        """Count a request with a body of this size; raises `Problem` if it would store something new and may not."""
        quota = self.quota_of(tenant)
        if quota.bytes is None and quota.rows is None:
            return
        commands = weight(body)
        estimate = self._estimates.get(tenant)
        if estimate is None:
            estimate = self._estimates[tenant] = Estimate()
            if len(self._estimates) > MAX_ESTIMATES:
                self._estimates.popitem(last=False)
            self._wake.set()
        used_bytes, used_rows = estimate.used()
        over = (quota.bytes is not None and used_bytes >= quota.bytes) or (
            quota.rows is not None and used_rows >= quota.rows
        )
        if over and grows(body):
            self._count_soon(estimate)
            raise _exceeded(quota, used_bytes, used_rows)
        estimate.added_bytes += COPIES * size + COMMAND_BYTES * commands
        estimate.added_rows += COMMAND_ROWS * commands
        if (quota.bytes is not None and estimate.added_bytes * PART > quota.bytes) or (
            quota.rows is not None and estimate.added_rows * PART > quota.rows
        ):
            self._count_soon(estimate)

    def _count_soon(self, estimate: Estimate) -> None:
        if not estimate.wanted and time.monotonic() - estimate.counted_at > 1.0:
            estimate.wanted = True
            self._wake.set()

    async def usage(self, tenant: str) -> StorageUsage:
        """Count what a tenant has stored now; one count at a time in this process."""
        async with self._counting:
            await self._counter.catch_up()
            return await self._count(tenant)

    async def _count(self, tenant: str) -> StorageUsage:
        estimate = self._estimates.get(tenant, Estimate())
        estimate.wanted = False
        added_bytes, added_rows = estimate.added_bytes, estimate.added_rows
        estimate.counted = await self._counter.usage(tenant)
        estimate.added_bytes -= added_bytes  # what was added meanwhile may not have been counted
        estimate.added_rows -= added_rows
        estimate.counted_at = time.monotonic()
        return estimate.counted

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
        found = [name for name, one in self._estimates.items() if one.wanted or (due and one.added_rows)]
        if not found:
            return
        async with self._counting:
            await self._counter.catch_up()
            for tenant in found:
                await self._count(tenant)


def _exceeded(quota: Quota, used_bytes: int, used_rows: int) -> Problem:
    rest = "confirm, release, extend and return still work"
    frees = "remove pools and records; ended holds and recorded answers go with their retention"
    return Problem(
        403,
        "storage_quota_exceeded",
        f"the tenant has stored about {used_bytes} bytes in {used_rows} rows, and may store "
        f"{_most(quota.bytes, 'bytes')} in {_most(quota.rows, 'rows')}: {frees}; {rest}",
        used_bytes=used_bytes,
        used_rows=used_rows,
        allowed_bytes=quota.bytes,
        allowed_rows=quota.rows,
    )


def _most(bound: int | None, what: str) -> str:
    return f"any number of {what}" if bound is None else f"{bound} {what}"
