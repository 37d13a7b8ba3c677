"""Lines that batches of this process have met, so that the next batch that waits for such a pool loads the line together with the pool.

Theory of operation. A batch can load a line only after it has locked and read the line's pool. So a batch that meets a line needs another
round trip, while all others wait for the lock of that pool. When many processes use one line, each of them joins it, accepts its offer and
releases, again and again: these round trips are most of the time that the pool is locked. So an engine remembers which pools had a line,
and which pool a hold has waited for. A batch that waits for locks then loads the front of those lines in advance, in a statement behind the
one that locks the pools, so that the line is still read after the lock. If the batch turns out to need more of the line, it loads the line
as if nothing had been read. Only a batch that waits does so: one that skips locked pools would lock holds of a line whose pool it does not
have.

The pools of a hold never change, but the hold may be gone: so the batch locks the pools that it expects by their names too. No answer
depends on this memory; it is bounded, and may be wrong.
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
"""Holds of a line to load in advance: those that a batch which releases one unit may serve, the first and one more."""


class KnownLines:
    """Pools that had a line, and holds that have stood in one. Threads share it: each step is one operation of a dict."""

    def __init__(self) -> None:
        self._totals: dict[Key, int] = {}
        """The total of each pool with a line: a hold that asks for more is never served."""
        self._pools: dict[Key, Key] = {}
        """The pool of each hold that has waited."""

    def __bool__(self) -> bool:
        return bool(self._totals)

    def expected(self, pools: Iterable[Key], holds: Iterable[Key]) -> dict[Key, ToLoad]:
        """Return the lines to load in advance for a batch that names these pools and holds."""
        found = {*pools, *[pool for hold in holds if (pool := self._pools.get(hold)) is not None]}
        return {pool: ToLoad(EXPECTED, total) for pool in found if (total := self._totals.get(pool)) is not None}

    def has(self, hold: Key) -> bool:
        """Return whether others may wait for the units of this hold."""
        pool = self._pools.get(hold)
        return pool is not None and pool in self._totals

    def learn(self, pools: Mapping[Key, Pool], holds: Iterable[StoredHold], groups: Sequence[Group]) -> None:
        """Remember the lines at these pools, and the holds that stand in them or are about to."""
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
    """Return whether the lines loaded in advance are enough."""
    return all(
        (one := expected.get(key)) is not None and one.limit >= want.limit and one.most == want.most
        for key, want in wanted.items()
    )


def _put(known: dict[Key, V], key: Key, value: V, most: int) -> None:
    if key not in known and len(known) >= most:
        known.pop(next(iter(known), key), None)
    known[key] = value
