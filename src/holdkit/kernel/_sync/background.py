# Generated from ../_async/background.py by tools/gen_sync.py: do not edit.
"""Work beside the callers: the sweeper, and listeners. Best effort; never able to fail or delay a call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ...errors import HoldkitError
from ..surface import JournalEntry
from ..waiters import (
    Signal,
    Worker,
)

if TYPE_CHECKING:
    from .kernel import Kernel

log = logging.getLogger("holdkit")


class Sweeper:
    """Sweeps every few seconds until stopped: ``with hk.sweeper(every=5): …``, or keep it and call `stop`."""

    def __init__(self, kernel: Kernel, every: float, limit: int) -> None:
        self._kernel, self._every, self._limit = kernel, every, limit
        self._stop = Signal()
        self.sweeps = 0
        self.expired = 0
        self._worker = Worker(self._run, "holdkit-sweeper")

    def _run(self) -> None:
        while not self._stop.closed:
            try:
                report = self._kernel.sweep(self._limit)
                self.sweeps += 1
                self.expired += report.expired
                if report.more:
                    continue
            except HoldkitError as failed:
                if self._kernel.closed:
                    return
                log.warning("sweep failed, will try again: %s", failed)
            self._stop.wait(0, self._every)

    def stop(self) -> None:
        """Stop, and wait for a sweep under way."""
        self._stop.close()
        self._worker.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Subscription:
    """A listener: called for each matching entry after its commit. Fed by the journal, so none is lost while it lives."""

    def __init__(
        self, kernel: Kernel, actions: frozenset[str], callback: Callable[[JournalEntry], Any], after: str
    ) -> None:
        self._kernel, self._actions, self._callback, self._after = kernel, actions, callback, after
        self._stopped = False
        self._worker = Worker(self._run, "holdkit-listener")

    def _run(self) -> None:
        try:
            for entry in self._kernel.follow(after=self._after):
                if self._stopped:
                    return
                if not self._actions or entry.action in self._actions:
                    self._tell(entry)
        except HoldkitError as failed:
            if not self._kernel.closed:
                log.warning("listener stopped: %s", failed)

    def _tell(self, entry: JournalEntry) -> None:
        try:
            self._callback(entry)
        except Exception:
            log.exception("listener failed on %s of %s; going on", entry.action, entry.subject)

    def cancel(self) -> None:
        """Call it no more."""
        self._stopped = True
