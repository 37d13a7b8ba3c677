"""Tasks on an engine that applies batches on the event loop: each call is answered once, and batches overlap."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf

import pytest

import holdkit
from holdkit import AsyncKernel, Hold, InsufficientCapacity, OutcomeUnknown
from holdkit.core.commands import Group
from holdkit.engines import deadlines
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, Capabilities, NeedsThread
from holdkit.kernel import batch_worker
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.batch_worker import MAX_LOOP_COMMANDS, SPLIT_BATCH_AT
from tests.support.threads import PATIENCE


class LoopEngine(MemoryEngine):
    """The memory engine as one that flies: a batch is applied when it is let go, on the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.flown: list[int] = []
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()
        self.sent_first = True
        self.trouble: Exception | None = None
        self.until: list[float] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(async_apply=self)

    async def apply_async(
        self, groups: Sequence[Group], sent: Callable[[], None] | None, *, until: float = inf
    ) -> Applied:
        self.flown.append(len(groups))
        self.until.append(until)
        self.begun.put_nowait(len(groups))
        if self.sent_first and sent is not None:
            sent()
        await asyncio.sleep(0)
        await self.gate.wait()
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        return self.apply(groups)


async def kernel(total: int = 10**6) -> tuple[AsyncKernel, LoopEngine]:
    engine = LoopEngine()
    hk = AsyncKernel(AsyncExecutor(engine))
    await hk.create_pool("p", total)
    engine.flown.clear()
    engine.begun.get_nowait()
    return hk, engine


async def hold_all(hk: AsyncKernel, callers: int, each: int = 3) -> list[Hold]:
    async def caller() -> list[Hold]:
        return [await hk.hold("p", 1, ttl=60) for _ in range(each)]

    return [hold for holds in await asyncio.gather(*[caller() for _ in range(callers)]) for hold in holds]


def test_many_go_in_halves_and_few_together() -> None:
    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            assert len({hold.id for hold in await hold_all(hk, SPLIT_BATCH_AT)}) == 3 * SPLIT_BATCH_AT
            assert engine.flown == [SPLIT_BATCH_AT // 2] * 6
            engine.flown.clear()
            await hold_all(hk, 8)
            assert engine.flown == [8] * 3
            assert (await hk.pool("p")).held == 3 * (SPLIT_BATCH_AT + 8)

    asyncio.run(scene())


def test_a_batch_too_large_for_the_loop_goes_to_the_thread() -> None:
    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            commands = [
                holdkit.commands.PlaceHold(legs=(holdkit.Leg("p"),), ttl=60) for _ in range(MAX_LOOP_COMMANDS + 1)
            ]
            assert all(isinstance(outcome.value, Hold) for outcome in await hk.apply(commands))
            assert engine.flown == []

    asyncio.run(scene())


def test_the_answers_of_one_batch_are_given_while_the_next_is_written() -> None:
    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            engine.gate.clear()
            first = [asyncio.ensure_future(hk.hold("p", 1, ttl=60)) for _ in range(2)]
            await engine.begun.get()
            second = [asyncio.ensure_future(hk.hold("p", 1, ttl=60)) for _ in range(2)]
            await asyncio.sleep(0)
            engine.gate.set()
            await asyncio.gather(*first)
            assert engine.flown == [2, 2], "the next had begun when these were told"
            await asyncio.gather(*second)

    asyncio.run(scene())


def test_answers_do_not_wait_long_for_a_batch_that_does_not_get_under_way() -> None:
    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            engine.sent_first = False
            engine.gate.clear()
            first = asyncio.ensure_future(hk.hold("p", 1, ttl=60))
            await engine.begun.get()
            second = asyncio.ensure_future(hk.hold("p", 1, ttl=60))
            await asyncio.sleep(0)
            engine.gate.set()
            await engine.begun.get()
            engine.gate.clear()
            await asyncio.wait_for(first, PATIENCE)
            assert not second.done()
            engine.gate.set()
            await second

    asyncio.run(scene())


@pytest.mark.parametrize("trouble", [NeedsThread(), OutcomeUnknown("who knows"), ValueError("a bug")], ids=repr)
def test_whatever_happens_up_there_everybody_is_answered(trouble: Exception) -> None:
    """Grounded: the thread does it. Unknown, or a bug: nothing was done, and asking shows it."""

    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            engine.trouble = trouble
            answers = await asyncio.gather(*[hk.hold("p", 1, ttl=60) for _ in range(4)], return_exceptions=True)
            kinds = Counter(type(answer) for answer in answers)
            assert sum(kinds.values()) == 4
            assert (await hk.pool("p")).held == kinds[Hold]
            assert isinstance(await hk.hold("p", 1, ttl=60), Hold)
            if isinstance(trouble, NeedsThread):
                assert kinds == {Hold: 4}

    asyncio.run(scene())


def test_cancelled_between_landing_and_answer_is_taken_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        batch_worker, "ANSWER_DELAY_SECONDS", PATIENCE
    )  # or a slow machine would tell it before it is cancelled

    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            engine.sent_first = False
            engine.gate.clear()

            async def block() -> None:
                async with hk.holding("p", 1, ttl=60):
                    raise AssertionError("nobody came here")

            first = asyncio.ensure_future(block())
            await engine.begun.get()
            second = asyncio.ensure_future(hk.hold("p", 1, ttl=60))
            await asyncio.sleep(0)
            engine.gate.set()
            await engine.begun.get()
            first.cancel()  # granted, and not told yet
            with pytest.raises(asyncio.CancelledError):
                await first
            await second
            await hk.hold("p", 1, ttl=60)  # behind whatever was queued
            assert (await hk.pool("p")).held == 2
            assert [entry.action for entry in await hk.journal.list()].count(holdkit.journal.Action.HOLD_RELEASED) == 1

    asyncio.run(scene())


def test_taking_back_a_grant_is_not_bounded_by_the_calls_around_it() -> None:
    """It is nobody's call. What was asked by whoever started the flights, and who rides in them, may be over by then."""

    async def scene() -> None:
        hk, engine = await kernel()

        async def body() -> None:
            async with hk.holding("p", 2, ttl=60):
                raise AssertionError("never entered")

        async with hk:
            engine.gate.clear()
            with deadlines.until(time.monotonic() + PATIENCE):
                task = asyncio.create_task(body())
                await engine.begun.get()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            engine.until.clear()
            engine.gate.set()
            async with asyncio.timeout(PATIENCE):
                assert await engine.begun.get() == 1
            assert engine.until == [inf]
        assert engine.flown == [1, 1]

    asyncio.run(scene())


def test_on_postgres_many_tasks_share_a_pool_and_nothing_is_oversold(postgres_url: str) -> None:
    holdkit.migrate(postgres_url)

    async def scene() -> None:
        async with await holdkit.connect_async(postgres_url) as hk:
            await hk.create_pool("p", 700)

            async def caller() -> int:
                granted = 0
                for _ in range(3):
                    try:
                        await hk.hold("p", 1, ttl=60)
                        granted += 1
                    except InsufficientCapacity:
                        pass
                return granted

            assert sum(await asyncio.gather(*[caller() for _ in range(300)])) == 700
            assert (await hk.pool("p")).held == 700
            assert (await hk.admin.verify()).ok

    asyncio.run(scene())
