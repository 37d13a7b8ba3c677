"""Measures: what a process counts, as names and numbers, for whichever system collects them. `holdkit.contrib.prometheus` and
`holdkit.contrib.opentelemetry` translate them; nothing is counted for their sake.

No label has a text from a caller, except the ids of pools: only those of pools that an allow-list names, and not more than `MOST_POOLS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from ..core.model import Pool
from ..core.reading import FindPools, ListPools, Query
from ..core.validation import invalid, pool_id, text
from ..engines.deadlines import run_until
from ..engines.durability import LEVELS
from ..errors import HoldkitError
from .group_commit import Stats

if TYPE_CHECKING:
    from ._async.executor import AsyncExecutor
    from ._sync.executor import Executor

MOST_POOLS: Final = 500
"""Pools whose gauges are collected at a time."""
MOST_NAMES: Final = 100
"""Entries of an allow-list."""
TENANT: Final = "::"
"""Between a tenant and a pool in an allow-list."""

Value: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""


class Measure(Struct, frozen=True):
    """One thing that is counted."""

    name: str
    """Such as `holdkit_queue_depth`; of a counter without `_total`."""
    says: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    buckets: tuple[tuple[str, float], ...] = ()
    """Of a histogram: the upper bounds, and how many were not above them."""
    sum: float = 0.0
    """Of a histogram."""

    @property
    def count(self) -> float:
        """Of a histogram: how many were counted."""
        return self.buckets[-1][1]


def counter(name: str, says: str, value: float) -> Measure:
    """Return a measure that only grows."""
    return Measure(name, says, "counter", values=(((), value),))


def gauge(name: str, says: str, value: float) -> Measure:
    """Return a measure of this moment."""
    return Measure(name, says, "gauge", values=(((), value),))


def by_label(
    kind: Literal["counter", "gauge"], name: str, says: str, label: str, values: Iterable[tuple[str, float]]
) -> Measure:
    """Return a measure with several values, told apart by one label."""
    return Measure(name, says, kind, (label,), tuple(((value,), number) for value, number in values))


def histogram(name: str, says: str, bounds: Sequence[str], counts: Sequence[int], total: float) -> Measure:
    """Return a histogram: the count of each bucket, and last the count of values above all bounds."""
    buckets = tuple(zip((*bounds, "+Inf"), map(float, accumulate(counts)), strict=True))
    return Measure(name, says, "histogram", buckets=buckets, sum=total)


def kernel_measures(stats: Stats) -> Iterator[Measure]:
    """Yield what the kernel counts (`hk.admin.stats()`)."""
    sizes = stats.sizes or (0,)
    bounds = [str(2 ** (power + 1) - 1) for power in range(len(sizes) - 1)]
    yield histogram(
        "holdkit_batch_commands", "Commands per transaction of the group commit.", bounds, sizes, stats.commands
    )
    locked = stats.lock_times
    yield histogram("holdkit_lock_seconds", "Seconds from lock to commit, of transactions on PostgreSQL.",
                    [f"{bound:g}" for bound in locked.bounds], locked.counts, round(locked.seconds, 6))  # fmt: skip
    guards = stats.guards
    yield counter("holdkit_guarded_batches", "Batches that the database decided by a guard.", guards.batches)
    yield counter("holdkit_guarded_passed", "Commands that passed the guard.", guards.passed)
    misses = sorted(guards.misses.items())
    yield by_label(
        "counter", "holdkit_guarded_misses", "Commands that did not pass the guard, by cause.", "cause", misses
    )
    yield gauge("holdkit_queue_depth", "Commands that wait for the group commit.", stats.waiting)
    yield gauge(
        "holdkit_clock_lag_seconds", "Seconds by which the engine's clock is ahead of this machine's.", stats.clock_lag
    )
    levels = [(level, float(level == stats.durability.level)) for level in LEVELS]
    says = "Durability of committed answers: 1 at the current level."
    yield by_label("gauge", "holdkit_durability", says, "level", levels)


# Pools


class AllowedPools(NamedTuple):
    """One entry of an allow-list: a pool, or all whose ids begin so."""

    tenant: str
    name: str
    prefix: bool


def allowed_pools(names: Iterable[str]) -> tuple[AllowedPools, ...]:
    """Parse an allow-list of pools: ids, or beginnings of ids before a `*`; for any but the default tenant `TENANT::POOL`."""
    given = [names] if isinstance(names, str) else [*names]
    if len(given) > MOST_NAMES:
        raise invalid("pools", "pools_too_many", f"must be at most {MOST_NAMES} ids or prefixes")
    found = []
    for each in given:
        written = text(each, "pools", 1_024)
        tenant, between, name = written.partition(TENANT) if TENANT in written else ("", "", written)
        if between and tenant:
            text(tenant, "pools", 64)
        prefix = name.endswith("*")
        if "*" in name.removesuffix("*"):
            raise invalid("pools", "pools_malformed", "may have * only at the end of an id, for all that begin so")
        if name != "*":
            pool_id(name.removesuffix("*") if prefix else name, "pools", faces=False)
        found.append(AllowedPools(tenant, name.removesuffix("*"), prefix))
    return tuple(dict.fromkeys(found))


def pool_queries(allowed: Sequence[AllowedPools]) -> list[Query[Any]]:
    """Return the queries for the pools of an allow-list: never more than `MOST_POOLS` pools with one query."""
    exact = tuple((each.tenant, each.name) for each in allowed if not each.prefix)
    listed = [ListPools(each.tenant, each.name, limit=MOST_POOLS + 1) for each in allowed if each.prefix]
    return [*([FindPools(exact)] if exact else []), *listed]


def read_pool_measures(executor: Executor | AsyncExecutor, allowed: Sequence[AllowedPools]) -> list[Measure]:
    """Read the gauges of an allow-list's pools here and now, on this thread. A failed read leaves the other metrics intact."""
    if not allowed:
        return []
    try:
        answers = [
            run_until(executor.deadline(), partial(executor.engine.read, query)) for query in pool_queries(allowed)
        ]
    except HoldkitError:  # the other metrics say why
        return [*pool_measures(None)]
    return [*pool_measures(answers)]


def pool_measures(answers: Iterable[Iterable[Pool | None]] | None) -> Iterator[Measure]:
    """Yield gauges of the pools in the answers; None: they could not be read."""
    pools = {pool.key: pool for answer in answers or () for pool in answer if pool is not None}
    shown = [pools[key] for key in sorted(pools)[:MOST_POOLS]]
    for name, says in (
        ("total", "Units of a pool."),
        ("held", "Units of a pool that are held."),
        ("consumed", "Units of a pool that are consumed."),
        ("available", "Units of a pool that another hold could take."),
        ("waiting", "Holds that wait in a pool's line."),
    ):
        values = tuple(((pool.tenant, pool.id), float(getattr(pool, name))) for pool in shown)
        yield Measure(f"holdkit_pool_{name}", says, "gauge", ("tenant", "pool"), values)
    yield gauge(
        "holdkit_pools_incomplete",
        f"1 if pools of the allow-list are missing here: there are more than {MOST_POOLS}, or they could not be read.",
        float(answers is None or len(pools) > MOST_POOLS),
    )
