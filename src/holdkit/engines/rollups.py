"""Rows of statistics by interval, as engines store them without knowing what they count.

Rows are stored together with a position, in one transaction, and only if the stored position still has the version that their
writer has read. So of two writers that have read the same version, one is refused and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Final, Protocol

from msgspec import Struct

from ..core.model import Slot

RECORDED: Final = "~server"
"""The series, of the default tenant, that has a row for each interval in which a server was recording."""
MAX_MEMORY_ROWS: Final = 200_000
"""Rows that `MemoryRollups` keeps; the oldest intervals are dropped first."""


class RollupRow(Struct, frozen=True, gc=False):
    """The counts of one series in one interval."""

    tenant: str
    series: str
    at: Slot
    """When the interval begins."""
    body: str


class RollupPosition(Struct, frozen=True):
    """The cursor up to which the journal is counted; version 0: nothing is."""

    version: int = 0
    cursor: str = ""


class RollupStore(Protocol):
    """The engine can store rows of statistics beside the data."""

    def load_position(self) -> RollupPosition:
        """Return the stored position."""
        ...

    def store(self, rows: Iterable[RollupRow], position: RollupPosition) -> bool:
        """Replace the rows of these series and intervals, and move the position to this cursor and the next version: all or
        nothing. Return False if the stored position has another version."""
        ...

    def load(self, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        """Return the rows of one series that begin at `since` or later and before `until`: the newest first."""
        ...

    def load_interval(self, tenant: str, at: Slot) -> list[RollupRow]:
        """Return all rows of a tenant in one interval."""
        ...

    def prune(self, keep: int, limit: int) -> int:
        """Delete rows that begin before the newest `keep` rows of `RECORDED`, about `limit` of them; return their number."""
        ...

    def drop(self, tenant: str) -> None:
        """Delete all rows of a tenant."""
        ...


class MemoryRollups:
    """Rows of statistics of an engine that keeps everything in memory. They end with the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._intervals: dict[Slot, dict[tuple[str, str], RollupRow]] = {}
        self._position = RollupPosition()

    def load_position(self) -> RollupPosition:
        return self._position

    def store(self, rows: Iterable[RollupRow], position: RollupPosition) -> bool:
        with self._lock:
            if position.version != self._position.version:
                return False
            self._position = RollupPosition(position.version + 1, position.cursor)
            for row in rows:
                self._intervals.setdefault(row.at, {})[row.tenant, row.series] = row
            while sum(map(len, self._intervals.values())) > MAX_MEMORY_ROWS:
                del self._intervals[min(self._intervals)]
            return True

    def load(self, tenant: str, series: str, since: Slot, until: Slot, limit: int) -> list[RollupRow]:
        with self._lock:
            rows = [self._intervals[at].get((tenant, series)) for at in sorted(self._intervals) if since <= at < until]
        return [row for row in reversed(rows) if row is not None][:limit]

    def load_interval(self, tenant: str, at: Slot) -> list[RollupRow]:
        with self._lock:
            return [row for row in self._intervals.get(at, {}).values() if row.tenant == tenant]

    def prune(self, keep: int, limit: int) -> int:  # noqa: ARG002 - deletes without a transaction that could become long
        with self._lock:
            recorded = sorted((at for at, rows in self._intervals.items() if ("", RECORDED) in rows), reverse=True)
            kept_from = recorded[keep - 1] if len(recorded) >= keep else 0
            return sum(len(self._intervals.pop(at)) for at in [*self._intervals] if at < kept_from)

    def drop(self, tenant: str) -> None:
        with self._lock:
            for at, rows in self._intervals.items():
                self._intervals[at] = {key: row for key, row in rows.items() if key[0] != tenant}
