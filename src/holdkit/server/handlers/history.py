"""History: pools and servers over time, from the roll-ups.

An interval has data if somebody was recording in it (a server's own row says so) or if it has a row of the pool. A pool that
did not change keeps its counters while somebody was recording; where nobody was, they are not drawn. Where the tenant's other
pools were summed into one series, a pool without a row may be among them: its counters are not known from there on, until it
has a row again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from ...core.model import SECOND, Slot
from ...core.validation import invalid
from ...engines.rollups import RollupRow, RollupStore
from ...kernel.arguments import span
from ...wire.fields import Time, at
from ...wire.history import PoolHistories, PoolHistory, PoolHistoryBody, ServerHistory, ServerHistoryQuery
from ..metrics import BUCKETS
from ..request import Answer, Request, answer
from ..rollup_counts import REST, SERVER, STEPS, PoolCounts, ServerCounts, decode_pool, decode_server, floor

MAX_POINTS: Final = 400
MAX_ROWS: Final = 20_000
"""Rows of one series that one request reads."""
FLOWS: Final = ("granted", "granted_units", "confirmed_units", "released_units", "expired_units", "refused_units")


class Window(Struct, frozen=True):
    """The intervals of an answer."""

    step: int
    """Of the stored rows, in seconds."""
    times: int
    """How many of them are one interval of the answer."""
    since: Slot
    until: Slot

    @property
    def length(self) -> Slot:
        """Of one interval, in slots."""
        return self.step * self.times * SECOND

    @property
    def starts(self) -> list[Slot]:
        """When each interval begins."""
        return list(range(self.since, self.until, self.length))

    def index(self, row: RollupRow) -> int:
        """The interval of a row."""
        return (row.at - self.since) // self.length


def window_of(asked: Slot, now: Slot) -> Window:
    """The finest intervals that are still kept and are not too many points. The one that runs now is the last."""
    longest = max(STEPS.values())
    if not 0 < asked <= longest * SECOND:
        raise invalid("window", "window_out_of_range", f"must be between 1 s and {longest // 86_400} days")
    seconds = -(-asked // SECOND)
    step = next((one for one, kept in STEPS.items() if seconds <= kept and seconds <= one * MAX_POINTS), max(STEPS))
    times = -(-seconds // (step * MAX_POINTS))
    length = step * times
    until = floor(now, length) + length * SECOND
    return Window(step, times, until - -(-seconds // length) * length * SECOND, until)


async def pool_histories(request: Request) -> Answer:
    """Pools over time."""
    body: PoolHistoryBody = request.body
    if not body.pools:
        raise invalid("pools", "pools_missing", "name at least one pool")
    store, executor = _store(request), request.kernel._executor
    window = window_of(span(body.window, "window"), executor.now())
    return answer(
        await executor.run_blocking(
            lambda: pools_over_time(store, window, request.caller.tenant, body.pools, request.now())
        )
    )


def _store(request: Request) -> RollupStore | None:
    rollups = request.running.rollups
    return None if rollups is None else rollups.store


def pools_over_time(
    store: RollupStore | None, window: Window, tenant: str, pools: Sequence[str], now: Time
) -> PoolHistories:
    """Pools over time, as a document; without a store, nobody is recording."""
    return PoolHistories(
        step=window.length // SECOND,
        at=[at(start) for start in window.starts],
        pools=[] if store is None else histories(store, window, tenant, list(dict.fromkeys(pools))),
        recording=store is not None,
        server_time=now,
    )


def histories(store: RollupStore, window: Window, tenant: str, pools: Sequence[str]) -> list[PoolHistory]:
    """Read these pools, one after the other, with what they share read once."""
    recorded = {window.index(row) for row in _rows(store, window, "", SERVER)}
    summed = {window.index(row) for row in _rows(store, window, tenant, REST) if not row.source}
    return [_history(store, window, tenant, pool, recorded, summed) for pool in pools]


def _history(
    store: RollupStore, window: Window, tenant: str, pool: str, recorded: set[int], summed: set[int]
) -> PoolHistory:
    intervals: dict[int, PoolCounts] = {}
    reasons: dict[str, int] = {}
    for row in _rows(store, window, tenant, pool):
        counts = decode_pool(row.body)
        intervals.setdefault(window.index(row), PoolCounts()).add(counts)
        for reason, count in counts.refused.items():
            reasons[reason] = reasons.get(reason, 0) + count
    last = _before(store, window, tenant, pool)
    columns: dict[str, list[Any]] = {name: [] for name in ("total", "held", "consumed", "peak", "refused", *FLOWS)}
    for index in range(len(window.starts)):
        here = intervals.get(index)
        known = here is not None or index in recorded
        if here is not None and here.slot:
            last = here
        elif index in summed:
            last = None
        state = last if known and last is not None else None
        columns["total"].append(state and state.total)
        columns["held"].append(state and state.held)
        columns["consumed"].append(state and state.consumed)
        columns["peak"].append(state and (here.peak if here is not None and here.slot else state.held + state.consumed))
        if last is not None and last.gone:
            last = None
        counted = (here or PoolCounts()) if known else None
        columns["refused"].append(None if counted is None else sum(counted.refused.values()))
        for name in FLOWS:
            columns[name].append(None if counted is None else getattr(counted, name))
    return PoolHistory(pool=pool, reasons=dict(sorted(reasons.items())), **columns)


def _rows(store: RollupStore, window: Window, tenant: str, series: str) -> list[RollupRow]:
    return store.load(window.step, tenant, series, window.since, window.until, MAX_ROWS)


def _before(store: RollupStore, window: Window, tenant: str, pool: str) -> PoolCounts | None:
    """The counters before the window. A pool whose last change is older than short intervals are kept is found in longer ones."""
    for step in STEPS:
        if step >= window.step:
            row = store.load_last(step, tenant, pool, window.since - step * SECOND + 1)
            if row is not None:
                counts = decode_pool(row.body)
                return counts if counts.slot and not counts.gone else None
    return None


async def server_history(request: Request) -> Answer:
    """All servers of the database over time."""
    query: ServerHistoryQuery = request.query
    store, executor = _store(request), request.kernel._executor
    window = window_of(span(query.window, "window"), executor.now())
    return answer(await executor.run_blocking(lambda: servers_over_time(store, window, request.now())))


def servers_over_time(store: RollupStore | None, window: Window, now: Time) -> ServerHistory:
    """All servers of the database over time, as a document."""
    intervals: dict[int, ServerCounts] = {}
    for row in [] if store is None else _rows(store, window, "", SERVER):
        intervals.setdefault(window.index(row), ServerCounts()).add(decode_server(row.body))
    each = [intervals.get(index) for index in range(len(window.starts))]
    return ServerHistory(
        step=window.length // SECOND,
        at=[at(start) for start in window.starts],
        requests=[None if one is None else one.requests for one in each],
        errors=[None if one is None else one.errors for one in each],
        queue=[None if one is None else one.queue for one in each],
        p50=[None if one is None else quantile(one.latencies, 0.5) for one in each],
        p90=[None if one is None else quantile(one.latencies, 0.9) for one in each],
        p99=[None if one is None else quantile(one.latencies, 0.99) for one in each],
        recording=store is not None,
        server_time=now,
    )


def quantile(counts: Sequence[int], part: float) -> float | None:
    """The upper bound of the bucket that contains a quantile; None without answers."""
    wanted, reached = part * sum(counts), 0
    for bound, count in zip((*BUCKETS, 60.0), counts, strict=False):
        reached += count
        if count and reached >= wanted:
            return bound
    return None
