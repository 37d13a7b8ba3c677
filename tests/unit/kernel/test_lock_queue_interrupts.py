"""Cancelled tasks and interrupted threads in lock queues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any, TypeVar

import pytest

from holdkit import AsyncKernel, Hold, Kernel, OutcomeUnknown
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.outcomes import Done
from holdkit.engines.durability import IN_MEMORY
from holdkit.engines.port import AddLate, Applied, Capabilities
from holdkit.engines.settings import StoredLimits
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.fair_queue import FairQueue
from holdkit.kernel.group_commit import GroupCommit
from tests.support.interrupts import Interrupted, interrupt, interrupted_anywhere
from tests.support.kernels import no_lines
from tests.support.lockable_engine import LockableEngine, lock_queues_of, no_lock_queues, queued_behind_locks
from tests.support.modes import Sync, close_quietly
from tests.support.threads import PATIENCE, no_threads_left, wait_until
from tests.unit.kernel.test_lock_queues import block, hold

T = TypeVar("T")


# Tasks


def run(test: Callable[[AsyncKernel, LockableEngine], Awaitable[None]]) -> None:
    """Run a test on a kernel whose pool `x` is locked."""
    before = set(threading.enumerate())
    engine = LockableEngine()

    async def main() -> None:
        hk = AsyncKernel(AsyncExecutor(engine))
        await hk.create_pool("x", 100)
        await hk.create_pool("free", 100)
        engine.lock("x")
        try:
            await test(hk, engine)
        finally:
            engine.unlock()
            await hk.close()
        assert not lock_queues_of(hk).open

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    no_threads_left(before)


async def blocked(engine: LockableEngine) -> None:
    await asyncio.to_thread(engine.wait_blocked)


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Let the loop turn until others have got there: for states that give no signal."""
    while True:
        reached = condition()
        if reached if isinstance(reached, bool) else await reached:
            return
        await asyncio.sleep(0)


async def used(hk: AsyncKernel, held: int, consumed: int) -> bool:
    pool = await hk.pool("x")
    return (pool.held, pool.consumed) == (held, consumed)


async def started(hk: AsyncKernel, coroutine: Coroutine[Any, Any, T], behind: int) -> asyncio.Task[T]:
    """A task that is queued in a room, with so many in front of it."""
    task = asyncio.create_task(coroutine)
    await until(lambda: queued_behind_locks(hk) == behind + 1)
    return task


def test_cancelled_while_queued_in_a_lock_queue_is_certainly_not_applied() -> None:
    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        first = asyncio.create_task(hk.hold("x", 1, ttl=60))
        await blocked(engine)
        second = await started(hk, hk.hold("x", 2, ttl=60), 0)
        third = await started(hk, hk.hold("x", 3, ttl=60), 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert queued_behind_locks(hk) == 1
        engine.unlock("x")
        await asyncio.gather(first, third)
        assert (await hk.pool("x")).held == 4
        assert engine.wait_for_locks == [1, 1]

    run(test)


def test_cancelled_while_waiting_for_a_lock_queue_is_certainly_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdkit.kernel.lock_queues.MAX_QUEUES", 1)

    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        first = asyncio.create_task(hk.hold("x", 1, ttl=60))
        await blocked(engine)
        engine.lock("free")
        second = asyncio.create_task(hk.hold("free", 1, ttl=60))
        await until(lambda: bool(lock_queues_of(hk)._waiting))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not lock_queues_of(hk)._waiting
        engine.unlock()
        await first
        assert (await hk.pool("free")).held == 0

    run(test)


def test_cancelled_in_flight_in_a_lock_queue_runs_on() -> None:
    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        task = asyncio.create_task(hk.hold("x", 2, ttl=60))
        await blocked(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.unlock("x")
        await hk.close()
        assert engine.wait_for_locks == [1]

    run(test)


def test_cancelled_in_flight_and_then_skipped_is_dropped() -> None:
    """Nobody wants it any more, and nothing of it was done."""

    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        gate, entered = threading.Event(), threading.Event()

        def stand(groups: Sequence[Group], wait_for_locks: bool) -> None:
            entered.set()
            gate.wait(PATIENCE)

        engine.before = stand
        task = asyncio.create_task(hk.hold("x", 2, ttl=60))
        await asyncio.to_thread(entered.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await hk.hold("free", 1, ttl=60)
        assert not lock_queues_of(hk).open
        assert engine.wait_for_locks == []

    run(test)


@pytest.mark.parametrize("kind", ["holding", "lease"])
def test_a_grant_that_nobody_received_is_taken_back_though_its_pool_is_locked_again(kind: str) -> None:
    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        async def body() -> None:
            async with getattr(hk, kind)("x", 2, ttl=60):
                raise AssertionError("never entered")

        task = asyncio.create_task(body())
        await blocked(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        def again(groups: Sequence[Group], wait_for_locks: bool) -> None:
            engine.after = None
            engine.lock("x")

        engine.after = again
        engine.unlock("x")
        await blocked(engine)  # the release has come to the room too
        assert (await hk.pool("x")).held == 2
        engine.unlock("x")
        await until(lambda: used(hk, 0, 0))
        assert (await hk.holds())[0].reason == "cancelled"

    run(test)


def test_the_end_of_a_block_is_not_lost_when_it_is_cancelled_in_a_lock_queue() -> None:
    """The body left normally: its confirm stays, wherever it waits, whatever happens to the task that waits for it."""

    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        engine.unlock("x")
        inside, leave = asyncio.Event(), asyncio.Event()

        async def body() -> None:
            async with hk.holding("x", 2, ttl=60):
                inside.set()
                await leave.wait()

        task = asyncio.create_task(body())
        await inside.wait()
        engine.lock("x")
        first = asyncio.create_task(hk.hold("x", 1, ttl=60))
        await blocked(engine)
        leave.set()
        await until(lambda: queued_behind_locks(hk) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.unlock("x")
        await first
        await until(lambda: used(hk, 1, 2))

    run(test)


def test_the_end_of_a_block_is_not_lost_when_it_is_cancelled_in_flight_and_then_skipped() -> None:
    async def test(hk: AsyncKernel, engine: LockableEngine) -> None:
        engine.unlock("x")
        inside, leave = asyncio.Event(), asyncio.Event()

        async def body() -> None:
            async with hk.holding("x", 2, ttl=60):
                inside.set()
                await leave.wait()

        task = asyncio.create_task(body())
        await inside.wait()
        gate, entered = threading.Event(), threading.Event()

        def stand(groups: Sequence[Group], wait_for_locks: bool) -> None:
            entered.set()
            assert gate.wait(PATIENCE)

        engine.lock("x")
        engine.before = stand
        leave.set()
        await asyncio.to_thread(entered.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await blocked(engine)
        engine.unlock("x")
        await until(lambda: used(hk, 0, 2))

    run(test)


def test_a_loop_closed_under_a_lock_queue_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    engine = LockableEngine()
    loop = asyncio.new_event_loop()

    async def begin() -> AsyncKernel:
        hk = AsyncKernel(AsyncExecutor(engine))
        await hk.create_pool("x", 100)
        engine.lock("x")
        asyncio.ensure_future(hk.hold("x", 1, ttl=60)).add_done_callback(lambda task: task.cancelled())
        await blocked(engine)
        return hk

    hk = loop.run_until_complete(begin())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.run(hk.close())
    engine.unlock()
    assert engine.closed
    no_threads_left(before)


# Threads


@pytest.fixture
def engine() -> LockableEngine:
    return LockableEngine()


@pytest.fixture
def hk(engine: LockableEngine) -> Iterator[Kernel]:
    kernel: Kernel = Sync().open(engine)
    for pool in ("x", "y", "free"):
        kernel.create_pool(pool, 100)
    engine.lock("x")
    yield kernel
    engine.unlock()
    close_quietly(kernel)


def test_a_thread_interrupted_while_it_waits_in_a_lock_queue_is_removed(hk: Kernel, engine: LockableEngine) -> None:
    callers = block(hk, engine, [hold(hk, "x")] * 4)
    (room,) = lock_queues_of(hk).open.values()
    woken = [*room.queue][1].woken
    interrupt(callers._threads[2])
    woken.release()  # a lock is waited for in C: the interrupt strikes when it returns
    wait_until(lambda: queued_behind_locks(hk) == 2)
    engine.unlock("x")
    answers = callers.join()
    assert isinstance(answers.pop(2), Interrupted)
    assert all(isinstance(answer, Hold) for answer in answers)
    assert hk.pool("x").held == 3
    no_lock_queues(hk)


def test_a_leader_interrupted_in_a_lock_queue_leaves_unknown_what_it_had_sent_and_the_rest_goes_on(
    hk: Kernel, engine: LockableEngine
) -> None:
    mine = hk.hold("y", 1, ttl=60)
    engine.lock("y")

    def bite(groups: Sequence[Group], wait_for_locks: bool) -> None:
        if wait_for_locks and len(groups) == 3:
            engine.after = None
            raise Interrupted

    engine.after = bite
    callers = block(hk, engine, [hold(hk, "y"), *[lambda: hk.extend(mine, by=1)] * 3])
    engine.unlock("y")
    first, leader, *sent = callers.join()
    assert isinstance(first, Hold)
    assert isinstance(leader, Interrupted)
    assert [type(answer) for answer in sent] == [OutcomeUnknown] * 2
    assert isinstance(hk.hold("y", 1, ttl=60), Hold)
    no_lock_queues(hk)


def test_a_leader_interrupted_before_it_sends_leaves_the_others_in_the_lock_queue(
    hk: Kernel, engine: LockableEngine
) -> None:
    interrupted: list[str] = []
    real = FairQueue.take

    def take(self: FairQueue, batch: list[Any], **bounds: Any) -> None:
        real(self, batch, **bounds)
        if len(batch) == 3 and not interrupted:
            interrupted.append("once")
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairQueue, "take", take)
        callers = block(hk, engine, [hold(hk, "x")] * 4)
        engine.unlock("x")
        first, leader, *others = callers.join()
    assert isinstance(first, Hold)
    assert isinstance(leader, Interrupted)
    assert all(isinstance(answer, Hold) for answer in others)
    assert hk.pool("x").held == 3
    no_lock_queues(hk)


def test_a_thread_interrupted_while_it_waits_for_a_lock_queue_is_removed(
    hk: Kernel, engine: LockableEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdkit.kernel.lock_queues.MAX_QUEUES", 1)
    callers = block(hk, engine, [hold(hk, "x")])
    engine.lock("y")
    callers.start(hold(hk, "y"))
    wait_until(lambda: len(lock_queues_of(hk)._waiting) == 1)
    interrupt(callers._threads[1])
    (standing,) = lock_queues_of(hk)._waiting
    standing.woken.release()
    wait_until(lambda: 1 in callers.results)
    assert isinstance(callers.results[1], Interrupted)
    engine.unlock()
    assert isinstance(callers.join()[0], Hold)
    assert hk.pool("y").held == 0
    no_lock_queues(hk)


class SkippingEngine:
    """An engine whose batches are applied in one step, so that no interrupt splits one. Unless it waits for locks, it skips most
    groups, as if their pools were locked."""

    url, limits, lanes, durability = "skipping://", Limits(), 1, IN_MEMORY
    stored = StoredLimits(limits)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def __init__(self) -> None:
        self.applied: list[str] = []
        self._turn = count()

    def clock(self) -> int:
        return 0

    def read(self, query: Any, *, durable: bool = False) -> Any:
        return []

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        skipped = (
            {}
            if wait_for_locks
            else {n: f"pool {next(self._turn) % 3}" for n in range(len(groups)) if next(self._turn) % 4}
        )
        here = [group for index, group in enumerate(groups) if index not in skipped]
        outcomes: list[Any] = [[] if index in skipped else [Done(slot=0)] for index in range(len(groups))]
        applied = Applied(outcomes, None, True, skipped)
        self.applied.extend([group.commands[0].id for group in here])  # type: ignore[union-attr, misc]
        return applied

    def close(self) -> None:
        pass


class GrowingBatchEngine(SkippingEngine):
    """The same, for growing batches: it adds the calls that have come meanwhile."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(growing_batches=self)

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate, *, until: float = inf) -> Applied:
        return self.apply([*groups, *add_late(lambda group: True)], wait_for_locks=True)


@pytest.mark.parametrize("engine", [SkippingEngine, GrowingBatchEngine])
def test_threads_interrupted_anywhere_in_lock_queues_leave_nobody_waiting_and_nothing_applied_twice(
    engine: type[SkippingEngine],
) -> None:
    group_commit = GroupCommit(engine(), no_lines)  # type: ignore[arg-type]
    interrupted_anywhere(group_commit, rounds=200)
    assert not group_commit._lock_queues.open
    assert not group_commit._lock_queues._waiting
