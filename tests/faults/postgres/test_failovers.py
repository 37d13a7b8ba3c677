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

from holdkit.core.commands import PlaceHold
from holdkit.core.outcomes import Done, Reason
from holdkit.engines.postgres import PostgresEngine, connections, guard_routing, migrate
from holdkit.errors import EngineError, OutcomeUnknown
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.engines.commands import confirm, create, release
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that, done, one, place
from tests.faults.postgres.answers import told
from tests.support.threads import PATIENCE

ROUNDS = int(os.environ.get("HOLDKIT_POSTGRES_ROUNDS", "3"))
"""Cancelled waits, of each kind."""
WAITING = "select pid from pg_stat_activity where wait_event = 'SyncRep'"
OPENING = ("read_durability", "read_standbys", "notify_followers")
"""What a connection asks when it is opened or when its durability is checked, and what tells others of a commit."""


def follow(primary: PostgresServer, *, synchronous: bool) -> PostgresServer:
    """A standby that has caught up; waited for by every commit, if so asked."""
    primary.change_setting("synchronous_standby_names", "")
    standby = primary.standby(within=memory())
    standby.start()
    state = "select sync_state from pg_stat_replication where state = 'streaming'"
    await_that(lambda: ask(primary.dsn(), state), "the standby does not stream")
    if synchronous:
        primary.change_setting("synchronous_standby_names", "standby")
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
@pytest.mark.parametrize("guarded", [True, False])
def test_a_cancelled_wait_for_the_standby_is_unknown(
    primary: PostgresServer, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Nobody stands by: COMMIT waits, then says that it has committed, with a warning, or says nothing any more."""
    primary.change_setting("synchronous_standby_names", "nobody")
    monkeypatch.setattr(guard_routing, "BATCHES_HELD_OFF", 0)
    said = list[str]()
    opened = partial(PostgresEngine, primary.dsn("shop"), on_statement=said.append, guarded=guarded, prune_every=1e9)
    with closing(opened()) as engine, ThreadPoolExecutor(1) as thread:
        for how in ["cancel", "terminate"] * ROUNDS:
            said.clear()
            command = place("seats", op=os.urandom(8).hex())
            waiting = thread.submit(told, partial(one, engine, command))
            interrupt_wait(primary, how)
            assert isinstance(waiting.result(PATIENCE), OutcomeUnknown), how
            assert ("guard_places" in said) == guarded

            again = thread.submit(told, partial(one, engine, command))  # a replay is as durable as it says
            interrupt_wait(primary, "cancel")
            assert isinstance(again.result(PATIENCE), OutcomeUnknown), how
            primary.change_setting("synchronous_standby_names", "")
            outcome = one(engine, command)
            assert isinstance(outcome, Done)
            assert outcome.replayed
            primary.change_setting("synchronous_standby_names", "nobody")

        monkeypatch.setattr(
            connections, "_NOTICE_FIELDS", connections._NOTICE_FIELDS[:1]
        )  # a server that speaks another language
        waiting = thread.submit(told, partial(one, engine, place("seats")))
        interrupt_wait(primary, "cancel")
        assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)

        monkeypatch.setattr(
            connections.PipelineConnection, "_notice", lambda self, result: None
        )  # the canary: warnings go unheard
        with closing(opened()) as deaf:
            waiting = thread.submit(told, lambda: one(deaf, place("seats")))
            interrupt_wait(primary, "cancel")
            assert isinstance(waiting.result(PATIENCE), Done)


@pytest.mark.slow
def test_every_answer_of_a_guard_has_waited(primary: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guarded batch lets COMMIT wait for nobody if nothing passed. If anything did, COMMIT waits, whichever statement wrote it."""
    said = list[str]()
    opened = partial(PostgresEngine, primary.dsn("shop"), on_statement=said.append, prune_every=1e9)
    with closing(opened()) as engine, ThreadPoolExecutor(1) as thread:
        first, second = place("seats"), place("seats")
        done(engine, first)
        done(engine, second)
        primary.change_setting("synchronous_standby_names", "nobody")
        for command in (place("seats"), confirm(first.id or ""), release(second.id or "")):
            said.clear()
            waiting = thread.submit(told, partial(one, engine, command))
            interrupt_wait(primary, "cancel")
            assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)
            statement = "guard_places" if isinstance(command, PlaceHold) else "guard_moves"
            ours = [name for name in said if name not in OPENING]
            assert ours[2:] == [statement, "commit"]

    for name in ("guard_places", "guard_moves"):  # the canary: they never wait
        engine_calls.alter(
            monkeypatch, name, lambda text: text.replace("case when t.n = 0 then", "case when true then")
        )
    with closing(opened()) as careless:
        third = place("seats")
        assert isinstance(one(careless, third), Done)
        assert isinstance(one(careless, confirm(third.id or "")), Done)


@pytest.mark.slow
def test_what_wrote_nothing_waits_too(primary: PostgresServer) -> None:
    """A refusal rests on what was read, which the standby may not have; a plain look promises nothing and waits for nobody."""
    with closing(PostgresEngine(primary.dsn("shop"), prune_every=10**9)) as engine, ThreadPoolExecutor(1) as thread:
        done(engine, place("one"))
        primary.change_setting("synchronous_standby_names", "nobody")
        for command in (place("one"), place("one", op="remembered")):
            waiting = thread.submit(told, partial(one, engine, command))
            interrupt_wait(primary, "cancel")
            assert isinstance(waiting.result(PATIENCE), OutcomeUnknown)
        assert engine_calls.pool(engine, "one").held == 1
        assert engine.guard_stats.misses["capacity"] > 0, (
            "a guard that writes nothing waits for nobody; what follows it does"
        )
        primary.change_setting("synchronous_standby_names", "")
        assert engine_calls.reason(one(engine, place("one"))) is Reason.INSUFFICIENT_CAPACITY


@pytest.mark.slow
def test_a_standby_decides_nothing(primary: PostgresServer) -> None:
    with closing(follow(primary, synchronous=False)) as standby:
        for options, said in (("", "read-only|standby|hot standby"), ("&target_session_attrs=any", "is a standby")):
            with pytest.raises(EngineError, match=said):
                PostgresEngine(standby.dsn("shop") + options)
        with pytest.raises((EngineError, psycopg.Error)):
            migrate(standby.dsn("shop"))
