"""The pytest plugin for users' tests: ``pytest_plugins = ["holdkit.testing.plugin"]`` in the topmost conftest. docs/testing.md shows it.

It gives fixtures, and collects files whose names end with ``.story``: each is a test, told to a kernel in memory. The server behind
`holdkit_postgres` is started when the first test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..kernel.limits import Limits
from ..kernel.opening import migrate
from .clock import FakeClock
from .postgres.address import ServerAddress
from .postgres.plugin import postgres_binaries, postgres_server, postgres_template, postgres_url
from .stories import StoryFailed, StoryResult, StorySyntax, read_story, run_story

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

__all__ = [
    "holdkit_clock",
    "holdkit_kernel",
    "holdkit_postgres",
    "holdkit_postgres_url",
    "holdkit_story",
    "postgres_binaries",
    "postgres_server",
    "postgres_template",
    "postgres_url",
]


@pytest.fixture
def holdkit_clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def holdkit_kernel(holdkit_clock: FakeClock) -> Iterator[Kernel]:
    """An empty kernel in memory, on that clock; after the test, folding its journal must give its state."""
    with _verified(connect("memory://", clock=holdkit_clock)) as kernel:
        yield kernel


@pytest.fixture
def holdkit_postgres_url(postgres_server: ServerAddress) -> Iterator[str]:
    """A new PostgreSQL database with Holdkit's tables, as a copy of one that is migrated once per run; dropped after the test."""
    template = postgres_server.template("holdkit_migrated", migrate)
    name = f"holdkit_{uuid4().hex}"
    yield postgres_server.create_database(name, template)
    postgres_server.drop_database(name)


@pytest.fixture
def holdkit_postgres(holdkit_postgres_url: str, holdkit_clock: FakeClock) -> Iterator[Kernel]:
    """An empty kernel on PostgreSQL, on the test's clock; after the test, folding its journal must give its state."""
    with _verified(connect(holdkit_postgres_url, clock=holdkit_clock)) as kernel:
        yield kernel


@contextmanager
def _verified(kernel: Kernel) -> Iterator[Kernel]:
    with kernel:
        yield kernel
        if kernel._executor.closed:  # by the test, or by the application that it tests
            return
        differences = [str(difference) for difference in kernel.admin.verify().differences]
    assert not differences, differences


@pytest.fixture
def holdkit_story() -> Callable[[str], StoryResult]:
    """A function that tells a story, as text, to a kernel in memory. Raises `StoryFailed` at the first answer that is not expected."""
    return tell


def tell(text: str, file: str = "story") -> StoryResult:
    """Tell a story to a new kernel in memory."""
    return run_story(read_story(text, file), _in_memory, durable=False)


def _in_memory(clock: FakeClock, limits: Limits | None) -> Kernel:
    return connect("memory://", clock=clock, limits=limits)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file with a story as a test."""
    if file_path.suffix != ".story":
        return None
    return StoryFile.from_parent(parent, path=file_path)


class StoryFile(pytest.File):
    """A file with one story."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the story."""
        yield StoryItem.from_parent(self, name="story")


class StoryItem(pytest.Item):
    """One story, told to a kernel in memory."""

    def runtest(self) -> None:
        """Tell the story."""
        tell(self.path.read_text("utf-8"), self.path.name)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: TracebackStyle | None = None
    ) -> str | TerminalRepr:
        """Name the line of the story, not that of the runner."""
        if isinstance(excinfo.value, StoryFailed | StorySyntax):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the story's file, line and name."""
        return self.path, 0, self.path.name
