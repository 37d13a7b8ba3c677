"""Each of our engines passes the conformance kit that we ship to authors of other engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.core.bounds import Limits
from holdkit.engines.clocks import Clock
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Engine
from holdkit.engines.sqlite import SqliteEngine
from holdkit.testing.conformance import DurableEngineConformance, EngineConformance
from tests.support.laned_engine import LanedEngine


class TestMemory(EngineConformance):
    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        return MemoryEngine(clock=clock, limits=limits)


class TestSqlite(DurableEngineConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        number = len(list(self.directory.glob("*.db")))
        return SqliteEngine(self.directory / f"{number}.db", clock=clock, limits=limits)

    def reopen(self, engine: Engine) -> Engine:
        assert isinstance(engine, SqliteEngine)
        return SqliteEngine(engine.path, clock=engine.clock, limits=engine.limits)


@pytest.mark.parametrize("by_lane", [False, True])
class TestSeveralLanes(EngineConformance):
    """The kit asks for order within a lane only: so a journal in several lanes passes it."""

    @pytest.fixture(autouse=True)
    def mixed(self, by_lane: bool) -> None:
        self.by_lane = by_lane

    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        return LanedEngine(7, clock=clock, limits=limits, by_lane=self.by_lane)
