"""A capacity that ends the transaction of a framework: in Django's and SQLAlchemy's words, sync and async."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import holdkit
from holdkit import InvalidRequest
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.support.frameworks import AlchemyAsyncConnection, AlchemyAsyncSession, Application, Django, make_tables
from tests.support.kernels import differences
from tests.unit.faces.resources.test_capacity_ends_transaction import AsyncEnding, Ending


@pytest.fixture
def postgres(postgres_url: str) -> str:
    make_tables(postgres_url)
    return postgres_url


def check_nothing_held(hk: Any) -> None:
    assert hk.holds() == []
    assert "hold.held" not in [entry.action for entry in hk.journal.list()]
    assert differences(hk) == ()


def in_cursor(*words: str) -> Callable[[Any], None]:
    def end(tx: Any) -> None:
        with tx.cursor() as cursor:
            for one in words:
                cursor.execute(one)

    return end


DJANGO: dict[str, Callable[[Any], None]] = {
    "sql": in_cursor("commit"),
    "sql, and another": in_cursor("rollback", "begin"),
    "the driver's": lambda tx: tx.connection.commit(),
    "the wrapper's": lambda tx: tx._commit(),
    "the wrapper's rollback": lambda tx: tx._rollback(),
}


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Django]:
    url = f"sqlite:///{tmp_path}/holds.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
    else:
        make_tables(url)
    app = Django(url)
    yield app
    app.close()


@pytest.mark.parametrize("end", DJANGO.values(), ids=DJANGO)
def test_django(shop: Django, end: Callable[[Any], None]) -> None:
    shop.begin()
    shop.order("theirs")
    with pytest.raises(InvalidRequest) as no:
        shop.hk.resource(Ending(end)).hold("a", ttl=60, tx=shop.tx)
    assert (no.value.field, no.value.code, no.value.effect) == ("tx", "transaction_ended", "none")
    shop.roll_back()
    check_nothing_held(shop.hk)
    shop.begin()
    assert shop.hk.resource(Ending(lambda tx: None)).hold("a", ttl=60, tx=shop.tx).state == "held"
    shop.commit()
    assert len(shop.hk.holds()) == 1


def test_a_nested_block_of_django_is_no_end(shop: Django) -> None:
    def nested(tx: Any) -> None:
        undo = shop.savepoint()
        shop.order("inner")
        undo()

    shop.begin()
    shop.order("outer")
    assert shop.hk.resource(Ending(nested)).hold("a", ttl=60, tx=shop.tx).state == "held"
    shop.commit()
    assert (shop.orders(), len(shop.hk.holds())) == (["outer"], 1)


async def _commit(tx: Any) -> None:
    await tx.commit()


async def _roll_back(tx: Any) -> None:
    await tx.rollback()


async def _say_commit(tx: Any) -> None:
    await tx.execute(sa.text("commit"))


async def _say_both(tx: Any) -> None:
    await tx.execute(sa.text("rollback"))
    await tx.execute(sa.text("begin"))


@pytest.mark.parametrize("kind", [AlchemyAsyncConnection, AlchemyAsyncSession])
@pytest.mark.parametrize("end", [_commit, _roll_back, _say_commit, _say_both])
def test_sqlalchemy_in_a_task(postgres: str, kind: type[Application], end: Any) -> None:
    app: Any = kind(postgres)
    try:
        app.begin()
        with pytest.raises(InvalidRequest) as no:
            app.hk.resource(AsyncEnding(end)).hold("a", ttl=60, tx=app.tx)
        assert (no.value.field, no.value.code, no.value.effect) == ("tx", "transaction_ended", "none")
        app.roll_back()
    finally:
        app.close()
    with holdkit.connect(postgres) as hk:
        check_nothing_held(hk)


def test_prepared_for_two_phases(postgres_binaries: Path) -> None:
    """Whoever hands it over to a coordinator has ended it: what is prepared keeps its locks until that decides."""
    end = lambda tx: tx.execute("prepare transaction 'theirs'")  # noqa: E731
    with PostgresServer({"max_prepared_transactions": "3"}, binaries=postgres_binaries, within=memory()) as server:
        url = server.create_database("shop")
        make_tables(url)
        with holdkit.connect(url) as hk, psycopg.connect(url) as tx, psycopg.connect(url, autocommit=True) as operator:
            for joined in (None, tx):
                with pytest.raises(InvalidRequest) as no:
                    hk.resource(Ending(end)).hold("a", ttl=60, tx=joined)
                assert (no.value.field, no.value.code, no.value.effect) == ("tx", "transaction_ended", "none")
                tx.rollback()
                operator.execute("commit prepared 'theirs'")
                check_nothing_held(hk)
            assert hk.resource(Ending(lambda tx: None)).hold("a", ttl=60).state == "held"
