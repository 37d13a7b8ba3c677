"""Where the B-tests play: an engine, a colour and a clock, behind one sync face, so that each test is written once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdkit
from holdkit.kernel.limits import asked_slots
from holdkit.testing import FakeClock
from holdkit.testing.stories import Told, read_story, run_story, run_story_async

VARIANTS = [(engine, mode) for engine in ("memory", "log", "sqlite", "postgres") for mode in ("sync", "async")]


class Hands:
    """A kernel of either colour whose methods are called plainly: an async one is driven to its end, call by call."""

    def __init__(self, url: str, mode: str, **options: Any) -> None:
        self.runner = asyncio.Runner() if mode == "async" else None
        if self.runner is None:
            self.kernel: Any = holdkit.connect(url, **options)
        else:
            self.kernel = self.runner.run(holdkit.connect_async(url, **options))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _plainly(getattr(self.kernel, name), self.runner)

    @property
    def claims(self) -> Any:
        """The face, called plainly too."""
        return _Face(self.kernel.claims, self.runner)

    @property
    def items(self) -> Any:
        """The face, called plainly too."""
        return _Face(self.kernel.items, self.runner)

    def close(self) -> None:
        if self.runner is None:
            self.kernel.close()
        else:
            self.runner.run(self.kernel.aclose())
            self.runner.close()


class _Face:
    def __init__(self, face: Any, runner: asyncio.Runner | None) -> None:
        self._face, self._runner = face, runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _plainly(getattr(self._face, name), self._runner)


def _plainly(method: Callable[..., Any], runner: asyncio.Runner | None) -> Callable[..., Any]:
    """A method of either colour, called as a sync one."""
    if runner is None or not inspect.iscoroutinefunction(method):
        return method
    return lambda *positional, **options: runner.run(method(*positional, **options))


class Store:
    """One engine in one colour, in a folder of its own."""

    def __init__(self, engine: str, mode: str, folder: Path, migrated: Callable[..., str] | None = None) -> None:
        """`migrated` gives the URL of a database with our tables."""
        self.engine, self.mode, self.durable = engine, mode, engine != "memory"
        self.file = folder / "holds.db"
        urls = {"memory": "memory://", "log": f"log:///{folder}/log", "sqlite": f"sqlite:///{self.file}"}
        self.url = urls.get(engine, "")
        self._migrated = migrated
        self.clock = FakeClock()
        self.opened: list[Hands] = []

    def open(self, limits: holdkit.Limits | None = None) -> Hands:
        """A kernel on this stage, closed when the test is over."""
        if not self.url:
            assert self._migrated is not None
            self.url = self._migrated(limits=asked_slots(limits))
        self.opened.append(Hands(self.url, self.mode, clock=self.clock, limits=limits))
        return self.opened[-1]

    def again(self, hands: Hands) -> Hands:
        """The same storage, closed and opened again where it is durable."""
        if not self.durable:
            return hands
        hands.close()
        self.opened.remove(hands)
        return self.open()

    def tell(self, text: str) -> Told:
        """Run a story here."""
        story = read_story(text)
        if self.mode == "sync":
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
        for hands in self.opened:
            hands.close()


def differences(hands: Hands) -> tuple[holdkit.Difference, ...]:
    """What `verify` finds; nothing, if all is well."""
    found: tuple[holdkit.Difference, ...] = hands.verify().differences
    return found
