"""New entries of the journal, read once for all that wait for some of them: webhooks, and places in line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from ..core.reading import FindEnds, JournalRow, ReadJournal
from ..errors import HoldkitError
from ..kernel._async.executor import AsyncExecutor

log = logging.getLogger("holdkit.server")

PAGE: Final = 50
PACE: Final = 0.02
"""Seconds between two reads while entries keep coming, so that one read serves many commits."""
POLL: Final = 0.5
"""Seconds after which entries of other processes are looked for, if the engine does not report them."""
PAUSE: Final = 1.0
"""Seconds between two attempts while the journal cannot be read."""


class JournalWatch:
    """Calls `take` with new entries of all tenants, in order; and with None if some may have been missed: at the beginning, and when
    the journal was cut back."""

    def __init__(self, executor: AsyncExecutor, take: Callable[[Sequence[JournalRow] | None], None], what: str) -> None:
        self._executor, self._take, self._what = executor, take, what
        self._seen: dict[int, int] | None = None

    async def run(self) -> None:
        """Watch until the kernel closes, from the end of the journal on."""
        committed = self._executor.committed
        self._executor.listen()
        while not committed.closed:
            count = committed.count
            try:
                more = await self._read()
            except HoldkitError as failed:
                if self._executor.closed:
                    return
                log.warning(
                    "cannot read the journal for %s, will retry: %s",
                    self._what,
                    failed,
                    extra={"event": "journal_unread", "reader": self._what},
                )
                await asyncio.sleep(PAUSE)
                continue
            if not more:
                await asyncio.sleep(PACE)
                await committed.wait(count, POLL)

    async def _read(self) -> bool:
        """Read one page. Return whether more follows."""
        ends = {end.lane: end.seq for end in await self._executor.read(FindEnds())}
        seen = self._seen
        if ends == seen:
            return False
        if seen is None or any(ends.get(lane, 0) < seq for lane, seq in seen.items()):  # or the journal was cut back
            self._seen = ends
            self._take(None)
            return False
        rows = await self._executor.read(ReadJournal(None, dict(seen), PAGE))
        for row in rows:
            seen[row.lane] = max(row.seq, seen.get(row.lane, 0))
        self._take(rows)
        return len(rows) == PAGE
