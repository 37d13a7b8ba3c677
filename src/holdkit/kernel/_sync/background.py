# Generated from ../_async/background.py by tools/gen_sync.py: do not edit.
"""Work in the background: the sweeper, and listeners. Best effort; it can neither fail nor delay a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

from ...errors import CursorLost, HoldkitError
from ..journal import JournalEntry
from ..seals import Sealer
from ..workers import (
    Signal,
    Work,
    Worker,
)
from .executor import Executor
from .following import Follower, end_of_journal

if TYPE_CHECKING:
    from .kernel import Holds

log = logging.getLogger("holdkit")

PAUSE = 1.0
"""Seconds before a listener whose reads fail tries again."""
POLL = 0.5
"""Seconds within which a listener sees the commits of other processes."""

StartWorker: TypeAlias = "Callable[[Work, str, Signal], Worker]"


class Sweeper:
    """Sweeps every few seconds until stopped: ``with hk.sweeper(every=5): …``, or keep it and call `stop`."""

    def __init__(
        self, kernel: Holds, executor: Executor, every: float, limit: int, sealer: Sealer | None = None
    ) -> None:
        self._kernel, self._every, self._limit = kernel, every, limit
        self._executor, self._sealer = executor, sealer
        self._stop = Signal()
        self.sweeps = 0
        """Sweeps that succeeded."""
        self.expired = 0
        """Holds that they expired."""
        self.sealed = 0
        """Runs of the journal that were sealed."""
        self.caught_up = time.monotonic()
        """When a sweep last left nothing due behind."""
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
                if self._sealer is not None:
                    self.sealed += self._executor.run_blocking(self._sealer.step)
            except HoldkitError as failed:
                if self._kernel._executor.closed:
                    return
                log.warning("sweep failed, will try again: %s", failed, extra={"event": "sweep_failed"})
            self._stop.wait(0, self._every)

    def stop(self) -> None:
        """Stop, and wait for a sweep that runs."""
        self._worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Entry(Protocol):
    """The argument that a listener is called with: the parts that this module uses."""

    @property
    def action(self) -> str:
        """What happened."""

    @property
    def subject(self) -> str:
        """To which hold, pool or record."""


E = TypeVar("E", bound=Entry)
E_co = TypeVar("E_co", covariant=True)


class EntrySource(Protocol[E_co]):
    """The entries for a listener, from this process or a server. It continues behind the last entry that it gave."""

    stop: Signal
    """Closed when the listener has ended."""

    @property
    def closed(self) -> bool:
        """Whether its kernel, or its client, is closed."""

    def entries(self) -> Iterator[E_co]:
        """Yield the entries behind the last one given, until the source stops or its kernel closes."""

    def skip(self) -> None:
        """Continue at the end of the journal, because the cursor was lost."""

    def end(self) -> None:
        """Stop."""


class JournalSource:
    """The journal of a kernel in this process."""

    def __init__(self, executor: Executor, tenant: str | None, after: str) -> None:
        self._executor, self._tenant = executor, tenant
        self._after: str | None = after
        self.stop = Signal()

    @property
    def closed(self) -> bool:
        """Whether the kernel is closed."""
        return self._executor.closed

    def entries(self) -> Iterator[JournalEntry]:
        follower = Follower(self._executor, self._tenant, durable=True)
        follower.begin(self._after or end_of_journal(self._executor))
        last: JournalEntry | None = None
        try:
            for entry in follower.follow(self.stop, wait=True, poll=POLL):
                last = entry
                yield entry
        finally:
            if last is not None:
                self._after = last.cursor

    def skip(self) -> None:
        self._after = None

    def end(self) -> None:
        self.stop.close()
        self._executor.committed.notify()


class Subscription(Generic[E]):
    """A listener: called for each matching entry after its commit. Fed by the journal, so none is lost while it lives."""

    def __init__(
        self,
        source: EntrySource[E],
        start_worker: StartWorker,
        action: str | None,
        callback: Callable[[E], Any],
    ) -> None:
        self._source = source
        self._action, self._callback = action, callback
        self._worker = start_worker(self._run, "holdkit-listener", source.stop)

    def _run(self) -> None:
        while not self._ended():
            try:
                for entry in self._source.entries():
                    if self._action in (None, entry.action) and not self._ended():
                        self._call(entry)
            except CursorLost as lost:
                log.warning(
                    "listener missed entries, goes on with what comes: %s",
                    lost,
                    extra={"event": "listener_cursor_lost"},
                )
                self._source.skip()
            except HoldkitError as failed:
                if not self._ended():
                    log.warning(
                        "listener could not read the journal, will try again: %s",
                        failed,
                        extra={"event": "listener_unread"},
                    )
                    self._source.stop.wait(0, PAUSE)

    def _ended(self) -> bool:
        return self._source.stop.closed or self._source.closed

    def _call(self, entry: E) -> None:
        try:
            self._callback(entry)
        except Exception:
            log.exception(
                "listener failed on %s of %s; going on",
                entry.action,
                entry.subject,
                extra={"event": "listener_failed", "action": entry.action, "subject": entry.subject},
            )

    def cancel(self) -> None:
        """Call it no more. (A call that runs is not interrupted.)"""
        self._source.end()
