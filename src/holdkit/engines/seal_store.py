"""Where an engine keeps the seals of its journal."""

from __future__ import annotations

from typing import Protocol

from ..core.reading import JournalRow
from ..core.seals import Seal


class SealStore(Protocol):
    """The engine can keep the seals of its journal (`holdkit.core.seals`). It stores them, and does not know what they say."""

    def last_seals(self) -> dict[int, Seal]:
        """Return the last seal of each lane that has any."""
        ...

    def read_seals(self, lane: int, after: int, limit: int) -> list[Seal]:
        """Return a lane's seals whose first entry has a number above `after`, in order."""
        ...

    def read_run(self, lane: int, after: int, limit: int) -> list[JournalRow]:
        """Return a lane's entries after a number, in order, with the numbers and texts that are stored."""
        ...

    def rewrites(self) -> int:
        """Return how often an erasure has rewritten entries. Asked before the entries are read."""
        ...

    def add_seal(self, seal: Seal, rewrites: int) -> bool:
        """Store a seal, durably, unless there is one that begins with the same entry; whether it is this one that is stored."""
        ...
