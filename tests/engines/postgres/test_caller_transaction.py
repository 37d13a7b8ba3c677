"""Joining a caller's transaction on PostgreSQL: what is refused before anything is written, and what is left untouched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from psycopg import pq
from psycopg.adapt import Loader
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import holdkit
from holdkit import InvalidRequest
from holdkit.testing.postgres import ServerAddress
from tests.support.frameworks import Application, Asynchronous, Psycopg, PsycopgAsync, alchemy_url, make_tables


@pytest.fixture(params=[Psycopg, PsycopgAsync])
def app(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Application]:
    make_tables(postgres_url)
    application: Application = request.param(postgres_url)
    application.hk.create_pool("lamp", 10)
    yield application
    application.close()


def refused(app: Application, tx: Any = None) -> str:
    """The code of the refusal; and the connection is as it was, in its transaction or out of it."""
    tx = app.tx if tx is None else tx
    pgconn = getattr(tx, "pgconn", None)
    before = pgconn and (pgconn.status, pgconn.transaction_status, pgconn.pipeline_status)
    with pytest.raises(InvalidRequest) as caught:
        app.hk.hold("lamp", 1, ttl=60, tx=tx)
    assert caught.value.field == "tx"
    after = pgconn and (pgconn.status, pgconn.transaction_status, pgconn.pipeline_status)
    if before != after:  # psycopg begins with the first statement, ours too
        assert before == (pq.ConnStatus.OK, pq.TransactionStatus.IDLE, pq.PipelineStatus.OFF)
        assert after == (pq.ConnStatus.OK, pq.TransactionStatus.INTRANS, pq.PipelineStatus.OFF)
    assert app.hk.pool("lamp").held == 0
    return str(caught.value.code)


def run(app: Application, work: Callable[..., Any], *arguments: Any) -> Any:
    return app.loop.run(work, *arguments) if isinstance(app, Asynchronous) else work(*arguments)


def set_on(app: Application, name: str, value: Any) -> None:
    run(app, getattr(app.tx, f"set_{name}"), value)


# Refused


def test_autocommit(app: Application) -> None:
    set_on(app, "autocommit", True)
    assert refused(app) == "tx_autocommit"
    app.execute("begin")
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.execute("commit")
    assert app.hk.pool("lamp").held == 1
    assert app.tx.autocommit is True


def test_autocommit_with_a_block_is_joined(app: Application) -> None:
    set_on(app, "autocommit", True)
    undo = app.savepoint()
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    undo()
    assert app.hk.pool("lamp").held == 0
    assert app.hk.admin.verify().ok


def test_aborted(app: Application) -> None:
    with pytest.raises(psycopg.Error):
        app.execute("select 1/0")
    assert refused(app) == "tx_aborted"
    app.roll_back()
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("by", ["transaction", "session", "attribute"])
def test_isolation(app: Application, level: str, by: str) -> None:
    if by == "attribute":
        set_on(app, "isolation_level", psycopg.IsolationLevel[level.upper().replace(" ", "_")])
    elif by == "session":
        app.execute(f"set session characteristics as transaction isolation level {level}")
        app.commit()
    else:
        app.execute(f"set transaction isolation level {level}")
    assert refused(app) == "tx_isolation"
    app.order("a")
    app.commit()
    assert app.orders() == ["a"]


@pytest.mark.parametrize("by", ["transaction", "session", "attribute"])
def test_read_only(app: Application, by: str) -> None:
    if by == "attribute":
        set_on(app, "read_only", True)
    elif by == "session":
        app.execute("set default_transaction_read_only = on")
        app.commit()
    else:
        app.execute("set transaction read only")
    assert refused(app) == "tx_read_only"


@pytest.mark.parametrize("migrated", [False, True])
def test_another_database(app: Application, postgres_server: ServerAddress, migrated: bool) -> None:
    name = f"test_{uuid4().hex}"
    url = postgres_server.create_database(name)
    try:
        if migrated:
            holdkit.migrate(url)
        other = type(app).__new__(type(app))
        other.url = url
        other.loop = getattr(app, "loop", None)  # type: ignore[attr-defined]
        other.open()
        other.execute("create table kept (id int)")
        assert refused(app, other.tx) == "tx_other_database"
        other.execute("insert into kept values (1)")
        other.commit()
        other.leave()
    finally:
        postgres_server.drop_database(name)


def test_no_right_to_look(app: Application) -> None:
    app.execute("create role stranger")
    app.execute("set role stranger")
    assert refused(app) == "tx_other_database"
    app.roll_back()


def test_a_pipeline(app: Application) -> None:
    app.order("a")
    block = app.tx.pipeline()
    run(app, block.__aenter__ if isinstance(app, Asynchronous) else block.__enter__)
    assert refused(app) == "tx_in_pipeline"
    run(app, block.__aexit__ if isinstance(app, Asynchronous) else block.__exit__, None, None, None)
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.commit()
    assert app.orders() == ["a"]


def test_the_middle_of_a_copy(app: Application) -> None:
    cursor = app.tx.cursor()
    block = cursor.copy("copy orders (id) from stdin")
    copy = run(app, block.__aenter__ if isinstance(app, Asynchronous) else block.__enter__)
    run(app, copy.write_row, ("a",))
    assert refused(app) == "tx_busy"
    run(app, copy.write_row, ("b",))
    run(app, block.__aexit__ if isinstance(app, Asynchronous) else block.__exit__, None, None, None)
    app.commit()
    assert app.orders() == ["a", "b"]


def test_another_encoding(app: Application) -> None:
    app.execute("set client_encoding = 'LATIN1'")
    assert refused(app) == "tx_encoding"


def test_a_search_path_that_hides_the_catalogue(app: Application) -> None:
    app.execute("create schema evil")
    app.execute("create function evil.current_setting(text) returns text language sql as $$ select 'read committed' $$")
    app.execute("set search_path = evil, pg_catalog")
    assert refused(app) == "tx_search_path"


def test_things_around_a_connection(app: Application) -> None:
    things: list[tuple[Any, str]] = [
        (app.tx.cursor(), "connection itself, not its"),
        (sqlalchemy.create_engine(alchemy_url(app.url)), "engine.begin"),
        (create_async_engine(alchemy_url(app.url)), "engine.begin"),
        (sqlalchemy.text("select 1"), "TextClause"),
        (psycopg, "module"),
    ]
    for thing, advice in things:
        with pytest.raises(InvalidRequest, match=advice) as caught:
            app.hk.hold("lamp", 1, ttl=60, tx=thing)
        assert (caught.value.field, caught.value.code) == ("tx", "tx_unsupported")


def test_an_async_connection_on_a_sync_kernel_and_the_reverse(app: Application) -> None:
    """A sync connection would stop the event loop; an async one cannot be awaited by a thread. Neither is touched."""
    engine, async_engine = sqlalchemy.create_engine(alchemy_url(app.url)), create_async_engine(alchemy_url(app.url))
    if isinstance(app, Asynchronous):
        with psycopg.connect(app.url) as connection, engine.connect() as alchemy:
            for thing in (connection, alchemy, Session(engine)):
                assert refused(app, thing) == "tx_unsupported"
            assert not alchemy.in_transaction()
        engine.dispose()
        return

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(app.url) as connection, async_engine.connect() as alchemy:
            for thing in (connection, alchemy, AsyncSession(async_engine)):
                with pytest.raises(InvalidRequest, match="connect_async"):
                    app.hk.hold("lamp", 1, ttl=60, tx=thing)
            assert not alchemy.in_transaction()
        await async_engine.dispose()

    asyncio.run(main())


def test_drivers_that_are_not_ours(app: Application) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    other = psycopg2.connect(app.url)
    assert refused(app, other) == "tx_unsupported"
    other.close()


def test_alchemy_on_other_drivers(app: Application) -> None:
    if not isinstance(app, Asynchronous):
        pytest.importorskip("psycopg2")
        engine = sqlalchemy.create_engine(app.url.replace("postgresql://", "postgresql+psycopg2://"))
        with engine.begin() as tx:
            assert refused(app, tx) == "tx_unsupported"
        engine.dispose()


# Left as it was


class Shouting(Loader):
    def load(self, data: Any) -> str:
        return bytes(data).decode().upper() + "!"


def test_their_settings_and_statements(app: Application) -> None:
    def look(statement: str) -> list[Any]:
        cursor = run(app, app.tx.execute, statement)
        rows: list[Any] = run(app, cursor.fetchall)
        return rows

    app.tx.prepare_threshold = 0  # psycopg prepares at once: its own statements, never ours
    app.execute("set lock_timeout = '7s'")
    app.execute("set local work_mem = '5MB'")
    # plpgsql has settings of its own, which are there once the session has called a function of ours
    settings = "select name, setting, source from pg_settings where name not like 'plpgsql.%' order by name"
    prepared = "select name, statement from pg_prepared_statements order by 1"
    look(settings), look(prepared)
    before = look(settings), look(prepared)
    adapted = app.tx.row_factory, app.tx.autocommit, app.tx.isolation_level, app.tx.prepare_threshold
    for _ in range(6):
        app.hk.confirm(app.hk.hold("lamp", 1, ttl=60, op=None, tx=app.tx), tx=app.tx)
    assert (look(settings), look(prepared)) == before
    assert (app.tx.row_factory, app.tx.autocommit, app.tx.isolation_level, app.tx.prepare_threshold) == adapted
    app.commit()
    assert app.hk.pool("lamp").consumed == 6


def test_their_rows_and_loaders_are_no_matter(app: Application) -> None:
    app.tx.row_factory = dict_row
    for name in ("text", "int4", "int8", "bool", "name"):
        app.tx.adapters.register_loader(name, Shouting)
    hold = app.hk.hold("lamp", 2, ttl=60, actor="user:7", tx=app.tx)
    cursor = run(app, app.tx.execute, "select 'quiet'::text as word")
    assert run(app, cursor.fetchall) == [{"word": "QUIET!"}]
    app.commit()
    assert app.hk.get(hold.id).legs[0].held == 2
    assert app.hk.admin.verify().ok


def test_their_cursors_live_on(app: Application) -> None:
    plain = run(app, app.tx.execute, "select generate_series(1, 5)")
    assert run(app, plain.fetchone) == (1,)
    named = app.tx.cursor("theirs")
    run(app, named.execute, "select generate_series(1, 3000)")
    assert run(app, named.fetchmany, 2) == [(1,), (2,)]
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    with pytest.raises(holdkit.InsufficientCapacity):
        app.hk.hold("lamp", 99, ttl=60, tx=app.tx)
    assert run(app, plain.fetchmany, 2) == [(2,), (3,)]
    assert run(app, named.fetchmany, 2) == [(3,), (4,)]
    run(app, named.close)
    app.commit()
    assert app.hk.pool("lamp").held == 1


def test_their_notices_and_notifications(app: Application) -> None:
    heard: list[str] = []
    app.tx.add_notice_handler(lambda diagnostic: heard.append(str(diagnostic.message_primary)))
    app.tx.add_notify_handler(lambda notify: heard.append(notify.payload))
    app.execute("listen news")
    app.commit()
    with psycopg.connect(app.url, autocommit=True) as other:
        other.execute("notify news, 'one'")
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    app.execute("do $$ begin raise notice 'two'; end $$")
    app.commit()
    app.execute("select 1")
    assert sorted(heard) == ["one", "two"]


def test_a_search_path_full_of_namesakes(app: Application) -> None:
    app.execute("create schema evil")
    app.execute("set search_path = evil")
    for name in ("pools", "holds", "legs", "journal", "heads", "unnumbered", "operations", "settings", "fence_floors"):
        app.execute(f"create table evil.{name} (id int)")
        app.execute(f"create temp table {name} (id int)")
    for function in ("count(int)", "unnest(int[], text[], text[])", "coalesce_all(int)", "replace(text, text, text)"):
        app.execute(f"create function evil.{function} returns int language sql as $$ select 0 $$")
    hold = app.hk.hold("lamp", 1, ttl=60, op="x", tx=app.tx)
    app.hk.release(hold, tx=app.tx)
    app.commit()
    assert [str(entry.action) for entry in app.hk.history(hold.id)] == ["hold.held", "hold.released"]
    assert app.hk.admin.verify().ok


def test_the_lock_of_the_connection_is_held_while_we_speak(app: Application) -> None:
    seen: dict[str, bool] = {}
    app.listen(lambda name: seen.update({name: app.tx.lock.locked()}))
    app.hk.extend(app.hk.hold("lamp", 1, ttl=60, tx=app.tx), by=60, tx=app.tx)
    assert {"make_savepoint", "guard_call_place", "write_unnumbered", "release_savepoint"} <= seen.keys()
    assert all(seen.values())
    assert not app.tx.lock.locked()


def test_a_savepoint_of_the_same_name_is_theirs(app: Application) -> None:
    app.execute("savepoint holdkit")
    app.order("a")
    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    with pytest.raises(holdkit.InsufficientCapacity):
        app.hk.hold("lamp", 99, ttl=60, tx=app.tx)
    app.execute("rollback to savepoint holdkit")
    app.execute("release savepoint holdkit")
    app.order("b")
    app.commit()
    assert app.orders() == ["b"]
    assert app.hk.pool("lamp").held == 0
    assert app.hk.admin.verify().ok
