"""Simulated runs that once failed: they pass now, and fail again when their bug is put back."""

from __future__ import annotations

import pytest

from holdkit.testing.sim import SimulationFailed, World
from tests.acceptance.sim.canaries import CANARIES
from tests.acceptance.sim.corpus import CORPUS


@pytest.mark.parametrize("name", CORPUS)
def test_what_was_found_stays_repaired(name: str) -> None:
    World(CORPUS[name]).run()


@pytest.mark.parametrize("name", CORPUS)
def test_each_still_finds_its_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = CANARIES[name]
    canary.plant(monkeypatch)
    with pytest.raises(SimulationFailed):
        World(CORPUS[name], canary.engine).run()
