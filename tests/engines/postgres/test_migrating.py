"""Migrations run once, however often and from wherever they are started; a schema is old or new, never in between."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from holdkit.core.commands import CreatePool, ReleaseHold, RemovePool, Sweep
from holdkit.engines.named_sql import statements_of
from holdkit.engines.postgres import PostgresEngine, migrate, migrating, migration_sql
from holdkit.engines.postgres.migrating import ADDED, DISTRIBUTED
from holdkit.engines.postgres.statements import migrations
from holdkit.errors import EngineError
from holdkit.testing.postgres import ServerAddress
from tests.engines.commands import create
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_waiter, done
from tests.engines.postgres.test_distributed import STAND_IN
from tests.support.threads import PATIENCE

_start: Barrier
PROCESSES = 4
NEWEST = migrations()[-1][0]
SETTINGS = (
    "select name, value from holdkit.settings where name not in ('identity', 'generation', 'secret') order by name"
)
TABLES = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'holdkit'"


@pytest.fixture
def urls(postgres_server: ServerAddress) -> Iterator[list[str]]:
    """Two databases without our tables."""
    names = [f"empty_{uuid4().hex}" for _ in range(2)]
    yield [postgres_server.create_database(name) for name in names]
    for name in names:
        postgres_server.drop_database(name)


def test_twice_is_once(urls: list[str]) -> None:
    url = urls[0]
    assert migrate(url, lanes=8) == NEWEST
    with closing(PostgresEngine(url)) as engine:
        done(engine, create("gpu"))
    before = ask(url, "select * from holdkit.settings order by name")
    assert migrate(url, lanes=16) == NEWEST
    assert ask(url, "select * from holdkit.settings order by name") == before
    with closing(PostgresEngine(url)) as engine:
        assert engine.lanes == 8
        assert engine_calls.pool(engine, "gpu").total == 10


def line_up(start: Barrier) -> None:
    global _start  # noqa: PLW0603  (a barrier can only be inherited, never sent)
    _start = start


def migrate_together(url: str) -> int:
    _start.wait(PATIENCE)
    return migrate(url, lanes=4)


@pytest.mark.slow
def test_from_several_processes_at_once(urls: list[str]) -> None:
    spawn = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, spawn, initializer=line_up, initargs=(spawn.Barrier(PROCESSES),)) as pool:
        for url in urls:
            running = [pool.submit(migrate_together, url) for _ in range(PROCESSES)]
            assert [each.result(PATIENCE) for each in running] == [NEWEST] * PROCESSES
            assert ask(url, "select max(version), count(*) from holdkit.migrations") == [(NEWEST, NEWEST)]
            assert ask(url, "select count(*) from holdkit.heads") == [(4,)]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_at_the_same_moment(ending: str, urls: list[str]) -> None:
    """One has made everything and not committed yet."""
    with ThreadPoolExecutor(1) as thread, closing(psycopg.connect(urls[0])) as first:
        script = migration_sql(4).replace("begin;", "", 1)
        first.execute(script[: script.rindex("commit;")].encode())
        waiting = thread.submit(migrate, urls[0], lanes=8)
        await_waiter(urls[0])
        first.commit() if ending == "commit" else first.rollback()
        assert waiting.result(PATIENCE) == NEWEST
    assert ask(urls[0], "select count(*) from holdkit.heads") == [(4 if ending == "commit" else 8,)]


def test_ended_half_way_it_never_was(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two steps is stopped by a terminated session; the first is gone with it."""
    url, steps = urls[0], migrations()
    blocked = (NEWEST + 1, "blocks", "select pg_advisory_xact_lock(7)")
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "migrations", lambda: [*steps, blocked])
        with ThreadPoolExecutor(1) as thread, closing(psycopg.connect(url)) as other:
            other.execute("select pg_advisory_xact_lock(7)")
            waiting = thread.submit(migrate, url, lanes=4)
            await_waiter(url)
            ask(
                url,
                "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
            )
            with pytest.raises(EngineError, match="cannot migrate"):
                waiting.result(PATIENCE)
            other.rollback()
        assert ask(url, TABLES) == [(0,)]
        migrate(urls[1], lanes=4)
        assert ask(urls[1], "select max(version) from holdkit.migrations") == [(NEWEST + 1,)]
    assert migrate(url, lanes=4) == NEWEST


def test_a_step_that_fails_leaves_the_old_schema(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, steps = urls[0], migrations()
    migrate(url, lanes=4)
    before = ask(url, TABLES)
    broken = (NEWEST + 1, "breaks", "create table holdkit.more (n int); select 1 / 0")
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "migrations", lambda: [*steps, broken])
        with pytest.raises(EngineError, match="division by zero"):
            migrate(url)
        with pytest.raises(EngineError, match=f"has schema version {NEWEST}: run `holdkit migrate`"):
            PostgresEngine(url)
    assert ask(url, TABLES) == before
    PostgresEngine(url).close()


def test_a_lock_that_is_not_given_is_said(urls: list[str]) -> None:
    """Nobody's application stands still for long because a migration waits."""
    migrate(urls[0], lanes=4)
    with closing(psycopg.connect(urls[0])) as other:
        other.execute("lock table holdkit.migrations in access exclusive mode")
        url = f"{urls[0]}&options=-c%20statement_timeout%3D300"
        with pytest.raises(EngineError, match="cannot migrate"):
            migrate(url)


def test_the_script_makes_the_same_schema(urls: list[str], postgres_binaries: Path) -> None:
    migrate(urls[0], lanes=4)
    script = subprocess.run(
        [sys.executable, "-m", "holdkit", "migrate", "--sql", "--lanes", "4"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    subprocess.run(
        [postgres_binaries / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", urls[1]],
        input=script, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert dump(postgres_binaries, urls[1]) == dump(postgres_binaries, urls[0])
    for query in (
        SETTINGS,
        "select version, name from holdkit.migrations",
        "select * from holdkit.heads order by lane",
    ):
        assert ask(urls[1], query) == ask(urls[0], query)
    identities = [ask(url, "select value from holdkit.settings where name = 'identity'") for url in urls]
    assert identities[0] != identities[1]
    with closing(PostgresEngine(urls[1])) as engine:
        done(engine, create("gpu"))
    assert migrate(urls[1]) == NEWEST


def dump(binaries: Path, url: str) -> list[str]:
    """The schema in words; without the key that newer versions draw for each dump."""
    done = subprocess.run(
        [binaries / "pg_dump", "--schema-only", "--schema=holdkit", "-d", url],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert any("CREATE TABLE holdkit.pools" in line for line in lines)
    return [line for line in lines if not line.startswith(("\\restrict", "\\unrestrict"))]


def test_the_floors_of_an_older_schema_are_found_in_its_journal(urls: list[str]) -> None:
    """From before each tenant had its own: one number for all of a lane."""
    url = urls[0]
    migrate(url, lanes=4)
    with closing(PostgresEngine(url)) as engine:
        for tenant, grants in (("", 1), ("acme", 3)):
            for _ in range(grants):
                held = done(engine, engine_calls.place("~k", on_demand=1, tenant=tenant)).hold
                assert held is not None
                done(engine, ReleaseHold(id=held.id, token="me", tenant=tenant))
        done(engine, CreatePool(id="never granted", total=1, tenant="new"))
        done(engine, RemovePool(id="never granted", tenant="new"))
        done(engine, Sweep())
    floors = "select * from holdkit.fence_floors order by tenant"
    found = ask(url, floors)
    assert [row[1:] for row in found] == [("", 1), ("acme", 3)]
    with psycopg.connect(url, autocommit=True) as old:
        old.execute("drop table holdkit.fence_floors")
        old.execute("alter table holdkit.heads add column fence_floor bigint not null default 0")
        (text,) = [text for number, _, text in migrations() if number == 4]
        for statement in statements_of(text):
            old.execute(statement.encode())
    assert ask(url, floors) == found
    with closing(PostgresEngine(url)) as engine:
        assert [*engine.verify()] == []


@pytest.mark.parametrize("citus", [True, False])
def test_a_table_that_comes_later_is_distributed_too(
    urls: list[str], monkeypatch: pytest.MonkeyPatch, citus: bool
) -> None:
    """Whether or not it is said once more that the tables are distributed."""
    url = urls[0]
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(STAND_IN)
    steps = migrations()
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "migrations", lambda: steps[:3])
        patched.setattr(migrating, "DISTRIBUTED", [table for table in DISTRIBUTED if table not in ADDED])
        migrate(url, citus=True)
    ask(url, "delete from public.asked returning 1")
    assert migrate(url, citus=citus) == steps[-1][0]
    asked = ask(url, "select relation, by, beside from public.asked order by n")
    assert asked == [(f"holdkit.{table}", "lane", "holdkit.pools") for table in ("fence_floors", "tallies", "seals")]
    made = re.findall(r"create table holdkit\.(\w+)", "".join(text for _, _, text in steps[1:]))
    elsewhere = (
        "rollups",
        "rollup_position",
        "archived",
        "baseline",
    )  # not kept, or refused, where tables are distributed
    assert [*ADDED] == [table for table in made if table not in elsewhere]


def test_migrations_can_be_run_statement_by_statement() -> None:
    """They are cut at every semicolon but those of a function's body, and comments are left out: none may stand in a string."""
    seen = 0
    for _, name, text in migrations():
        code = "\n".join(line.partition("--")[0] for line in text.splitlines())
        assert len(statements_of(text)) == len(re.sub(r"\$\$.*?\$\$", "", code, flags=re.DOTALL).split(";")) - 1, name
        for statement in statements_of(text):
            seen += 1
            assert statement.count("$$") in (0, 2), (name, statement)
            assert statement.count("'") % 2 == 0, (name, statement)
            assert statement.split()[0] in {"create", "alter", "update", "insert", "drop", "comment"}, (name, statement)
    assert seen > 10
