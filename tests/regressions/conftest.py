from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import Store


@pytest.fixture(params=["sync", "async"])
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """SQLite, sync and async."""
    made = Store("sqlite", request.param, tmp_path)
    yield made
    made.close()
