"""The yardsticks of the bench must be right before they are fast: what oversells or forgets is no yardstick."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from bench.by_hand import Held, NotGranted
from bench.by_hand_postgres import (
    AsyncByHandPostgres,
    ByHandPostgres,
    Way,
    count_rows,
    create_pools,
    expect_sound,
    install,
    limit,
)
from bench.rows import BenchFailed

WAYS: tuple[Way, ...] = ("serializable", "row lock", "one statement")
CALLERS = 24
UNITS = 10


@pytest.fixture
def url(postgres_url: str) -> str:
    install(postgres_url)
    create_pools(postgres_url, ["gpu"], UNITS)
    return postgres_url


@pytest.mark.parametrize("way", WAYS)
def test_threads_never_oversell(url: str, way: Way) -> None:
    with closing(ByHandPostgres(url, way, 8)) as store, ThreadPoolExecutor(CALLERS) as threads:

        def call(number: int) -> Held | None:
            try:
                return store.hold("gpu", 1, ttl=300, op=f"op-{number}")
            except NotGranted:
                return None

        granted = [held for held in threads.map(call, range(CALLERS)) if held is not None]
        assert len({held.id for held in granted}) == UNITS
        assert sorted(held.fence for held in granted) == list(range(1, UNITS + 1))
    expect_sound(way, count_rows(url), UNITS)


@pytest.mark.parametrize("way", WAYS)
def test_tasks_never_oversell(url: str, way: Way) -> None:
    async def run() -> int:
        store = AsyncByHandPostgres(url, way, 8)
        await store.open()

        async def call(number: int) -> bool:
            try:
                await store.hold("gpu", 1, ttl=300, op=f"op-{number}")
            except NotGranted:
                return False
            return True

        try:
            return sum(await asyncio.gather(*(call(number) for number in range(CALLERS))))
        finally:
            await store.close()

    assert asyncio.run(run()) == UNITS
    expect_sound(way, count_rows(url), UNITS)


@pytest.mark.parametrize("way", WAYS)
def test_one_operation_has_one_effect(url: str, way: Way) -> None:
    with closing(ByHandPostgres(url, way, 4)) as store, ThreadPoolExecutor(CALLERS) as threads:
        answers = list(threads.map(lambda _: store.hold("gpu", 1, ttl=300, op="the same"), range(CALLERS)))
        assert len(set(answers)) == 1
        with pytest.raises(NotGranted):
            store.hold("gpu", 2, ttl=300, op="the same")
    expect_sound(way, count_rows(url), 1)


def test_all_ways_write_the_same_text(url: str) -> None:
    for way in WAYS:
        with closing(ByHandPostgres(url, way, 1)) as store:
            store.hold("gpu", 1, ttl=300, op=way)
    with closing(psycopg.connect(url)) as connection:
        keys = connection.execute(
            "select distinct array(select json_object_keys(body::json)), array(select json_object_keys(body::json->'hold')),"
            " array(select json_object_keys(body::json->'effects'->0->'pool')) from journal"
        ).fetchall()
        assert len(keys) == 1
        assert connection.execute(
            "select count(distinct json_array_length(outcome::json)) from operations"
        ).fetchone() == (1,)


def test_the_limit_writes_the_same_rows(url: str) -> None:
    assert limit(url, "gpu", 5, 2).holds == 10
    expect_sound("limit", count_rows(url), 10)


def test_a_hole_is_noticed(url: str) -> None:
    limit(url, "gpu", 5, 2)
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("delete from operations where id = (select min(id) from operations)")
    with pytest.raises(BenchFailed):
        expect_sound("limit", count_rows(url), 10)


def test_a_hold_is_confirmed_once_and_by_its_owner(url: str) -> None:
    with closing(ByHandPostgres(url, "one statement", 8)) as store, ThreadPoolExecutor(CALLERS) as threads:
        held = store.hold("gpu", 1, ttl=300, op="hold")
        with pytest.raises(NotGranted):
            store.confirm(held._replace(token="another"), op="theft")

        def confirm(number: int) -> bool:
            try:
                store.confirm(held, op=f"confirm-{number}")
            except NotGranted:
                return False
            return True

        done = [number for number, good in enumerate(threads.map(confirm, range(CALLERS))) if good]
        assert len(done) == 1
        store.confirm(held, op=f"confirm-{done[0]}")
        with pytest.raises(NotGranted):
            store.confirm(store.hold("gpu", 1, ttl=0, op="too short"), op="too late")
    counted = count_rows(url)
    assert (counted.held, counted.consumed, counted.legs, counted.wrong) == (1, 1, 1, 0)


def test_tasks_confirm_as_threads_do(url: str) -> None:
    async def run() -> None:
        store = AsyncByHandPostgres(url, "one statement", 4)
        await store.open()
        try:
            for number in range(3):
                await store.confirm(await store.hold("gpu", 1, ttl=300, op=f"hold-{number}"), op=f"confirm-{number}")
        finally:
            await store.close()

    asyncio.run(run())
    expect_sound("one statement", count_rows(url), 3, confirmed=True)
    with pytest.raises(BenchFailed):
        expect_sound("one statement", count_rows(url), 3)


def test_an_order_and_its_hold_are_one_transaction(url: str) -> None:
    with closing(ByHandPostgres(url, "one statement", 1)) as store:
        held = store.order("gpu", ttl=300, op="order-1")
        with pytest.raises(NotGranted):
            store.order("no such pool", ttl=300, op="order-2")
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("select * from orders").fetchall() == [("order-1", held.id)]
    expect_sound("one statement", count_rows(url), 1)
