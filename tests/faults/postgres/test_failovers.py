"""R12, sharply: a wait for the standby that is cancelled is unknown, never done, and so is what wrote nothing. Failovers under
load: `tests/faults/campaign`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest

from holdkit.core.outcomes import Done, Reason
from holdkit.engines.postgres import PostgresEngine, connections, migrate
from holdkit.errors import EngineError, OutcomeUnknown
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.commands import create
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that, done, one, place
from tests.faults.postgres.answers import told
from tests.support.threads import PATIENCE

ROUNDS = int(os.environ.get("HOLDKIT_POSTGRES_ROUNDS", "3"))
"""Cancelled waits, of each kind."""
WAITING = "select pid from pg_stat_activity where wait_event = 'SyncRep'"


def set_synchronous(server: PostgresServer, names: str) -> None:
    with closing(server.connect()) as connection:
        connection.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
        connection.execute("select pg_reload_conf()")
        await_that(
            lambda: connection.execute("show synchronous_standby_names").fetchone() == (names,), "settings not reloaded"
        )
        connection.execute("checkpoint")  # whoever makes it has reloaded too, and it is he who tells commits to wait


def follow(primary: PostgresServer, *, synchronous: bool) -> PostgresServer:
    """A standby that has caught up; waited for by every commit, if so asked."""
    set_synchronous(primary, "")
    standby = primary.standby(within=memory())
    standby.start()
    state = "select sync_state from pg_stat_replication where state = 'streaming'"
    await_that(lambda: ask(primary.dsn(), state), "the standby does not stream")
    if synchronous:
        set_synchronous(primary, "standby")
        await_that(lambda: ask(primary.dsn(), state) == [("sync",)], "the standby is not synchronous")
    return standby


def both(first: PostgresServer, second: PostgresServer) -> str:
    """Whichever of the two takes writes."""
    return f"postgresql://postgres@/shop?host={first.host},{second.host}&port={first.port},{second.port}"


def promote(standby: PostgresServer) -> None:
    assert ask(standby.dsn(), "select pg_promote(true, 60)") == [(True,)]


@pytest.fixture
def primary(postgres_binaries: object) -> Iterator[PostgresServer]:
    with PostgresServer(within=memory()) as server:
        server.create_database("shop")
        migrate(server.dsn("shop"), lanes=engine_calls.LANES)
        with closing(PostgresEngine(server.dsn("shop"))) as engine:
            done(engine, create("seats", 10**9))
            done(engine, create("one", 1))
        yield server


def interrupt_wait(server: PostgresServer, how: str) -> None:
    """Whoever waits for the standby is told to stop waiting."""
    with closing(server.connect()) as admin:
        await_that(lambda: admin.execute(WAITING).fetchall(), "nobody waits for the standby")
        admin.execute(f"select pg_{how}_backend(pid) from ({WAITING}) w".encode())


@pytest.mark.slow
def test_a_cancelled_wait_for_the_standby_is_unknown(primary: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody stands by: COMMIT waits, then says that it has committed, with a warning, or says nothing any more."""
    set_synchronous(primary, "nobody")
    with closing(PostgresEngine(primary.dsn("shop"))) as engine, ThreadPoolExecutor(1) as thread:
        for how in ["cancel", "terminate"] * ROUNDS:
            command = place("seats", op=os.urandom(8).hex())
            waiting = thread.submit(told, partial(one, engine, command))
            interrupt_wait(primary, how)
            assert isinstance(waiting.result(PATIENCE), OutcomeUnknown), how

            again = thread.submit(told, partial(one, engine, command))  # a replay is as durable as it says
            interrupt_wait(primary, "cancel")
            assert isinstance(again.result(PATIENCE), OutcomeUnknown), how
            set_synchronous(primary, "")
            outcome = one(engine, command)
            assert isinstance(outcome, Done)
            assert outcome.replayed
            set_synchronous(primary, "nobody")

        monkeypatch.setattr(
            connections, "_NOTICE_FIELDS", connections._NOTICE_FIELDS[:1]
        )  # a server that speaks another language
        waiting = thread.submit(told, partial(one, engine, place("seats")))
        interrupt_wait(primary, "cancel")
        assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)

        monkeypatch.setattr(
            connections.PipelineConnection, "_notice", lambda self, result: None
        )  # the canary: warnings go unheard
        with closing(PostgresEngine(primary.dsn("shop"))) as deaf:
            waiting = thread.submit(told, lambda: one(deaf, place("seats")))
            interrupt_wait(primary, "cancel")
            assert isinstance(waiting.result(PATIENCE), Done)


@pytest.mark.slow
def test_what_wrote_nothing_waits_too(primary: PostgresServer) -> None:
    """A refusal rests on what was read, which the standby may not have; a plain look promises nothing and waits for nobody."""
    with closing(PostgresEngine(primary.dsn("shop"), prune_every=10**9)) as engine, ThreadPoolExecutor(1) as thread:
        done(engine, place("one"))
        set_synchronous(primary, "nobody")
        for command in (place("one"), place("one", op="remembered")):
            waiting = thread.submit(told, partial(one, engine, command))
            interrupt_wait(primary, "cancel")
            assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)
        assert engine_calls.pool(engine, "one").held == 1
        set_synchronous(primary, "")
        assert engine_calls.reason(one(engine, place("one"))) is Reason.INSUFFICIENT_CAPACITY


@pytest.mark.slow
def test_a_standby_decides_nothing(primary: PostgresServer) -> None:
    with closing(follow(primary, synchronous=False)) as standby:
        for options, said in (("", "read-only|standby|hot standby"), ("&target_session_attrs=any", "is a standby")):
            with pytest.raises(EngineError, match=said):
                PostgresEngine(standby.dsn("shop") + options)
        with pytest.raises((EngineError, psycopg.Error)):
            migrate(standby.dsn("shop"))
