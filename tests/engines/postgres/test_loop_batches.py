"""A batch on the event loop gives the same answers as on a thread, or is left to a thread with nothing done; no connection is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdkit.core.commands import Group
from holdkit.core.outcomes import Done, Reason
from holdkit.engines.port import Applied, NeedsThread
from holdkit.engines.postgres import PostgresEngine, driver
from holdkit.errors import OutcomeUnknown
from tests.engines.commands import create, groups
from tests.engines.postgres import engine_calls
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done, place

pytestmark = pytest.mark.usefixtures("no_notifier")


def apply_on_loop(engine: PostgresEngine, wanted: list[Group], sent: Callable[[], None] = lambda: None) -> Applied:
    return asyncio.run(engine.apply_async(wanted, sent))


def test_the_same_answers_and_told_when_they_are_on_their_way(engine: PostgresEngine, postgres_url: str) -> None:
    assert engine.capabilities.async_apply is engine
    done(engine, create("p", total=1))
    told: list[int] = []
    commands = groups(place("p"), place("p"), place("missing"), place("new", on_demand=5))
    applied = apply_on_loop(engine, commands, lambda: told.append(1))
    first, second, third, fourth = [outcome for (outcome,) in applied.outcomes]
    assert isinstance(first, Done)
    assert isinstance(fourth, Done)
    assert engine_calls.reason(second) is Reason.INSUFFICIENT_CAPACITY
    assert engine_calls.reason(third) is Reason.POOL_NOT_FOUND
    assert applied.wrote
    assert told == [1], "once, by the run that was committed"
    engine_calls.sound(engine, postgres_url)


def test_without_a_connection_at_hand_it_is_left_to_a_thread(engine: PostgresEngine) -> None:
    done(engine, create("p"))
    engine._connections.no_wait.drop_idle()
    with pytest.raises(NeedsThread):
        apply_on_loop(engine, groups(place("p")))
    assert engine_calls.pool(engine, "p").held == 0


def test_a_statement_that_fails_grounds_it(open_engine: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    done(open_engine(), create("p"))
    engine_calls.alter(monkeypatch, "load_due", lambda text: text.replace("clock_timestamp()", "no_such_clock()"))
    engine = open_engine()
    assert engine_calls.pool(engine, "p").held == 0, "a connection is at hand"
    with pytest.raises(NeedsThread):
        apply_on_loop(engine, groups(place("p")))
    assert engine_calls.pool(engine, "p").held == 0


def test_what_is_there_already_is_met_in_the_air(engine: PostgresEngine) -> None:
    done(engine, create("p"))
    command = groups(place("p", op="x"))
    first, again = apply_on_loop(engine, command), apply_on_loop(engine, command)
    (((was,),), ((now,),)) = first.outcomes, again.outcomes
    assert isinstance(was, Done)
    assert isinstance(now, Done)
    assert now.replayed
    assert now.hold == was.hold


@pytest.mark.parametrize("step", ["lock_pools", "place_holds", "commit", "guard_lock", "guard_places"])
def test_cancelled_it_leaves_no_connection_behind(open_engine: Open, step: str) -> None:
    """Before COMMIT was sent nothing happened; behind it nobody knows."""
    to_cancel: list[asyncio.Task[Applied]] = []

    def strike(name: str) -> None:
        if name == step and to_cancel:
            to_cancel.pop().cancel()

    async def cancelled() -> None:
        task = asyncio.ensure_future(engine.apply_async(groups(place("p")), lambda: None))
        to_cancel.append(task)
        with pytest.raises(asyncio.CancelledError):
            await task

    engine = open_engine(on_statement=strike, guarded=step.startswith("guard"))
    done(engine, create("p"))
    asyncio.run(cancelled())
    assert not to_cancel
    assert engine._connections.no_wait._lent == 0
    assert engine_calls.pool(engine, "p").held <= (step != "lock_pools"), "they travel together"
    assert isinstance(engine_calls.one(engine, place("p")), Done)
    assert not list(engine.verify())


@pytest.mark.parametrize("step", ["lock_pools", "place_holds", "guard_lock", "guard_places"])
def test_an_exception_before_commit_is_sent_is_left_to_a_thread(open_engine: Open, step: str) -> None:
    awaited: list[str] = []

    def strike(name: str) -> None:
        if name in awaited:
            awaited.clear()
            raise ValueError(name)

    engine = open_engine(on_statement=strike, guarded=step.startswith("guard"))
    done(engine, create("p"))
    awaited.append(step)
    with pytest.raises(NeedsThread):
        apply_on_loop(engine, groups(place("p")))
    assert not awaited
    assert engine_calls.pool(engine, "p").held == 0
    assert engine._connections.no_wait._lent == 0


def test_an_exception_behind_commit_is_unknown(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    done(engine, create("p"))
    rows = driver.Pipeline._rows

    def strike(self: driver.Pipeline, expected: Any, results: Any) -> Any:
        if self.committing:
            raise ValueError("behind COMMIT")
        return rows(self, expected, results)

    monkeypatch.setattr(driver.Pipeline, "_rows", strike)
    with pytest.raises(OutcomeUnknown):
        apply_on_loop(engine, groups(place("p")))
    monkeypatch.undo()
    assert engine_calls.pool(engine, "p").held == 1
