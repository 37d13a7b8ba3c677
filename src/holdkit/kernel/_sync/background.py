# Generated from ../_async/background.py by tools/gen_sync.py: do not edit.
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
    Signal,
)
from .following import Follower, end_of_journal

if TYPE_CHECKING:
    from .desk import Desk
    from .kernel import Holds

log = logging.getLogger("holdkit")

PAUSE = 1.0
"""Seconds before a listener whose reads fail looks again."""
POLL = 0.5
"""Seconds within which a listener sees the commits of other processes."""


class Sweeper:
    """Sweeps every few seconds until stopped: ``with hk.sweeper(every=5): …``, or keep it and call `stop`."""

    def __init__(self, kernel: Holds, desk: Desk, every: float, limit: int) -> None:
        self._kernel, self._every, self._limit = kernel, every, limit
        self._stop = Signal()
        self.sweeps = 0
        """Sweeps that went well."""
        self.expired = 0
        """Holds they ended."""
        self.caught_up = time.monotonic()
        """When a sweep last left nothing behind that was due."""
        self._worker = desk.employ(self._run, "holdkit-sweeper", self._stop)

    def _run(self) -> None:
        while not self._stop.closed:
            try:
                report = self._kernel.sweep(self._limit)
                self.sweeps += 1
                self.expired += report.expired
                if report.more:
                    continue
                self.caught_up = time.monotonic()
            except HoldkitError as failed:
                if self._kernel.closed:
                    return
                log.warning("sweep failed, will try again: %s", failed)
            self._stop.wait(0, self._every)

    def stop(self) -> None:
        """Stop, and wait for a sweep under way."""
        self._worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Subscription:
    """A listener: called for each matching entry after its commit. Fed by the journal, so none is lost while it lives."""

    def __init__(
        self, desk: Desk, tenant: str, action: str | None, callback: Callable[[JournalEntry], Any], after: str
    ) -> None:
        self._desk, self._tenant = desk, tenant
        self._after: str | None = after
        self._action, self._callback = action, callback
        self._stop = Signal()
        self._worker = desk.employ(self._run, "holdkit-listener", self._stop)

    def _run(self) -> None:
        committed = self._desk.submitter.committed
        while not self._stop.closed and not committed.closed:
            try:
                self._listen()
            except CursorLost as lost:
                log.warning("listener missed entries, goes on with what comes: %s", lost)
                self._after = None
            except HoldkitError as failed:
                if not committed.closed:
                    log.warning("listener could not read the journal, will try again: %s", failed)
                    self._stop.wait(0, PAUSE)

    def _listen(self) -> None:
        follower = Follower(self._desk, self._tenant)
        follower.begin(self._after or end_of_journal(self._desk))
        told: JournalEntry | None = None
        try:
            for entry in follower.follow(self._stop, wait=True, poll=POLL):
                told = entry
                if self._action is None or entry.action == self._action:
                    self._tell(entry)
        finally:
            if told is not None:
                self._after = told.cursor

    def _tell(self, entry: JournalEntry) -> None:
        try:
            self._callback(entry)
        except Exception:
            log.exception("listener failed on %s of %s; going on", entry.action, entry.subject)

    def cancel(self) -> None:
        """Call it no more. (A call under way runs to its end.)"""
        self._stop.close()
        self._desk.submitter.committed.notify()
