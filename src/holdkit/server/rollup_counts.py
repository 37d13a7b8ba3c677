"""What is counted per interval, and how counts of one interval add up. Plain functions of their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from ..core.commands import COMMANDS
from ..core.entries import Action, Effect, Entry, RefusedCommand
from ..core.model import SECOND, Slot
from ..errors import Refused

STEPS: Final = {10: 6 * 3_600, 300: 7 * 86_400, 3_600: 366 * 86_400}
"""The lengths of intervals, and for how long their rows are kept, in seconds."""
REST: Final = "~rest"
"""The series of the pools that have none of their own."""
FACES: Final = "~faces"
"""The series of the reserved pools: those of claims, items, budgets, rates, calendars and resources."""
SERVER: Final = "~server"
"""The series of a server process, of the default tenant. A row of it also says that somebody was recording."""

Series: TypeAlias = tuple[str, str]
"""Tenant and name."""

"""Commands that ask for units of pools."""
_EXPIRING: Final = frozenset({Action.HOLD_EXPIRED, Action.LEG_RETURNED})
_PLACING: Final = frozenset(verb for verb, kind in COMMANDS.items() if kind.names == "legs")
_RELEASING: Final = frozenset({Action.HOLD_RELEASED, Action.HOLD_PARTLY_RELEASED})


class PoolCounts(Struct, omit_defaults=True):
    """What happened to a pool, or to several, in one interval."""

    slot: Slot = 0
    """Of the last change, and the counters after it; 0: they are not known."""
    total: int = 0
    held: int = 0
    consumed: int = 0
    peak: int = 0
    """The most units that were held and consumed together."""
    granted: int = 0
    """Holds that were granted units."""
    granted_units: int = 0
    confirmed_units: int = 0
    released_units: int = 0
    expired_units: int = 0
    refused: dict[str, int] = {}
    """Requests that were refused, by reason."""
    refused_units: int = 0
    """Units that refused requests had asked for and did not get."""
    gone: bool = False
    """The pool was removed by the last change."""

    def add(self, other: PoolCounts) -> None:
        """Add the counts of the same interval from elsewhere, or of a part of it."""
        if other.slot >= self.slot and other.slot:
            self.slot, self.total, self.held, self.consumed = other.slot, other.total, other.held, other.consumed
            self.gone = other.gone
        self.peak = max(self.peak, other.peak)
        self.granted += other.granted
        self.granted_units += other.granted_units
        self.confirmed_units += other.confirmed_units
        self.released_units += other.released_units
        self.expired_units += other.expired_units
        self.refused_units += other.refused_units
        for reason, count in other.refused.items():
            self.refused[reason] = self.refused.get(reason, 0) + count

    def flows(self) -> PoolCounts:
        """The same without the counters of one pool: for the sum of several."""
        return msgspec.structs.replace(
            self, slot=0, total=0, held=0, consumed=0, peak=0, gone=False, refused=dict(self.refused)
        )


class ServerCounts(Struct, omit_defaults=True):
    """What one server process did in one interval."""

    requests: int = 0
    errors: int = 0
    """Answers with a status from 500 on."""
    latencies: list[int] = []
    """Answers by the bucket of `metrics.BUCKETS` that their seconds fall into."""
    queue: int = 0
    """The most commands that were seen waiting for the group commit."""

    def add(self, other: ServerCounts) -> None:
        """Add the counts of the same interval from elsewhere, or of a part of it."""
        self.requests += other.requests
        self.errors += other.errors
        self.queue = max(self.queue, other.queue)
        size = max(len(self.latencies), len(other.latencies))
        mine, theirs = self.latencies, other.latencies
        self.latencies = [
            (mine[at] if at < len(mine) else 0) + (theirs[at] if at < len(theirs) else 0) for at in range(size)
        ]


decode_pool: Final = msgspec.json.Decoder(PoolCounts).decode
decode_server: Final = msgspec.json.Decoder(ServerCounts).decode


def floor(slot: Slot, step: int) -> Slot:
    """The beginning of the interval that a slot is in."""
    length = step * SECOND
    return slot - slot % length


def count_effect(counts: PoolCounts, entry: Entry, effect: Effect) -> None:
    """Count what an entry of the journal did to one pool. Called for every entry, so it makes no object."""
    pool, taken = effect.pool, effect.held + effect.consumed
    if entry.slot >= counts.slot:
        counts.slot, counts.total, counts.held, counts.consumed = entry.slot, pool.total, pool.held, pool.consumed
        counts.gone = entry.removed or entry.action is Action.POOL_REMOVED
    counts.peak = max(counts.peak, pool.held + pool.consumed)
    if taken > 0:
        counts.granted_units += taken
        if entry.action.grants:
            counts.granted += 1
    if effect.consumed > 0:
        counts.confirmed_units += effect.consumed
    if effect.held < 0:
        if entry.action in _EXPIRING:
            counts.expired_units -= effect.held
        elif entry.action in _RELEASING:
            counts.released_units -= effect.held


def refusals_of(error: Refused, named: Iterable[str]) -> Iterator[tuple[str, PoolCounts]]:
    """What a refused request adds, by pool id: for each pool that fell short, else for each that the request named."""
    shortfalls = getattr(error, "shortfalls", ())
    if shortfalls:
        for one in shortfalls:
            yield one.pool, PoolCounts(refused={error.reason: 1}, refused_units=one.requested)
        return
    for pool in named:
        yield pool, PoolCounts(refused={error.reason: 1})


def journaled_refusals(refused: RefusedCommand) -> Iterator[tuple[str, PoolCounts]]:
    """The same of an entry `command.refused`."""
    short = [leg for leg in refused.legs if leg.total is not None]
    for leg in short:
        yield leg.pool, PoolCounts(refused={refused.reason: 1}, refused_units=leg.quantity)
    if not short and _PLACING:
        for leg in refused.legs:
            yield leg.pool, PoolCounts(refused={refused.reason: 1})
