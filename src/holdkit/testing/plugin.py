"""A small pytest plugin for users' tests: `pytest_plugins = ["holdkit.testing.plugin"]` in a conftest gives the fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from .clock import FakeClock


@pytest.fixture
def holdkit_clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def holdkit_kernel(holdkit_clock: FakeClock) -> Iterator[Kernel]:
    """An empty kernel in memory, on that clock; after the test, folding its journal must give its state."""
    kernel = connect("memory://", clock=holdkit_clock)
    yield kernel
    differences = [str(difference) for difference in kernel.verify().differences]
    kernel.close()
    assert not differences, differences
