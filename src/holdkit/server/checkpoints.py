"""Counting what tenants have stored, across restarts: what was counted of the journal is stored now and then.

A journal of a year has a hundred million entries, and counting takes about 7 µs for each. So a server stores the count when it has
counted many entries since, in records of the default tenant, and a server that starts continues from there. Several servers store
theirs in the same records: each is right by itself, and all parts of one are written in one transaction.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from ..core.commands import AnyCommand, PutRecord
from ..core.reading import ListRecords
from ..kernel._async.executor import AsyncExecutor
from ..kernel._async.usage import AsyncUsageCounter, JournalCount

USAGE: Final = "~usage"
PART: Final = 500
"""Tenants in one record: it stays far below the largest body."""
MOST_PARTS: Final = 900
"""Parts that one transaction writes; with more tenants nothing is stored, and every start counts the whole journal."""
STORE_AFTER: Final = 200_000
"""Entries that are counted again, at most, when a server starts."""


class Part(Struct, frozen=True):
    """A part of a count."""

    parts: int
    count: JournalCount


_decoder: Final = msgspec.json.Decoder(Part)


class CheckpointedCounter(AsyncUsageCounter):
    """Counts rows and bytes by tenant, beginning from the stored count."""

    def __init__(self, executor: AsyncExecutor) -> None:
        super().__init__(executor)
        self._loaded = False
        self._stored_at = 0

    async def catch_up(self) -> None:
        """Count the journal to its end, and store the count if much was added."""
        if not self._loaded:
            self.journal = await self._load()
            self._stored_at, self._loaded = sum(self.journal.reached.values()), True
        await self.begin()
        while await self.step():
            await self._store()
        await self._store()

    async def _load(self) -> JournalCount:
        rows = await self._executor.read(ListRecords("", USAGE, "", 1_000))
        parts = [_decoder.decode(row.body) for row in rows]
        whole = JournalCount()
        for part in parts:
            if part.parts != len(parts) or part.count.reached != parts[0].count.reached:
                return JournalCount()  # another form, or a part was removed: count anew
            whole.generation, whole.reached = part.count.generation, part.count.reached
            whole.tenants.update(part.count.tenants)
        return whole

    async def _store(self) -> None:
        journal = self.journal
        reached = sum(journal.reached.values())
        count = max(1, -(-len(journal.tenants) // PART))
        if abs(reached - self._stored_at) < STORE_AFTER or count > MOST_PARTS:
            return
        self._stored_at = reached
        tenants = iter(journal.tenants.items())
        commands: list[AnyCommand] = []
        for number in range(count):
            part = JournalCount(journal.generation, journal.reached, dict(islice(tenants, PART)), True)
            body = msgspec.json.encode(Part(count, part)).decode()
            commands.append(PutRecord(kind=USAGE, id=f"{number:03}", body=body))
        stale = await self._executor.read(ListRecords("", USAGE, f"{count - 1:03}", 1_000))
        commands += [PutRecord(kind=USAGE, id=row.id, body=None) for row in stale]
        await self._executor.execute_all(commands)
