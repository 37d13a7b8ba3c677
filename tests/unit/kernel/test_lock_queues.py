"""Lock queues, sync and async: a locked pool keeps only its own callers waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from holdkit import Hold, OutcomeUnknown, Overloaded
from holdkit.commands import PlaceHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.model import Leg
from holdkit.engines.port import BatchRejected
from holdkit.errors import EngineError, PromiseBroken
from tests.support.lockable_engine import LockableEngine, lock_queues_of, no_lock_queues, queued_behind_locks
from tests.support.modes import Async, Sync, close_quietly
from tests.support.threads import PATIENCE, CallerThreads, wait_until


@pytest.fixture
def engine() -> LockableEngine:
    return LockableEngine()


@pytest.fixture
def hk(mode: Sync | Async, engine: LockableEngine) -> Iterator[Any]:
    yield from opened(mode, engine)


def opened(mode: Sync | Async, engine: LockableEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    for pool in ("x", "y", "z", "free"):
        kernel.create_pool(pool, 100)
    engine.batches.clear()
    yield kernel
    engine.unlock()
    close_quietly(kernel)


def hold(hk: Any, *pools: str, **more: Any) -> Any:
    return lambda: hk.hold(dict.fromkeys(pools, 1), ttl=60, **more)


def block(hk: Any, engine: LockableEngine, calls: Sequence[Any]) -> CallerThreads:
    """The first stands in the engine, blocked; the others are queued behind it."""
    engine.blocked = threading.Semaphore(0)
    callers = CallerThreads()
    for index, call in enumerate(calls):
        callers.start(call)
        if index == 0:
            engine.wait_blocked()
        else:
            wait_until(lambda index=index: queued_behind_locks(hk) == index)  # type: ignore[misc]
    return callers


def test_others_go_on_while_one_pool_is_locked(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")])
    for _ in range(5):
        assert hold(hk, "free")().state == "held"
    assert engine.batches == [0, 1, 1, 1, 1, 1], "what was left out cost a batch of nothing"
    assert callers.results == {}
    engine.unlock("x")
    assert isinstance(callers.join()[0], Hold)
    assert (hk.pool("x").held, hk.pool("free").held) == (1, 5)
    assert hk.admin.verify().ok
    no_lock_queues(hk)


def test_neighbours_in_the_same_batch_are_answered_at_once(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x")
    engine.blocked = threading.Semaphore(0)
    calls = [hold(hk, "free"), hold(hk, "x"), hold(hk, "free", "x"), hold(hk, "y"), hold(hk, "free")]
    callers = together(hk, engine, calls)
    engine.wait_blocked()
    wait_until(lambda: set(callers.results) == {0, 3, 4})
    assert engine.batches == [1, 3]
    engine.unlock("x")
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert [leg.pool for leg in callers.results[3].legs] == ["y"], "each has its own answer"
    assert (hk.pool("free").held, hk.pool("x").held, hk.pool("y").held) == (4, 2, 1)


def closed(engine: LockableEngine) -> bool:
    return engine.closed


def group_commit(hk: Any) -> Any:
    return getattr(hk, "_thing", hk)._executor.group_commit


def test_the_batch_grows_while_it_waits(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 7)
    engine.unlock("x")
    answers = callers.join()
    assert len({answer.id for answer in answers}) == 7
    assert engine.wait_for_locks == [1, 6]
    assert hk.pool("x").held == 7
    no_lock_queues(hk)


def test_each_thing_has_its_own_lock_queue(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x", "y")
    callers = block(hk, engine, [hold(hk, "x")])
    callers.start(hold(hk, "y"))
    engine.wait_blocked()
    assert sorted(lock_queues_of(hk).open) == ["pool x", "pool y"]
    engine.unlock("y")
    wait_until(lambda: 1 in callers.results)
    assert 0 not in callers.results
    engine.unlock("x")
    assert all(isinstance(answer, Hold) for answer in callers.join())
    no_lock_queues(hk)


def test_all_that_holds_do_waits_there(hk: Any, engine: LockableEngine) -> None:
    mine = [hold(hk, "x")() for _ in range(3)]
    engine.lock("x")
    calls = [
        lambda: hk.confirm(mine[0]),
        lambda: hk.release(mine[1]),
        lambda: hk.extend(mine[2], by=60),
        lambda: hk.admin.resize_pool("x", 50),
        lambda: hk.apply([PlaceHold(legs=(Leg("free"),), ttl=60), PlaceHold(legs=(Leg("x"),), ttl=60)], atomic=True),
    ]
    callers = block(hk, engine, calls)
    engine.unlock("x")
    confirmed, released, extended, pool, both = callers.join()
    assert (confirmed.state, released.state, extended.state) == ("confirmed", "released", "held")
    assert pool.total == 50
    assert [outcome.unwrap().state for outcome in both] == ["held", "held"]
    assert hk.admin.verify().ok


def test_a_refusal_in_a_lock_queue_is_a_refusal(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x")
    callers = block(hk, engine, [lambda: hk.hold("x", 101, ttl=60)])
    engine.unlock("x")
    assert type(callers.join()[0]).__name__ == "InsufficientCapacity"


# What goes wrong in a room


@pytest.mark.parametrize("error", [EngineError("disk"), Overloaded("still locked", retry_after=3)])
def test_an_error_fails_its_batch_alone(hk: Any, engine: LockableEngine, error: Exception) -> None:
    def fail(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks and len(groups) == 3:
            raise error

    engine.before = fail
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x")] * 4)
    engine.unlock("x")
    first, *others = callers.join()
    assert isinstance(first, Hold)
    assert [type(answer) for answer in others] == [type(error)] * 3
    assert len({id(answer) for answer in others}) == 3
    assert all(answer.__context__ is None for answer in others), "no trace of how it went through the kernel"
    assert hk.pool("x").held == 1
    assert isinstance(hold(hk, "x")(), Hold)
    no_lock_queues(hk)


def marked(groups: Sequence[Group]) -> bool:
    return any(command.correlation_id == "poison" for group in groups for command in group.commands)


def test_poison_is_isolated(hk: Any, engine: LockableEngine) -> None:
    def bite(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks and marked(groups):
            raise BatchRejected("one of them")

    engine.before = bite
    engine.lock("x")
    calls = [hold(hk, "x")] * 5
    calls[3] = hold(hk, "x", correlation_id="poison")
    callers = block(hk, engine, calls)
    engine.unlock("x")
    answers = callers.join()
    assert type(answers.pop(3)) is EngineError
    assert all(isinstance(answer, Hold) for answer in answers)
    assert hk.pool("x").held == 4


def test_poison_beside_what_is_skipped(hk: Any, engine: LockableEngine) -> None:
    """The batch is run again in halves, and what is locked is left out of them: it waits, the rest is answered."""

    def bite(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if marked(groups):
            raise BatchRejected("one of them")

    engine.before = bite
    engine.lock("x")
    calls = [hold(hk, "free"), hold(hk, "x"), hold(hk, "y", correlation_id="poison"), hold(hk, "x"), hold(hk, "y")]
    callers = together(hk, engine, calls)
    wait_until(lambda: set(callers.results) == {0, 2, 4})
    engine.unlock("x")
    answers = callers.join()
    assert type(answers.pop(2)) is EngineError
    assert all(isinstance(answer, Hold) for answer in answers)
    assert (hk.pool("x").held, hk.pool("free").held, hk.pool("y").held) == (2, 2, 1)


@pytest.mark.parametrize("written", [True, False])
def test_an_unknown_is_resolved(hk: Any, engine: LockableEngine, written: bool) -> None:
    def lose(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks:
            engine.before = engine.after = None
            raise OutcomeUnknown("the connection was lost")

    if written:
        engine.after = lose
    else:
        engine.before = lose
    mine = hold(hk, "x")()
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x", op="op-1")])
    engine.unlock("x")
    assert isinstance(callers.join()[0], Hold)
    engine.lock("x")
    if written:
        engine.after = lose
    else:
        engine.before = lose
    callers = block(hk, engine, [hold(hk, "x")])
    engine.unlock("x")
    assert isinstance(callers.join()[0], Hold)
    engine.before = lose
    engine.lock("x")
    callers = block(hk, engine, [lambda: hk.extend(mine, by=1)])
    engine.unlock("x")
    assert isinstance(callers.join()[0], OutcomeUnknown), "no retry key, no answer"
    assert hk.pool("x").held == 3
    assert hk.admin.verify().ok


@pytest.mark.parametrize("op", ["op-1", None])
def test_an_unknown_that_could_only_be_asked_about_with_patience_stays_unknown(
    hk: Any, engine: LockableEngine, op: str | None
) -> None:
    """The main queue never waits for a lock; and what was left out is no answer to the first attempt."""

    def lose(groups: Sequence[Group], wait_for_locks: bool) -> None:
        engine.before = None
        engine.lock("free")
        raise OutcomeUnknown("the connection was lost")

    engine.before = lose
    with pytest.raises(OutcomeUnknown):
        hold(hk, "free", op=op)()
    engine.unlock("free")
    assert hk.pool("free").held == 0
    assert isinstance(hold(hk, "free", op=op)(), Hold)


def test_asking_in_a_lock_queue_waits_for_locks_too(hk: Any, engine: LockableEngine) -> None:
    def lose(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks:
            engine.before = None
            engine.lock("x")  # before the question is asked, somebody has locked it again
            raise OutcomeUnknown("the connection was lost")

    engine.before = lose
    for op in ("op-1", None):
        engine.lock("x")
        engine.before = lose
        callers = block(hk, engine, [hold(hk, "x", op=op)])
        engine.unlock("x")
        engine.wait_blocked()
        engine.unlock("x")
        assert isinstance(callers.join()[0], Hold)
    assert hk.pool("x").held == 2


def together(hk: Any, engine: LockableEngine, calls: Sequence[Any]) -> CallerThreads:
    """All calls in one batch of the main queue, behind a first one."""
    gate, entered = threading.Event(), threading.Event()
    script = engine.before

    def stand(groups: Sequence[Group], wait_for_locks: bool) -> None:
        entered.set()
        assert gate.wait(PATIENCE)

    engine.before = stand
    callers = CallerThreads()
    first = CallerThreads()
    first.start(hold(hk, "free"))
    assert entered.wait(PATIENCE)
    for index, call in enumerate(calls):
        callers.start(call)
        wait_until(lambda index=index: len(group_commit(hk).main.queue) == index + 1)  # type: ignore[misc]
    engine.before = script
    gate.set()
    first.join()
    return callers


def test_one_that_cannot_be_asked_about_does_not_stop_the_questions(hk: Any, engine: LockableEngine) -> None:
    def lose(groups: Sequence[Group], wait_for_locks: bool) -> None:
        engine.before = None
        engine.lock("x")
        raise OutcomeUnknown("the connection was lost")

    engine.before = lose
    callers = together(hk, engine, [hold(hk, "x"), hold(hk, "x", op="op-1"), hold(hk, "free", op="op-2")])
    minted, by_op, free = callers.join()
    assert isinstance(minted, OutcomeUnknown)
    assert isinstance(by_op, OutcomeUnknown)
    assert isinstance(free, Hold)


def test_an_interrupt_that_does_not_come_again_is_passed_on_though_some_are_skipped(
    engine: LockableEngine, mode: Sync | Async
) -> None:
    def once(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if len(groups) == 3:
            engine.before = None
            raise RuntimeError("time limit")

    engine.proves = True
    for hk in opened(mode, engine):
        engine.before = once
        engine.lock("x")
        callers = together(hk, engine, [hold(hk, "free"), hold(hk, "x"), hold(hk, "free")])
        wait_until(lambda: len(callers.results) == 2)  # noqa: B023
        engine.unlock("x")
        leader, *others = callers.join()
        assert isinstance(leader, RuntimeError if mode.name == "sync" else Hold)
        assert all(isinstance(answer, Hold) for answer in others)
        assert hk.pool("free").held == 3


def test_an_unexpected_error_is_unknown_where_nothing_can_be_proved(hk: Any, engine: LockableEngine) -> None:
    def fail(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks:
            raise ZeroDivisionError

    mine = hold(hk, "x")()
    engine.before = fail
    engine.lock("x")
    callers = block(hk, engine, [lambda: hk.extend(mine, by=1)])
    engine.unlock("x")
    assert isinstance(callers.join()[0], OutcomeUnknown)
    assert not isinstance(callers.results[0], PromiseBroken)


# Patience has an end


def test_who_is_skipped_again_and_again_is_turned_away(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x")
    engine.skip_anyway = lambda groups: dict.fromkeys(range(len(groups)), "pool x")
    callers = block(hk, engine, [hold(hk, "x")])
    engine.unlock("x")
    (turned_away,) = callers.join()
    assert isinstance(turned_away, Overloaded)
    assert "pool x is locked" in str(turned_away)
    assert engine.wait_for_locks == [0, 0, 0]
    assert hk.pool("x").held == 0
    no_lock_queues(hk)


def test_who_has_to_wait_for_something_else_goes_to_its_lock_queue(hk: Any, engine: LockableEngine) -> None:
    once = [{0: "pool y"}]
    engine.skip_anyway = lambda groups: once.pop() if once else {}
    engine.lock("x")
    callers = block(hk, engine, [hold(hk, "x", "y")])
    engine.unlock("x")
    assert isinstance(callers.join()[0], Hold)
    assert engine.wait_for_locks == [0, 1]
    no_lock_queues(hk)


@pytest.fixture
def two_lock_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdkit.kernel.lock_queues.MAX_QUEUES", 2)


@pytest.mark.usefixtures("two_lock_queues")
def test_more_than_there_are_lock_queues_wait_for_one(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x", "y", "z")
    callers = block(hk, engine, [hold(hk, "x")])
    callers.start(hold(hk, "y"))
    engine.wait_blocked()
    callers.start(hold(hk, "z"))
    callers.start(hold(hk, "z"))
    wait_until(lambda: len(lock_queues_of(hk)._waiting) == 2)
    assert isinstance(hold(hk, "free")(), Hold), "others go on"
    engine.unlock("y")
    wait_until(lambda: 1 in callers.results)
    engine.wait_blocked()  # the room that became free is theirs now
    assert sorted(lock_queues_of(hk).open) == ["pool x", "pool z"]
    engine.unlock("x", "z")
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert [hk.pool(pool).held for pool in ("x", "y", "z", "free")] == [1, 1, 2, 1]
    no_lock_queues(hk)


@pytest.mark.usefixtures("two_lock_queues")
def test_nobody_waits_for_a_lock_queue_for_ever(mode: Sync | Async) -> None:
    engine = LockableEngine()
    engine.limits = Limits(lock_timeout=20_000)  # for the rooms alone: the engine's own turns are as patient as ever
    for hk in opened(mode, engine):
        engine.lock("x", "y", "z")
        callers = block(hk, engine, [hold(hk, "x")])
        callers.start(hold(hk, "y"))
        engine.wait_blocked()
        with pytest.raises(Overloaded, match="pool z is locked by another transaction, and so is much else"):
            hold(hk, "z")()
        engine.unlock()
        assert all(isinstance(answer, Hold) for answer in callers.join())
        assert hk.pool("z").held == 0
        no_lock_queues(hk)


def test_lock_queues_take_half_of_the_queue_at_most(mode: Sync | Async) -> None:
    """So many may wait for locks; whoever waits for none has the rest, and all of it again afterwards."""
    engine = LockableEngine(Limits(max_queue=6))
    for hk in opened(mode, engine):
        engine.lock("x")
        callers = block(hk, engine, [hold(hk, "x")] * 3)
        with pytest.raises(Overloaded, match="3 commands are waiting for locks"):
            hold(hk, "x")()
        assert group_commit(hk).main.queue.bound == 3
        assert isinstance(hold(hk, "free")(), Hold)
        engine.unlock("x")
        assert all(isinstance(answer, Hold) for answer in callers.join())
        assert hk.pool("x").held == 3
        no_lock_queues(hk)


def test_a_batch_larger_than_the_bound_is_let_in_when_nobody_waits(mode: Sync | Async) -> None:
    engine = LockableEngine(Limits(max_queue=2))
    for hk in opened(mode, engine):
        engine.lock("x")
        callers = block(hk, engine, [lambda: hk.apply([PlaceHold(legs=(Leg("x"),), ttl=60)] * 5)])  # noqa: B023
        engine.unlock("x")
        assert len(callers.join()[0]) == 5
        no_lock_queues(hk)


# Closing


def test_closing_finishes_what_is_in_lock_queues(hk: Any, engine: LockableEngine) -> None:
    engine.lock("x", "y")
    callers = block(hk, engine, [hold(hk, "x")] * 3)
    callers.start(hold(hk, "y"))
    engine.wait_blocked()
    closing = CallerThreads()
    closing.start(hk.close)
    wait_until(lambda: hk._executor.closed)
    with pytest.raises(EngineError, match="closed"):
        hold(hk, "free")()
    assert closing.results == {}
    assert not closed(engine)
    engine.unlock("x", "y")
    assert all(isinstance(answer, Hold) for answer in callers.join())
    closing.join()
    assert closed(engine)
    assert sorted(engine.wait_for_locks) == [1, 1, 2]


@pytest.mark.usefixtures("two_lock_queues")
def test_closing_answers_who_waits_for_a_lock_queue(hk: Any, engine: LockableEngine, mode: Sync | Async) -> None:
    engine.lock("x", "y", "z")
    callers = block(hk, engine, [hold(hk, "x")])
    callers.start(hold(hk, "y"))
    engine.wait_blocked()
    callers.start(hold(hk, "z"))
    wait_until(lambda: len(lock_queues_of(hk)._waiting) == 1)
    closing = CallerThreads()
    closing.start(hk.close)
    wait_until(lambda: hk._executor.closed)
    engine.unlock()
    first, second, third = callers.join()
    assert isinstance(first, Hold)
    assert isinstance(second, Hold)
    if mode.name == "sync":
        assert isinstance(third, EngineError)
    else:
        assert isinstance(third, Hold), "a task's submission moves on by itself"
    closing.join()
    assert engine.closed


def test_many_callers_and_locks_that_come_and_go(hk: Any, engine: LockableEngine) -> None:
    """Stress: nobody is lost, nothing is done twice, every unit is accounted for."""
    hk.create_pool("a", 10**6)
    hk.create_pool("b", 10**6)
    callers = CallerThreads()
    stop = threading.Event()

    def work(*pools: str) -> int:
        for _ in range(30):
            hk.confirm(hk.hold(dict.fromkeys(pools, 1), ttl=60))
        return 30

    def meddle() -> None:
        while not stop.is_set():
            engine.lock("a", "b")
            stop.wait(0.001)
            engine.unlock("a")
            stop.wait(0.001)
            engine.unlock("b")

    meddler = threading.Thread(target=meddle, daemon=True)
    meddler.start()
    for pools in (("a",), ("b",), ("a", "b"), ("free",)) * 3:
        hk.admin.resize_pool("free", 10**6)
        callers.start(partial(work, *pools))
    assert callers.join() == [30] * 12
    stop.set()
    meddler.join()
    assert [hk.pool(pool).consumed for pool in ("a", "b", "free")] == [180, 180, 90]
    assert hk.admin.verify().ok
    no_lock_queues(hk)
