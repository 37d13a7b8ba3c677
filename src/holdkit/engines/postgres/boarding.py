"""Boarding: while a patient batch waited for its locks, others have come who want the same pools. Once it has them, they come
along; the clock and all the rest are read after that, so that nobody is decided at a time before he came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.commands import Group
from ...core.decide import Needs, needs
from ...core.model import Slot
from ..port import Board
from .driver import Script
from .loading import opening
from .rows import pool_keys
from .terms import Terms


class Gate:
    """Where they come in: once, whatever becomes of the transaction."""

    def __init__(self, groups: Sequence[Group], board: Board, now: Callable[[], Slot | None]) -> None:
        self.groups = list(groups)
        """All of them: those who come along are behind the others."""
        self._board: Board | None = board
        self.now = now
        """An injected clock's slot."""

    def wait(self, need: Needs, terms: Terms) -> Script[bool]:
        """Begin, wait for the pools, and let in who needs no others. False: there is nothing to wait for."""
        board, self._board = self._board, None
        if board is None or need.standing or need.records or need.sweep:  # more locks, which come first in the order
            return False
        yield (*opening(terms), ("lock_pools_waiting", pool_keys(sorted(need.pools), terms.lanes)))
        self.groups += board(lambda group: _fits(needs([group]), need))
        return True


def _fits(theirs: Needs, ours: Needs) -> bool:
    return theirs.pools <= ours.pools and not theirs.standing and not theirs.records and not theirs.sweep
