"""Work beside the callers: the sweeper, and listeners. Best effort; never able to fail or delay a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ...errors import CursorLost, HoldkitError
from ..surface import JournalEntry
from ..workers import (
    AsyncSignal,
    call_listener,  # async-only
)
from .following import AsyncFollower, end_of_journal

if TYPE_CHECKING:
    from .desk import AsyncDesk
    from .kernel import AsyncHolds

log = logging.getLogger("holdkit")

PAUSE = 1.0
"""Seconds before a listener whose reads fail looks again."""
POLL = 0.5
"""Seconds within which a listener sees the commits of other processes."""


class AsyncSweeper:
    """Sweeps every few seconds until stopped: ``with hk.sweeper(every=5): …``, or keep it and call `stop`."""

    def __init__(self, kernel: AsyncHolds, desk: AsyncDesk, every: float, limit: int) -> None:
        self._kernel, self._every, self._limit = kernel, every, limit
        self._stop = AsyncSignal()
        self.sweeps = 0
        """Sweeps that went well."""
        self.expired = 0
        """Holds they ended."""
        self.caught_up = time.monotonic()
        """When a sweep last left nothing behind that was due."""
        self._worker = desk.employ(self._run, "holdkit-sweeper", self._stop)

    async def _run(self) -> None:
        while not self._stop.closed:
            try:
                report = await self._kernel.sweep(self._limit)
                self.sweeps += 1
                self.expired += report.expired
                if report.more:
                    continue
                self.caught_up = time.monotonic()
            except HoldkitError as failed:
                if self._kernel.closed:
                    return
                log.warning("sweep failed, will try again: %s", failed)
            await self._stop.wait(0, self._every)

    async def stop(self) -> None:
        """Stop, and wait for a sweep under way."""
        await self._worker.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class AsyncSubscription:
    """A listener: called for each matching entry after its commit. Fed by the journal, so none is lost while it lives."""

    def __init__(
        self, desk: AsyncDesk, tenant: str, action: str | None, callback: Callable[[JournalEntry], Any], after: str
    ) -> None:
        self._desk, self._tenant = desk, tenant
        self._after: str | None = after
        self._action, self._callback = action, callback
        self._stop = AsyncSignal()
        self._worker = desk.employ(self._run, "holdkit-listener", self._stop)

    async def _run(self) -> None:
        committed = self._desk.submitter.committed
        while not self._stop.closed and not committed.closed:
            try:
                await self._listen()
            except CursorLost as lost:
                log.warning("listener missed entries, goes on with what comes: %s", lost)
                self._after = None
            except HoldkitError as failed:
                if not committed.closed:
                    log.warning("listener could not read the journal, will try again: %s", failed)
                    await self._stop.wait(0, PAUSE)

    async def _listen(self) -> None:
        follower = AsyncFollower(self._desk, self._tenant)
        await follower.begin(self._after or await end_of_journal(self._desk))
        told: JournalEntry | None = None
        try:
            async for entry in follower.follow(self._stop, wait=True, poll=POLL):
                told = entry
                if self._action is None or entry.action == self._action:
                    await self._tell(entry)
        finally:
            if told is not None:
                self._after = told.cursor

    async def _tell(self, entry: JournalEntry) -> None:
        try:
            await call_listener(self._callback, entry)  # async-only
            # sync-only: self._callback(entry)
        except Exception:
            log.exception("listener failed on %s of %s; going on", entry.action, entry.subject)

    def cancel(self) -> None:
        """Call it no more. (A call under way runs to its end.)"""
        self._stop.close()
        self._desk.submitter.committed.notify()
