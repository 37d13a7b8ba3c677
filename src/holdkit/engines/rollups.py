"""Rows of statistics by interval, as engines store them: without knowing what they mean, and who counts what.

A row is replaced as a whole. The rows that are counted from the journal go together with a position, in one transaction, and
only in place of the version of the position that their writer has read: of two writers one is refused, and nothing is counted
twice or missed, whoever dies when. Rows of other sources belong to one process each and need no position.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Final, Protocol

from msgspec import Struct

from ..core.model import Slot

MAX_MEMORY_ROWS: Final = 200_000
"""Rows that are kept in memory; the oldest intervals go first."""


class RollupRow(Struct, frozen=True, gc=False):
    """What one source has counted in one interval of one series."""

    step: int
    """The length of the interval, in seconds."""
    tenant: str
    series: str
    at: Slot
    """When the interval begins."""
    source: str
    """Empty: it comes from the journal."""
    body: str


class RollupPosition(Struct, frozen=True):
    """How far the journal is counted; version 0: it was never."""

    version: int = 0
    body: str = ""


class RollupStore(Protocol):
    """The engine can store rows of statistics beside the data."""

    def load_position(self) -> RollupPosition:
        """How far the journal is counted."""
        ...

    def store(self, rows: Iterable[RollupRow], position: RollupPosition | None = None) -> bool:
        """Write these rows, replacing those of the same interval, series and source: all or none. With a position, only if the
        stored one still has its version, and move it to its body in the same transaction; False if it has another version."""
        ...

    def load(self, step: int, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        """The rows of one series that begin at `since` or later and before `until`, by time."""
        ...

    def load_last(self, step: int, tenant: str, series: str, before: Slot) -> RollupRow | None:
        """The last row of one series that comes from the journal and begins before some time."""
        ...

    def prune(self, step: int, before: Slot, limit: int) -> int:
        """Delete up to `limit` of the rows that begin before some time, the oldest first; returns how many."""
        ...

    def drop(self, tenant: str) -> None:
        """Delete all rows of a tenant."""
        ...


class MemoryRollups:
    """Rows of statistics in memory, for the engines that keep everything there. They end with the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[tuple[int, str, str], dict[tuple[Slot, str], RollupRow]] = {}
        self._position = RollupPosition()
        self._count = 0

    def load_position(self) -> RollupPosition:
        """How far the journal is counted."""
        return self._position

    def store(self, rows: Iterable[RollupRow], position: RollupPosition | None = None) -> bool:
        """Write these rows, if the position has the version that was seen."""
        with self._lock:
            if position is not None:
                if position.version != self._position.version:
                    return False
                self._position = RollupPosition(position.version + 1, position.body)
            for row in rows:
                kept = self._rows.setdefault((row.step, row.tenant, row.series), {})
                self._count += (row.at, row.source) not in kept
                kept[row.at, row.source] = row
            if self._count > MAX_MEMORY_ROWS:
                self._forget()
            return True

    def load(self, step: int, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        """The rows of one series in a time, by time."""
        with self._lock:
            kept = list(self._rows.get((step, tenant, series), {}).values())
        found = sorted((row for row in kept if since <= row.at < until), key=lambda row: (row.at, row.source))
        return found[:limit]

    def load_last(self, step: int, tenant: str, series: str, before: Slot) -> RollupRow | None:
        """The last row of one series from the journal before some time."""
        with self._lock:
            kept = list(self._rows.get((step, tenant, series), {}).values())
        return max((row for row in kept if row.at < before and not row.source), key=lambda row: row.at, default=None)

    def prune(self, step: int, before: Slot, limit: int) -> int:
        """Delete rows that begin before some time."""
        with self._lock:
            old = [
                (series, key)
                for series, kept in self._rows.items()
                if series[0] == step
                for key in kept
                if key[0] < before
            ]
            for series, key in old[:limit]:
                self._remove(series, key)
            return min(len(old), limit)

    def drop(self, tenant: str) -> None:
        """Delete all rows of a tenant."""
        with self._lock:
            for series in [series for series in self._rows if series[1] == tenant]:
                self._count -= len(self._rows.pop(series))

    def _forget(self) -> None:
        oldest = sorted((key[0], series, key) for series, kept in self._rows.items() for key in kept)
        for _, series, key in oldest[: MAX_MEMORY_ROWS // 4]:
            self._remove(series, key)

    def _remove(self, series: tuple[int, str, str], key: tuple[Slot, str]) -> None:
        del self._rows[series][key]
        self._count -= 1
        if not self._rows[series]:
            del self._rows[series]
