"""A capacity function that ends the transaction it was given, in whatever way: an error, and nothing is held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import holdkit
from holdkit import InvalidRequest, Resource
from tests.support.kernels import VARIANTS, differences
from tests.unit.faces.resources.shows import ShowStore, in_a_loop

SPELLINGS = (
    ("commit",),
    ("COMMIT ;",),
    ("/* x */ commit",),
    ("-- x\n commit",),
    ("end",),
    ("rollback",),
    ("commit", "begin"),
    ("rollback", "begin"),
    ("end", "begin", "savepoint holdkit"),
)
POSTGRES = (("abort",), ("commit and chain",), ("commit work",), ("rollback and chain",))


class Ending(Resource[str, None]):
    """Does what it is told with its transaction, and then says that there is room."""

    kind = "ending.seats"

    def __init__(self, end: Callable[[Any], None]) -> None:
        self.end = end

    def capacity(self, tx: Any, key: str, window: None) -> int:
        self.end(tx)
        return 5


@pytest.fixture(params=[place for place in VARIANTS if place[0] in ("sqlite", "postgres")], ids="-".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShowStore]:
    yield from opened(request, tmp_path)


@pytest.fixture(params=[("sqlite", "sync"), ("sqlite", "async"), ("postgres", "sync")], ids="-".join)
def joined(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShowStore]:
    """Where a caller's connection is a sync one."""
    yield from opened(request, tmp_path)


def opened(request: pytest.FixtureRequest, folder: Path) -> Iterator[ShowStore]:
    engine, mode = request.param
    made = ShowStore(engine, mode, folder, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.close()


def saying(words: tuple[str, ...]) -> Callable[[Any], None]:
    def end(tx: Any) -> None:
        for one in words:
            tx.execute(one)

    return end


def check_refused(store: ShowStore, **call: Any) -> None:
    with pytest.raises(InvalidRequest) as no:
        store.resource(Ending(call.pop("end"))).hold("a", ttl=60, **call)
    assert (no.value.field, no.value.code, no.value.effect) == ("tx", "transaction_ended", "none")


def check_nothing_held(store: ShowStore) -> None:
    assert store.hk.holds() == []
    assert "hold.held" not in [entry.action for entry in store.hk.journal.list()]
    assert differences(store.hk) == ()
    assert store.resource(Ending(lambda tx: None)).hold("a", ttl=60).state == "held", "the next one is as ever"


@pytest.mark.parametrize("words", [*SPELLINGS, *POSTGRES], ids="; ".join)
def test_in_a_transaction_of_ours(store: ShowStore, words: tuple[str, ...]) -> None:
    if words in POSTGRES and store.engine != "postgres":
        return
    check_refused(store, end=saying(words))
    check_nothing_held(store)


@pytest.mark.parametrize("words", [*SPELLINGS, *POSTGRES], ids="; ".join)
def test_in_a_callers_transaction(joined: ShowStore, words: tuple[str, ...]) -> None:
    if words in POSTGRES and joined.engine != "postgres":
        return
    tx = joined.connect()
    check_refused(joined, end=saying(words), tx=tx)
    tx.rollback()
    tx.close()
    check_nothing_held(joined)


@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_by_a_method_of_the_callers_connection(joined: ShowStore, method: str) -> None:
    tx = joined.connect()
    check_refused(joined, end=lambda tx: getattr(tx, method)(), tx=tx)
    tx.rollback()
    tx.close()
    check_nothing_held(joined)


def test_a_savepoint_of_the_callers_own_is_no_end(joined: ShowStore) -> None:
    """But going back behind the call is: what was locked is locked no longer."""
    tx = joined.connect()
    tx.execute("begin" if joined.engine == "sqlite" else "select 1")
    tx.execute("savepoint mine")
    inner = saying(("savepoint inner1", "rollback to inner1", "savepoint inner2"))
    assert joined.resource(Ending(inner)).hold("a", ttl=60, tx=tx).state == "held"
    check_refused(joined, end=saying(("rollback to mine",)), tx=tx)
    tx.rollback()
    tx.close()
    check_nothing_held(joined)


@pytest.mark.parametrize("kind", [Session, sa.Connection])
@pytest.mark.parametrize(
    "end", [lambda tx: tx.commit(), lambda tx: tx.rollback(), lambda tx: tx.execute(sa.text("commit"))]
)
def test_through_sqlalchemy(joined: ShowStore, kind: type[Any], end: Callable[[Any], None]) -> None:
    url = joined.url.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url)
    with Session(engine) if kind is Session else engine.connect() as tx:
        check_refused(joined, end=end, tx=tx)
        tx.rollback()
    engine.dispose()
    check_nothing_held(joined)


class AsyncEnding(Ending):
    """The same for an async connection."""

    async def capacity(self, tx: Any, key: str, window: None) -> int:  # type: ignore[override]
        await self.end(tx)  # type: ignore[misc]
        return 5


@pytest.mark.parametrize("words", [*SPELLINGS, *POSTGRES, ("rollback to mine",)], ids="; ".join)
@in_a_loop
async def test_on_an_async_connection(words: tuple[str, ...], migrated: Callable[..., str]) -> None:
    async def end(tx: Any) -> None:
        for one in words:
            await tx.execute(one)

    url = migrated()
    async with await holdkit.connect_async(url) as hk:
        async with await psycopg.AsyncConnection.connect(url) as tx:
            await tx.execute("savepoint mine")
            with pytest.raises(InvalidRequest) as no:
                await hk.resource(AsyncEnding(end)).hold("a", ttl=60, tx=tx)  # type: ignore[arg-type]
            assert no.value.code == "transaction_ended"
            await tx.rollback()
        assert await hk.holds() == []
        assert (await hk.admin.verify()).ok
