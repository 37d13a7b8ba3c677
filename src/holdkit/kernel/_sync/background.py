# Generated from ../_async/background.py by tools/gen_sync.py: do not edit.
"""Work beside the callers: the sweeper, and listeners. Best effort; never able to fail or delay a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from ...core.entries import Action
from ...core.validation import invalid
from ...errors import CursorLost, HoldkitError
from ..workers import (
    Signal,
    Work,
    Worker,
)
from .listening import EarPort, Told

if TYPE_CHECKING:
    from .executor import Executor
    from .kernel import Holds

log = logging.getLogger("holdkit")

PAUSE = 1.0
"""Seconds before a listener whose reads fail looks again."""

Employ: TypeAlias = "Callable[[Work, str, Signal], Worker]"


class Sweeper:
    """Sweeps every few seconds until stopped: ``with hk.sweeper(every=5): …``, or keep it and call `stop`."""

    def __init__(self, kernel: Holds, executor: Executor, every: float, limit: int) -> None:
        self._kernel, self._every, self._limit = kernel, every, limit
        self._stop = Signal()
        self.sweeps = 0
        """Sweeps that went well."""
        self.expired = 0
        """Holds they ended."""
        self.caught_up = time.monotonic()
        """When a sweep last left nothing behind that was due."""
        self._worker = executor.start_worker(self._run, "holdkit-sweeper", self._stop)

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


class Subscription(Generic[Told]):
    """A listener: called for each matching entry after its commit. Fed by the journal, so none is lost while it lives."""

    def __init__(
        self, ear: EarPort[Told], start_worker: Employ, action: str | None, callback: Callable[[Told], Any]
    ) -> None:
        self._ear = ear
        self._action, self._callback = action, callback
        self._worker = start_worker(self._run, "holdkit-listener", ear.stop)

    def _run(self) -> None:
        while not self._over():
            try:
                for entry in self._ear.listen():
                    if self._action in (None, entry.action) and not self._over():
                        self._tell(entry)
            except CursorLost as lost:
                log.warning("listener missed entries, goes on with what comes: %s", lost)
                self._ear.skip()
            except HoldkitError as failed:
                if not self._over():
                    log.warning("listener could not read the journal, will try again: %s", failed)
                    self._ear.stop.wait(0, PAUSE)

    def _over(self) -> bool:
        return self._ear.stop.closed or self._ear.closed

    def _tell(self, entry: Told) -> None:
        try:
            self._callback(entry)
        except Exception:
            log.exception("listener failed on %s of %s; going on", entry.action, entry.subject)

    def cancel(self) -> None:
        """Call it no more. (A call under way runs to its end.)"""
        self._ear.hang_up()


def check_listener(action: object, callback: object) -> None:
    """What `on` takes."""
    if action is not None and action not in list(Action):
        raise invalid("action", "action_unknown", f"must be one of {', '.join(Action)}")
    if not callable(callback):
        raise invalid("callback", "callback_not_callable", f"must be a function, not {type(callback).__name__}")
