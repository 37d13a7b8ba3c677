"""Kernels on PostgreSQL that one story hands on to the next.

To open a kernel, and have the server plan its statements again, takes longer than most stories. A story that restarts, or asks for limits
of its own, opens kernels of its own instead; one that failed leaves nothing to the next.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import holdkit
from holdkit.engines.postgres.migrating import Layout
from holdkit.testing import FakeClock
from holdkit.testing.stories import Story, StoryResult, run_story, run_story_async
from tests.support.databases import Database, Databases


def can_share(story: Story) -> bool:
    """Return whether the story runs on a kernel that was opened before it."""
    return story.limits is None and all(line.verb != "restart" for line in story.statements)


class StoryClock:
    """The clock of whichever story is told at the moment."""

    def __init__(self) -> None:
        self.clock = FakeClock()

    def __call__(self) -> int:
        return self.clock.now()


class LentKernel:
    """A kernel that its borrower does not close."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def close(self) -> None:
        """Leave it open for the next story."""


class LentAsyncKernel(LentKernel):
    async def close(self) -> None:  # type: ignore[override]
        """Leave it open for the next story."""


class KeptKernel:
    """One kernel, sync or async, with its database and its event loop."""

    def __init__(self, database: Database, mode: str) -> None:
        self._database, self._clock = database, StoryClock()
        self._runner = asyncio.Runner() if mode == "async" else None
        if self._runner is None:
            self._kernel: Any = holdkit.connect(database.url, clock=self._clock)
        else:
            self._kernel = self._runner.run(self._connect_async())

    async def _connect_async(self) -> holdkit.AsyncKernel:
        return await holdkit.connect_async(self._database.url, clock=self._clock)

    def tell(self, story: Story) -> StoryResult:
        """Run a story, and remove what it wrote."""
        if self._runner is None:
            result = run_story(story, self._lend, durable=True)
        else:
            result = self._runner.run(run_story_async(story, self._lend_async, durable=True))
        self._database.empty()
        return result

    def _lend(self, clock: FakeClock, limits: holdkit.Limits | None) -> holdkit.Kernel:
        assert limits is None
        self._clock.clock = clock
        return cast(holdkit.Kernel, LentKernel(self._kernel))

    async def _lend_async(self, clock: FakeClock, limits: holdkit.Limits | None) -> holdkit.AsyncKernel:
        assert limits is None
        self._clock.clock = clock
        return cast(holdkit.AsyncKernel, LentAsyncKernel(self._kernel))

    def close(self) -> None:
        """Close the kernel and give its database back."""
        if self._runner is None:
            self._kernel.close()
        else:
            self._runner.run(self._kernel.close())
            self._runner.close()
        self._database.give_back()


class KeptKernels:
    """The kernels of a test run, by layout, lanes and mode."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._kept: dict[tuple[Layout, int, str], KeptKernel] = {}

    def tell(self, story: Story, layout: Layout, lanes: int, mode: str) -> StoryResult:
        """Run a story that can share on the kernel of this kind."""
        kind = (layout, lanes, mode)
        kept = self._kept.pop(kind, None) or KeptKernel(self._databases.take(layout, lanes), mode)
        try:
            result = kept.tell(story)
        except BaseException:
            kept.close()
            raise
        self._kept[kind] = kept
        return result

    def close(self) -> None:
        """Close all of them."""
        for kept in self._kept.values():
            kept.close()
