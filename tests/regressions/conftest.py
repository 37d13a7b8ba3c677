"""The stages: every engine in sync and async, or the durable one in both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import VARIANTS, Store


@pytest.fixture(params=VARIANTS, ids="-".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    engine, mode = request.param
    made = Store(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = Store("sqlite", request.param, tmp_path)
    yield made
    made.close()
