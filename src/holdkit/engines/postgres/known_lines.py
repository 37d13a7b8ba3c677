"""Lines that batches of this process have met, so that the next batch that waits for such a pool loads the line with the rest.

Theory of operation. What to load of a line depends on its pool, which is known once it was locked: so a batch that meets a line takes one
round trip more, while everybody else waits for the lock of that pool. Where many processes stand in one line, each of them joins it,
accepts its offer and releases, again and again: these round trips are most of the time that the pool is locked. So an engine remembers
which pools had a line, and which pool a hold has waited for, and a batch that waits for locks asks for the front of those lines in
advance: behind the statement that locks the pools, so that the line is read after the lock, as ever. If the batch turns out to need more
of the line than that, it asks for it as if nothing had been read. Only a batch that waits does so: one that skips locked pools would lock
holds of a line whose pool it does not have.

The pools of a hold never change, but it may be gone: so the batch locks the pools that it expects by their names too. Nothing rests on
what is remembered; it is bounded, and may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ...core.commands import Group, JoinLine, PlaceHold
from ...core.line_loading import ToLoad
from ...core.model import Key, Pool, StoredHold

V = TypeVar("V")

MAX_LINES: Final = 256
MAX_HOLDS: Final = 4_096
EXPECTED: Final = 2
"""Who may be served by a batch that releases one unit: the first in line, and one more."""


class KnownLines:
    """Pools that had a line, and holds that have stood in one. Threads share it: each step is one operation of a dict."""

    def __init__(self) -> None:
        self._totals: dict[Key, int] = {}
        """Of the pools with a line: nobody who asks for more is served."""
        self._pools: dict[Key, Key] = {}
        """By hold."""

    def __bool__(self) -> bool:
        return bool(self._totals)

    def expected(self, pools: Iterable[Key], holds: Iterable[Key]) -> dict[Key, ToLoad]:
        """What to load in advance for a batch that names these pools and holds."""
        found = {*pools, *[pool for hold in holds if (pool := self._pools.get(hold)) is not None]}
        return {pool: ToLoad(EXPECTED, total) for pool in found if (total := self._totals.get(pool)) is not None}

    def has(self, hold: Key) -> bool:
        """Whether others may wait for what this hold has."""
        pool = self._pools.get(hold)
        return pool is not None and pool in self._totals

    def learn(self, pools: Mapping[Key, Pool], holds: Iterable[StoredHold], groups: Sequence[Group]) -> None:
        """Remember the lines at these pools, and who stands in them or is about to."""
        for key, pool in pools.items():
            if pool.waiting:
                _put(self._totals, key, pool.total, MAX_LINES)
            else:
                self._totals.pop(key, None)
        for hold in holds:
            if hold.number is not None:
                _put(self._pools, hold.key, (hold.tenant, hold.legs[0].pool), MAX_HOLDS)
        for group in groups:
            for command in group.commands:
                if isinstance(command, PlaceHold | JoinLine) and command.offer_slots is not None:
                    _put(
                        self._pools,
                        (command.tenant, command.id or ""),
                        (command.tenant, command.legs[0].pool),
                        MAX_HOLDS,
                    )


def covers(expected: Mapping[Key, ToLoad], wanted: Mapping[Key, ToLoad]) -> bool:
    """Whether what was loaded in advance is enough."""
    return all(
        (one := expected.get(key)) is not None and one.limit >= want.limit and one.most == want.most
        for key, want in wanted.items()
    )


def _put(known: dict[Key, V], key: Key, value: V, most: int) -> None:
    if key not in known and len(known) >= most:
        known.pop(next(iter(known), key), None)
    known[key] = value
