"""Kernels on every engine, sync and async, behind sync calls, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import holdkit
from holdkit.engines.port import Applied
from holdkit.kernel.limits import asked_slots
from holdkit.testing import FakeClock
from holdkit.testing.stories import StoryResult, read_story, run_story, run_story_async
from tests.support.modes import Async, Sync

VARIANTS = [(engine, mode) for engine in ("memory", "sqlite", "postgres") for mode in ("sync", "async")]


class Store:
    """What one engine keeps, in a folder or database of its own, and the kernels that a test opens on it."""

    def __init__(self, engine: str, mode: str, folder: Path, migrated: Callable[..., str] | None = None) -> None:
        """`migrated` gives the URL of a database with our tables."""
        self.engine, self.durable = engine, engine != "memory"
        self.mode: Sync | Async = Sync() if mode == "sync" else Async()
        self.file = folder / "holds.db"
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{self.file}"}
        self.url = urls.get(engine, "")
        self._migrated = migrated
        self.clock = FakeClock()
        self._opened: list[Any] = []

    def open(self, limits: holdkit.Limits | None = None) -> Any:
        """A kernel, closed when the test is over."""
        if not self.url:
            assert self._migrated is not None
            self.url = self._migrated(limits=asked_slots(limits))
        self._opened.append(self.mode.connect(self.url, clock=self.clock, limits=limits))
        return self._opened[-1]

    @cached_property
    def hk(self) -> Any:
        """A kernel, for tests that need no more than one."""
        return self.open()

    def reopen(self, hk: Any) -> Any:
        """Close a kernel and open another one, where that forgets nothing."""
        if not self.durable:
            return hk
        self._opened.remove(hk)
        hk.close()
        return self.open()

    def tell(self, text: str) -> StoryResult:
        """Run a story here."""
        story = read_story(text)
        if self.mode.name == "sync":
            return run_story(
                story, lambda clock, limits: holdkit.connect(self.url, clock=clock, limits=limits), durable=self.durable
            )
        told = run_story_async(
            story,
            lambda clock, limits: holdkit.connect_async(self.url, clock=clock, limits=limits),
            durable=self.durable,
        )
        return asyncio.run(told)

    def close(self) -> None:
        """Close every kernel that a test has left open."""
        for hk in self._opened:
            hk.close()
        self.mode.close()


def no_lines(applied: Applied) -> None:
    """What a queue without a kernel does after a batch: there is nobody to wake, and no line to be fed."""
    assert (*applied.unfed, *applied.served) == (), "nobody waits"


def differences(hk: Any) -> tuple[holdkit.reports.Difference, ...]:
    """What `verify` finds; nothing, if all is well."""
    found: tuple[holdkit.reports.Difference, ...] = hk.admin.verify().differences
    return found
