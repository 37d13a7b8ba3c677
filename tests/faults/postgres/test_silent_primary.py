"""A primary that is stopped keeps its connections open and says nothing. Its standby is promoted: whoever waits goes there, whatever
the timeouts say; and nobody goes back to the old primary, although it takes writes again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import pytest

import holdkit
from holdkit.core.bounds import Limits
from holdkit.core.model import SECOND
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindPool
from holdkit.engines.port import Lent
from holdkit.engines.postgres import PostgresEngine, migrate
from holdkit.engines.postgres.notifications import Notifier
from holdkit.errors import EngineError, OutcomeUnknown
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.processes import children, running
from holdkit.testing.postgres.shared import memory
from tests.engines.commands import create, groups
from tests.engines.postgres import engine_calls
from tests.engines.postgres.engine_calls import ask, await_that, done, place
from tests.faults.postgres.answers import told
from tests.faults.postgres.test_failovers import both, follow, promote
from tests.support.threads import PATIENCE

NEVER = Limits(lock_timeout=3600 * SECOND)
"""No timeout of ours, nor of the server's, ends a wait."""


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """All of its processes, as if the machine stood still."""
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGSTOP)  # first, or it would start others
    pids = [server._process.pid, *children(server._process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await_that(lambda: not running(pids), "it ignored SIGSTOP")
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def pair(postgres_binaries: object) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with PostgresServer(within=memory()) as primary:
        primary.create_database("shop")
        migrate(primary.dsn("shop"), lanes=engine_calls.LANES)
        with closing(PostgresEngine(primary.dsn("shop"))) as engine:
            done(engine, create("seats", 10**9))
        with closing(follow(primary, synchronous=True)) as standby:
            yield primary, standby


def lend(engine: PostgresEngine) -> object:
    def work(lent: Lent) -> object:
        return lent.apply(groups(place("seats"))).outcomes[0][0]

    return engine.lend(work)


@pytest.mark.slow
def test_a_primary_that_is_stopped_is_left(pair: tuple[PostgresServer, PostgresServer]) -> None:
    primary, standby = pair
    calls: list[Callable[[PostgresEngine], object]] = [
        lambda engine: done(engine, place("seats")),
        lambda engine: engine_calls.waiting_for_locks(engine, groups(place("seats", op="patient"))[0]).outcomes[0][0],
        lambda engine: engine.read(FindPool(("", "seats"))),
        lend,
    ]
    with closing(PostgresEngine(both(primary, standby), limits=NEVER)) as engine, ThreadPoolExecutor(8) as threads:
        for call in calls:  # everybody has a connection that was used a moment ago
            assert call(engine)
        with stopped(primary):
            waiting: list[Future[object]] = [threads.submit(told, partial(call, engine)) for call in calls]
            promote(standby)
            answers = [each.result(PATIENCE) for each in waiting]
            assert not [
                each for each in answers if isinstance(each, Exception) and not isinstance(each, OutcomeUnknown)
            ]
            assert isinstance(done(engine, place("seats")), Done)
        before = ask(primary.dsn("shop"), "select held from holdkit.pools")
        for call in calls:  # the old primary takes writes again, and is not asked
            assert call(engine)
        assert ask(primary.dsn("shop"), "select held from holdkit.pools") == before
        with pytest.raises(EngineError, match=r"timeline 1, .* primary on 2"):
            PostgresEngine(primary.dsn("shop"))
        engine_calls.sound(engine, standby.dsn("shop"))


@pytest.mark.slow
def test_tasks_leave_it_too(pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Notifier, "notify_soon", lambda _: None
    )  # it would take the line that lies ready, and wait there instead
    primary, standby = pair

    async def run() -> None:
        limits = holdkit.Limits(lock_timeout="1h")
        async with await holdkit.connect_async(both(primary, standby), limits=limits) as hk:
            await hk.hold("seats", 1, ttl=60)
            with stopped(primary):
                holds = [asyncio.create_task(hk.hold("seats", 1, ttl=60, op=f"op-{n}")) for n in range(5)]
                await asyncio.sleep(0)
                await asyncio.to_thread(promote, standby)
                async with asyncio.timeout(PATIENCE):
                    assert len({hold.id for hold in await asyncio.gather(*holds)}) == 5
                assert (await hk.pool("seats")).held == 6

    asyncio.run(run())
