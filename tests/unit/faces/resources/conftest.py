"""Shows on every engine, sync and async."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import VARIANTS
from tests.unit.faces.resources.shows import ShowStore


@pytest.fixture(params=VARIANTS, ids="-".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShowStore]:
    engine, mode = request.param
    made = ShowStore(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.close()
