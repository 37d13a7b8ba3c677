"""The peer on Redis must be right before it is fast, and as durable as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from bench.by_hand import NotGranted
from bench.by_hand_redis import PROGRAM, AsyncByHandRedis, ByHandRedis, redis_server
from bench.postgres.stores import expect_whole, prepare
from bench.rows import BenchFailed

CALLERS = 24
UNITS = 10


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    with redis_server(tmp_path) as server:
        if server is None:
            pytest.skip(f"{PROGRAM} is not installed")
        with closing(ByHandRedis(server[0])) as store:
            store.prepare(["gpu"], UNITS)
        yield server[0]


def test_threads_and_tasks_never_oversell(place: str) -> None:
    def call(number: int) -> bool:
        try:
            store.hold("gpu", 1, ttl=300, op=f"op-{number}")
        except NotGranted:
            return False
        return True

    async def more() -> int:
        tasks = await AsyncByHandRedis.open(place, 2)
        answers = await asyncio.gather(
            *(tasks.hold("gpu", 1, ttl=300, op=f"task-{number}") for number in range(CALLERS)), return_exceptions=True
        )
        await tasks.close()
        assert all(isinstance(one, NotGranted) for one in answers if isinstance(one, BaseException))
        return sum(not isinstance(one, BaseException) for one in answers)

    with closing(ByHandRedis(place)) as store, ThreadPoolExecutor(CALLERS) as threads:
        assert sum(threads.map(call, range(UNITS - 3))) == UNITS - 3
        assert asyncio.run(more()) == 3
        assert not call(CALLERS)
    expect_whole("redis", place, UNITS)
    with pytest.raises(BenchFailed):
        expect_whole("redis", place, UNITS + 1)


def test_one_operation_has_one_effect(place: str) -> None:
    with closing(ByHandRedis(place)) as store:
        first = store.hold("gpu", 1, ttl=300, op="the same")
        assert store.hold("gpu", 1, ttl=300, op="the same") == first
        with pytest.raises(NotGranted):
            store.hold("gpu", 2, ttl=300, op="the same")
        assert store.counted() == (1, 0)


def test_a_hold_is_confirmed_once_and_by_its_owner(place: str) -> None:
    with closing(ByHandRedis(place)) as store:
        held = store.hold("gpu", 1, ttl=300, op="hold")
        with pytest.raises(NotGranted):
            store.confirm(held._replace(token="another"), op="theft")
        store.confirm(held, op="confirm")
        store.confirm(held, op="confirm")
        with pytest.raises(NotGranted):
            store.confirm(held, op="again")
        assert store.counted() == (0, 1)
        assert int(store.ask("XLEN", "journal")) == 2


def test_it_syncs_before_it_answers(place: str) -> None:
    prepare("redis", place, 2)
    with closing(ByHandRedis(place)) as store:
        assert store.ask("CONFIG", "GET", "appendfsync") == ["appendfsync", "always"]
        assert store.ask("CONFIG", "GET", "appendonly") == ["appendonly", "yes"]
        assert store.ask("LLEN", "pools") == 2
