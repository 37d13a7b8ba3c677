"""How many round trips a call in a caller's transaction takes, and what becomes of it if something strikes in the middle of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq

import holdkit
from holdkit.engines.postgres.driver import Statement, Steps
from holdkit.engines.postgres.savepoints import CallerPipeline
from tests.engines.postgres.test_caller_transaction_waits import in_step, locked, waiting
from tests.support.frameworks import Application, Psycopg, PsycopgAsync, make_tables
from tests.support.threads import CallerThreads


@pytest.fixture(params=[Psycopg, PsycopgAsync])
def app(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Application]:
    make_tables(postgres_url)
    application: Application = request.param(postgres_url)
    for pool in ("lamp", "chair"):
        application.hk.create_pool(pool, 10)
    yield application
    application.close()


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each round trip on a caller's connection."""
    seen: list[list[str]] = []
    exchange = CallerPipeline.exchange

    def noted(self: CallerPipeline, statements: list[Statement]) -> Steps[Any]:
        seen.append([name for name, _ in statements])
        return (yield from exchange(self, statements))

    monkeypatch.setattr(CallerPipeline, "exchange", noted)
    return seen


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "hold": lambda hk, tx, held: hk.hold("lamp", 1, ttl=60, tx=tx),
    "hold with an operation id": lambda hk, tx, held: hk.hold("lamp", 1, ttl=60, op="x", tx=tx),
    "hold of several pools": lambda hk, tx, held: hk.hold({"lamp": 1, "chair": 2}, ttl=60, tx=tx),
    "consume": lambda hk, tx, held: hk.consume("lamp", 1, tx=tx),
    "confirm": lambda hk, tx, held: hk.confirm(held, tx=tx),
    "release": lambda hk, tx, held: hk.release(held, op="x", tx=tx),
    "extend": lambda hk, tx, held: hk.extend(held, ttl=90, tx=tx),
    "a read": lambda hk, tx, held: hk.pool("lamp", tx=tx),
    "resize": lambda hk, tx, held: hk.admin.resize_pool("lamp", 20, tx=tx),
}
GUARDED = ("hold", "hold with an operation id", "confirm", "release")
"""Those that a guard decides."""


@pytest.mark.parametrize("begun", [False, True], ids=["idle", "begun"])
def test_a_call_takes_one_round_trip_or_two(app: Application, exchanges: list[list[str]], begun: bool) -> None:
    for name, call in CALLS.items():
        held = app.hk.hold("lamp", 1, ttl=60)
        if begun:
            app.execute("select 1")
        exchanges.clear()
        call(app.hk, app.tx, held)
        assert len(exchanges) == (1 if name in GUARDED else 2), (name, exchanges)
        kind = "place" if name.startswith("hold") else "end"
        third = f"guard_call_{kind}" if name in GUARDED else "check_transaction"
        assert exchanges[0][: 3 - begun] == [*([] if begun else ["begin"]), "make_savepoint", third]
        assert exchanges[-1][-1] == "release_savepoint"
        assert app.tx.pgconn.transaction_status == pq.TransactionStatus.INTRANS
        app.roll_back()
        assert app.hk.pool("lamp").held == 1, "nothing but the hold that was placed before"
        app.hk.release(held)
    assert app.hk.admin.verify().ok


def test_what_others_may_be_inserting_is_written_before_the_release(
    app: Application, exchanges: list[list[str]]
) -> None:
    """Nobody can lock a pool that does not exist: a lost race is no error of a statement."""
    app.hk.create_pool("new", 1, tx=app.tx)
    assert [each[-1] for each in exchanges][-1:] == ["release_savepoint"]
    assert "insert_pools" in exchanges[-2]
    assert len(exchanges[-1]) == 1
    app.commit()
    assert app.hk.admin.verify().ok


@pytest.mark.parametrize("level", [None, psycopg.IsolationLevel.READ_COMMITTED])
@pytest.mark.parametrize("deferrable", [None, True, False])
def test_a_transaction_begins_as_psycopg_would_begin_it(
    postgres_url: str, level: psycopg.IsolationLevel | None, deferrable: bool | None
) -> None:
    with holdkit.connect(postgres_url) as hk, psycopg.connect(postgres_url) as tx:
        hk.create_pool("lamp", 1)
        tx.isolation_level, tx.deferrable, tx.read_only = level, deferrable, False
        hk.hold("lamp", 1, ttl=60, tx=tx)
        row = tx.execute(
            "select current_setting('transaction_isolation'), current_setting('transaction_deferrable')"
        ).fetchone()
        assert row == ("read committed", "on" if deferrable else "off")
        tx.rollback()
        assert hk.pool("lamp").held == 0


def test_an_operation_id_in_use_for_another_pool_at_this_moment(app: Application, postgres_url: str) -> None:
    """The write raises, inside our savepoint; the call is run again, and finds what the other one did."""
    with psycopg.connect(postgres_url) as other, holdkit.connect(postgres_url) as hk:
        app.order("a")
        hk.hold("chair", 1, ttl=60, op="x", tx=other)
        callers = CallerThreads()
        callers.start(lambda: app.hk.hold("lamp", 1, ttl=60, op="x", tx=app.tx))
        waiting(postgres_url)
        other.commit()
        (answer,) = callers.join()
    assert isinstance(answer, holdkit.OperationConflict)
    in_step(app)
    app.hk.hold("lamp", 1, ttl=60, op="y", tx=app.tx)
    app.commit()
    assert app.orders() == ["a"]
    assert (app.hk.pool("lamp").held, app.hk.pool("chair").held) == (1, 1)
    assert app.hk.admin.verify().ok


@pytest.mark.parametrize(
    ("last", "held"), [("load_due", 0), ("write_unnumbered", 0), ("release_savepoint", 1), ("guard_call_place", 1)]
)
def test_an_interrupt_after_everything_was_sent(
    app: Application, monkeypatch: pytest.MonkeyPatch, last: str, held: int
) -> None:
    """Its answers are read and discarded. What was released counts; everything else is undone, whatever the server had done."""
    said: list[str] = []
    receive, interrupted = CallerPipeline._receive, threading.Event()

    def strike(self: CallerPipeline) -> Steps[Any]:
        if last in said and not interrupted.is_set():
            interrupted.set()
            yield from _sent(self)
            raise ArithmeticError
        return (yield from receive(self))

    app.order("a")
    app.listen(said.append)
    app.engine_of_kernel._callers.guards.enabled = last == "guard_call_place"  # its exchange has the release in it
    if last == "write_unnumbered":  # the release is a round trip of its own
        monkeypatch.setattr("holdkit.engines.postgres.script.creates", lambda view: True)
    monkeypatch.setattr(CallerPipeline, "_receive", strike)
    with pytest.raises(ArithmeticError):
        app.hk.hold("lamp", 1, ttl=60, tx=app.tx)
    assert interrupted.is_set()
    in_step(app)
    app.order("b")
    app.commit()
    assert app.orders() == ["a", "b"]
    assert app.hk.pool("lamp").held == held
    assert app.hk.admin.verify().ok


def _sent(pipeline: CallerPipeline) -> Steps[None]:
    while pipeline.pgconn.flush() == 1:
        yield 0


def test_a_cancelled_write_is_undone(app: Application, postgres_url: str) -> None:
    """It waits for an operation id that another transaction has just used, in the exchange that has the release in it."""
    with holdkit.connect(postgres_url) as hk, psycopg.connect(postgres_url) as other:
        app.order("a")
        hk.hold("chair", 1, ttl=60, op="x", tx=other)
        app.execute("set local statement_timeout = '300ms'")
        with pytest.raises(holdkit.Overloaded):
            app.hk.hold("lamp", 1, ttl=60, op="x", tx=app.tx)
        in_step(app)
        other.rollback()
        app.execute("set local statement_timeout = 0")
        with locked(postgres_url, "chair"):
            app.hk.hold("lamp", 2, ttl=60, op="x", tx=app.tx)
        app.commit()
    assert app.orders() == ["a"]
    assert app.hk.pool("lamp").held == 2
    assert app.hk.admin.verify().ok
