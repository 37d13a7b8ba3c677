"""A call that arrives while a batch waits for a lock joins that batch if it touches the same pools only, and is always answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import pytest

from holdkit import Hold, Kernel, OutcomeUnknown
from holdkit.core.commands import Group
from holdkit.engines.port import BatchRejected
from holdkit.errors import EngineError
from holdkit.kernel.leader_queue import LeaderQueue
from tests.support.interrupts import Interrupted
from tests.support.lockable_engine import GrowingEngine, lock_queues_of, no_lock_queues
from tests.support.modes import Sync
from tests.support.threads import wait_until
from tests.unit.kernel.test_lock_queues import block, hold, opened


@pytest.fixture
def engine() -> GrowingEngine:
    return GrowingEngine()


@pytest.fixture
def hk(engine: GrowingEngine) -> Iterator[Kernel]:
    yield from opened(Sync(), engine)


def test_all_who_came_meanwhile_ride_in_the_same_batch(hk: Kernel, engine: GrowingEngine) -> None:
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 7)
    engine.unlock("x")
    assert len({answer.id for answer in callers.join()}) == 7
    assert engine.wait_for_locks == [7]
    assert hk.pool("x").held == 7
    assert hk.admin.verify().ok
    no_lock_queues(hk)


def test_who_wants_something_else_too_rides_in_the_next_with_all_behind_it(hk: Kernel, engine: GrowingEngine) -> None:
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x"), hold(hk, "x"), hold(hk, "x", "y"), hold(hk, "x")])
    engine.unlock("x")
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert engine.wait_for_locks == [2, 2], "nobody overtakes"
    assert (hk.pool("x").held, hk.pool("y").held) == (4, 1)


def test_a_batch_that_grew_is_bounded(hk: Kernel, engine: GrowingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdkit.kernel.fair_queue.FairQueue.take.__defaults__", (3, None, inf))
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 5)
    engine.unlock("x")
    assert len({answer.id for answer in callers.join()}) == 5
    assert engine.wait_for_locks == [3, 2]


@pytest.mark.parametrize("error", [EngineError("gone"), OutcomeUnknown("who knows"), BatchRejected("one of you")])
def test_whatever_becomes_of_the_batch_becomes_of_those_who_came_along(
    hk: Kernel, engine: GrowingEngine, error: Exception
) -> None:
    def fail(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks and len(groups) == 4:
            raise error

    engine.before = fail
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 4)
    engine.unlock("x")
    answers = callers.join()
    if isinstance(error, BatchRejected):
        assert all(isinstance(answer, Hold) for answer in answers), "in halves it went"
        assert hk.pool("x").held == 4
    elif isinstance(error, OutcomeUnknown):
        assert all(isinstance(answer, Hold) for answer in answers), "each was asked about, and placed then"
        assert hk.pool("x").held == 4
    else:
        assert [str(answer) for answer in answers] == ["holdkit: gone"] * 4
        assert hk.pool("x").held == 0
    no_lock_queues(hk)


@pytest.mark.parametrize("written", [False, True])
def test_who_came_along_with_a_leader_that_is_interrupted_finds_out(
    hk: Kernel, engine: GrowingEngine, written: bool
) -> None:
    def bite(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks and len(groups) == 4:
            engine.before = engine.after = None
            raise Interrupted

    if written:
        engine.after = bite
    else:
        engine.before = bite
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 4)
    engine.unlock("x")
    leader, *others = callers.join()
    assert isinstance(leader, Interrupted)
    assert all(isinstance(answer, Hold) for answer in others)
    assert hk.pool("x").held == (4 if written else 3)
    assert hk.admin.verify().ok
    no_lock_queues(hk)


class TimeLimit(Exception):
    """What a job's time limit raises: an interrupt that is no more than an exception."""


class InterruptedQueue(deque[Any]):
    """A queue whose leader is interrupted once, just when somebody is in the batch already and here still."""

    interrupted = False

    def popleft(self) -> Any:
        if not self.interrupted:
            self.interrupted = True
            raise TimeLimit
        return super().popleft()


@pytest.mark.parametrize("rejecting", [False, True])
def test_who_comes_in_while_the_leader_is_interrupted_is_in_the_batch_or_in_the_queue(
    hk: Kernel, engine: GrowingEngine, rejecting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both it would be answered by this batch, and gone when the lead is passed to it."""
    engine.rejecting = rejecting
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 4)
    (room,) = lock_queues_of(hk).open.values()
    (tenant,) = room.queue._order
    tenant.calls = interrupted = InterruptedQueue(tenant.calls)
    pass_lead = LeaderQueue._pass_lead

    def pass_late(self: LeaderQueue, caller: Any) -> None:
        wait_until(lambda: 1 in callers.results)
        pass_lead(self, caller)

    monkeypatch.setattr(LeaderQueue, "_pass_lead", pass_late)
    engine.unlock("x")
    answers = callers.join()
    assert interrupted.interrupted
    assert len({answer.id for answer in answers}) == 4
    assert hk.pool("x").held == 4
    assert room.queue.commands == 0
    no_lock_queues(hk)
