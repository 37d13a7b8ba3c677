"""Which batches go by the guard, and what became of those that did.

A batch goes by the guard if nearly all of its groups may; a round trip for a few of them would make all others wait. A pool that missed goes
the ordinary way for a while, the longer the less likely it is that the cause has gone. A command that ends a hold does not name its pool:
so where in batch after batch most of them miss (claims, items, holds of several legs), all such commands go the ordinary way for a
moment, then one batch tries again. Nothing of this is stored, and nothing rests on it: a wrong guess costs a round trip.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ...core.commands import Group, PlaceHold
from ...core.guards import Ending, guardable
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.model import Key
from ..port import GuardStats
from .database import BatchOptions
from .failures import ID_TAKEN, StatementFailed
from .guarded import GuardedBatch, GuardedResult

MOST_POOLS: Final = 2
"""Pools of a guarded batch: with more the statement costs the server more than the ordinary way does."""
SPREAD: Final = 1.0
"""Seconds that ends go the ordinary way after those of a batch had more pools than that."""
PAUSES: Final = {
    "special": 10.0,
    "line": 1.0,
    "lock": 1.0,
    "due": 0.05,
    "pool": 0.05,
    "capacity": 0.05,
    "unnumbered": 0.01,
    "limits": 0.0,
}
"""Seconds that a pool goes the ordinary way, by the cause of its miss."""
MOST_PAUSED: Final = 4_096
DUE_FOR: Final = 2.0
"""Seconds after legs were due on a pool in which others are expected to be."""
ORDINARY_SHARE: Final = 8
"""A batch goes by the guard if at most one group in so many cannot."""
VAIN: Final = 2
"""After so many batches in a row of which most ends missed, ends go the ordinary way for as long as a pool that was not found."""
RETRIES: Final = 16
"""After an id was found that exists already, so many batches go the ordinary way: retries come in swarms."""
ANY_POOL: Final[Key] = ("", "")
"""Stands for the pools of holds that are to end, which are not known here. (No pool has an empty name.)"""


class Guards:
    """Which batches go by the guard, and what became of those that did. Used by several threads; a count may be off by a few."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._paused: dict[Key, float] = {}
        """Until when, by `time.monotonic`."""
        self._due: dict[Key, float] = {}
        """Pools on which legs have been due lately, and until when that is expected."""
        self._batches = self._commands = self._passed = 0
        self._returned = 0
        self._held_off = 0
        """Batches that go the ordinary way, whatever is in them."""
        self._misses: Counter[str] = Counter()
        self._vain = 0
        """Batches in a row of which most ends missed."""

    @property
    def stats(self) -> GuardStats:
        """What guarded batches have done."""
        return GuardStats(self._batches, self._commands, self._passed, self._returned, dict(self._misses))

    def stats_with(self, other: Guards) -> GuardStats:
        """The same of both."""
        one, two = self.stats, other.stats
        return GuardStats(one.batches + two.batches, one.commands + two.commands, one.passed + two.passed,
                          one.returned + two.returned, dict(self._misses + other._misses))  # fmt: skip

    def select(self, groups: Sequence[Group], options: BatchOptions) -> GuardedBatch | None:
        """The groups that go by the guard; None if the batch goes the ordinary way as a whole."""
        limits = options.limits
        if not self.enabled or options.bounded or options.distributed or len(groups) > limits.max_touched_legs:
            return None
        if self._held_off:
            self._held_off -= 1
            return None
        batch, now, lanes = GuardedBatch(groups, options), time.monotonic(), options.lanes
        most_left, seen = len(groups) // ORDINARY_SHARE, set[tuple[str, ...]]()
        for index, group in enumerate(groups):
            command = guardable(group, limits)
            if command is None or _in_line(command, options) or not self._admits(command, batch, seen, now, lanes):
                most_left -= 1
                if most_left < 0:
                    return None
                continue
            if len(batch.pools) > MOST_POOLS:
                return None
            batch.indexes.append(index)
            batch.commands.append(command)
        if not batch.commands:
            return None
        batch.may_be_due = not batch.ends and any(self._due.get(key, 0.0) > now for key in batch.pools)
        return batch

    def hold_off(self, batches: int = 1) -> None:
        """Let the next batches go the ordinary way."""
        self._held_off = batches

    def _admits(
        self, command: PlaceHold | Ending, batch: GuardedBatch, seen: set[tuple[str, ...]], now: float, lanes: int
    ) -> bool:
        """Whether this command may be part of the batch; an id may be in it once."""
        tenant, hold_id, op = command.tenant, command.id, command.op
        assert hold_id is not None
        if type(command) is PlaceHold:
            key = (tenant, command.legs[0].pool)
            lane = lane_of_pool(key, lanes)
            if lane_of_hold(hold_id, lanes) != lane:
                return False
        else:
            key, lane = ANY_POOL, 0
        if self._paused and self._paused.get(key, 0.0) > now:
            return False
        if (tenant, hold_id) in seen or (op is not None and (tenant, "op", op) in seen):
            return False
        seen.add((tenant, hold_id))
        if op is not None:
            seen.add((tenant, "op", op))
        if key is ANY_POOL:
            batch.ends += 1
        else:
            batch.pools[key] = lane
        return True

    def learn(self, batch: GuardedBatch, result: GuardedResult) -> None:
        """Count what passed and what did not, and let pools that missed go the ordinary way for a while."""
        passed, causes = result.passed, result.causes
        self._count(batch)
        self._passed += len(passed)
        self._returned += result.returned
        for key, cause in causes.items():
            if cause == "due" and batch.places_on_one_pool:
                self._expect_due(key)
            else:
                self._pause(key, cause)
        if batch.ends and result.pools > MOST_POOLS:
            self._pause_for(ANY_POOL, SPREAD)
        if result.returned:
            for key in batch.pools:
                self._expect_due(key)
        all_passed = len(passed) == len(batch.commands)
        ended = batch.ends if all_passed else self._learn_misses(batch, result)
        if batch.ends:
            self._learn_ends(batch.ends, ended)

    def _learn_misses(self, batch: GuardedBatch, result: GuardedResult) -> int:
        """Count what did not pass, by cause; how many holds were ended."""
        ended = 0
        for index, command in zip(batch.indexes, batch.commands, strict=True):
            if index in result.passed:
                ended += type(command) is not PlaceHold
                continue
            if type(command) is not PlaceHold:
                self._misses["hold"] += 1
                continue
            key = (command.tenant, command.legs[0].pool)
            cause = result.causes.get(key, "capacity")
            self._misses[cause] += 1
            if cause == "capacity":
                self._pause(key, cause)
        return ended

    def _learn_ends(self, ends: int, ended: int) -> None:
        """Record how often guarded ends miss."""
        self._vain = 0 if 2 * ended >= ends else self._vain + 1
        if self._vain >= VAIN:
            self._pause_for(ANY_POOL, PAUSES["pool"])

    def learn_call(self, batch: GuardedBatch, miss: str | None) -> None:
        """The same for one command in a caller's transaction, and why it missed, if it did."""
        self._count(batch)
        if batch.ends:
            self._learn_ends(1, miss is None)
        if miss is None:
            self._passed += 1
            return
        self._misses[miss] += 1
        for key in batch.pools:
            self._pause_for(key, PAUSES.get(miss, 0.0))

    def refused(self, batch: GuardedBatch, failed: StatementFailed) -> bool:
        """The server refused a statement: nothing was done. Says whether an id exists already."""
        cause = "duplicate" if failed.sqlstate in ID_TAKEN else "lock" if failed.sqlstate == "55P03" else "error"
        self._count(batch)
        self._misses[cause] += len(batch.commands)
        if cause == "lock":
            for key in [*batch.pools, *([ANY_POOL] if batch.ends else [])]:
                self._pause(key, cause)
        elif cause == "duplicate":
            self.hold_off(RETRIES)
        return cause == "duplicate"

    def _expect_due(self, key: Key) -> None:
        if len(self._due) >= MOST_PAUSED:
            self._due.clear()
        self._due[key] = time.monotonic() + DUE_FOR

    def _count(self, batch: GuardedBatch) -> None:
        self._batches += 1
        self._commands += len(batch.commands)

    def _pause(self, key: Key, cause: str) -> None:
        self._pause_for(key, PAUSES[cause])

    def _pause_for(self, key: Key, seconds: float) -> None:
        if seconds:
            if len(self._paused) >= MOST_PAUSED:
                self._paused.clear()  # they are found again
            self._paused[key] = time.monotonic() + seconds


def _in_line(command: PlaceHold | Ending, options: BatchOptions) -> bool:
    """Whether others may wait for what the command would end. (Where a hold would be placed, the pool is paused after the first miss.)"""
    known = options.lines
    return bool(known and type(command) is not PlaceHold and known.has((command.tenant, command.id or "")))
