"""Theatres: every engine in sync and async."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import PLACES
from tests.unit.faces.resources.shows import Theatre


@pytest.fixture(params=PLACES, ids="-".join)
def theatre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Theatre]:
    engine, mode = request.param
    made = Theatre(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.stage.close()
