"""Every engine, checked when the test is over; and memory, where the engine makes no difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels import VARIANTS, Store
from tests.support.modes import unwrapped


@pytest.fixture(params=VARIANTS, ids="-".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    engine, mode = request.param
    made = Store(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    assert made.hk.admin.verify().ok
    made.close()


@pytest.fixture(params=["sync", "async"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = Store("memory", request.param, tmp_path)
    yield made
    made.close()


def set_actual(spending: Any, actual: Any) -> None:
    """Set what a block came to, sync or async."""
    unwrapped(spending).actual = actual
