"""A resource in the caller's own transaction, and what an async capacity needs."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import InsufficientCapacity, InvalidRequest, Resource
from tests.unit.faces.resources.shows import Shows, ShowStore, in_a_loop


class AsyncShows(Resource[str, None]):
    """The same, for an async connection."""

    kind = "show.seats"

    def __init__(self, seats: int = 1) -> None:
        self.seats = seats
        self.seen: list[Any] = []

    async def capacity(self, tx: Any, key: str, window: None) -> int:
        self.seen.append(tx)
        await asyncio.sleep(0)
        if tx is None or isinstance(tx, sqlite3.Connection):
            return self.seats
        cursor = await tx.execute("select seats from shows where id = %s", (key,))
        return int((await cursor.fetchone())[0])

    async def held(self, tx: Any, key: str, window: None) -> int:
        return 0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    migrated = request.getfixturevalue("migrated") if request.param == "postgres" else None
    made = ShowStore(request.param, "sync", tmp_path, migrated)
    made.set_seats("hamlet", 1)
    yield made
    made.close()


def test_both_or_neither(store: ShowStore) -> None:
    seats = store.resource()
    tx = store.connect()
    seats.hold("hamlet", ttl=60, tx=tx)
    assert seats.holds() == []  # not before the caller has committed
    tx.rollback()
    hold = seats.hold("hamlet", ttl=60, tx=tx)
    with pytest.raises(InsufficientCapacity):
        seats.hold("hamlet", ttl=60, tx=tx)
    tx.execute("update shows set seats = 3")  # the caller's own change is seen by the answer
    seats.hold("hamlet", None, 2, ttl=60, tx=tx)
    store.hk.confirm(hold, tx=tx)
    tx.commit()
    tx.close()
    assert (seats.pool("hamlet").total, seats.pool("hamlet").held, seats.pool("hamlet").consumed) == (3, 2, 1)
    assert store.hk.admin.verify().ok


def test_a_capacity_that_raises_leaves_the_caller_in_charge(store: ShowStore) -> None:
    class Nowhere(Shows):
        kind = "nowhere"

        def capacity(self, tx: Any, key: str, window: Any) -> int:
            raise LookupError(key)

    tx = store.connect()
    with pytest.raises(LookupError):
        store.resource(Nowhere()).hold("hamlet", ttl=60, tx=tx)
    store.resource().hold("hamlet", ttl=60, tx=tx)
    tx.commit()
    tx.close()
    assert len(store.resource().holds()) == 1


def test_a_plain_call_from_inside_is_refused(store: ShowStore) -> None:
    caught: list[str] = []

    class Calling(Shows):
        kind = "calling"

        def capacity(self, tx: Any, key: str, window: Any) -> int:
            with pytest.raises(InvalidRequest) as refused:
                store.hk.create_pool("p", 1)
            caught.append(refused.value.code)
            store.hk.create_pool("joined", 1, tx=tx)  # with its tx it may
            return 1

    tx = store.connect()
    store.resource(Calling()).hold("hamlet", ttl=60, tx=tx)
    tx.commit()
    tx.close()
    assert caught == ["tx_open_here"]
    assert store.hk.pool("joined").total == 1


def test_an_async_answer_is_not_for_threads(store: ShowStore) -> None:
    with pytest.raises(InvalidRequest) as caught:
        store.hk.resource(AsyncShows())
    assert caught.value.code == "capacity_async"


def test_an_answer_that_turns_out_to_be_a_coroutine(store: ShowStore) -> None:
    class Hidden(Shows):
        kind = "hidden"

        def capacity(self, tx: Any, key: str, window: Any) -> Any:
            async def later() -> int:
                return 1

            return later()

    with pytest.raises(InvalidRequest) as caught:
        store.resource(Hidden()).hold("hamlet", ttl=60)
    assert caught.value.code == "capacity_not_whole"


@in_a_loop
async def test_on_postgres_an_async_answer_joins_an_async_transaction(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)
    with psycopg.connect(postgres_url) as setup:
        setup.execute("create table shows (id text primary key, seats integer)")
        setup.execute("insert into shows values ('hamlet', 1)")
    async with await holdkit.connect_async(postgres_url) as hk:
        seats = hk.resource(AsyncShows())
        with pytest.raises(InvalidRequest) as caught:
            await seats.hold("hamlet", ttl=60)
        assert caught.value.code == "capacity_needs_tx"
        async with await psycopg.AsyncConnection.connect(postgres_url) as tx:
            assert (await seats.hold("hamlet", ttl=60, tx=tx)).state == "held"
        assert (await seats.pool("hamlet")).held == 1

        class Plain(Shows):
            kind = "plain"

        plain = hk.resource(Plain())
        async with await psycopg.AsyncConnection.connect(postgres_url) as tx:
            with pytest.raises(InvalidRequest) as caught:
                await plain.hold("hamlet", ttl=60, tx=tx)
            assert caught.value.code == "capacity_not_async"
        assert (await plain.hold("hamlet", ttl=60)).state == "held"  # on a thread, with a sync connection


@in_a_loop
async def test_on_sqlite_both_answers_join(tmp_path: Path) -> None:
    file = tmp_path / "holds.db"
    async with await holdkit.connect_async(f"sqlite:///{file}") as hk:
        tx = sqlite3.connect(file)
        tx.execute("create table shows (id text primary key, seats integer)")
        tx.execute("insert into shows values ('hamlet', 1)")
        tx.commit()
        assert (await hk.resource(AsyncShows()).hold("hamlet", ttl=60, tx=tx)).state == "held"
        tx.commit()
        tx.close()


@in_a_loop
async def test_without_sql_an_async_answer_needs_nothing() -> None:
    async with await holdkit.connect_async("memory://") as hk:
        resource = AsyncShows(3)
        seats = hk.resource(resource)
        answers = await asyncio.gather(*(seats.hold("hamlet", ttl=60) for _ in range(9)), return_exceptions=True)
        assert all(isinstance(each, holdkit.Hold) for each in answers)  # it says itself that nothing is in use
        assert resource.seen == [None] * 9
        assert (await hk.admin.verify()).ok


@in_a_loop
async def test_a_call_back_from_an_async_answer_is_refused_at_once() -> None:
    async with await holdkit.connect_async("memory://") as hk:

        class Calling(Resource[str, None]):
            kind = "calling"

            async def capacity(self, tx: Any, key: str, window: None) -> int:
                with pytest.raises(InvalidRequest) as caught:
                    await seats.hold("other", ttl=60)
                assert caught.value.code == "tx_open_here"
                return 1

        seats = hk.resource(Calling())
        assert (await seats.hold("hamlet", ttl=60)).state == "held"


@in_a_loop
async def test_a_slow_async_answer_is_not_waited_for_for_ever() -> None:
    limits = holdkit.Limits(lock_timeout="50ms")
    async with await holdkit.connect_async("memory://", limits=limits) as hk:
        begun, go = asyncio.Event(), asyncio.Event()

        class Slow(Resource[str, None]):
            kind = "slow"

            async def capacity(self, tx: Any, key: str, window: None) -> int:
                begun.set()
                await go.wait()
                return 1

        seats = hk.resource(Slow())
        first = asyncio.create_task(seats.hold("hamlet", ttl=60))
        await begun.wait()
        with pytest.raises(holdkit.Overloaded):
            await seats.hold("macbeth", ttl=60)
        go.set()
        assert (await first).state == "held"
