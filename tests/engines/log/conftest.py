from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.log.directories import Place, RealPlace, SimPlace


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return RealPlace(tmp_path / "log") if request.param == "real" else SimPlace()


@pytest.fixture
def sim() -> SimPlace:
    return SimPlace()
