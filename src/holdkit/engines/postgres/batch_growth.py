"""Boarding: while a patient batch waited for its locks, others have come who want the same pools. Once it has them, they come
along; the clock and all the rest are read after that, so that nobody is decided at a time before he came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.commands import Group
from ...core.decide import Needs, needs
from ...core.model import Slot
from ..port import AddLate
from .batch_options import BatchOptions
from .driver import Script
from .loading import opening
from .rows import pool_keys


class GrowingBatch:
    """Where they come in: once, whatever becomes of the transaction."""

    def __init__(self, groups: Sequence[Group], add_late: AddLate, now: Callable[[], Slot | None]) -> None:
        self.groups = list(groups)
        """All of them: those who come along are behind the others."""
        self._add_late: AddLate | None = add_late
        self.now = now
        """An injected clock's slot."""

    def wait(self, need: Needs, options: BatchOptions) -> Script[bool]:
        """Begin, wait for the pools, and let in who needs no others. False: there is nothing to wait for."""
        add_late, self._add_late = self._add_late, None
        if add_late is None or need.standing or need.records or need.sweep:  # more locks, which come first in the order
            return False
        yield (*opening(options), ("lock_pools_waiting", pool_keys(sorted(need.pools), options.lanes)))
        self.groups += add_late(lambda group: _fits(needs([group]), need))
        return True


def _fits(theirs: Needs, ours: Needs) -> bool:
    return theirs.pools <= ours.pools and not theirs.standing and not theirs.records and not theirs.sweep
