"""History: pools and this server over time.

In an interval that a server recorded, a pool without a row did not change: it keeps its counters. In any other interval its counters are
unknown, unless it has a row. Where a tenant's other pools were summed into one series, a pool without a row may be among them: its counters
are unknown until it has a row again. Refusals are those that this process has counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from ...core.model import SECOND, Slot
from ...core.validation import invalid
from ...engines.rollups import RECORDED, RollupStore
from ...kernel.arguments import span
from ...wire.fields import Time, at
from ...wire.history import PoolHistories, PoolHistory, PoolHistoryBody, ServerHistory, ServerHistoryQuery
from ..metrics import quantile
from ..request import Answer, Request, answer
from ..rollup_counts import (
    MAX_INTERVALS,
    RECENT_STEP,
    REST,
    STEP,
    PoolCounts,
    Recent,
    Refusals,
    ServerCounts,
    decode_pool,
    floor,
)
from ..rollups import SELF, Rollups

MAX_POINTS: Final = 400
MAX_ROWS: Final = MAX_INTERVALS
"""Of all pools that one request names: a year of one pool, about a week of fifty."""
FLOWS: Final = ("granted", "granted_units", "confirmed_units", "released_units", "expired_units")


V = TypeVar("V")
C = TypeVar("C", PoolCounts, Refusals, ServerCounts)


class Window(Struct, frozen=True):
    """The intervals of an answer."""

    step: int
    """Of the counts, in seconds."""
    times: int
    """How many of them are one interval of the answer."""
    since: Slot
    until: Slot

    @property
    def length(self) -> Slot:
        """Return the length of one interval, in slots."""
        return self.step * self.times * SECOND

    @property
    def starts(self) -> list[Slot]:
        """Return when each interval begins."""
        return list(range(self.since, self.until, self.length))

    def index(self, slot: Slot) -> int:
        """Return the interval of a slot."""
        return (slot - self.since) // self.length

    def indexes(self, slots: Iterable[Slot], since: Slot = 0) -> set[int]:
        """Return the intervals of those slots that are not before `since`."""
        return {self.index(slot) for slot in slots if slot >= since}

    def sums(self, counts: Mapping[Slot, C], empty: Callable[[], C]) -> dict[int, C]:
        """Add up counts by the interval of the answer."""
        intervals = dict[int, C]()
        for slot in sorted(counts):
            intervals.setdefault(self.index(slot), empty()).add(counts[slot])
        return intervals


def window_of(asked: Slot, now: Slot, *, in_memory: bool) -> Window:
    """Return the finest intervals that give at most `MAX_POINTS` points. Intervals of ten seconds are only in the memory of a server. The
    current interval is the last."""
    longest = MAX_INTERVALS * STEP
    if not 0 < asked <= longest * SECOND:
        raise invalid("window", "window_out_of_range", f"must be between 1 s and {longest // 86_400} days")
    seconds = -(-asked // SECOND)
    step = RECENT_STEP if in_memory and seconds <= RECENT_STEP * MAX_POINTS else STEP
    times = -(-seconds // (step * MAX_POINTS))
    length = step * times
    until = floor(now, length) + length * SECOND
    return Window(step, times, until - -(-seconds // length) * length * SECOND, until)


async def pool_histories(request: Request) -> Answer:
    """Answer with pools over time."""
    body: PoolHistoryBody = request.body
    if not body.pools:
        raise invalid("pools", "pools_missing", "name at least one pool")
    rollups, executor = request.running.rollups, request.kernel._executor
    window = window_of(span(body.window, "window"), executor.now(), in_memory=True)
    tenant, now = request.caller.tenant, request.now()
    return answer(
        await executor.run_blocking(lambda: pools_over_time(rollups.store, rollups, window, tenant, body.pools, now))
    )


def pools_over_time(
    store: RollupStore | None, memory: Rollups | None, window: Window, tenant: str, pools: Sequence[str], now: Time
) -> PoolHistories:
    """Return pools over time, as a document. Without `store` nothing was recorded; without `memory` no refusals are known."""
    names = list(dict.fromkeys(pools))
    reader = None if store is None else _PoolReader(store, memory, window, tenant, len(names))
    return PoolHistories(
        step=window.length // SECOND,
        at=[at(start) for start in window.starts],
        pools=[] if reader is None else [reader.history(name) for name in names],
        recording=store is not None,
        server_time=now,
    )


class _PoolReader:
    """Reads pools of one tenant over one window. It reads once what all pools share."""

    def __init__(
        self, store: RollupStore, memory: Rollups | None, window: Window, tenant: str, pool_count: int
    ) -> None:
        self._store, self._window, self._tenant = store, window, tenant
        self._max_rows = MAX_ROWS // pool_count
        self._refusals = Recent(Refusals) if memory is None else memory.refusals
        served = {} if memory is None else memory.requests.between(SELF, window.since, window.until)
        self._refusals_known = window.indexes(served, self._refusals.known_from(tenant))
        self._in_memory = memory.pools if memory is not None and window.step == RECENT_STEP else None
        if self._in_memory is None:
            self._recorded = window.indexes(self._rows("", RECORDED))
            self._summed = window.indexes(self._rows(tenant, REST))
        else:
            self._recorded, self._summed = window.indexes(served, self._in_memory.known_from(tenant)), set()

    def _rows(self, tenant: str, series: str) -> dict[Slot, PoolCounts]:
        rows = self._store.load(tenant, series, self._window.since, self._window.until, self._max_rows)
        return {row.at: decode_pool(row.body) for row in reversed(rows)}

    def history(self, pool: str) -> PoolHistory:
        """Return the history of one pool."""
        found = self._refusals.between((self._tenant, pool), self._window.since, self._window.until)
        refused, total = self._window.sums(found, Refusals), Refusals()
        for refusals in refused.values():
            total.add(refusals)
        columns = self._counters(pool)
        for index in range(len(self._window.starts)):
            known = index in refused or index in self._refusals_known
            refusals = refused.get(index, Refusals())
            columns["refused"].append(sum(refusals.reasons.values()) if known else None)
            columns["refused_units"].append(refusals.units if known else None)
        return PoolHistory(pool=pool, reasons=dict(sorted(total.reasons.items())), **columns)

    def _counters(self, pool: str) -> dict[str, list[int | None]]:
        """Return the counters of a pool that the journal gives, by field."""
        series = self._tenant, pool
        if self._in_memory is None:
            found = self._rows(*series)
        else:
            found = self._in_memory.between(series, self._window.since, self._window.until)
        oldest = self._window.index(min(found)) if len(found) == self._max_rows else 0
        """There may be rows before it that were not read."""
        if found:
            state = found[min(found)].before
        else:
            rows = self._store.load(*series, 0, self._window.until, 1)
            state = decode_pool(rows[0].body).end if rows else None
        columns: dict[str, list[int | None]] = defaultdict(list)
        intervals = self._window.sums(found, PoolCounts)
        for index in range(len(self._window.starts)):
            here = intervals.get(index)
            if here is not None:
                state = here.end
            elif index in self._summed:
                state = None
            known = here is not None or (index in self._recorded and index >= oldest)
            total, held, consumed = state if known and state is not None else (None, None, None)
            columns["total"].append(total)
            columns["held"].append(held)
            columns["consumed"].append(consumed)
            used = None if held is None or consumed is None else held + consumed
            columns["peak"].append(used if used is None or here is None else here.peak)
            for name in FLOWS:
                columns[name].append(getattr(here or PoolCounts(), name) if known else None)
        return columns


async def server_history(request: Request) -> Answer:
    """Answer with this server's counts over time."""
    query: ServerHistoryQuery = request.query
    window = window_of(span(query.window, "window"), request.kernel._executor.now(), in_memory=True)
    found = request.running.rollups.requests.between(SELF, window.since, window.until)
    intervals = window.sums(found, ServerCounts)

    def column(value: Callable[[ServerCounts], V | None]) -> list[V | None]:
        return [value(intervals[index]) if index in intervals else None for index in range(len(window.starts))]

    return answer(
        ServerHistory(
            step=window.length // SECOND,
            at=[at(start) for start in window.starts],
            requests=column(lambda counts: counts.requests),
            errors=column(lambda counts: counts.errors),
            queue=column(lambda counts: counts.queue),
            p50=column(lambda counts: quantile(counts.latencies, 0.5)),
            p90=column(lambda counts: quantile(counts.latencies, 0.9)),
            p99=column(lambda counts: quantile(counts.latencies, 0.99)),
            recording=True,
            server_time=request.now(),
        )
    )
