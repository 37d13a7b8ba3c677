"""`connect` takes an engine that is open already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdkit
from holdkit.engines.memory import MemoryEngine
from holdkit.testing import FakeClock


def test_a_kernel_on_an_engine_of_ones_own() -> None:
    clock = FakeClock()
    engine = MemoryEngine(clock=clock)
    with holdkit.connect(engine, audit_refusals=True) as hk:
        hk.create_pool("gpu", total=1)
        hk.hold("gpu", 1, ttl=60)
        with pytest.raises(holdkit.InsufficientCapacity):
            hk.hold("gpu", 1, ttl=60)
        assert [entry.action for entry in hk.journal.list()][-1] == "command.refused"
        clock.advance(60)
        assert hk.pool("gpu").available == 1
    with pytest.raises(holdkit.errors.EngineError, match="the engine is closed"):
        engine.apply([])


def test_a_kernel_for_tasks_too() -> None:
    async def use() -> int:
        async with await holdkit.connect_async(MemoryEngine()) as hk:
            return (await hk.create_pool("gpu", total=3)).available

    assert asyncio.run(use()) == 3


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"clock": FakeClock()}, "clock_unsupported"),
        ({"limits": holdkit.Limits(max_holds=1)}, "limits_unsupported"),
        ({"schema": "s"}, "schema_unsupported"),
        ({"pool_size": 3}, "pool_size_unsupported"),
    ],
)
def test_an_engine_has_its_own_clock_and_limits(options: dict[str, Any], code: str) -> None:
    with pytest.raises(holdkit.InvalidRequest, match="MemoryEngine was opened with its own") as refused:
        holdkit.connect(MemoryEngine(), **options)
    assert refused.value.code == code


class Half(MemoryEngine):
    verify = property()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Half(), "url: Half is no engine: it lacks verify of holdkit.engines.port"),
        (MemoryEngine, "or an open engine, not the class MemoryEngine"),
        (7, "must be text such as 'sqlite:///holds.db', or an open engine, not int"),
        (None, "or an open engine, not NoneType"),
    ],
)
def test_anything_else_is_named(given: Any, says: str) -> None:
    with pytest.raises(holdkit.InvalidRequest) as refused:
        holdkit.connect(given)
    assert says in str(refused.value)
    with pytest.raises(holdkit.InvalidRequest):
        asyncio.run(holdkit.connect_async(given))
