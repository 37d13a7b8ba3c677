"""A bug in the kernel's own code: every call of that batch is told, none waits for ever, nothing is done twice, and the kernel
serves the next call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any

import pytest

import holdkit
from holdkit import AsyncKernel, Hold, OutcomeUnknown
from holdkit.core.commands import Group
from holdkit.engines.port import Applied, NeedsThread
from holdkit.errors import PromiseBroken
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.batch_worker import BatchWorker
from holdkit.kernel.batches import BatchRunner
from tests.support.lockable_engine import LockableEngine
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE
from tests.support.watched_engine import WatchedEngine, batch_of, queued
from tests.unit.kernel.test_loop_batches import kernel


class Odd(BaseException):
    """Nobody's exception."""


ODD = [RuntimeError, Odd]


def breaking(step: str, error: type[BaseException], patch: pytest.MonkeyPatch, size: int = 4) -> None:
    """A step of the runner breaks for every batch of that size, each time."""
    real = getattr(BatchRunner, step)

    def breaks(self: BatchRunner, batch: Sequence[Any], *arguments: Any, **options: Any) -> Any:
        if len(batch) == size:
            raise error
        return real(self, batch, *arguments, **options)

    patch.setattr(BatchRunner, step, breaks)


def alive(hk: Any) -> None:
    assert hk.hold("p", 1, ttl=60).state == "held"
    assert queued(hk) == 0


@pytest.mark.parametrize("error", ODD)
@pytest.mark.parametrize("step", ["run", "begin"])
def test_it_breaks_before_anything_is_sent(
    hk: Any, engine: WatchedEngine, mode: Sync | Async, step: str, error: type[BaseException], monkeypatch: Any
) -> None:
    breaking(step, error, monkeypatch)
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 4) as callers:
        pass
    kinds = [type(answer) for answer in callers.join()]
    in_halves = (step, error) == ("begin", RuntimeError)  # nothing was sent for certain, and the halves went well
    if mode.name == "sync":
        assert kinds == [error, Hold, Hold, Hold], "only its leader"
        assert hk.pool("p").held == (4 if in_halves else 3)
    else:
        assert kinds == [Hold if in_halves else PromiseBroken] * 4
        assert hk.pool("p").held == (4 if in_halves else 0)
    alive(hk)
    assert hk.admin.verify().ok


@pytest.mark.parametrize("error", ODD)
def test_it_breaks_for_everybody_again_and_again(
    hk: Any, engine: WatchedEngine, mode: Sync | Async, error: type[BaseException]
) -> None:
    with pytest.MonkeyPatch.context() as patch, batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 4) as callers:
        for size in range(1, 5):
            breaking("run", error, patch, size)
        engine.gate.set()
        answers = callers.join()
    assert [type(answer) for answer in answers] == [error if mode.name == "sync" else PromiseBroken] * 4
    assert hk.pool("p").held == 0
    alive(hk)


def broken_answers(engine: Any) -> None:
    """The next batch of four is applied, and its answers cannot be understood."""
    honest = engine.apply

    def garble(groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        applied: Applied = honest(groups, until=until, wait_for_locks=wait_for_locks)
        if len(groups) != 4:
            return applied
        engine.apply = honest
        return Applied(applied.outcomes, applied.last_seq, True, {7: "nobody"})

    engine.apply = garble


def test_it_breaks_after_the_commit_and_nothing_is_done_twice(hk: Any, engine: WatchedEngine) -> None:
    """A retry key settles it; without one it is unknown."""
    hold = hk.hold("p", 1, ttl=60)
    broken_answers(engine)
    calls: list[Callable[[], Any]] = [lambda: hk.hold("p", 1, ttl=60)] * 3
    calls.append(lambda: hk.extend(hold, by=1))
    with batch_of(hk, engine, calls) as callers:
        pass
    answers = callers.join()
    assert [type(answer) for answer in answers] == [Hold] * 3 + [OutcomeUnknown]
    assert hk.pool("p").held == 4
    assert [entry.action for entry in hk.history(hold)].count(holdkit.journal.Action.HOLD_EXTENDED) == 1
    alive(hk)
    assert hk.admin.verify().ok


# Tasks alone


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scene(), PATIENCE)

    asyncio.run(bounded())


@pytest.mark.parametrize(
    ("step", "error", "expected", "held"),
    [
        ("begin", RuntimeError, Hold, 4),
        ("begin", Odd, PromiseBroken, 0),
        ("run", RuntimeError, OutcomeUnknown, 0),
        ("run", Odd, OutcomeUnknown, 0),
        ("accept", RuntimeError, Hold, 4),
        ("accept", Odd, OutcomeUnknown, 4),
    ],
)
def test_on_the_loop(
    step: str, error: type[BaseException], expected: type[Any], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            breaking(step, error, monkeypatch)
            engine.trouble = NeedsThread() if step == "run" else None
            answers = await asyncio.gather(*[hk.hold("p", 1, ttl=60) for _ in range(4)], return_exceptions=True)
            kinds = [type(answer) for answer in answers]
            assert kinds == [expected] * 4
            assert (await hk.pool("p")).held == held
            assert isinstance(await hk.hold("p", 1, ttl=60), Hold)
            assert (await hk.admin.verify()).ok

    run(scene)


def test_a_loop_batch_cancelled_before_its_first_step_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever cancels every task of a loop, as `asyncio.run` does at its end, may meet one that has not begun."""

    real, cancelled = BatchWorker._launch, list[bool]()

    def launch(self: BatchWorker, batch: list[Any]) -> None:
        real(self, batch)
        if not cancelled:
            assert self._task is not None
            cancelled.append(self._task.cancel())

    async def scene() -> None:
        hk, engine = await kernel()
        async with hk:
            monkeypatch.setattr(BatchWorker, "_launch", launch)
            assert isinstance(await hk.hold("p", 1, ttl=60), Hold)
            assert (cancelled, engine.flown) == ([True], [1])
            assert (await hk.pool("p")).held == 1

    run(scene)


def test_a_lock_queue_that_cannot_be_opened_fails_who_would_wait_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more threads, for example. The others of the batch are answered."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def scene() -> None:
        engine = LockableEngine()
        async with AsyncKernel(AsyncExecutor(engine)) as hk:
            for pool in ("x", "free"):
                await hk.create_pool(pool, 10)
            engine.lock("x")
            with monkeypatch.context() as patch:
                patch.setattr("holdkit.kernel.lock_queues.BatchWorker", refuse)
                calls = [hk.hold(pool, 1, ttl=60) for pool in ("x", "free", "x", "free")]
                answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(answer) for answer in answers] == [PromiseBroken, Hold, PromiseBroken, Hold]
            engine.unlock("x")
            assert isinstance(await hk.hold("x", 1, ttl=60), Hold)

    run(scene)


def test_a_grant_that_cannot_be_taken_back_is_told_to_the_loop_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []

    def refuse(*_: Any) -> None:
        raise RuntimeError("cannot")

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        hk, engine = await kernel()
        async with hk:
            monkeypatch.setattr(BatchWorker, "take_back", refuse)
            engine.gate.clear()

            async def block() -> None:
                async with hk.holding("p", 1, ttl=60):
                    raise AssertionError("nobody came here")

            tasks = [asyncio.ensure_future(block()), asyncio.ensure_future(hk.hold("p", 1, ttl=60))]
            assert await engine.begun.get() == 2
            tasks[0].cancel()
            await asyncio.sleep(0)
            engine.gate.set()
            assert isinstance(await tasks[1], Hold)
            assert [str(error) for error in told] == ["cannot"]
            assert isinstance(await hk.hold("p", 1, ttl=60), Hold)

    run(scene)


# PostgreSQL


@pytest.mark.parametrize("mode", ["threads", "tasks"])
@pytest.mark.parametrize("step", ["begin", "accept"])
def test_on_postgres(postgres_url: str, step: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can prove there that nothing was written: a retry key settles it, and nothing is done twice."""
    holdkit.migrate(postgres_url)
    stepping = Stepping(getattr(BatchRunner, step))

    async def scene() -> None:
        async with await holdkit.connect_async(postgres_url) as hk:
            await hk.create_pool("p", 10)
            monkeypatch.setattr(BatchRunner, step, stepping)
            answers = await asyncio.gather(*[hk.hold("p", 1, ttl=60) for _ in range(4)])
            assert len({answer.id for answer in answers}) == 4

    if mode == "tasks":
        run(scene)
    else:
        with holdkit.connect(postgres_url) as hk:
            hk.create_pool("p", 10)
            monkeypatch.setattr(BatchRunner, step, stepping)
            assert isinstance(hk.hold("p", 4, ttl=60), Hold)
    assert stepping.broke
    with holdkit.connect(postgres_url) as hk:
        assert hk.pool("p").held == 4
        assert hk.admin.verify().ok


class Stepping:
    """A step of the runner that breaks once."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self.broke = False

    def __get__(self, runner: BatchRunner, _: type[BatchRunner]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if not self.broke:
                self.broke = True
                raise RuntimeError
            return self._real(runner, *arguments)

        return step
