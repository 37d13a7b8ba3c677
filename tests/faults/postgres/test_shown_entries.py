"""A follower is shown an entry only when the standbys that commits wait for have it.

Here the standby is away, and whoever waits for it is cancelled, again and again: so entries can be read that a failover would take back.
Canary: with the proof taken out, a follower is shown them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import FindEnds, ReadJournal
from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.engines.postgres.migrating import Layout, migrate_to
from holdkit.engines.postgres.shown_reads import Shown
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from holdkit.testing import FakeClock
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that
from tests.faults.postgres.test_durable_answers import WAITING, away
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE, CallerThreads

STANDBYS = "synchronous_standby_names"


@pytest.fixture(scope="module")
def server(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        layouts: dict[str, Layout] = {"shop": "one server", "distributed": "as if"}
        for database, layout in layouts.items():
            server.create_database(database)
            migrate_to(server.dsn(database), layout, lanes=engine_calls.LANES)
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.dsn("shop")


def new(url: str, name: str) -> str:
    """Commit a pool that no standby has; a cursor in front of it."""
    with holdkit.connect(url) as hk:
        cursor: str = hk.journal.cursor()
        with pytest.raises(holdkit.OutcomeUnknown):
            hk.create_pool(name, 1)
        return cursor


def subjects(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


def without_proof(patch: pytest.MonkeyPatch) -> None:
    """The canary: what is about to be shown is read like anything else."""
    for module in (async_following, sync_following):
        plain = partial(module.read_to_show, durable=False)
        patch.setattr(module, "read_to_show", lambda executor, query, *, durable, plain=plain: plain(executor, query))


@pytest.mark.slow
@pytest.mark.parametrize("database", ["shop", "distributed", "shop&pooler=transaction"])
def test_nothing_is_shown_that_no_standby_has(server: PostgresServer, database: str, mode: Sync | Async) -> None:
    """The kernel is open when the setting is reloaded, which counts at once."""
    name, _, parameters = database.partition("&")
    plain = server.dsn(name)
    with mode.connect(f"{plain}&{parameters}") as hk:
        with away(server) as cancelled:
            cursor = new(plain, made := f"{mode.name}-{parameters}")
            before = cancelled.count
            followers = (None, f"mail-{made}")
            for follower in followers:
                with pytest.raises(holdkit.Overloaded, match="no standby has confirmed these entries"):
                    list(hk.journal.follow(follower, after=cursor, wait=False))
            await_that(lambda: cancelled.count > before, "the server was not asked")
            assert subjects(hk.journal.list(after=cursor)) == [made], "a plain read"
            with pytest.MonkeyPatch.context() as canary:
                without_proof(canary)
                assert subjects(hk.journal.follow(after=cursor, wait=False)) == [made]
        for follower in followers:
            assert subjects(hk.journal.follow(follower, after=cursor, wait=False)) == [made]


@pytest.mark.slow
def test_a_standby_that_comes_back_has_waiting_followers_served(server: PostgresServer, url: str) -> None:
    with holdkit.connect(url) as hk:
        heard = list[str]()
        called = threading.Event()

        def listen(entry: holdkit.JournalEntry) -> None:
            heard.append(entry.subject)
            called.set()

        with away(server) as cancelled:
            hk.journal.on("pool.created", listen)
            cursor = new(url, "late")
            callers = CallerThreads()
            callers.start(lambda: next(hk.journal.follow(after=cursor)).subject)
            before = cancelled.count
            await_that(lambda: cancelled.count >= before + 4, "nobody tries again")
            assert heard == []
        assert callers.join() == ["late"]
        assert called.wait(PATIENCE)
        assert heard == ["late"]


# What it costs


def said_by(engine: PostgresEngine, said: list[str], *, durable: bool) -> list[str]:
    """The statements of a page."""
    said.clear()
    engine.read(ReadJournal(None), durable=durable)
    return [*said]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", ["", "&pooler=transaction", "&options=-c synchronous_commit=local"])
def test_where_commits_wait_for_no_standby_a_page_is_not_one_statement_more(
    server: PostgresServer, url: str, parameters: str
) -> None:
    """Nor where the session itself waits for none, although the server has names of standbys."""
    said: list[str] = []
    waits_for_none = "local" in parameters
    with holdkit.connect(url) as hk:
        hk.create_pool(f"counted{len(parameters)}", 1)
    if waits_for_none:
        server.change_setting(STANDBYS, "nobody")
    try:
        with closing(PostgresEngine(url + parameters, on_statement=said.append)) as engine:
            engine.read(FindEnds())
            assert said_by(engine, said, durable=True) == ["has_unnumbered", "read_journal"]
            assert said_by(engine, said, durable=False) == ["has_unnumbered", "read_journal"]
    finally:
        server.change_setting(STANDBYS, "")


@pytest.mark.slow
def test_a_page_of_distributed_tables_is_not_one_statement_more_either(server: PostgresServer) -> None:
    said: list[str] = []
    with holdkit.connect(server.dsn("distributed")) as hk:
        hk.create_pool("counted", 1)
    with closing(PostgresEngine(server.dsn("distributed"), on_statement=said.append)) as engine:
        engine.read(FindEnds())
        plain = said_by(engine, said, durable=False)
        assert "read_journal" in plain
        assert said_by(engine, said, durable=True) == plain


@pytest.mark.slow
def test_a_page_has_one_barrier_and_an_empty_one_has_none(server: PostgresServer, url: str) -> None:
    said: list[str] = []
    with holdkit.connect(url) as hk:
        hk.create_pool("barred", 1)
    with away(server), closing(PostgresEngine(url, on_statement=said.append)) as engine:
        ends = {row.lane: row.seq for row in engine.read(FindEnds())}
        said.clear()
        with pytest.raises(holdkit.OutcomeUnknown):
            engine.read(ReadJournal(None), durable=True)
        assert said.count("prove_durable") == 1
        said.clear()
        assert not engine.read(ReadJournal(None, ends), durable=True)
        assert "prove_durable" not in said


@pytest.mark.slow
def test_followers_that_wait_for_a_standby_keep_no_connection_and_no_thread_from_others(
    server: PostgresServer, url: str, mode: Sync | Async
) -> None:
    """Six followers on a kernel that has two connections for batches and reads; when it closes, nothing goes on waiting."""
    with mode.connect(url, pool_size=4) as hk:
        hk.create_pool(f"watched-{mode.name}", 1)
        server.change_setting(STANDBYS, "nobody")
        try:
            for _ in range(6):
                hk.journal.on(None, lambda entry: None)
            callers = CallerThreads()
            for _ in range(6):
                callers.start(lambda: next(hk.journal.follow()))
            await_that(lambda: len(ask(url, WAITING)) == 2, "nobody waits for the standby")
            for _ in range(4):
                assert hk.pool(f"watched-{mode.name}").total == 1
            assert len(ask(url, WAITING)) == 2
        finally:
            server.change_setting(STANDBYS, "")
        assert {entry.action for entry in callers.join()} == {"pool.created"}


@pytest.mark.slow
def test_a_wait_ends_with_the_time_of_its_follower_and_leaves_no_session_behind(
    server: PostgresServer, url: str, mode: Sync | Async
) -> None:
    with mode.connect(url) as hk:
        hk.create_pool(f"timed-{mode.name}", 1)
        server.change_setting(STANDBYS, "nobody")
        try:
            for _ in range(3):
                with holdkit.context(timeout=0.3), pytest.raises(holdkit.Overloaded):
                    list(hk.journal.follow(wait=False))
                assert ask(url, WAITING) == []
        finally:
            server.change_setting(STANDBYS, "")


@pytest.mark.slow
def test_a_kernel_that_closes_ends_the_waits_of_its_followers(
    server: PostgresServer, url: str, mode: Sync | Async
) -> None:
    with holdkit.connect(url) as hk:
        hk.create_pool(f"closing-{mode.name}", 1)
    server.change_setting(STANDBYS, "nobody")
    try:
        hk = mode.connect(url, limits=holdkit.Limits(lock_timeout=1_000, call_timeout=1_000))
        callers = CallerThreads()
        callers.start(lambda: list(hk.journal.follow()))
        await_that(lambda: len(ask(url, WAITING)) == 1, "nobody waits for the standby")
        hk.close()
        await_that(lambda: ask(url, WAITING) == [], "somebody still waits")
        callers.join()
    finally:
        server.change_setting(STANDBYS, "")


# Roles


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [False, True])
def test_a_role_that_may_only_read_waits_too(server: PostgresServer, url: str, read_only: bool) -> None:
    role = f"reader_{read_only}".lower()
    with closing(server.connect("shop")) as connection:
        connection.execute(f"create role {role} login".encode())
        connection.execute(f"grant usage on schema holdkit to {role}".encode())
        connection.execute(f"grant select on all tables in schema holdkit to {role}".encode())
        if read_only:
            connection.execute(f"alter role {role} set default_transaction_read_only = on".encode())
    theirs = f"{url.replace('postgres@', f'{role}@')}&target_session_attrs=any"
    with away(server) as cancelled:
        cursor = new(url, role)
        with holdkit.connect(theirs) as hk:
            before = cancelled.count
            with pytest.raises(holdkit.Overloaded, match="no standby has confirmed"):
                list(hk.journal.follow(after=cursor, wait=False))
            await_that(lambda: cancelled.count > before, "the server was not asked")
    with holdkit.connect(theirs) as hk:
        assert subjects(hk.journal.follow(after=cursor, wait=False)) == [role]


@pytest.mark.slow
def test_a_role_that_cannot_make_a_commit_wait_is_told_so(server: PostgresServer, url: str) -> None:
    """It is not shown what nobody can promise."""
    function = "function pg_catalog.pg_logical_emit_message(boolean, text, text, boolean)"
    with closing(server.connect("shop")) as connection:
        connection.execute(b"create role mute login")
        connection.execute(b"grant usage on schema holdkit to mute")
        connection.execute(b"grant select on all tables in schema holdkit to mute")
        connection.execute(f"revoke execute on {function} from public".encode())
    try:
        with holdkit.connect(url.replace("postgres@", "mute@")) as hk:
            assert subjects(hk.journal.follow(wait=False)), "commits wait for no standby"
            server.change_setting(STANDBYS, "nobody")
            with pytest.raises(holdkit.errors.EngineError, match="grant the role execute on that function"):
                list(hk.journal.follow(wait=False))
    finally:
        server.change_setting(STANDBYS, "")
        with closing(server.connect("shop")) as connection:
            connection.execute(f"grant execute on {function} to public".encode())


# Archived entries


@pytest.mark.slow
def test_a_baseline_is_shown_only_when_the_standbys_have_it(
    server: PostgresServer, tmp_path: Any, mode: Sync | Async
) -> None:
    database = f"archived_{mode.name}"
    server.create_database(database)
    url = server.dsn(database)
    migrate(url, lanes=engine_calls.LANES)
    clock = FakeClock()
    with mode.connect(url, clock=clock) as hk:
        hk.create_pool("old", 1)
        hk.admin.resize_pool("old", 2)
        clock.advance(100 * 86_400)
        hk.admin.archive(before="90d", to=tmp_path)
        actions = ["journal.baseline", "pool.resized"]
        assert [entry.action for entry in hk.journal.follow(wait=False)] == actions
        with away(server):
            with pytest.raises(holdkit.Overloaded, match="no standby has confirmed"):
                next(hk.journal.follow(wait=False))
            assert [entry.action for entry in hk.journal.list(limit=1)] == actions[:1], "a plain read"
        assert [entry.action for entry in hk.journal.follow(wait=False)] == actions


def test_what_says_whether_commits_wait_is_no_part_of_the_answer(url: str) -> None:
    with closing(PostgresEngine(url)) as engine:
        assert not isinstance(engine.read(ReadJournal(None)), Shown)
