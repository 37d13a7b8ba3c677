"""Claims and items inside the application's own transaction: what it has not committed counts for itself, and for nobody else."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import holdkit
from holdkit.testing import FakeClock

Opens = Callable[[], Any]


@contextmanager
def plain_sqlite(url: str) -> Iterator[Opens]:
    connections: list[sqlite3.Connection] = []

    def begin() -> sqlite3.Connection:
        connections.append(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None))
        connections[-1].execute("begin immediate")
        return connections[-1]

    yield begin
    for connection in connections:
        connection.close()


@contextmanager
def plain_psycopg(url: str) -> Iterator[Opens]:
    with closing(psycopg.connect(url)) as connection:
        yield lambda: connection


@contextmanager
def alchemy(url: str) -> Iterator[Opens]:
    name = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(name)
    with engine.connect() as connection:
        yield lambda: connection
    engine.dispose()


CALLERS: dict[str, Any] = {"sqlite3": plain_sqlite, "psycopg": plain_psycopg, "sqlalchemy": alchemy}


@pytest.fixture(params=sorted(CALLERS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Which caller, and where."""
    if request.param == "sqlite3":
        return request.param, f"sqlite:///{tmp_path}/holds.db"
    url = str(request.getfixturevalue("postgres_url"))
    holdkit.migrate(url)
    return request.param, url


def test_a_claim_in_a_transaction_of_ones_own(place: tuple[str, str]) -> None:
    caller, url = place
    with holdkit.connect(url, clock=FakeClock()) as hk, CALLERS[caller](url) as begin:
        tx = begin()
        mine = hk.claims.hold("email", "a@b.c", ttl=300, token="me", tx=tx)
        assert hk.claims.hold("email", "a@b.c", ttl=300, token="me", tx=tx) == mine
        claim = hk.claims.get("email", "a@b.c", tx=tx)
        assert claim is not None
        assert (claim.hold, claim.state) == (mine.id, "held")
        assert hk.claims.is_taken("email", "a@b.c", tx=tx)
        with pytest.raises(holdkit.AlreadyClaimed) as refused:
            hk.claims.hold("email", "a@b.c", ttl=300, tx=tx)
        assert refused.value.remaining == 300
        assert hk.claims.get("email", "a@b.c") is None, "nobody else sees it yet"
        tx.rollback()
        assert not hk.claims.is_taken("email", "a@b.c")
        tx = begin()
        again = hk.claims.hold("email", "a@b.c", ttl=300, token="me", tx=tx)
        confirmed = hk.confirm(holdkit.ticket(again.id, "me"), entity="user:1", tx=tx)
        assert (confirmed.state, confirmed.entity) == ("confirmed", "user:1")
        assert [claim.key for claim in hk.claims.list(entity="user:1", tx=tx)] == ["email:a@b.c"]
        tx.commit()
        assert [claim.hold for claim in hk.claims.list(entity="user:1")] == [confirmed.id]
        assert hk.admin.verify().ok


def test_another_worker_asks_again_in_a_transaction_of_its_own(place: tuple[str, str]) -> None:
    caller, url = place
    with holdkit.connect(url, clock=FakeClock()) as hk, CALLERS[caller](url) as begin:
        hk.create_pool("p", 5)
        tx = begin()
        first = hk.hold("p", 2, ttl=60, op="k", actor="user:7", reason="checkout", tx=tx)
        again = hk.hold("p", 2, ttl=60, op="k", actor="job:retry", reason="again", tx=tx)
        assert (again.id, again.token, again.replayed, again.actor) == (first.id, first.token, True, "user:7")
        hk.confirm(first, op="c", actor="user:7", tx=tx)
        assert hk.confirm(first, op="c", actor="job:retry", reason="again", tx=tx).replayed


def test_a_batch_of_faces_in_a_transaction_of_ones_own(place: tuple[str, str]) -> None:
    caller, url = place
    with holdkit.connect(url, clock=FakeClock()) as hk, CALLERS[caller](url) as begin:
        hk.items.add(["seat"])
        tx = begin()
        legs = (holdkit.claim("email", "a@b.c"), *holdkit.items("seat"))
        outcomes = hk.apply(
            [holdkit.commands.PlaceHold(legs=legs, ttl=60), holdkit.commands.Consume(legs=legs[:1])], tx=tx
        )
        mine, theirs = outcomes[0].unwrap(), outcomes[1].refusal
        assert isinstance(mine, holdkit.Hold)
        assert isinstance(theirs, holdkit.InsufficientCapacity)
        assert theirs.subject == "email:a@b.c"
        assert [item.hold for item in hk.items.get(["seat"], tx=tx)] == [mine.id]
        assert [item.hold for item in hk.items.get(["seat"])] == [None], "nobody else sees it yet"


def test_items_in_a_transaction_of_ones_own(place: tuple[str, str]) -> None:
    caller, url = place
    with holdkit.connect(url) as hk, CALLERS[caller](url) as begin:
        tx = begin()
        hk.seats.add([holdkit.Seat(id, "stalls", "A", at) for at, id in enumerate("abc")], tx=tx)
        hold = hk.seats.hold(2, section="stalls", token="me", tx=tx, ttl=None)
        assert [item.yours for item in hk.items.get(["a", "c"], token="me", tx=tx)] == [True, False]
        assert hk.items.hold(["b", "a"], token="me", tx=tx, ttl=None).id == hold.id
        with pytest.raises(holdkit.errors.SectionNotFound):
            hk.seats.hold(1, section="stalls", ttl=None)
        assert [item.state for item in hk.items.get(["c", "b", "a"], tx=tx)] == ["available", "held", "held"]
        assert [item.state for item in hk.items.get(["a"])] == ["missing"]
        with pytest.raises(holdkit.ItemsTaken):
            hk.items.hold(["b", "c"], tx=tx, ttl=None)
        hk.confirm(hold.ticket or "", tx=tx)
        tx.commit()
        assert [item.state for item in hk.items.get(["a", "b", "c"])] == ["confirmed", "confirmed", "available"]


@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def async_alchemy(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@pytest.mark.parametrize("open_one", [async_psycopg, async_alchemy])
def test_in_a_task(postgres_url: str, open_one: Callable[[str], Any]) -> None:
    holdkit.migrate(postgres_url)

    async def told() -> None:
        async with await holdkit.connect_async(postgres_url) as hk, open_one(postgres_url) as tx:
            mine = await hk.claims.hold("email", "a@b.c", ttl=300, tx=tx)
            claim = await hk.claims.get("email", "a@b.c", tx=tx)
            assert claim is not None
            assert claim.hold == mine.id
            with pytest.raises(holdkit.AlreadyClaimed):
                await hk.claims.hold("email", "a@b.c", ttl=300, token="other", tx=tx)
            assert await hk.claims.get("email", "a@b.c") is None
            await hk.confirm(mine, entity="user:1", tx=tx)
            await tx.commit()
            assert [claim.key for claim in await hk.claims.list(entity="user:1")] == ["email:a@b.c"]

    asyncio.run(told())


def test_where_there_are_no_transactions() -> None:
    with holdkit.connect("memory://") as hk:
        with pytest.raises(holdkit.InvalidRequest, match="no transactions to join"):
            hk.claims.get("a", "b", tx=object())
        with pytest.raises(holdkit.InvalidRequest, match="no transactions to join"):
            hk.claims.hold("a", "b", ttl=5, tx=object())


def test_the_position_of_an_answer_counts_once_the_caller_has_committed(tmp_path: Path, postgres_url: str) -> None:
    """On SQLite it is there at once; on PostgreSQL entries get their numbers after the commit."""
    holdkit.migrate(postgres_url)
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk, plain_sqlite(url) as begin:
        hk.create_pool("p", 2)
        tx = begin()
        hold = hk.hold("p", 1, ttl=60, tx=tx)
        tx.commit()
        assert [entry.position for entry in hk.history(hold)] == [hold.position]
    with holdkit.connect(postgres_url) as hk, plain_psycopg(postgres_url) as begin:
        hk.create_pool("p", 2)
        tx = begin()
        hold = hk.hold("p", 1, ttl=60, tx=tx)
        tx.commit()
        assert hold.position is None
        assert len(hk.history(hold)) == 1
