"""Reads with `tx=`: they see what the caller's transaction has done so far, and nobody else does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import InvalidRequest
from holdkit.errors import HoldNotFound, HoldRetired, PoolNotFound
from holdkit.testing import FakeClock
from tests.engines.postgres.test_caller_transaction import run, set_on
from tests.support.frameworks import (
    ON_POSTGRES,
    ON_SQLITE,
    Application,
    Django,
    Psycopg,
    PsycopgAsync,
    Sqlite,
    make_tables,
)

WHERE = [("postgres", kind) for kind in ON_POSTGRES] + [("sqlite", kind) for kind in ON_SQLITE]
READS: dict[str, Callable[[Any, Any], Any]] = {
    "pool": lambda hk, tx: hk.pool("lamp", tx=tx),
    "pools": lambda hk, tx: hk.pools(tx=tx),
    "get": lambda hk, tx: hk.get("0" * 32, tx=tx),
    "holds": lambda hk, tx: hk.holds(tx=tx),
    "record": lambda hk, tx: hk.admin.records.get("note", "n", tx=tx),
    "records": lambda hk, tx: hk.admin.records.list("note", tx=tx),
}


def opened(request: pytest.FixtureRequest, tmp_path: Path, **options: Any) -> Application:
    where, kind = request.param
    url = request.getfixturevalue("migrated")(lanes=4) if where == "postgres" else f"sqlite:///{tmp_path}/shop.db"
    make_tables(url)
    application: Application = kind(url, **options)
    application.hk.create_pool("lamp", 10)
    return application


@pytest.fixture(params=WHERE, ids=lambda where: f"{where[1].__name__}-{where[0]}")
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    application = opened(request, tmp_path)
    yield application
    application.close()


def seen(app: Application, **within: Any) -> tuple[list[tuple[str, int]], list[str], list[str]]:
    """Pools with what is held, holds, records, as told by every way there is to ask."""
    hk = app.hk
    pools = [(pool.id, pool.held) for pool in hk.pools(**within)]
    assert pools == [(id, hk.pool(id, **within).held) for id, _ in pools]
    holds = [hold.id for hold in hk.holds(**within)]
    assert holds == [hk.get(id, **within).id for id in holds]
    records = [record.id for record in hk.admin.records.list("note", **within)]
    assert records == [record.id for record in (hk.admin.records.get("note", id, **within) for id in records)]
    return pools, holds, records


def test_what_is_not_committed_is_seen_inside_and_gone_after_a_rollback(app: Application) -> None:
    app.begin()
    hold = app.hk.hold("lamp", 2, ttl=60, entity="order:1", tx=app.tx)
    app.hk.create_pool("desk", 1, tx=app.tx)
    app.hk.admin.records.put("note", "n", '{"said": true}', tx=app.tx)
    app.order("a")
    assert seen(app, tx=app.tx) == ([("desk", 0), ("lamp", 2)], [hold.id], ["n"])
    assert [one.id for one in app.hk.holds(pool="lamp", state="held", entity="order:1", tx=app.tx)] == [hold.id]
    assert app.hk.holds(pool="desk", tx=app.tx) == app.hk.holds(state="confirmed", tx=app.tx) == []
    assert seen(app) == ([("lamp", 0)], [], [])
    app.hk.confirm(hold, tx=app.tx)
    assert [one.state for one in app.hk.holds(tx=app.tx)] == ["confirmed"]
    assert app.hk.get(hold.id, tx=app.tx).token is None
    app.roll_back()
    assert seen(app) == ([("lamp", 0)], [], [])
    assert app.orders() == []
    assert app.hk.admin.verify().ok


def test_a_read_is_the_very_first_statement(app: Application) -> None:
    app.begin()
    assert seen(app, tx=app.tx) == ([("lamp", 0)], [], [])
    hold = app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    app.order("a")
    app.commit()
    assert seen(app) == ([("lamp", 2)], [hold.id], [])
    assert app.orders() == ["a"]


def test_what_is_not_there_leaves_their_transaction_usable(app: Application) -> None:
    app.begin()
    app.order("a")
    with pytest.raises(PoolNotFound):
        app.hk.pool("chair", tx=app.tx)
    with pytest.raises((HoldNotFound, HoldRetired)):
        app.hk.get("0" * 32, tx=app.tx)
    assert app.hk.admin.records.get("note", "n", tx=app.tx) is None
    app.order("b")
    app.commit()
    assert app.orders() == ["a", "b"]


def test_an_error_leaves_their_transaction_usable(app: Application) -> None:
    failed: list[str] = []

    def fail(statement: str) -> None:
        if statement.startswith(("read_", "load_record")):
            failed.append(statement)
            raise ArithmeticError(statement)

    app.begin()
    app.listen(fail)
    for name, read in READS.items():
        app.order(f"before {name}")
        with pytest.raises(ArithmeticError):
            read(app.hk, app.tx)
        app.order(f"behind {name}")
    app.listen(lambda _: None)
    assert seen(app, tx=app.tx) == ([("lamp", 0)], [], [])
    app.commit()
    assert len(app.orders()) == 2 * len(READS) == 2 * len(failed)


def test_their_nested_block_takes_it_along(app: Application) -> None:
    app.begin()
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    undo = app.savepoint()
    app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    assert app.hk.pool("lamp", tx=app.tx).held == 3
    undo()
    assert app.hk.pool("lamp", tx=app.tx).held == 1
    app.commit()
    assert app.hk.pool("lamp").held == 1


def test_another_tenant_sees_its_own(app: Application) -> None:
    app.begin()
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    other = app.hk.tenant("other")
    assert [other.pools(tx=app.tx), other.holds(tx=app.tx), other.admin.records.list("note", tx=app.tx)] == [[], [], []]
    app.roll_back()


def test_no_transaction_of_theirs_is_refused(app: Application) -> None:
    checked = 0
    for read in READS.values():
        for thing in (object(), "begin", 0, False, type(app.tx)):
            with pytest.raises(InvalidRequest) as refused:
                read(app.hk, thing)
            assert (refused.value.field, refused.value.code) == ("tx", "tx_unsupported")
            checked += 1
    assert checked == 30


# Time


@pytest.fixture(params=[*WHERE[:2], ("sqlite", Sqlite)], ids=lambda where: f"{where[1].__name__}-{where[0]}")
def timed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Application, FakeClock]]:
    clock = FakeClock()
    application = opened(request, tmp_path, clock=clock)
    yield application, clock
    application.close()


def test_due_legs_count_as_returned(timed: tuple[Application, FakeClock]) -> None:
    app, clock = timed
    app.begin()
    hold = app.hk.hold("lamp", 2, ttl=60, tx=app.tx)
    clock.advance(59.9)
    assert (app.hk.pool("lamp", tx=app.tx).held, app.hk.get(hold, tx=app.tx).state) == (2, "held")
    clock.advance(0.1)
    assert (app.hk.pool("lamp", tx=app.tx).held, app.hk.get(hold, tx=app.tx).state) == (0, "expired")
    assert [pool.held for pool in app.hk.pools(tx=app.tx)] == [0]
    assert app.hk.holds(state="held", tx=app.tx) == []
    assert [one.id for one in app.hk.holds(state="expired", tx=app.tx)] == [hold.id]
    app.roll_back()


# What a read may join and a command may not


@pytest.fixture(params=[Psycopg, PsycopgAsync])
def server(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Application]:
    make_tables(postgres_url)
    application: Application = request.param(postgres_url)
    application.hk.create_pool("lamp", 10)
    yield application
    application.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_of_one_snapshot(server: Application, level: str) -> None:
    server.execute(f"set transaction isolation level {level}")
    assert server.hk.pool("lamp", tx=server.tx).held == 0
    server.hk.hold("lamp", 3, ttl=60)
    assert server.hk.pool("lamp", tx=server.tx).held == 0, "as everything else that this transaction sees"
    with pytest.raises(InvalidRequest) as refused:
        server.hk.hold("lamp", 1, ttl=60, tx=server.tx)
    assert refused.value.code == "tx_isolation"
    assert len(server.hk.holds(tx=server.tx)) == 0
    server.roll_back()
    assert server.hk.pool("lamp", tx=server.tx).held == 3


def test_a_read_only_transaction(server: Application) -> None:
    server.execute("set transaction read only")
    assert seen(server, tx=server.tx) == ([("lamp", 0)], [], [])
    with pytest.raises(InvalidRequest) as refused:
        server.hk.hold("lamp", 1, ttl=60, tx=server.tx)
    assert refused.value.code == "tx_read_only"
    assert server.hk.pool("lamp", tx=server.tx).held == 0


def test_the_same_is_refused_as_of_a_command(server: Application) -> None:
    def code() -> str:
        codes: set[str | None] = set()
        for read in READS.values():
            with pytest.raises(InvalidRequest) as refused:
                read(server.hk, server.tx)
            assert refused.value.field == "tx"
            codes.add(refused.value.code)
        (one,) = codes
        return str(one)

    with pytest.raises(psycopg.Error):
        server.execute("select 1/0")
    assert code() == "tx_aborted"
    server.roll_back()
    server.execute("set local search_path = public, pg_catalog")
    assert code() == "tx_search_path"
    server.roll_back()
    server.execute("alter schema holdkit rename to elsewhere")
    assert code() == "tx_other_database"
    server.order("a")
    server.roll_back()
    set_on(server, "autocommit", True)
    assert code() == "tx_autocommit"


def test_their_settings_stay_and_nothing_is_prepared(server: Application) -> None:
    def shown() -> list[Any]:
        rows = run(server, server.tx.execute, "select name, setting from pg_settings order by name")
        return list(run(server, rows.fetchall))

    before = shown()
    seen(server, tx=server.tx)
    assert shown() == before
    rows = run(
        server, server.tx.execute, "select count(*) from pg_prepared_statements where statement like '%holdkit%'"
    )
    assert run(server, rows.fetchone) == (0,)


def test_a_django_block_that_is_to_be_rolled_back(postgres_url: str) -> None:
    make_tables(postgres_url)
    app = Django(postgres_url)
    app.begin()
    app.tx.needs_rollback = True
    with pytest.raises(InvalidRequest) as refused:
        app.hk.pools(tx=app.tx)
    assert refused.value.code == "tx_aborted"
    app.roll_back()
    app.close()


def test_an_sqlite_connection_that_only_reads(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    make_tables(url)
    app = Sqlite(url)
    app.hk.create_pool("lamp", 10)
    app.tx.execute("pragma query_only = on")
    assert seen(app, tx=app.tx) == ([("lamp", 0)], [], [])
    other = sqlite3.connect(f"file:{tmp_path}/shop.db?mode=ro", uri=True)
    assert seen(app, tx=other) == ([("lamp", 0)], [], [])
    assert not other.in_transaction
    other.close()
    stranger = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(InvalidRequest) as refused:
        app.hk.pool("lamp", tx=stranger)
    assert refused.value.code == "tx_other_database"
    stranger.close()
    app.close()


def test_an_engine_without_transactions_says_so() -> None:
    with holdkit.connect("memory://") as hk:
        for read in READS.values():
            with pytest.raises(InvalidRequest, match="has no transactions to join") as refused:
                read(hk, object())
            assert refused.value.code == "tx_unsupported"
