"""Addresses that cannot be opened and connections that are lost: a Holdkit error that says what to do, without the password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from uuid import uuid4

import psycopg
import pytest

from holdkit.core.outcomes import Done
from holdkit.core.reading import FindPool
from holdkit.engines.port import BatchRejected
from holdkit.engines.postgres import PostgresEngine, doctor, migrate, opening
from holdkit.engines.postgres.failures import StatementFailed
from holdkit.errors import EngineError, HoldkitError, InvalidRequest, Overloaded
from holdkit.testing.postgres import PostgresServer, ServerAddress
from holdkit.testing.postgres.server import free_port
from holdkit.testing.postgres.shared import memory
from tests.engines.commands import create, groups
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import ask, await_that, await_waiter, done, place
from tests.faults.postgres import answers
from tests.support.threads import PATIENCE

SECRET = "s3cr3t-w0rd"


def told(url: str) -> HoldkitError:
    """What opening it says; nothing but our own errors may come, and nowhere the password."""
    with pytest.raises((EngineError, InvalidRequest, Overloaded)) as raised:
        PostgresEngine(url)
    whole = "".join(traceback.format_exception(raised.value))
    said = "\n".join(line for line in whole.splitlines() if not line.startswith("    "))  # not the sources quoted
    assert SECRET not in said
    return raised.value


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}%zz@localhost/shop",
        f"postgresql://me:{SECRET}@[::1/shop",
        f"postgresql://me:{SECRET}@[::1]x/shop",
        f"postgresql://me:{SECRET}@localhost/shop?nonsense=1",
        f"postgresql://me:{SECRET}@localhost:port/shop",
        f"postgresql://me:{SECRET}@localhost:99999999/shop",
        f"postgresql://me:{SECRET}#x@localhost/shop",
        f"postgresql://me:a/{SECRET}@localhost/shop",
        f"postgresql://me:a?{SECRET}@localhost/shop",
        f"postgresql://me:{SECRET}@localhost/shop?allow_unsafe=everything",
        f"postgresql://me:{SECRET}@localhost/shop?pooler=session",
        f"postgresql://me:{SECRET}@localhost/shop?connect_timeout=soon",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    assert str(told(url)).startswith("holdkit: ")


def test_nobody_listens() -> None:
    error = told(f"postgresql://me:{SECRET}@127.0.0.1:{free_port()}/shop")
    assert isinstance(error, EngineError)
    assert "cannot connect to PostgreSQL database shop at 127.0.0.1" in str(error)
    assert "refused" in str(error)


def test_a_server_that_is_too_old(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (opening.OLDEST, opening.shown_version(130_014)) == (150_000, "13.14"), "what is tested is what is promised"
    ((number,),) = ask(postgres_url, "select current_setting('server_version_num')::int")
    found = f"{number // 10_000}.{number % 10_000}"
    monkeypatch.setattr(opening, "OLDEST", number + 1)
    assert f"is PostgreSQL {found}: Holdkit needs PostgreSQL 15 or later" in str(told(postgres_url))
    with pytest.raises(EngineError, match=f"is PostgreSQL {found}: Holdkit needs"):
        migrate(postgres_url)
    monkeypatch.setattr(doctor, "OLDEST", number + 1)
    (version,) = [finding for finding in doctor.examine(postgres_url) if finding.name == "version"]
    assert (version.level, version.advice) == ("fail", "Holdkit needs PostgreSQL 15 or later")
    monkeypatch.setattr(opening, "OLDEST", number)
    PostgresEngine(postgres_url).close()


def test_no_such_database(postgres_server: ServerAddress) -> None:
    assert 'database "nowhere" does not exist' in str(told(postgres_server.dsn("nowhere")))


@pytest.fixture
def empty_url(postgres_server: ServerAddress) -> Iterator[str]:
    """A database without our tables."""
    name = f"empty_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def clerk(postgres_server: ServerAddress) -> Iterator[str]:
    """A role that may do nothing yet."""
    name = f"clerk_{uuid4().hex}"
    with closing(postgres_server.connect()) as admin:
        admin.execute(f"create role {name} login".encode())
    yield name
    with closing(postgres_server.connect()) as admin:
        admin.execute(f"drop role {name}".encode())


def tell(url: str, statements: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(statements.encode())


def as_role(url: str, role: str) -> str:
    return url.replace("postgresql://postgres@", f"postgresql://{role}:{SECRET}@")


def revoked(url: str, role: str) -> None:
    tell(url, f"drop owned by {role}")


def test_a_role_without_rights(postgres_url: str, clerk: str) -> None:
    assert "grant this role the rights to the schema holdkit" in str(told(as_role(postgres_url, clerk)))
    tell(postgres_url, f"grant usage on schema holdkit to {clerk}")
    assert "grant this role the rights" in str(told(as_role(postgres_url, clerk)))
    tell(postgres_url, f"grant select on all tables in schema holdkit to {clerk}")
    with closing(PostgresEngine(as_role(postgres_url, clerk))) as engine:
        assert engine.read(FindPool(("", "gpu"))) is None
        with pytest.raises(EngineError, match=r"permission denied.*grant this role the rights"):
            engine.apply(groups(create("gpu")))
    revoked(postgres_url, clerk)


def test_a_role_that_may_not_create_a_schema(empty_url: str, clerk: str) -> None:
    with pytest.raises(EngineError, match=r"permission denied.*may not create a schema here") as raised:
        migrate(as_role(empty_url, clerk))
    assert SECRET not in str(raised.value)
    assert ask(empty_url, "select count(*) from pg_namespace where nspname = 'holdkit'") == [(0,)]


def test_no_tables_yet(empty_url: str) -> None:
    assert "no schema holdkit yet: run `holdkit migrate`" in str(told(empty_url))


def test_somebody_elses_schema(empty_url: str) -> None:
    tell(empty_url, "create schema holdkit")
    assert "a schema holdkit that is not ours" in str(told(empty_url))
    with pytest.raises(EngineError, match="a schema holdkit that is not ours"):
        migrate(empty_url)
    tell(empty_url, "create table holdkit.migrations (whose text)")
    told(empty_url)
    with pytest.raises(EngineError):
        migrate(empty_url)


def test_a_newer_and_an_older_schema(postgres_url: str) -> None:
    ask(postgres_url, "insert into holdkit.migrations (version, name) values (1000, 'later') returning 1")
    assert "has schema version 1000, this release knows" in str(told(postgres_url))
    with pytest.raises(EngineError, match="use a release at least as new"):
        migrate(postgres_url)
    ask(postgres_url, "delete from holdkit.migrations returning 1")
    assert "has schema version 0: run `holdkit migrate`" in str(told(postgres_url))


def test_another_encoding(postgres_server: ServerAddress) -> None:
    name = f"latin_{uuid4().hex}"
    with closing(postgres_server.connect()) as admin:
        admin.execute(f"create database {name} template template0 encoding 'LATIN1' locale 'C'".encode())
    try:
        assert "has encoding LATIN1: create the database with encoding UTF8" in str(told(postgres_server.dsn(name)))
    finally:
        postgres_server.drop_database(name)


def test_a_commit_that_does_not_wait_for_the_disk(postgres_url: str) -> None:
    ((name,),) = ask(postgres_url, "select current_database()")
    tell(postgres_url, f"alter database {name} set synchronous_commit = off")
    assert "runs with synchronous_commit = off" in str(told(postgres_url))
    with closing(PostgresEngine(f"{postgres_url}&allow_unsafe=synchronous_commit")) as engine:
        assert (engine.durability.level, engine.durability.settings["synchronous_commit"]) == ("unsafe", "off")


@pytest.mark.slow
def test_servers_that_may_lose_what_they_said(postgres_binaries: object) -> None:
    with PostgresServer({"fsync": "off", "full_page_writes": "off"}, within=memory()) as server:
        url = server.create_database("shop")
        migrate(url, lanes=1)
        assert "runs with fsync = off" in str(told(url))
        assert "?allow_unsafe=fsync,full_page_writes" in str(told(url))
        assert "runs with full_page_writes = off" in str(told(f"{url}&allow_unsafe=fsync"))
        engine = PostgresEngine(f"{url}&allow_unsafe=fsync,full_page_writes")
        assert engine.durability.level == "unsafe"
        assert "fsync, full_page_writes = off" in engine.durability.says
        done(engine, create("gpu"))
        server.kill()
        for _ in range(2):
            with pytest.raises(EngineError, match=r"cannot connect|was lost"):
                engine.apply(groups(place("gpu")))
            with pytest.raises(EngineError, match=r"cannot connect|was lost"):
                engine.read(FindPool(("", "gpu")))
            with pytest.raises(EngineError, match=r"cannot connect|was lost"):
                list(engine.verify())
        server.start()
        done(engine, place("gpu"))
        engine.close()


def test_no_connection_left_for_us(postgres_url: str, clerk: str) -> None:
    tell(postgres_url, f"grant all on schema holdkit to {clerk}; grant all on all tables in schema holdkit to {clerk}")
    tell(postgres_url, f"alter role {clerk} connection limit 1")
    with closing(PostgresEngine(as_role(postgres_url, clerk))) as engine:
        assert "too many connections for role" in str(told(as_role(postgres_url, clerk)))
        done(engine, create("gpu"))  # on the one connection there is
        with pytest.raises(EngineError, match="too many connections"):
            engine.apply(
                groups(place("gpu")), wait_for_locks=True
            )  # those who may have to wait have connections of their own
        # If the one connection was replaced meanwhile, the server takes a moment to notice that the old one is gone.
        await_that(
            lambda: isinstance(answers.told(partial(engine_calls.one, engine, place("gpu"))), Done), "it did not go on"
        )
    revoked(postgres_url, clerk)


@pytest.fixture
def unguarded(open_engine: Open) -> PostgresEngine:
    """Its batches wait for locks before they have sent COMMIT."""
    return open_engine(guarded=False)


def test_a_statement_that_is_cancelled_did_nothing(unguarded: PostgresEngine, postgres_url: str) -> None:
    """By a statement_timeout or by hand."""
    done(unguarded, create("gpu"))
    with ThreadPoolExecutor(1) as thread, engine_calls.caller(postgres_url) as tx:
        tx.execute("select from holdkit.pools for update")
        waiting = thread.submit(unguarded.apply, groups(place("gpu")), wait_for_locks=True)
        await_waiter(postgres_url)
        ask(
            postgres_url,
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
        with pytest.raises(Overloaded, match="gave up this attempt"):
            waiting.result(PATIENCE)
    assert engine_calls.pool(unguarded, "gpu").held == 0
    done(unguarded, place("gpu"))


def test_a_session_that_is_ended_is_opened_again(unguarded: PostgresEngine, postgres_url: str) -> None:
    done(unguarded, create("gpu"))
    with ThreadPoolExecutor(1) as thread, engine_calls.caller(postgres_url) as tx:
        tx.execute("select from holdkit.pools for update")
        waiting = thread.submit(unguarded.apply, groups(place("gpu")), wait_for_locks=True)
        await_waiter(postgres_url)
        ask(
            postgres_url,
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
        await_waiter(postgres_url)
        tx.rollback()
        assert waiting.result(PATIENCE).outcomes[0]
    assert engine_calls.pool(unguarded, "gpu").held == 1


def test_a_full_disk_is_said(open_engine: Open) -> None:
    """As the server would say it; nothing was done, and the next attempt is as good as ever."""
    full = [True]

    def refuse(name: str) -> None:
        if full[0] and name == "write_journal":
            raise StatementFailed(name, "53100", "could not extend file: No space left on device")

    engine = open_engine(on_statement=refuse)
    with pytest.raises(EngineError, match="its disk is full"):
        engine.apply(groups(create("gpu")))
    with pytest.raises(BatchRejected, match="its disk is full"):
        engine.apply(groups(create("gpu"), create("tpu")))
    full[0] = False
    done(engine, create("gpu"))


def test_connections_are_given_back_when_opening_fails(empty_url: str) -> None:
    told(empty_url)
    query = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'holdkit'"
    engine_calls.await_that(lambda: ask(empty_url, query) == [(0,)], "a connection was left behind")


def test_psycopg_is_not_shown(postgres_url: str) -> None:
    """Errors are ours: nobody has to catch the driver's."""
    engine = PostgresEngine(postgres_url)
    tell(postgres_url, "drop schema holdkit cascade")
    with pytest.raises(EngineError, match="run `holdkit migrate`") as raised:
        engine.apply(groups(create("gpu")))
    assert not isinstance(raised.value, psycopg.Error)
    engine.close()
