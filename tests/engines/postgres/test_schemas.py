"""A schema of one's own name, connections by number, and a URL that says all of it but the password."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import InvalidRequest, Overloaded
from holdkit.core.bounds import Limits
from holdkit.engines.postgres import PostgresEngine, migrate, migration_sql
from holdkit.engines.postgres.address import POOL, pool_sizes, read_url
from holdkit.engines.postgres.migrating import distributing, migrate_to
from holdkit.engines.postgres.statements import load, load_for_one_lane, migrations
from holdkit.errors import EngineError, PoolNotFound
from holdkit.testing import FakeClock
from tests.engines.postgres.engine_calls import ask
from tests.support.threads import PATIENCE

NAMES = ["shop", "order", "_2"]
"""Plain; a word of SQL; as short and strange as a name may be."""


@pytest.fixture(scope="session")
def postgres_template() -> str:
    return "template0"


@pytest.fixture(params=["one server", "as if"])
def layout(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def two(postgres_url: str, layout: Any) -> Iterator[tuple[holdkit.Kernel, holdkit.Kernel]]:
    """Two kernels on one database, each in a schema of its own."""
    with ExitStack() as stack:
        kernels = []
        for name in ("shop", "order"):
            migrate_to(postgres_url, layout, 4, schema=name)
            kernels.append(stack.enter_context(holdkit.connect(postgres_url, schema=name)))
        yield kernels[0], kernels[1]


def test_two_schemas_do_not_disturb_each_other(two: tuple[holdkit.Kernel, holdkit.Kernel], postgres_url: str) -> None:
    shop, order = two
    shop.create_pool("lamp", 3)
    with pytest.raises(PoolNotFound):
        order.pool("lamp")
    order.create_pool("lamp", 7)
    first, second = shop.hold("lamp", 2, ttl=60, op="once"), order.hold("lamp", 5, ttl=60, op="once")
    shop.admin.records.put("note", "n", "1")
    assert [(hk.pool("lamp").total, hk.pool("lamp").held) for hk in two] == [(3, 2), (7, 5)]
    assert [[hold.id for hold in hk.holds()] for hk in two] == [[first.id], [second.id]]
    assert order.admin.records.get("note", "n") is None
    order.confirm(second)
    assert [[str(entry.action) for entry in hk.journal.list()] for hk in two] == [
        ["pool.created", "hold.held", "record.put"],
        ["pool.created", "hold.held", "hold.confirmed"],
    ]
    assert all(hk.admin.verify().ok for hk in two)
    assert ask(postgres_url, "select count(*) from pg_namespace where nspname = 'holdkit'") == [(0,)]
    assert ask(postgres_url, 'select total from "order".pools_readable') == [(7,)]


def test_followers_keep_their_places_apart(two: tuple[holdkit.Kernel, holdkit.Kernel]) -> None:
    shop, order = two
    for hk, total in ((shop, 1), (order, 2)):
        hk.create_pool("a", total)
    assert [entry.subject for entry in shop.journal.follow("mailer", wait=False)] == ["a"]
    shop.create_pool("b", 1)
    assert [entry.subject for entry in order.journal.follow("mailer", wait=False)] == ["a"]
    assert [entry.subject for entry in shop.journal.follow("mailer", wait=False)][-1] == "b"


def test_notifications_are_heard_in_their_own_schema(
    two: tuple[holdkit.Kernel, holdkit.Kernel], postgres_url: str
) -> None:
    shop, order = two
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        for channel in ("holdkit", "shop", "holdkit:shop", "holdkit:order"):
            connection.execute(f'listen "{channel}"')
            connection.execute("select pg_advisory_lock_shared(hashtextextended(%s, 0))", (channel,))  # as followers do
        shop.create_pool("lamp", 1)
        (heard,) = connection.notifies(timeout=PATIENCE, stop_after=1)
        assert heard.channel == "holdkit:shop"
        order.create_pool("lamp", 1)
        (heard,) = connection.notifies(timeout=PATIENCE, stop_after=1)
        assert heard.channel == "holdkit:order"


def test_a_listener_is_woken_by_another_kernel_of_its_schema(postgres_url: str) -> None:
    migrate(postgres_url, schema="shop")
    woken, ready = threading.Event(), threading.Event()
    with (
        closing(PostgresEngine(postgres_url, schema="shop")) as engine,
        holdkit.connect(postgres_url, schema="shop") as other,
    ):

        def wake() -> None:
            (woken if ready.is_set() else ready).set()

        engine.listen(wake)
        assert ready.wait(PATIENCE), "it wakes once by itself, when it can hear"
        other.create_pool("lamp", 1)
        assert woken.wait(PATIENCE)


def test_a_callers_transaction_has_both(two: tuple[holdkit.Kernel, holdkit.Kernel], postgres_url: str) -> None:
    shop, order = two
    shop.create_pool("lamp", 3)
    order.create_pool("lamp", 7)
    with psycopg.connect(postgres_url) as tx:
        shop.hold("lamp", 1, ttl=60, tx=tx)
        order.hold("lamp", 2, ttl=60, tx=tx)
        assert [hk.pool("lamp", tx=tx).held for hk in two] == [1, 2]
    assert [hk.pool("lamp").held for hk in two] == [1, 2]
    with psycopg.connect(postgres_url) as tx:
        tx.execute("drop schema shop cascade")
        with pytest.raises(InvalidRequest) as refused:
            shop.hold("lamp", 1, ttl=60, tx=tx)
        assert refused.value.code == "tx_other_database"
        order.hold("lamp", 1, ttl=60, tx=tx)


def test_the_usual_schema_is_beside_another(postgres_url: str) -> None:
    migrate(postgres_url)
    migrate(postgres_url, schema="shop")
    with holdkit.connect(postgres_url) as usual, holdkit.connect(postgres_url, schema="shop") as shop:
        usual.create_pool("lamp", 1)
        assert shop.pools() == []
        assert (usual.url, shop.url) == (postgres_url, f"{postgres_url}&schema=shop")


@pytest.mark.parametrize("name", NAMES)
def test_made_by_a_script(postgres_url: str, name: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(migration_sql(lanes=2, schema=name).encode())
    assert migrate(postgres_url, schema=name) == migrations()[-1][0]
    with holdkit.connect(postgres_url, schema=name, clock=FakeClock()) as hk:
        hk.create_pool("lamp", 1)
        hk.confirm(hk.hold("lamp", 1, ttl=60))
        assert hk.admin.verify().ok


def test_no_text_names_the_usual_schema() -> None:
    """Whatever is said to a server goes through the one place where the name enters."""
    named = re.compile(r"holdkit\.|'holdkit'|schema holdkit")
    shop = [sql.text for made in (load("shop"), load_for_one_lane("shop")[0]) for sql in made.values()]
    usual = [sql.text for made in (load(), load_for_one_lane()[0]) for sql in made.values()]
    assert [text for text in shop if named.search(text)] == []
    assert sum('"shop".' in text for text in shop) == sum("holdkit." in text for text in usual) > 100
    for script in (migration_sql(schema="shop", citus=True), *distributing("shop")):
        assert not named.search(re.sub(r"--[^\n]*", "", script))


# Said wrongly


@pytest.mark.parametrize(
    "name", ["", "Shop", "a-b", 'a"b', "a.b", "a b", "1a", "pg_shop", "é", "a" * 49, "a\n", 7, b"shop", "shop;drop"]
)
def test_names_that_are_refused(name: Any, postgres_url: str) -> None:
    for call in (holdkit.connect, holdkit.migrate):
        with pytest.raises(InvalidRequest) as refused:
            call(postgres_url, schema=name)
        assert (refused.value.field, refused.value.code) == ("schema", "schema_malformed")
    with pytest.raises(InvalidRequest):
        migration_sql(schema=name)


@pytest.mark.parametrize("size", [0, 3, 1_001, -1, 4.0, "8", True])
def test_pool_sizes_that_are_refused(size: Any, postgres_url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        holdkit.connect(postgres_url, pool_size=size)
    assert refused.value.field == "pool_size"
    with pytest.raises(InvalidRequest) as refused:
        read_url("postgresql:///shop?pool_size=many")
    assert (refused.value.field, refused.value.code) == ("pool_size", "pool_size_not_whole")


def test_said_twice_it_must_be_the_same() -> None:
    url = "postgresql:///shop?schema=a&pool_size=8"
    assert read_url(url, schema="a", pool_size=8).schema == "a"
    others: tuple[dict[str, Any], ...] = ({"schema": "b"}, {"pool_size": 9})
    for said in others:
        with pytest.raises(InvalidRequest, match="the URL says"):
            read_url(url, **said)


def test_missing_tables_are_named_with_what_to_do(postgres_url: str) -> None:
    with pytest.raises(
        EngineError,
        match=r"has no schema shop yet: run `holdkit migrate --schema shop` \(pip install 'holdkit\[cli,postgres\]'\)",
    ):
        holdkit.connect(postgres_url, schema="shop")
    with pytest.raises(EngineError, match="it has a schema public that is not ours"):
        migrate(postgres_url, schema="public")


# Connections


def test_a_pool_is_cut_up() -> None:
    assert pool_sizes(POOL) == (6, 16, 8)
    for size in range(4, 1_001):
        sizes = pool_sizes(size)
        assert sum(sizes) == size
        assert sizes.no_wait >= 2
        assert min(sizes) >= 1


def test_there_are_never_more_connections(postgres_url: str) -> None:
    migrate(postgres_url)
    short_timeout = Limits(lock_timeout=50_000)
    with closing(PostgresEngine(postgres_url, pool_size=4, limits=short_timeout)) as engine, ExitStack() as taken:
        for _ in range(2):
            taken.enter_context(engine._connections.no_wait.connection())
        taken.enter_context(engine._connections.wait_for_locks.connection())
        for kind, most in ((engine._connections.no_wait, 2), (engine._connections.wait_for_locks, 1)):
            with pytest.raises(Overloaded, match=f"all {most} connections are in use"), kind.connection():
                pass

        def again(_: Any) -> None:
            with pytest.raises(Overloaded, match="all 1 connections for resources are in use"):
                engine.lend(lambda lent: lent.tx)
            ours = (
                "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
                "and backend_type = 'client backend'"
            )
            assert ask(postgres_url, ours) == [(4,)]

        engine.lend(again)


def test_many_callers_with_the_fewest_connections(postgres_url: str) -> None:
    migrate(postgres_url)
    with holdkit.connect(postgres_url, pool_size=4) as hk:
        for number in range(4):
            hk.create_pool(f"p{number}", 100)

        def work(number: int) -> None:
            for _ in range(10):
                hk.confirm(hk.hold(f"p{number % 4}", 1, ttl=60))
                hk.pool("p0")

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(work, range(16)))
        assert [pool.consumed for pool in hk.pools()] == [40] * 4
        assert hk.admin.verify().ok


# The URL


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:s3cret@db.example:5433/shop", "postgresql://me@db.example:5433/shop"),
        ("postgres://me@a,b:5433/shop?sslmode=require", "postgres://me@a,b:5433/shop?sslmode=require"),
        ("postgresql://me:s%40x@[::1]/shop?pooler=transaction", "postgresql://me@[::1]/shop?pooler=transaction"),
        ("postgresql:///shop?host=/run/pg&password=s3cret&user=u", "postgresql:///shop?host=/run/pg&user=u"),
        ("postgresql:///shop?sslpassword=s3cret&allow_unsafe=fsync,full_page_writes",
         "postgresql:///shop?allow_unsafe=fsync,full_page_writes"),
        ("postgresql:///shop?schema=holds&pool_size=8", "postgresql:///shop?pool_size=8&schema=holds"),
        ("postgresql:///shop?options=-c%20geqo%3Doff", "postgresql:///shop?options=-c%20geqo%3Doff"),
    ],
)  # fmt: skip
def test_a_url_without_its_password(given: str, shown: str) -> None:
    address = read_url(given)
    assert address.url == shown
    again = read_url(shown)
    assert (again.url, again.schema, again.pooled, again.allow_unsafe) == (
        shown, address.schema, address.pooled, address.allow_unsafe)  # fmt: skip
    before, after = (psycopg.conninfo.conninfo_to_dict(one.hosts[0].conninfo) for one in (address, again))
    assert {name: value for name, value in before.items() if name not in ("password", "sslpassword")} == after


def test_the_url_of_a_kernel_opens_it_again(postgres_url: str) -> None:
    migrate(postgres_url, schema="shop")
    with holdkit.connect(postgres_url, schema="shop") as hk:
        hk.create_pool("lamp", 3)
        assert hk.url == f"{postgres_url}&schema=shop"
        with holdkit.connect(hk.url) as again:
            assert again.pool("lamp").total == 3


# The command line


def test_the_command_line_and_the_server(postgres_url: str) -> None:
    from tests.support.command_line import run

    made = run("migrate", postgres_url, "--schema", "shop")
    assert "the schema is at version" in made.out
    assert '"shop".pools' in run("migrate", "--sql", "--schema", "shop").out
    run("pools", "create", "lamp", "3", "--url", postgres_url, "--schema", "shop")
    assert "lamp" in run("pools", "list", "--url", f"{postgres_url}&schema=shop", "--schema", "shop").out
    assert "the URL says schema=shop" in run(
        "pools", "list", "--url", f"{postgres_url}&schema=shop", "--schema", "b", code=2).err  # fmt: skip
    assert "goes with a postgresql:// URL only" in run("doctor", "sqlite:///x.db", "--schema", "shop", code=2).err
    assert "schema=shop" in run("doctor", postgres_url, "--schema", "shop").out
    advised = run("doctor", postgres_url, "--schema", "other", code=6).out
    assert "run holdkit migrate --schema other\n" in advised, "in the words of the command line"
    assert "holdkit.migrate(" not in advised


def test_a_server_in_a_schema(postgres_url: str) -> None:
    import asyncio

    from holdkit.server import Settings
    from holdkit.server.application import Application

    migrate(postgres_url, schema="shop")

    async def serve() -> str:
        async with Application(postgres_url, settings=Settings(schema="shop", pool_size=5)).lifespan() as running:
            return running.kernel.url

    assert asyncio.run(serve()) == f"{postgres_url}&schema=shop"
