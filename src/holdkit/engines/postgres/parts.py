"""Entries by lane: everything about a pool is in its own lane, in order.

A hold's own change is in its home lane; where its pools live in other lanes, each of these gets a part: the same entry, with
the pools of that lane and without the hold. So each lane folds by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from ...core.entries import Action, Effect, Entry
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from .rows import entry_text

_POOLS = frozenset({Action.POOL_CREATED, Action.POOL_RESIZED, Action.POOL_REMOVED, Action.POOL_REPAIRED})


class Part(NamedTuple):
    """One row of the journal, before it has a number."""

    lane: int
    n: int
    """Its place among the batch's own in this lane, from 1."""
    tenant: str
    subject: str
    text: str
    crc: int
    entry: int | None
    """Which entry of the batch this is; None if it is only a part of one."""


def home_of(entry: Entry, lanes: int) -> int:
    """The lane of what the entry is about."""
    if entry.record is not None:
        return lane_of_record(entry.record.key, lanes)
    if entry.action in _POOLS:
        return lane_of_pool((entry.tenant, entry.subject), lanes)
    return lane_of_hold(entry.subject, lanes)


def parts_of(entries: Sequence[Entry], lanes: int) -> list[Part]:
    """Every entry, in order, cut up by lane where it must be."""
    parts: list[Part] = []
    counts: dict[int, int] = {}
    for index, entry in enumerate(entries):
        home = home_of(entry, lanes)
        for lane, piece in _cut(entry, home, lanes):
            counts[lane] = n = counts.get(lane, 0) + 1
            text, crc = entry_text(piece)
            parts.append(Part(lane, n, entry.tenant, entry.subject, text, crc, index if lane == home else None))
    return parts


def _cut(entry: Entry, home: int, lanes: int) -> list[tuple[int, Entry]]:
    by_lane: dict[int, list[Effect]] = {home: []}
    for effect in entry.effects:
        by_lane.setdefault(lane_of_pool((effect.pool.tenant, effect.pool.id), lanes), []).append(effect)
    if len(by_lane) == 1:
        return [(home, entry)]
    own = structs.replace(entry, effects=tuple(by_lane.pop(home)))
    others = [
        (lane, structs.replace(entry, effects=tuple(effects), hold=None, change=None, part=True))
        for lane, effects in sorted(by_lane.items())
    ]
    return [(home, own), *others]
