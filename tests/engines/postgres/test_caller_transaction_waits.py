"""A caller's transaction on PostgreSQL: every wait is bounded, and whatever strikes while we wait leaves the connection in
step, their transaction open, and nothing of the call behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from msgspec import structs
from psycopg import pq

import holdkit
from holdkit import AsyncKernel, Overloaded
from holdkit.core.commands import Group, PlaceHold
from holdkit.core.model import SECOND, Leg
from holdkit.engines.postgres import caller_transaction
from holdkit.engines.postgres import waiting as waiting_module
from holdkit.engines.settings import StoredLimits
from holdkit.errors import EngineError
from tests.support.frameworks import Application, Psycopg, PsycopgAsync, make_tables
from tests.support.threads import PATIENCE, CallerThreads, wait_until


@pytest.fixture
def url(postgres_url: str) -> str:
    make_tables(postgres_url)
    with holdkit.connect(postgres_url) as hk:
        for pool in ("lamp", "chair"):
            hk.create_pool(pool, 10)
    return postgres_url


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time to confirm a cancellation."""
    monkeypatch.setattr(waiting_module, "GRACE", PATIENCE)
    monkeypatch.setattr(caller_transaction, "GRACE", PATIENCE)


@pytest.fixture(params=[Psycopg, PsycopgAsync])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@contextmanager
def opened(kind: Any, url: str, **options: Any) -> Iterator[Application]:
    app: Application = kind(url, **options)
    try:
        yield app
    finally:
        app.close()


@contextmanager
def in_haste(app: Application) -> Iterator[None]:
    """For what is to be turned away: what is to be done may take its time, for a machine may be slow."""
    engine = app.engine_of_kernel
    callers, database = engine._callers, engine._database
    before = callers.timeout, database.stored
    callers.timeout = 0.05
    database.stored = StoredLimits(structs.replace(engine.limits, lock_timeout=SECOND // 20))
    try:
        yield
    finally:
        callers.timeout, database.stored = before


@contextmanager
def locked(url: str, pool: str = "lamp") -> Iterator[psycopg.Connection[Any]]:
    """Somebody keeps the pool locked."""
    with psycopg.connect(url) as connection:
        connection.execute("select 1 from holdkit.pools where id = %s for update", [pool])
        yield connection
        connection.rollback()


def waiting(url: str, count: int = 1) -> None:
    """Until so many wait for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        ask = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"

        def there() -> bool:
            row = connection.execute(ask).fetchone()
            return row is not None and row[0] >= count

        wait_until(there)


def in_step(app: Application) -> None:
    """Their transaction is open still, and the connection speaks."""
    pgconn = app.tx.pgconn
    assert pgconn.transaction_status == pq.TransactionStatus.INTRANS
    assert pgconn.pipeline_status == pq.PipelineStatus.OFF
    assert not app.tx.lock.locked()


def finished(app: Application, *, held: int = 0) -> None:
    """It goes on, commits theirs, and nothing but `held` of ours."""
    app.order("b")
    app.commit()
    assert app.orders() == ["a", "b"]
    assert app.hk.pool("lamp").held == held
    assert len(app.hk.journal.list()) == 2 + held
    assert app.hk.admin.verify().ok


def test_the_wait_for_a_lock_is_bounded(kind: Any, url: str) -> None:
    with opened(kind, url) as app:
        app.order("a")
        with locked(url), in_haste(app):
            for _ in range(2):
                with pytest.raises(Overloaded) as caught:
                    app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
                assert caught.value.effect == "none"
                in_step(app)
            with pytest.raises(Overloaded):
                app.hk.lock(["chair", "lamp"], tx=app.tx)
            in_step(app)
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
        finished(app, held=1)


@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
def test_their_own_bounds_count_too(kind: Any, url: str, setting: str) -> None:
    with opened(kind, url) as app:
        app.order("a")
        app.execute(f"set local {setting} = '300ms'")
        with locked(url), pytest.raises(Overloaded):
            app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
        in_step(app)
        app.execute(f"set local {setting} = 0")  # what follows may take its time
        finished(app)


def test_a_deadlock_is_an_error_without_effect(kind: Any, url: str) -> None:
    with opened(kind, url) as app:
        app.order("a")
        app.execute("set local deadlock_timeout = '10ms'")
        app.hk.hold("chair", 1, ttl=60, tx=app.tx)
        with psycopg.connect(url) as other:
            other.execute("set local deadlock_timeout = '1h'")
            other.execute("select 1 from holdkit.pools where id = 'lamp' for update")
            callers = CallerThreads()
            callers.start(lambda: other.execute("select 1 from holdkit.pools where id = 'chair' for update"))
            waiting(url)
            with pytest.raises(EngineError, match="40P01") as caught:
                app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
            assert caught.value.effect == "none"
            in_step(app)
            app.order("b")
            app.commit()
            callers.join()
        assert app.orders() == ["a", "b"]
        assert (app.hk.pool("lamp").held, app.hk.pool("chair").held) == (0, 1)
        assert app.hk.admin.verify().ok


def test_one_that_waited_sees_what_the_other_did(kind: Any, url: str) -> None:
    with opened(kind, url) as first, opened(kind, url) as second:
        first.order("a")
        first.hk.hold("lamp", 7, ttl=60, tx=first.tx)
        callers = CallerThreads()
        callers.start(lambda: second.hk.hold("lamp", 4, ttl=60, tx=second.tx))
        waiting(url)
        first.commit()
        (answer,) = callers.join()
        assert isinstance(answer, holdkit.InsufficientCapacity)
        assert answer.available == 3
        second.hk.hold("lamp", 3, ttl=60, tx=second.tx)
        second.commit()
        assert first.hk.pool("lamp").available == 0
        assert first.hk.admin.verify().ok


def test_a_pool_that_is_born_while_we_look(kind: Any, url: str) -> None:
    """Missing when the locks were taken, there a moment later: neither left out nor refused, but tried again."""
    with opened(kind, url) as app, holdkit.connect(url) as other:
        born = threading.Event()

        def hook(name: str) -> None:
            if name == "find_pools" and not born.is_set():
                born.set()
                other.create_pool("new", 5)

        app.listen(hook)
        hold = app.hk.hold("new", 2, ttl=60, tx=app.tx)
        assert born.is_set()
        app.commit()
        assert app.hk.get(hold.id).legs[0].held == 2
        assert app.hk.admin.verify().ok


def test_two_callers_make_the_same_pool(kind: Any, url: str) -> None:
    with opened(kind, url) as first, opened(kind, url) as second:
        first.hk.create_pool("new", 5, tx=first.tx)
        callers = CallerThreads()
        callers.start(lambda: second.hk.create_pool("new", 7, tx=second.tx))
        waiting(url)
        first.commit()
        (answer,) = callers.join()
        assert isinstance(answer, holdkit.errors.PoolExists)
        second.order("a")
        second.commit()
        assert first.hk.pool("new").total == 5
        assert first.hk.admin.verify().ok


def test_what_hk_lock_locks(kind: Any, url: str) -> None:
    with opened(kind, url) as app:
        app.order("a")
        app.hk.lock(["lamp", "no such"], tx=app.tx)
        app.order("b")
        groups = [_place("lamp"), _place("chair")]
        applied = app.engine_of_kernel.apply(groups)
        assert list(applied.skipped_locked) == [0], "the one is locked, the other is not"
        app.commit()
        assert not app.engine_of_kernel.apply(groups[:1]).skipped_locked
        assert app.hk.admin.verify().ok


def _place(pool: str) -> Group:
    from holdkit.kernel.prepare import Mint

    mint = Mint(lambda: 0, os.urandom, 4)
    return Group((mint.prepare(PlaceHold(legs=(Leg(pool, 1),), ttl=60 * SECOND)),))


def test_plain_calls_beside_an_open_transaction(kind: Any, url: str) -> None:
    """They wait for its pools, and for those alone; one of the same thread or task waits for itself, so long as it may."""
    with opened(kind, url) as app, holdkit.connect(url) as other:
        app.order("a")
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
        assert app.hk.hold("chair", 1, ttl=60).state == "held"
        with in_haste(app), pytest.raises(Overloaded):
            app.hk.hold("lamp", 1, ttl=60)
        in_step(app)
        callers = CallerThreads()
        callers.start(lambda: other.hold("lamp", 2, ttl=60))
        waiting(url)
        app.commit()
        (hold,) = callers.join()
        assert hold.state == "held"
        assert app.hk.hold("lamp", 4, ttl=60).state == "held"
        assert (app.hk.pool("lamp").held, app.hk.pool("chair").held) == (7, 1)
        assert app.hk.admin.verify().ok


# Interrupts


class Interrupted(OSError):
    """What a signal's handler raises: even one of these is no trouble of the connection's."""


def interrupt_main(url: str) -> None:
    """A signal for the main thread, once it waits."""
    waiting(url)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGUSR1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
def test_an_interrupt_while_we_wait(url: str, error: type[BaseException]) -> None:
    def strike(number: int, frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGUSR1, strike)
    try:
        with opened(Psycopg, url) as app, locked(url):
            app.order("a")
            callers = CallerThreads()
            callers.start(lambda: interrupt_main(url))
            with pytest.raises(error):
                app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
            callers.join()
            in_step(app)
            finished(app)
    finally:
        signal.signal(signal.SIGUSR1, before)


STEPS = ["make_savepoint", "check_transaction", "lock_pools_waiting", "load_due", "update_pools", "insert_holds",
         "insert_operations", "write_unnumbered", "release_savepoint"]  # fmt: skip
GUARDED = [f"{step}, guarded" for step in ("make_savepoint", "guard_call_place", "release_savepoint")]


@pytest.mark.parametrize("step", STEPS + GUARDED)
@pytest.mark.parametrize(("kind", "error"), [(Psycopg, KeyboardInterrupt), (PsycopgAsync, ArithmeticError)])
def test_an_interrupt_between_any_two_statements(kind: Any, url: str, step: str, error: type[BaseException]) -> None:
    with opened(kind, url) as app:
        app.order("a")
        interrupted = threading.Event()

        def hook(name: str) -> None:
            if name == step.removesuffix(", guarded") and not interrupted.is_set():
                interrupted.set()
                raise error

        app.listen(hook)
        app.engine_of_kernel._callers.guards.enabled = step in GUARDED
        with pytest.raises(error):
            app.hk.hold("lamp", 1, ttl=60, op="x", tx=app.tx)
        assert interrupted.is_set()
        in_step(app)
        finished(app)


def cancelled_while_waiting(url: str, cancel: Callable[[asyncio.Task[Any]], Any]) -> None:
    async def main() -> None:
        hk: AsyncKernel
        async with await holdkit.connect_async(url) as hk, await psycopg.AsyncConnection.connect(url) as tx:
            await tx.execute("insert into orders (id) values ('a')")
            with locked(url):
                task = asyncio.create_task(hk.hold("lamp", 1, ttl=60, tx=tx))
                await asyncio.to_thread(waiting, url)
                await cancel(task)
            assert task.cancelled()
            assert tx.pgconn.transaction_status == pq.TransactionStatus.INTRANS
            assert tx.pgconn.pipeline_status == pq.PipelineStatus.OFF
            assert not tx.lock.locked()
            await tx.execute("insert into orders (id) values ('b')")
            await tx.commit()
            assert (await hk.pool("lamp")).held == 0
            assert len(await hk.journal.list()) == 2
            assert (await hk.admin.verify()).ok

    asyncio.run(main())
    with psycopg.connect(url) as connection:
        assert connection.execute("select id from orders order by id").fetchall() == [("a",), ("b",)]


def test_a_cancelled_task(url: str) -> None:
    async def cancel(task: asyncio.Task[Any]) -> None:
        task.cancel()
        await asyncio.wait([task])

    cancelled_while_waiting(url, cancel)


def test_a_task_that_is_cancelled_again_and_again(url: str) -> None:
    """As some frameworks do it, at every turn of the loop until the task is gone."""

    async def cancel(task: asyncio.Task[Any]) -> None:
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)

    cancelled_while_waiting(url, cancel)


def test_a_timeout_around_it(url: str) -> None:
    async def main() -> None:
        async with await holdkit.connect_async(url) as hk, await psycopg.AsyncConnection.connect(url) as tx:
            with locked(url), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await hk.hold("lamp", 1, ttl=60, tx=tx)
            await hk.hold("lamp", 1, ttl=60, tx=tx)
            await tx.commit()
            assert (await hk.pool("lamp")).held == 1

    asyncio.run(main())


def test_the_connection_is_lost_while_we_wait(kind: Any, url: str) -> None:
    with opened(kind, url) as app:
        app.order("a")
        pid = app.tx.info.backend_pid
        with locked(url):
            callers = CallerThreads()
            callers.start(lambda: app.hk.hold("lamp", 1, ttl=60, tx=app.tx))
            waiting(url)
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("select pg_terminate_backend(%s)", [pid])
            (answer,) = callers.join()
        assert isinstance(answer, EngineError)
        assert answer.effect == "none"
        with pytest.raises(psycopg.OperationalError):
            app.commit()
        assert app.orders() == []
        assert app.hk.pool("lamp").held == 0


def test_a_second_interrupt_ends_the_connection_and_commits_nothing(url: str) -> None:
    """Whoever will not wait for the server's answer loses the connection, never its meaning."""

    def strike(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, strike)
    try:
        with opened(Psycopg, url) as app, locked(url):
            app.order("a")
            callers = CallerThreads()
            app.tx.cancel_safe = lambda **_: signal.raise_signal(signal.SIGUSR1)  # the second strikes here
            callers.start(lambda: interrupt_main(url))
            with pytest.raises(KeyboardInterrupt):
                app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
            callers.join()
            assert not app.tx.lock.locked()
            with pytest.raises(psycopg.Error):
                app.commit()
        assert app.orders() == []
        with holdkit.connect(url) as hk:
            assert hk.pool("lamp").held == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_connection_that_another_thread_is_using(url: str) -> None:
    with opened(Psycopg, url) as app, locked(url):
        app.order("a")
        callers = CallerThreads()
        callers.start(lambda: app.execute("select 1 from holdkit.pools where id = 'lamp' for update"))
        waiting(url)
        with in_haste(app), pytest.raises((Overloaded, holdkit.InvalidRequest)):
            app.hk.hold("chair", 1, ttl=60, tx=app.tx)
        app.tx.cancel_safe()
        assert isinstance(callers.join()[0], psycopg.errors.QueryCanceled)


def test_a_connection_whose_server_never_confirmed_the_cancellation(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "GRACE", 0.0)

    async def never(**_: object) -> None:
        raise TimeoutError

    async def main() -> None:
        async with await holdkit.connect_async(url) as hk, await psycopg.AsyncConnection.connect(url) as tx:
            monkeypatch.setattr(tx, "cancel_safe", never)
            with locked(url):
                call = asyncio.ensure_future(hk.hold("lamp", 1, ttl=60, tx=tx))
                await asyncio.to_thread(waiting, url)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                with pytest.raises(holdkit.InvalidRequest, match="an earlier call was cancelled: close the connection"):
                    await hk.hold("lamp", 1, ttl=60, tx=tx)
            await tx.close()
            assert (await hk.pool("lamp")).held == 0

    asyncio.run(main())
