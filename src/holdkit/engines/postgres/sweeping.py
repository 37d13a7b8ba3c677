"""What a sweep finds to do, at a first look without locks. Decides nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ...core.backlog import portion
from ...core.decide import NOTHING_DUE, SweepList
from ...core.ladders.retiring import Keeping, kept_for
from ...core.model import MAX_SLOT, Key, RecordKey, Slot
from ...core.retention import retired_until
from .batch_options import BatchOptions
from .driver import Script
from .rows import legs_of

IDLE_POOLS = 100
"""How many empty on-demand pools one sweep takes away."""

STALE_LANES = 32
"""In how many other lanes one sweep prunes, where each is a transaction of its own."""


class Listed(NamedTuple):
    """What a sweep found to do, at a first look without locks."""

    holds: dict[Key, tuple[str, ...]]
    pools: list[Key]
    more: bool
    retiring: dict[Key, tuple[str, ...]]
    """Ended holds that may be dropped, with their pools."""
    pressed: bool = False


NOTHING_LISTED = Listed({}, [], False, {})


def list_sweep(
    limit: int, options: BatchOptions, idle_pools: int = IDLE_POOLS, *, pressed: bool = False
) -> Script[Listed]:
    """The holds with due legs anywhere, as many as one transaction may return legs, and the pools that may go: where the
    table of pools is full (`pressed`), also those that are only kept to be looked up."""
    names, slot = ("find_sweep", "find_rested_pools", "find_closed_pools", "find_retiring"), options.slot
    if options.distributed:  # where a look goes everywhere it cannot ask for the time as well
        names = ("find_due_holds", "find_rested_pools_by", "find_closed_pools_by", "find_retiring_by")
        (((slot,),),) = yield (("read_clock", (slot,)),)
    count = 0 if options.joined else idle_pools
    retention = options.limits.retention
    holds, empty, rested, closed = yield (
        (names[0], (slot, limit + 1)),
        ("find_idle_pools", (count,)),
        (names[1], (MAX_SLOT if pressed else slot, 0 if pressed else retention, count)),
        (names[2], (slot, count)),
    )
    since = retention if not pressed else 0
    ready = [*empty, *((row[0], row[1], row[2] + since) for row in rested), *closed]
    pools = sorted(ready, key=lambda row: (row[2], row[0], row[1]))[:count]
    found = {(row[0], row[1]): tuple(leg.pool for leg in legs_of(row[2]) if leg.held) for row in holds}
    listed, more = _portion(found, limit, options.limits.max_due)
    retiring, left = yield from _list_retiring(names[3], limit, slot, options, pressed)
    return Listed(listed, [(row[0], row[1]) for row in pools], more or left, retiring, pressed)


def _list_retiring(
    name: str, limit: int, slot: Slot | None, options: BatchOptions, pressed: bool
) -> Script[tuple[dict[Key, tuple[str, ...]], bool]]:
    """Ended holds whose units are consumed, and whose time is over, or that must make room; and whether there are more."""
    rules = (Keeping.WINDOW, Keeping.CONSUMED)
    spans = [kept_for(rule, options.limits) for rule in rules]
    clocks = [(MAX_SLOT, 0) if pressed else (slot, span) for span in spans]
    answers = yield tuple((name, (*clock, int(rule), limit + 1)) for rule, clock in zip(rules, clocks, strict=True))
    rows = sorted(
        (row[3] + span, row[1], row[0], row[2]) for span, answer in zip(spans, answers, strict=True) for row in answer
    )
    found = {(tenant, hold): tuple(leg.pool for leg in legs_of(legs)) for _, hold, tenant, legs in rows}
    # for room, as many as there must be: those that the batch names are left out yet
    return _portion(found, limit, MAX_SLOT if pressed else options.limits.max_due)


def _portion(found: dict[Key, tuple[str, ...]], limit: int, max_legs: int) -> tuple[dict[Key, tuple[str, ...]], bool]:
    keys, more = portion(((key, len(pools)) for key, pools in found.items()), limit, max_legs)
    return {key: found[key] for key in keys}, more


def look_around(limit: int, options: BatchOptions, now: Slot) -> Script[tuple[Listed, set[int]]]:
    """What a sweep would find, and lanes with something to prune, the stalest first; a look without locks."""
    listed = yield from list_sweep(limit, options)
    answers = yield (("find_stale_lanes", (now, STALE_LANES)),
                     ("find_retired_lanes", (retired_until(options.limits, now), STALE_LANES)))  # fmt: skip
    return listed, {row[0] for rows in answers for row in rows}


def swept(
    listed: Listed,
    holds: Collection[Key],
    pools: Collection[Key],
    locked_out: Collection[Key | RecordKey],
    options: BatchOptions,
) -> SweepList:
    """What of it could be locked; a pool that somebody else has comes another time, and so does a hold that it counts."""
    if listed is NOTHING_LISTED:
        return NOTHING_DUE
    locked = [key for key, its in listed.holds.items() if key in holds and all((key[0], pool) in pools for pool in its)]
    empty = [] if options.joined else [pool for pool in listed.pools if pool in pools]
    retiring = [
        key
        for key, its in listed.retiring.items()
        if key in holds and not any((key[0], pool) in locked_out for pool in its)
    ]
    more = listed.more or len(locked) < len(listed.holds) or len(retiring) < len(listed.retiring)
    return SweepList(locked, empty, more, listed.pressed, retiring)
