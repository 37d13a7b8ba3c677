from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.log.directories import Directory, RealDirectory, SimulatedDirectory


@pytest.fixture(params=["real", "simulated"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    return RealDirectory(tmp_path / "log") if request.param == "real" else SimulatedDirectory()


@pytest.fixture
def sim() -> SimulatedDirectory:
    return SimulatedDirectory()
