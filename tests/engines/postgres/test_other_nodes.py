"""What a kernel meets that is connected to a worker of a cluster, or has lost one, as far as an ordinary server can show it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

import holdkit
from holdkit.engines.postgres import erasing
from holdkit.engines.postgres.failures import StatementFailed
from holdkit.engines.postgres.migrating import COPIED, DISTRIBUTED, migrate_to
from holdkit.engines.postgres.statements import load_for_one_lane
from holdkit.errors import Overloaded
from tests.conftest import Migrated
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import pool_in

LANES = 4


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Any) -> str:
    return str(postgres_server.template("holdkit_distributed", lambda url: migrate_to(url, "as if", LANES)))


def test_a_worker_lost_over_tls_is_a_lost_worker() -> None:
    """As Citus reports what its libpq says, without an SQLSTATE."""
    assert StatementFailed("lock_pools", "XX000", "SSL SYSCALL error: EOF detected").lost_worker
    assert not StatementFailed("lock_pools", "XX000", "cache lookup failed for type 0").lost_worker


def test_a_node_that_has_only_the_tables_of_every_node(postgres_url: str) -> None:
    """Workers lack those that are neither distributed nor copied."""
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        names = connection.execute("select tablename from pg_tables where schemaname = 'holdkit'").fetchall()
        alone = sorted({name for (name,) in names} - {*DISTRIBUTED, *COPIED})
        assert "archived" in alone
        for name in alone:
            connection.execute(sql.SQL("drop table holdkit.{} cascade").format(sql.Identifier(name)))
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("room", 5)
        hold = hk.hold("room", 1, ttl=60, op="once", metadata={"for": "Ann"})
        hk.confirm(hold, entity="user:7")
        hk.confirm(hk.claims.hold("email", "ann@example.org", ttl=60), entity="user:7")
        hk.admin.erase("entity", "user:7", reason="request")
        hk.sweep()
        assert len(hk.journal.list()) == 8
        assert hk.admin.verify().ok


def test_answers_from_before_the_tables_were_distributed(migrated: Migrated) -> None:
    """On one server a recorded answer may refer to its entry. Distributed where it stands, it is found and verified lane by lane."""
    url = migrated(lanes=LANES)
    with holdkit.connect(url) as hk:
        for number in range(LANES):
            hk.create_pool(pool_in(number), 5)
        holds = [hk.hold(pool_in(number % LANES), 1, ttl=600, op=f"op-{number}") for number in range(3 * LANES)]
    assert engine_calls.ask(url, "select count(*) from holdkit.operations where outcome is null") == [(3 * LANES,)]
    engine_calls.ask(url, "insert into holdkit.settings values ('distributed', 'true') returning 1")
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        assert hk.hold(pool_in(1), 1, ttl=600, op="op-1").id == holds[1].id
        engine_calls.ask(url, "delete from holdkit.journal where subject = %s returning 1", holds[2].id)
        assert any(each.table == "operations" for each in hk.admin.verify().differences)


LOCAL_NODES = """
    create function pg_catalog.run_command_on_all_nodes(command text, out nodeid int, out success boolean, out result text)
    returns setof record language plpgsql as $$
    begin
        nodeid := 1; success := true;
        execute command into result;
        return next;
        nodeid := 2; success := not exists (select from public.lost where yet); result := '';
        return next;
    end $$
"""
"""What Citus has, for a cluster of one node that answers and one that may not."""


def test_an_erasure_waits_for_transactions_that_came_in_through_any_node(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have locked there is a shard's table, on the node that has it."""
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute(LOCAL_NODES)
        connection.execute("create table public.lost (yet) as select false")
        connection.execute("create table holdkit.pools_102008 (like holdkit.pools)")
        connection.execute(
            "insert into pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) "
            "select 999999, 'citus', extowner, extnamespace, false, '13.2' from pg_catalog.pg_extension"
        )
    monkeypatch.setattr(erasing, "SETTLE", 0.0)
    with holdkit.connect(postgres_url) as hk, closing(psycopg.connect(postgres_url)) as elsewhere:
        hk.confirm(hk.claims.hold("email", "ann@example.org", ttl=60), entity="user:7")
        elsewhere.execute("select 1 from holdkit.pools_102008 for update")
        with pytest.raises(Overloaded, match="using pools"):
            hk.admin.erase("entity", "user:7", reason="request")
    users = load_for_one_lane()[0]["find_pool_users_of_nodes"].text
    assert engine_calls.ask(postgres_url, users) == []
    engine_calls.ask(postgres_url, "update public.lost set yet = true returning 1")
    with pytest.raises(psycopg.errors.DivisionByZero):
        engine_calls.ask(postgres_url, users)
