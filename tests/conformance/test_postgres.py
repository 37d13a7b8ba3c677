"""The PostgreSQL engine passes the kit, with one lane and with many."""

from __future__ import annotations

import pytest

from holdkit.core.model import Limits
from holdkit.engines.port import Clock, Engine
from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.testing.conformance import DurableEngineConformance
from holdkit.testing.postgres import ServerAddress


class Postgres(DurableEngineConformance):
    lanes = 1

    @pytest.fixture(autouse=True)
    def place(self, postgres_server: ServerAddress, postgres_url: str) -> None:
        self.server, self.url = postgres_server, postgres_url
        self.made = 0
        self.urls: dict[int, str] = {}

    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        with_schema(self.url)
        migrate(self.url, lanes=self.lanes, limits=limits)
        return PostgresEngine(self.url, clock=clock, limits=limits)

    def reopen(self, engine: Engine) -> Engine:
        assert isinstance(engine, PostgresEngine)
        return PostgresEngine(self.url, clock=engine.clock, limits=engine.limits)


def with_schema(url: str) -> None:
    """Nothing of ours is there, whatever an earlier engine of the same test left."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema if exists holdkit cascade")


class TestOneLane(Postgres):
    lanes = 1


class TestManyLanes(Postgres):
    lanes = 64
