"""What a listener listens to: the journal from a place on, wherever that is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from ..results import JournalEntry
from ..workers import AsyncSignal
from .executor import AsyncExecutor
from .following import AsyncFollower, end_of_journal

POLL = 0.5
"""Seconds within which a listener sees the commits of other processes."""


class Happening(Protocol):
    """What a listener is told of, as far as it matters to whoever tells."""

    @property
    def action(self) -> str:
        """What happened."""

    @property
    def subject(self) -> str:
        """To which hold, pool or record."""


Told = TypeVar("Told", bound=Happening)
Told_co = TypeVar("Told_co", covariant=True)


class AsyncEarPort(Protocol[Told_co]):
    """An ear at a journal, here or at a distance: it goes on where it was left."""

    stop: AsyncSignal
    """Closed when nobody listens any more."""

    @property
    def closed(self) -> bool:
        """Whether its kernel is."""

    def listen(self) -> AsyncIterator[Told_co]:
        """Entries from where it was left, until it stops or its kernel closes."""

    def skip(self) -> None:
        """Go on with what comes: the place was lost."""

    def hang_up(self) -> None:
        """Listen no more."""


class AsyncEar:
    """At the journal of this process's own kernel."""

    def __init__(self, executor: AsyncExecutor, tenant: str | None, after: str) -> None:
        self._executor, self._tenant = executor, tenant
        self._after: str | None = after
        self.stop = AsyncSignal()

    @property
    def closed(self) -> bool:
        """Whether the kernel is."""
        return self._executor.committed.closed

    async def listen(self) -> AsyncIterator[JournalEntry]:
        """Entries from where it was left."""
        follower = AsyncFollower(self._executor, self._tenant)
        await follower.begin(self._after or await end_of_journal(self._executor))
        told: JournalEntry | None = None
        try:
            async for entry in follower.follow(self.stop, wait=True, poll=POLL):
                told = entry
                yield entry
        finally:
            if told is not None:
                self._after = told.cursor

    def skip(self) -> None:
        """Go on with what comes."""
        self._after = None

    def hang_up(self) -> None:
        """Listen no more."""
        self.stop.close()
        self._executor.committed.notify()
