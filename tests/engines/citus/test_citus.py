"""On a real cluster: the kit, a race, what a follower sees, and where the rows are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

import holdkit
from holdkit.core.bounds import Limits
from holdkit.core.lanes import lane_of_pool
from holdkit.engines.postgres import PostgresEngine, erasing
from holdkit.engines.postgres.migrating import DISTRIBUTED, Layout, migrate_to
from holdkit.errors import Overloaded
from tests.acceptance.conformance.test_postgres import Distributed
from tests.engines.commands import confirm, create, groups
from tests.engines.postgres.engine_calls import done, place, pool_in
from tests.support.races import with_threads

pytestmark = pytest.mark.citus
LANES = 16


def given() -> str:
    return os.environ["HOLDKIT_TEST_CITUS_URL"]


def emptied() -> str:
    """Nothing of ours is there, whatever an earlier engine left."""
    with closing(psycopg.connect(given(), autocommit=True)) as connection:
        connection.execute("drop schema if exists holdkit cascade")
    return given()


def migrated(layout: Layout, lanes: int, limits: Limits | None = None) -> str:
    migrate_to(emptied(), layout, lanes, limits)
    return given()


@pytest.fixture
def url() -> Iterator[str]:
    yield migrated("citus", LANES)
    emptied()


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        return connection.execute(query.encode()).fetchall()


class TestCitus(Distributed):
    lanes = LANES
    layout: Layout = "citus"

    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        self.migrated = migrated
        yield
        emptied()


def test_the_tables_are_distributed_by_lane_and_side_by_side(url: str) -> None:
    tables = ask(url, "select table_name::text, distribution_column, colocation_id from citus_tables "
                      "where table_name::text like 'holdkit.%' and citus_table_type = 'distributed'")  # fmt: skip
    assert {name for name, *_ in tables} == {f"holdkit.{table}" for table in DISTRIBUTED}
    assert {column for _, column, _ in tables} == {"lane"}
    assert len({group for *_, group in tables}) == 1


def test_every_node_can_be_opened(url: str) -> None:
    """Whoever comes in through a worker finds the settings there as well."""
    found = ask(
        url, "select success, result from run_command_on_all_nodes('select count(*) > 1 from holdkit.settings')"
    )
    assert len(found) > 1
    assert {*found} == {(True, "t")}


def nodes(url: str) -> list[str]:
    """The URL of every node that can be entered."""
    every = ask(
        url, "select nodename, nodeport from pg_dist_node where isactive and noderole = 'primary' order by 2, 1"
    )
    user = urlsplit(url).netloc.rpartition("@")[0]
    return [urlsplit(url)._replace(netloc=f"{user}@{host}:{port}").geturl() for host, port in every]


def test_every_node_does_the_same(url: str) -> None:
    """What was done through one is verified through each. A worker lacks the tables that are on the coordinator only."""
    every = nodes(url)
    assert len(every) >= 2
    for number, node in enumerate(every):
        with holdkit.connect(node) as hk:
            hk.create_pool(f"room:{number}", 5)
            hold = hk.hold({f"room:{each}": 1 for each in range(number + 1)}, ttl=600, op=f"op-{number}")
            hk.confirm(hold, entity="user:7")
    for node in every:
        with holdkit.connect(node) as hk:
            assert hk.pool("room:0").consumed == len(every)
            assert hk.admin.verify().ok


def test_an_erasure_waits_for_a_transaction_on_another_node(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "SETTLE", 0.0)
    with holdkit.connect(url) as hk, closing(psycopg.connect(nodes(url)[-1])) as elsewhere:
        hk.create_pool("room", 5)
        hk.confirm(hk.claims.hold("email", "ann@example.org", ttl=60), entity="user:7")
        lane = lane_of_pool(("", "room"), LANES)
        elsewhere.execute("select 1 from holdkit.pools where lane = %s and id = 'room' for update", (lane,))
        with pytest.raises(Overloaded, match="using pools"):
            hk.admin.erase("entity", "user:7", reason="request")
        elsewhere.rollback()
        hk.admin.erase("entity", "user:7", reason="request")
        assert hk.admin.verify().ok


def test_asyncpg_learns_types_before_anything_is_locked(url: str) -> None:
    """The query is slow where shards are hidden from it: seconds, in which everybody else waits for the pool."""

    async def work() -> list[str]:
        logged: list[str] = []
        async with await holdkit.connect_async(url) as hk:
            await hk.create_pool("room", 5)
            connection = await asyncpg.connect(url)
            connection.add_log_listener(lambda _, message: logged.append(message.message))
            await connection.execute("set client_min_messages = log; set log_statement = 'all'")
            async with connection.transaction():
                await hk.hold("room", 1, ttl=60, tx=connection)
            await connection.close()
        return logged

    logged = asyncio.run(work())
    (shown,) = [number for number, line in enumerate(logged) if "override_table_visibility" in line]
    (learned,) = [number for number, line in enumerate(logged) if "typeinfo" in line]
    assert shown < learned < min(number for number, line in enumerate(logged) if "holdkit." in line)


def test_racing_threads_admit_exactly_what_there_is(url: str) -> None:
    with holdkit.connect(url) as first, holdkit.connect(url) as second:
        first.create_pool("seats", 40)
        granted = with_threads([first, second] * 3, 10)
        assert len(granted) == len(set(granted)) == 40 == first.pool("seats").held
        assert first.admin.verify().ok


def test_a_follower_misses_nothing_and_verify_agrees(url: str) -> None:
    pools = [pool_in(lane, lanes=LANES) for lane in range(LANES)]
    with closing(PostgresEngine(url)) as engine, holdkit.connect(url) as hk:
        engine.apply(groups(*(create(pool) for pool in pools)))
        holds = [done(engine, place(*pools[n : n + 3], op=f"op-{n}")).hold for n in range(12)]
        with closing(psycopg.connect(url)) as tx:
            theirs = engine.apply_in(tx, groups(place(pools[0]), place(pools[5], pools[9]))).outcomes
            tx.commit()
        for hold in holds:
            assert hold is not None
            done(engine, confirm(hold.id))
        seen = [entry.subject for entry in hk.journal.list(limit=10_000) if entry.action == "hold.held"]
        assert len(set(seen)) == len(holds) + len(theirs)
        assert hk.admin.verify().ok


def test_one_lane_is_one_phase(url: str) -> None:
    """What is one lane's affair leaves no record of a two-phase commit; what is several lanes' may, on several workers."""
    with closing(PostgresEngine(url)) as engine:
        done(engine, create(pool_in(3, lanes=LANES)))
        before = ask(url, "select count(*) from pg_dist_transaction")
        for _ in range(5):
            done(engine, place(pool_in(3, lanes=LANES), id=f"{os.urandom(14).hex()}{3:04x}"))
        assert ask(url, "select count(*) from pg_dist_transaction") <= before, "old ones may have been tidied up"
