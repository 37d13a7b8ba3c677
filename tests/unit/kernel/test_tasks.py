"""What only tasks meet: cancellation, a loop that closes, a second loop; and closing with calls queued."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from holdkit import AsyncKernel, Hold, connect_async
from holdkit.core.bounds import Limits
from holdkit.errors import EngineError, HoldNotFound
from holdkit.kernel import batch_worker
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.async_group_commit import AsyncGroupCommit
from holdkit.kernel.batch_worker import MAX_TURNS
from tests.support.threads import PATIENCE, no_threads_left, wait_until
from tests.support.watched_engine import WatchedEngine

T = TypeVar("T")


def run(test: Callable[[AsyncKernel, WatchedEngine], Awaitable[T]], engine: WatchedEngine | None = None) -> T:
    """Run a test on a kernel with a pool of 10."""
    before = set(threading.enumerate())

    async def main() -> T:
        watched = engine or WatchedEngine()
        hk = AsyncKernel(AsyncExecutor(watched))
        await hk.create_pool("p", 10)
        watched.entered = threading.Semaphore(0)
        watched.batches.clear()
        try:
            return await test(hk, watched)
        finally:
            watched.gate.set()
            await hk.close()

    async def bounded() -> T:
        return await asyncio.wait_for(main(), PATIENCE)

    result = asyncio.run(bounded())
    no_threads_left(before)
    return result


async def entered(engine: WatchedEngine) -> None:
    """Wait until a batch stands before the gate, without stopping the loop."""
    await asyncio.to_thread(engine.wait_entered)


async def start(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that has run to its first wait."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0)
    return task


def test_all_waiting_tasks_ride_together_from_the_first_batch() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        await hk.create_pool("big", 1000)
        engine.batches.clear()
        holds = await asyncio.gather(*[hk.hold("big", 1, ttl=60) for _ in range(256)])
        assert engine.batches == [256]
        assert len({hold.id for hold in holds}) == 256

    run(test)


def test_tasks_that_come_back_ride_together_again() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        await hk.create_pool("big", 1000)
        engine.batches.clear()

        async def thrice() -> None:
            for _ in range(3):
                await hk.hold("big", 1, ttl=60)

        await asyncio.gather(*[thrice() for _ in range(20)])
        assert engine.batches == [20, 20, 20]

    run(test)


def test_tasks_that_come_back_ride_with_those_who_queued_meanwhile() -> None:
    """The pump gives the woken their turn before it takes the next batch; else batches alternate between the two halves."""

    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        async def twice() -> None:
            await hk.admin.records.put("k", "a", "1")
            await hk.admin.records.put("k", "a", "2")

        engine.gate.clear()
        tasks = [asyncio.create_task(twice()) for _ in range(10)]
        await entered(engine)
        tasks += [asyncio.create_task(twice()) for _ in range(10)]
        await asyncio.sleep(0)
        engine.gate.set()
        await asyncio.gather(*tasks)
        assert engine.batches == [10, 20, 10]

    run(test)


@pytest.mark.parametrize(("turns", "first"), [(MAX_TURNS, 10), (0, 1)], ids=["as it is", "canary: without waiting"])
def test_callers_who_come_back_one_after_the_other_share_a_batch(
    monkeypatch: pytest.MonkeyPatch, turns: int, first: int
) -> None:
    monkeypatch.setattr(batch_worker, "MAX_TURNS", turns)

    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        await asyncio.gather(*[hk.admin.records.put("k", str(n), "1") for n in range(20)])
        engine.batches.clear()
        tasks = [await start(hk.admin.records.put("k", str(n), "2")) for n in range(20)]  # one in each turn of the loop
        await asyncio.gather(*tasks)
        assert engine.batches[0] == first
        assert sum(engine.batches) == 20

    run(test)


def test_a_lone_caller_after_many_is_not_kept_waiting_for_company() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        await asyncio.gather(*[hk.admin.records.put("k", str(n), "1") for n in range(20)])
        engine.batches.clear()
        await hk.admin.records.put("k", "a", "2")
        await hk.admin.records.put("k", "a", "3")
        assert engine.batches == [1, 1]

    run(test)


def test_cancelled_while_queued_is_certainly_not_applied() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        engine.gate.clear()
        first = await start(hk.hold("p", 1, ttl=60))
        await entered(engine)
        second = await start(hk.hold("p", 2, ttl=60))
        third = await start(hk.hold("p", 3, ttl=60))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        engine.gate.set()
        await first
        await third
        assert (await hk.pool("p")).held == 4
        assert engine.batches == [1, 1]

    run(test)


def test_cancelled_in_flight_runs_on() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        engine.gate.clear()
        task = await start(hk.hold("p", 2, ttl=60))
        await entered(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        await hk.hold("p", 1, ttl=60)
        assert (await hk.pool("p")).held == 3

    run(test)


@pytest.mark.parametrize("block", ["holding", "lease"])
def test_a_hold_granted_to_a_cancelled_block_is_released_again(block: str) -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        async def body() -> None:
            async with getattr(hk, block)("p", 2, ttl=60):
                raise AssertionError("never entered")

        engine.gate.clear()
        task = await start(body())
        await entered(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        await hk.admin.records.put("k", "barrier", "1")  # behind the batch in flight; the release is queued by then
        await hk.admin.records.put("k", "barrier", "1")
        assert (await hk.pool("p")).held == 0
        story = [entry for entry in await hk.journal.list() if entry.action.startswith("hold.")]
        assert [entry.action for entry in story] == ["hold.held", "hold.released"]
        assert story[1].reason == "cancelled"

    run(test)


def test_a_block_cancelled_in_the_same_turn_as_its_grant_is_released_too() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        async def body() -> None:
            async with hk.holding("p", 2, ttl=60):
                raise AssertionError("never entered")

        task = await start(body())
        settle = hk._executor.group_commit.main._settle

        def settle_and_cancel(batch: Any, wrote: bool) -> None:
            settle(batch, wrote)
            task.cancel()  # the answer is there, and the task has not run yet

        hk._executor.group_commit.main._settle = settle_and_cancel  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await task
        hk._executor.group_commit.main._settle = settle  # type: ignore[method-assign]
        await hk.admin.records.put("k", "barrier", "1")
        assert (await hk.pool("p")).held == 0
        assert (await hk.holds())[0].state == "released"

    run(test)


def test_a_replayed_grant_is_not_taken_back_from_whoever_got_it_first() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        first = await hk.hold("p", 2, ttl=60, op="op-1")

        async def body() -> None:
            async with hk.holding("p", 2, ttl=60, op="op-1"):
                raise AssertionError("never entered")

        engine.gate.clear()
        engine.entered = threading.Semaphore(0)
        task = await start(body())
        await entered(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        await hk.admin.records.put("k", "barrier", "1")
        await hk.admin.records.put("k", "barrier", "1")
        assert (await hk.get(first)).state == "held"

    run(test)


def test_the_end_of_a_block_is_not_lost_when_it_is_cancelled_while_queued() -> None:
    """The body left normally: its confirm stays in the queue, whatever happens to the task that waits for it."""

    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        inside, leave = asyncio.Event(), asyncio.Event()

        async def body() -> None:
            async with hk.holding("p", 2, ttl=60):
                inside.set()
                await leave.wait()

        task = asyncio.create_task(body())
        await inside.wait()
        engine.gate.clear()
        engine.entered = threading.Semaphore(0)
        blocker = await start(hk.admin.records.put("k", "blocker", "1"))
        await entered(engine)
        leave.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(hk._executor.group_commit.main.queue) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine.gate.set()
        await blocker
        await hk.admin.records.put("k", "barrier", "1")
        assert (await hk.pool("p")).consumed == 2

    run(test)


def test_a_body_that_is_cancelled_releases() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        inside = asyncio.Event()

        async def body() -> None:
            async with hk.holding("p", 2, ttl=60):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await hk.pool("p")).held == 0
        assert (await hk.holds())[0].reason == "CancelledError"

    run(test)


def test_closing_finishes_what_is_queued_and_refuses_what_comes() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        engine.gate.clear()
        tasks = [await start(hk.hold("p", 1, ttl=60))]
        await entered(engine)
        tasks += [await start(hk.hold("p", 1, ttl=60)) for _ in range(3)]
        closing = await start(hk.close())
        with pytest.raises(EngineError, match="closed: connect again"):
            await hk.hold("p", 1, ttl=60)
        assert engine.closed is False
        engine.gate.set()
        assert all(isinstance(hold, Hold) for hold in await asyncio.gather(*tasks))
        await closing
        assert vars(engine)["closed"]
        assert engine.batches == [1, 3]
        await hk.close()

    run(test)


def test_a_cancelled_close_can_be_called_again() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        engine.gate.clear()
        held = await start(hk.hold("p", 1, ttl=60))
        await entered(engine)
        closing = await start(hk.close())
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        engine.gate.set()
        await held
        await hk.close()
        assert engine.closed

    run(test)


def test_a_kernel_belongs_to_its_loop() -> None:
    async def open_one() -> AsyncKernel:
        engine = WatchedEngine()
        return AsyncKernel(AsyncExecutor(engine))

    async def use(hk: AsyncKernel) -> None:
        for call in (hk.hold("p", 1, ttl=60), hk.pool("p"), hk.journal.list()):
            with pytest.raises(EngineError, match="another event loop"):
                await call
        await hk.close()  # its loop is closed: nothing is left to wait for
        await hk.close()

    before = set(threading.enumerate())
    hk = asyncio.run(open_one())
    asyncio.run(use(hk))
    no_threads_left(before)


def test_a_loop_closed_under_a_batch_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    engine = WatchedEngine()

    async def leave_in_flight() -> AsyncKernel:
        hk = AsyncKernel(AsyncExecutor(engine))
        engine.gate.clear()
        task = await start(hk.create_pool("p", 1))
        await entered(engine)
        task.cancel()
        return hk

    hk = asyncio.run(leave_in_flight())
    engine.gate.set()
    asyncio.run(hk.close())
    no_threads_left(before)


def test_a_loop_in_another_thread_is_refused_while_a_task_of_the_kernels_loop_runs() -> None:
    async def use(hk: AsyncKernel) -> None:
        with pytest.raises(EngineError, match="another event loop"):
            await hk.hold("p", 1, ttl=60)

    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(asyncio.run, use(hk)).result()  # waits without a turn of the loop: this task runs meanwhile

    run(test)


def test_a_loop_that_moves_to_another_thread_takes_its_kernel_along() -> None:
    loop = asyncio.new_event_loop()

    async def hold(hk: AsyncKernel) -> str:
        return (await hk.hold("p", 1, ttl=60)).state

    async def refused(hk: AsyncKernel) -> None:
        with pytest.raises(EngineError, match="another event loop"):
            await hold(hk)

    async def opened() -> AsyncKernel:
        hk = AsyncKernel(AsyncExecutor(WatchedEngine()))
        await hk.create_pool("p", 10)
        return hk

    hk = loop.run_until_complete(opened())
    with ThreadPoolExecutor(1) as other:
        assert other.submit(loop.run_until_complete, hold(hk)).result() == "held"
    asyncio.run(refused(hk))
    assert loop.run_until_complete(hold(hk)) == "held"
    loop.run_until_complete(hk.close())
    loop.close()


def test_a_forgotten_kernel_takes_its_thread_along() -> None:
    before = set(threading.enumerate())

    async def forget() -> weakref.ref[AsyncGroupCommit]:
        hk = await connect_async("memory://")
        await hk.create_pool("p", 1)
        return weakref.ref(hk._executor.group_commit)

    group_commit = asyncio.run(forget())
    gc.collect()
    assert group_commit() is None
    no_threads_left(before)


def test_a_writer_interrupted_by_a_base_exception_serves_the_next_batch() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        def exit_once(_: Any) -> None:
            engine.before = None
            raise SystemExit

        engine.before = exit_once
        with pytest.raises(Exception, match="interrupted while the batch was being written"):
            await hk.create_pool("q", 1)
        assert (await hk.create_pool("q", 1)).total == 1

    run(test)


def test_an_async_kernel_reads_off_the_loop() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        reading = threading.Event()
        free = threading.Event()

        def stop(_: Any) -> None:
            reading.set()
            assert free.wait(PATIENCE)

        engine.reading = stop
        read = await start(hk.pool("p"))
        await asyncio.to_thread(reading.wait, PATIENCE)
        engine.reading = None
        assert (await hk.hold("p", 1, ttl=60)).state == "held", "a slow read delays nobody"
        free.set()
        await read

    run(test)


def test_cancelling_does_not_count_against_the_queue() -> None:
    async def test(hk: AsyncKernel, engine: WatchedEngine) -> None:
        engine.gate.clear()
        first = await start(hk.hold("p", 1, ttl=60))
        await entered(engine)
        for _ in range(20):
            task = await start(hk.hold("p", 1, ttl=60))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        engine.gate.set()
        await first
        with pytest.raises(HoldNotFound):
            await hk.get("0" * 32)
        assert hk._executor.group_commit.main.queue.commands == 0

    run(test, WatchedEngine(limits=Limits(max_queue=2)))


def test_a_cancelled_connect_closes_what_it_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opening, go = threading.Event(), threading.Event()
    engine = WatchedEngine()

    def slow(*_: Any, **__: Any) -> WatchedEngine:
        opening.set()
        assert go.wait(PATIENCE)
        return engine

    monkeypatch.setattr("holdkit.faces.opening.open_engine", slow)

    async def main() -> None:
        task = await start(connect_async("memory://"))
        await asyncio.to_thread(opening.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await asyncio.to_thread(wait_until, lambda: engine.closed)

    asyncio.run(main())
