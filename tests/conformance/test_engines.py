"""Every engine of ours passes the kit that we ship for the engines of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.core.model import Limits
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Clock, Engine
from holdkit.engines.sqlite import SqliteEngine
from holdkit.testing.conformance import DurableEngineConformance, EngineConformance


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
