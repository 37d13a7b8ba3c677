"""The stages: every engine in sync and async, or the durable one in both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import PLACES, Stage


@pytest.fixture(params=PLACES, ids="-".join)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    engine, mode = request.param
    made = Stage(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def file_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage("sqlite", request.param, tmp_path)
    yield made
    made.close()
