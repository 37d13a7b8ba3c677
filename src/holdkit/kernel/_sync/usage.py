# Generated from ../_async/usage.py by tools/gen_sync.py: do not edit.
"""Counting what tenants have stored, in steps that each read a bounded number of rows, beside the decisions and not in them.

The journal is counted once, for all tenants together, from its beginning; after that only what was added. Its rows never change.
When some are archived, the counting begins anew. The other tables are counted anew each time, for one tenant: their rows come and
go, and a tenant's own rows are all that is read.

A journal that was replaced or cut back has another generation: then the counting begins anew.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...core.archived import FindArchived
from ...core.reading import COUNTED, CountEntries, CountRows, ReadGeneration
from ..reports import StorageUsage
from .executor import Executor


class JournalCount(Struct):
    """Entries and bytes by tenant, up to a position of one generation of the journal. Can be stored."""

    generation: str = ""
    reached: dict[int, int] = {}
    tenants: dict[str, tuple[int, int]] = {}
    complete: bool = False
    archived: dict[int, int] = {}
    """How far each lane was archived when the counting began."""


class UsageCounter:
    """Counts rows and bytes by tenant."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.journal = JournalCount()

    def begin(self) -> None:
        """Begin anew if the journal has another generation than the one that was counted."""
        generation = self._executor.read(ReadGeneration())
        archived = {lane.lane: lane.through for lane in self._executor.read(FindArchived())}
        if (generation, archived) != (self.journal.generation, self.journal.archived):
            self.journal = JournalCount(generation, archived=archived)

    def step(self) -> bool:
        """Count some more of the journal; returns whether anything is left."""
        journal = self.journal
        found = self._executor.read(CountEntries(journal.reached))
        for tenant, (rows, size) in found.tenants.items():
            before = journal.tenants.get(tenant, (0, 0))
            journal.tenants[tenant] = (before[0] + rows, before[1] + size)
        journal.reached, journal.complete = found.reached, not found.more
        return found.more

    def catch_up(self) -> None:
        """Count the journal to its end."""
        self.begin()
        while self.step():
            pass

    def usage(self, tenant: str) -> StorageUsage:
        """Count the other tables of a tenant, and add the entries that have been counted by now."""
        counts: dict[str, Any] = {}
        size = live = 0
        for table in COUNTED:
            rows, after = 0, ""
            while True:
                found = self._executor.read(CountRows(tenant, table, after))
                rows, size, live = rows + found.rows, size + found.bytes, live + found.live
                if found.next is None:
                    break
                after = found.next
            counts[table] = rows
        entries, its = self.journal.tenants.get(tenant, (0, 0))
        complete = self.journal.complete
        return StorageUsage(**counts, live_holds=live, entries=entries, bytes=size + its, complete=complete)
