"""What is counted per interval, and how counts of one interval add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ..core.commands import COMMANDS
from ..core.entries import Action, Effect, Entry, RefusedCommand
from ..core.model import SECOND, Slot
from ..errors import Refused

STEP: Final = 300
"""Seconds of an interval of the rows in the database."""
MAX_INTERVALS: Final = 366 * 86_400 // STEP
"""Intervals that are kept in the database: those of a year, if a server is always recording."""
RECENT_STEP: Final = 10
"""Seconds of an interval in the memory of a process."""
RECENT_SECONDS: Final = 6 * 3_600
MAX_RECENT: Final = 50_000
"""Counts of each kind that a process has in memory: those of 139 pools that change all the time, for an hour."""
REST: Final = "~rest"
"""The series, in the database, of a tenant's pools that have none of their own."""
FACES: Final = "~faces"
"""The series of a tenant's reserved pools: those of claims, items, budgets, rates, calendars and resources."""

Series: TypeAlias = tuple[str, str]
"""Tenant and name."""
Counters: TypeAlias = tuple[int, int, int]
"""Of one pool: total, held, consumed."""
T = TypeVar("T")

_EXPIRING: Final = frozenset({Action.HOLD_EXPIRED, Action.LEG_RETURNED})
_PLACING: Final = frozenset(verb for verb, kind in COMMANDS.items() if kind.names == "legs")
_RELEASING: Final = frozenset({Action.HOLD_RELEASED, Action.HOLD_PARTLY_RELEASED})


class PoolCounts(Struct, array_like=True):
    """What entries of the journal say of a pool, or of several, in one interval."""

    before: Counters | None = None
    """Before the first entry; None: the pool did not exist, or these are several pools."""
    end: Counters | None = None
    """After the last entry; None: the pool was removed, or these are several pools."""
    peak: int = 0
    """The most units that were held and consumed together."""
    granted: int = 0
    """Holds that were granted units."""
    granted_units: int = 0
    confirmed_units: int = 0
    released_units: int = 0
    expired_units: int = 0

    def count(self, entry: Entry, effect: Effect) -> None:
        """Add what an entry did to the pool. Called for every entry, so it makes no object but tuples."""
        pool, taken = effect.pool, effect.held + effect.consumed
        of_pool = entry.subject == pool.id
        if self.before is None and self.end is None and not (of_pool and entry.action is Action.POOL_CREATED):
            self.before = pool.total - effect.total, pool.held - effect.held, pool.consumed - effect.consumed
        self.end = None if of_pool and entry.removed else (pool.total, pool.held, pool.consumed)
        self.peak = max(self.peak, pool.held + pool.consumed)
        if taken > 0:
            self.granted_units += taken
            self.granted += entry.action.grants
        if effect.consumed > 0:
            self.confirmed_units += effect.consumed
        if effect.held < 0:
            if entry.action in _EXPIRING:
                self.expired_units -= effect.held
            elif entry.action in _RELEASING:
                self.released_units -= effect.held

    def add(self, later: PoolCounts) -> None:
        """Add the counts of later entries."""
        if self.before is None and self.end is None:
            self.before = later.before
        self.end = later.end
        self.peak = max(self.peak, later.peak)
        self.granted += later.granted
        self.granted_units += later.granted_units
        self.confirmed_units += later.confirmed_units
        self.released_units += later.released_units
        self.expired_units += later.expired_units

    def flows(self) -> PoolCounts:
        """Return the counts without the counters of one pool, for the sum of several."""
        return msgspec.structs.replace(self, before=None, end=None, peak=0)


decode_pool: Final = msgspec.json.Decoder(PoolCounts).decode


class Refusals(Struct):
    """Requests of one interval for a pool that were refused."""

    reasons: dict[str, int] = {}
    units: int = 0
    """Units that they had asked for and did not get."""

    def add(self, other: Refusals) -> None:
        """Add the refusals of another part of the interval."""
        self.units += other.units
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count


class ServerCounts(Struct):
    """What this process did in one interval."""

    requests: int = 0
    errors: int = 0
    """Answers with a status from 500 on."""
    latencies: list[int] = []
    """Answers by the bucket of `metrics.BUCKETS` that their seconds fall into."""
    queue: int = 0
    """The most commands that were seen waiting for the group commit."""

    def add(self, other: ServerCounts) -> None:
        """Add the counts of another part of the interval."""
        self.requests += other.requests
        self.errors += other.errors
        self.latencies = [a + b for a, b in zip_longest(self.latencies, other.latencies, fillvalue=0)]
        self.queue = max(self.queue, other.queue)


class Recent(Generic[T]):
    """Counts of the last six hours in this process's memory, by ten seconds and series."""

    def __init__(self, empty: Callable[[], T]) -> None:
        self._empty = empty
        self._tenants: dict[str, dict[Slot, dict[str, T]]] = {}
        self._known_from: dict[str, Slot] = {}

    def at(self, series: Series, slot: Slot) -> T:
        """Return the counts of the interval that contains this slot, to be added to."""
        tenant, name = series
        interval = self._tenants.setdefault(tenant, {}).setdefault(floor(slot, RECENT_STEP), {})
        if name not in interval:
            interval[name] = self._empty()
        return interval[name]

    def between(self, series: Series, since: Slot, until: Slot) -> dict[Slot, T]:
        """Return the counts of these intervals that there are, in order of time."""
        tenant, name = series
        intervals = self._tenants.get(tenant, {})
        return {at: intervals[at][name] for at in sorted(intervals) if since <= at < until and name in intervals[at]}

    def known_from(self, tenant: str) -> Slot:
        """Return since when counts of this tenant are complete; 0: no counts were dropped."""
        return self._known_from.get(tenant, 0)

    def trim(self, now: Slot) -> None:
        """Drop counts that are six hours away from now (the clock may have been set back) and, while there are too many, the older
        half of the tenant that has the most: a tenant with very many pools shortens its own plots only."""
        reach = RECENT_SECONDS * SECOND
        sizes = {tenant: self._keep(tenant, now - reach, now + reach) for tenant in [*self._tenants]}
        while sum(sizes.values()) > MAX_RECENT:
            tenant = max(sizes, key=lambda name: sizes[name])
            begins = sorted(self._tenants[tenant])
            self._known_from[tenant] = begins[len(begins) // 2] + 1
            sizes[tenant] = self._keep(tenant, self._known_from[tenant], now + reach)

    def clear(self, slot: Slot) -> None:
        """Drop everything: counts are complete from this slot on."""
        self._known_from = dict.fromkeys(self._tenants, slot)
        self._tenants = {}

    def _keep(self, tenant: str, since: Slot, until: Slot) -> int:
        intervals = self._tenants[tenant]
        for at in [at for at in intervals if not since <= at < until]:
            del intervals[at]
        if not intervals:
            del self._tenants[tenant]
        return sum(map(len, intervals.values()))


def series_of(tenant: str, pool: str) -> Series:
    """Return the series that counts a pool."""
    return tenant, FACES if pool.startswith("~") else pool


def floor(slot: Slot, step: int) -> Slot:
    """Return the beginning of the interval that a slot is in."""
    length = step * SECOND
    return slot - slot % length


def refusals_of(error: Refused, named: Iterable[str]) -> Iterator[tuple[str, Refusals]]:
    """Yield what a refused request adds, by pool id: for each pool that fell short, else for each that the request named."""
    shortfalls = getattr(error, "shortfalls", ())
    if shortfalls:
        for one in shortfalls:
            yield one.pool, Refusals({error.reason: 1}, one.requested)
        return
    for pool in named:
        yield pool, Refusals({error.reason: 1})


def journaled_refusals(refused: RefusedCommand) -> Iterator[tuple[str, Refusals]]:
    """Yield what an entry `command.refused` adds, by pool id, as `refusals_of` does. A command that asks for no units names no pool."""
    short = [leg for leg in refused.legs if leg.total is not None]
    for leg in short or (refused.legs if refused.command in _PLACING else ()):
        yield leg.pool, Refusals({refused.reason: 1}, leg.quantity if short else 0)
