"""Which tenants have new entries: one reader of the journal for all webhooks of a process, so that the webhooks of an idle tenant
read nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from ...core.entries import Action
from ...core.reading import FindEnds, JournalRow, ReadJournal
from ...errors import HoldkitError
from ...kernel._async.executor import AsyncExecutor

log = logging.getLogger("holdkit.server")

PAGE: Final = 50
PACE: Final = 0.02
"""Seconds between two reads while entries keep coming, so that one read serves many commits."""
POLL: Final = 0.5
"""Seconds after which entries of other processes are looked for, if the engine does not report them."""


class _Record(Struct):
    kind: str


class _Entry(Struct):
    """What is decoded of an entry."""

    action: str
    tenant: str = ""
    record: _Record | None = None


_entry: Final = msgspec.json.Decoder(_Entry)


class JournalWatch:
    """Calls `wake` with the tenants that have new entries, or with None if any may have."""

    def __init__(self, executor: AsyncExecutor, wake: Callable[[set[str] | None], None]) -> None:
        self._executor, self._wake = executor, wake
        self._seen: dict[int, int] = {}

    async def begin(self) -> None:
        """Begin at the end of the journal. What was there before is for the webhooks to find when they start."""
        self._seen = {end.lane: end.seq for end in await self._executor.read(FindEnds())}

    async def run(self) -> None:
        """Watch until the kernel closes."""
        committed = self._executor.committed
        self._executor.listen()
        while not committed.closed:
            count = committed.count
            try:
                more = await self._read()
            except HoldkitError as failed:
                if self._executor.closed:
                    return
                log.warning("cannot read the journal for webhooks, will retry: %s", failed)
                await asyncio.sleep(1.0)
                continue
            if not more:
                await asyncio.sleep(PACE)
                await committed.wait(count, POLL)

    async def _read(self) -> bool:
        """Read one page; True if more follows."""
        ends = {end.lane: end.seq for end in await self._executor.read(FindEnds())}
        if ends == self._seen:
            return False
        if any(ends.get(lane, 0) < seq for lane, seq in self._seen.items()):  # the journal was cut back
            self._seen = ends
            self._wake(None)
            return False
        rows = await self._executor.read(ReadJournal(None, dict(self._seen), PAGE))
        tenants = {entry.tenant for entry in map(_decoded, rows) if not _is_own(entry)}
        for row in rows:
            self._seen[row.lane] = max(row.seq, self._seen.get(row.lane, 0))
        if tenants:
            self._wake(tenants)
        return len(rows) == PAGE


def _decoded(row: JournalRow) -> _Entry:
    return _entry.decode(row.text)


def _is_own(entry: _Entry) -> bool:
    """Our own bookkeeping, the cursors of webhooks among it."""
    return entry.action == Action.RECORD_PUT and entry.record is not None and entry.record.kind.startswith("~")
