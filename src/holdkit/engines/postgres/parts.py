"""Entries by lane: everything about a pool is in its own lane, in order.

A hold's own change is in its home lane; where its pools live in other lanes, each of these gets a part: the same entry, with
the pools of that lane and without the hold. So each lane folds by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ...core.entries import Action, Effect, Entry
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from .rows import checksum, entry_text

_POOLS = frozenset(action for action in Action if action.startswith("pool."))


class Parts:
    """Rows of the journal, before they have numbers: column by column."""

    def __init__(self) -> None:
        self.lanes: list[int] = []
        self.numbers: list[int] = []
        """Its place among the batch's own in this lane, from 1."""
        self.tenants: list[str] = []
        self.subjects: list[str] = []
        self.texts: list[bytes] = []
        self.homes: list[int] = []
        """Of each entry: the row that is not only a part of it."""
        self.counts: dict[int, int] = {}

    def add(self, lane: int, entry: Entry) -> None:
        """One row."""
        self.counts[lane] = n = self.counts.get(lane, 0) + 1
        self.lanes.append(lane)
        self.numbers.append(n)
        self.tenants.append(entry.tenant)
        self.subjects.append(entry.subject)
        self.texts.append(entry_text(entry))

    @property
    def columns(self) -> list[list[Any]]:
        """For `write_journal` and `write_unnumbered`."""
        crcs = [checksum(text) for text in self.texts]
        return [self.lanes, self.numbers, self.tenants, self.subjects, self.texts, crcs]


def home_of(entry: Entry, lanes: int) -> int:
    """The lane of what the entry is about."""
    if entry.record is not None:
        return lane_of_record(entry.record.key, lanes)
    if entry.action in _POOLS:
        return lane_of_pool((entry.tenant, entry.subject), lanes)
    return lane_of_hold(entry.subject, lanes)


def parts_of(entries: Sequence[Entry], lanes: int) -> Parts:
    """Every entry, in order, cut up by lane where it must be."""
    parts = Parts()
    for entry in entries:
        home = home_of(entry, lanes)
        parts.homes.append(len(parts.lanes))
        for effect in entry.effects:
            if lane_of_pool((effect.pool.tenant, effect.pool.id), lanes) != home:
                _cut(parts, entry, home, lanes)
                break
        else:
            parts.add(home, entry)
    return parts


def _cut(parts: Parts, entry: Entry, home: int, lanes: int) -> None:
    by_lane: dict[int, list[Effect]] = {} if entry.part else {home: []}  # a part came from elsewhere, and has no home
    for effect in entry.effects:
        by_lane.setdefault(lane_of_pool(effect.pool.key, lanes), []).append(effect)
    if not entry.part:
        parts.add(home, structs.replace(entry, effects=tuple(by_lane.pop(home))))
    for lane, effects in sorted(by_lane.items()):
        parts.add(lane, structs.replace(entry, effects=tuple(effects), hold=None, change=None, part=True))
