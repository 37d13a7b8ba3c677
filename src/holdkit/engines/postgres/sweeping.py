"""Rows that are removed over time: the candidates of a sweep, and rows past their retention.

A first look without locks finds the candidates. `loading` then locks them with everything else, and the core decides about those that could
be locked. Old rows are pruned without a decision, because every reader already ignores them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...core.decide import SweepList
from ...core.ladders.lines import SKIPPED
from ...core.ladders.retiring import Keeping, kept_for
from ...core.model import MAX_SLOT, SECOND, Key, RecordKey, Slot
from ...core.retention import retired_until
from ...core.table_bounds import portion
from ...core.trees import parent_of
from .database import BatchOptions
from .driver import Script, Statement
from .rows import open_pools, split_pools

IDLE_POOLS = 100
"""The most empty on-demand pools that one sweep removes."""
FED_LINES = 100
"""The most lines that one sweep feeds, besides those of the pools on which it returns units."""
STALE_LANES = 32
"""The most other lanes in which one sweep prunes, where each is a transaction of its own."""
PRUNED = 1_000
"""The most rows of each kind that one pruning deletes."""
LAG = 60 * SECOND
"""Longer than any transaction of ours."""


class SweepCandidates(NamedTuple):
    """The work that a sweep may find, by a first look without locks."""

    holds: dict[Key, tuple[str, ...]]
    """Holds with due legs, with the pools of those legs."""
    pools: list[Key]
    """Empty pools that may be removed."""
    more: bool
    """Whether there are more than these."""
    retiring: dict[Key, tuple[str, ...]]
    """Ended holds that may be dropped, with their pools."""
    table_full: bool = False
    """A limited table is full: rows that are only kept to be looked up are candidates too."""
    lines: Sequence[Key] = ()
    """Pools that have units for a hold that waits there."""

    @property
    def named(self) -> set[Key]:
        """The pools to lock besides those of the holds: an empty one with its parent, which counts its children."""
        above = {(key[0], parent) for key in self.pools if (parent := parent_of(key[1])) is not None}
        return above.union(self.pools, self.lines)


NO_CANDIDATES = SweepCandidates({}, [], False, {})


def find_candidates(
    limit: int, options: BatchOptions, idle_pools: int = IDLE_POOLS, *, table_full: bool = False
) -> Script[SweepCandidates]:
    """Find holds with due legs anywhere, up to the number of legs that one transaction may return, and the pools that may be removed."""
    by, slot = "", options.slot
    if options.distributed:  # a statement that goes to every lane cannot read the clock too
        by = "_by"
        (((slot,),),) = yield (("read_clock", (slot,)),)
    count = 0 if options.in_caller_transaction else idle_pools
    retention = 0 if table_full else options.limits.retention
    holds, empty, rested, closed, lines = yield (
        (f"find_due_holds{by}", (slot, limit + 1)),
        ("find_idle_pools", (count,)),
        (f"find_rested_pools{by}", (MAX_SLOT if table_full else slot, retention, count)),
        (f"find_closed_pools{by}", (slot, count)),
        (f"find_fed_lines{by}", (SKIPPED, FED_LINES if count else 0)),
    )
    ready = [
        *((since, tenant, pool) for tenant, pool, since in (*empty, *closed)),
        *((since + retention, tenant, pool) for tenant, pool, since in rested),
    ]
    open_holds = {(tenant, hold): open_pools(legs, above, state) for tenant, hold, legs, above, state in holds}
    due, more_due = _portion(open_holds, limit, options.limits.max_due)
    retiring, more_retiring = yield from _find_retiring(f"find_retiring{by}", limit, slot, options, table_full)
    going = [(tenant, pool) for _, tenant, pool in sorted(ready)[:count]]
    more = more_due or more_retiring
    return SweepCandidates(due, going, more, retiring, table_full, lines=[(tenant, pool) for tenant, pool in lines])


def _find_retiring(
    name: str, limit: int, slot: Slot | None, options: BatchOptions, table_full: bool
) -> Script[tuple[dict[Key, tuple[str, ...]], bool]]:
    """Find ended holds whose units are consumed and whose time is over, or that must make room. Return them, and whether there are more."""
    rules = (Keeping.WINDOW, Keeping.CONSUMED)
    spans = [kept_for(rule, options.limits) for rule in rules]
    clocks = [(MAX_SLOT, 0) if table_full else (slot, span) for span in spans]
    answers = yield tuple((name, (*clock, int(rule), limit + 1)) for rule, clock in zip(rules, clocks, strict=True))
    rows = sorted(
        (since + span, hold, tenant, pools)
        for span, answer in zip(spans, answers, strict=True)
        for tenant, hold, pools, since in answer
    )
    ended_holds = {(tenant, hold): split_pools(pools) for _, hold, tenant, pools in rows}
    # to make room, the number of legs is not limited: the holds that the batch names are taken out of these later
    return _portion(ended_holds, limit, MAX_SLOT if table_full else options.limits.max_due)


def _portion(found: dict[Key, tuple[str, ...]], limit: int, max_legs: int) -> tuple[dict[Key, tuple[str, ...]], bool]:
    keys, more = portion(((key, len(pools)) for key, pools in found.items()), limit, max_legs)
    return {key: found[key] for key in keys}, more


def find_candidates_and_stale_lanes(
    limit: int, options: BatchOptions, now: Slot
) -> Script[tuple[SweepCandidates, set[int]]]:
    """Find the candidates of a sweep, and the lanes that have rows to prune, the stalest first."""
    candidates = yield from find_candidates(limit, options)
    answers = yield (("find_stale_lanes", (now, STALE_LANES)),
                     ("find_retired_lanes", (retired_until(options.limits, now), STALE_LANES)))  # fmt: skip
    return candidates, {lane for rows in answers for (lane,) in rows}


def locked_candidates(
    candidates: SweepCandidates,
    holds: Collection[Key],
    pools: Collection[Key],
    locked_by_others: Collection[Key | RecordKey],
    options: BatchOptions,
) -> SweepList:
    """Return the candidates that could be locked. A pool that another transaction has locked waits for a later sweep, and so does a hold
    that it counts."""
    due = [
        key for key, its in candidates.holds.items() if key in holds and all((key[0], pool) in pools for pool in its)
    ]
    empty = [] if options.in_caller_transaction else [key for key in candidates.pools if _with_parent(key, pools)]
    retiring = [
        key
        for key, its in candidates.retiring.items()
        if key in holds and not any((key[0], pool) in locked_by_others for pool in its)
    ]
    more = candidates.more or len(due) < len(candidates.holds) or len(retiring) < len(candidates.retiring)
    lines = [key for key in candidates.lines if key in pools]
    return SweepList(due, empty, more, candidates.table_full, retiring, lines)


def _with_parent(key: Key, pools: Collection[Key]) -> bool:
    parent = parent_of(key[1])
    return key in pools and (parent is None or (key[0], parent) in pools)


def prune(options: BatchOptions, slot: Slot) -> list[Statement]:
    """Delete rows that every reader already ignores. Holds are deleted a little later, because a transaction that this one could not see
    yet may just have raised the retention. (An injected clock stands still meanwhile.)"""
    lag = LAG if options.slot is None else 0
    return [
        ("prune_operations", (slot, PRUNED)),
        ("prune_holds", (retired_until(options.limits, slot - lag), PRUNED)),
    ]
