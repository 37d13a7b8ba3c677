"""Lines that one transaction cannot feed to the end: the kernel has the rest fed at once, and sends again what was put off."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

import pytest
from msgspec import structs

import holdkit
from holdkit import AsyncKernel, InsufficientCapacity, OutcomeUnknown, Overloaded
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, FeedLine, Group, JoinLine, ResizePool
from holdkit.core.model import SECOND, Leg, State
from holdkit.core.reading import FindPool
from holdkit.engines.port import Applied
from holdkit.errors import EngineError
from holdkit.kernel._async import feeding as async_feeding
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._sync import feeding
from tests.support.lockable_engine import GrowingEngine, LockableEngine
from tests.support.modes import Async, Sync, close_quietly
from tests.support.threads import CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of
from tests.unit.kernel.test_loop_batches import LoopEngine

FEW = Limits(max_offers=3)


def joins(count: int, pool: str = "p") -> list[AnyCommand]:
    return [JoinLine(legs=(Leg(pool),), ttl_slots=3_600 * SECOND, offer_slots=600 * SECOND) for _ in range(count)]


def in_line(hk: Any, count: int) -> None:
    """A pool whose units are all in use, and so many who wait."""
    hk.create_pool("p", 1)
    hk.hold("p", 1, ttl=3_600)
    assert [outcome.unwrap().state for outcome in hk.apply(joins(count))] == [State.WAITING] * count


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(limits=FEW)


@pytest.fixture
def hk(mode: Sync | Async, engine: WatchedEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    in_line(kernel, 10)
    yield kernel
    engine.gate.set()
    close_quietly(kernel)


def fed(engine: Any, left: int = 0) -> Callable[[], bool]:
    return lambda: engine.inner.read(FindPool(("", "p"))).waiting == left


def test_what_a_transaction_could_not_offer_is_offered_at_once(hk: Any, engine: WatchedEngine) -> None:
    sent: list[type[AnyCommand]] = []
    engine.before = lambda groups: sent.extend(type(group.commands[0]) for group in groups)
    assert hk.admin.resize_pool("p", 11).waiting == 10, "its answer does not wait for the line"
    wait_until(fed(engine))
    assert sent[0] is ResizePool
    assert {*sent[1:]} == {FeedLine}
    assert len(sent) in (4, 5), (
        "3 offers by the first, 7 more in transactions of 3; perhaps one that finds nothing to do"
    )
    assert hk.pool("p").available == 0
    assert hk.admin.verify().ok


def test_the_answers_of_a_batch_do_not_wait_for_the_line(hk: Any, engine: WatchedEngine) -> None:
    """The first FeedLine stands before a closed gate, and the caller has its answer."""

    def closes_behind(groups: Sequence[Group]) -> None:
        if isinstance(groups[0].commands[0], ResizePool):
            engine.gate.clear()

    engine.before = closes_behind
    callers = CallerThreads()
    callers.start(lambda: hk.admin.resize_pool("p", 11))
    (pool,) = callers.join()
    assert pool.total == 11
    assert not fed(engine)()
    engine.gate.set()
    wait_until(fed(engine))


def test_a_line_is_fed_again_if_that_failed(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (feeding, async_feeding):
        monkeypatch.setattr(module, "PAUSE", 0.001)
    failures = [EngineError("gone"), Overloaded("busy")]

    def fails_twice(groups: Sequence[Group]) -> None:
        if failures and isinstance(groups[0].commands[0], FeedLine):
            raise failures.pop()

    engine.before = fails_twice
    with caplog.at_level(logging.WARNING, "holdkit"):
        hk.admin.resize_pool("p", 11)
        wait_until(fed(engine))
    assert not failures
    assert [record.getMessage() for record in caplog.records] == [
        "the line of pool 'p' could not be fed, will try again: holdkit: busy",
        "the line of pool 'p' could not be fed, will try again: holdkit: gone",
    ]


def test_the_line_of_an_archived_pool_is_not_fed(hk: Any, engine: WatchedEngine) -> None:
    hk.admin.archive_pool("p")
    sent = len(engine.batches)
    hk.admin.resize_pool("p", 11)
    hk.admin.records.put("k", "later", "1")
    assert len(engine.batches) == sent + 2
    assert fed(engine, 10)()
    hk.admin.unarchive_pool("p")
    wait_until(fed(engine))


def test_a_line_that_makes_no_progress_is_not_fed_in_a_loop(hk: Any, engine: WatchedEngine) -> None:
    apply = engine.inner.apply

    def reports_always(groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        return structs.replace(apply(groups, until=until, wait_for_locks=wait_for_locks), unfed=(("", "p"),))

    engine.inner.apply = reports_always  # type: ignore[method-assign]
    hk.admin.records.put("k", "a", "1")
    wait_until(lambda: len(engine.batches) == 5)
    hk.admin.records.put("k", "b", "1")
    wait_until(lambda: len(engine.batches) == 7)


def unfed_behind_the_back(engine: Any) -> None:
    """Another process has made room and has died before it could feed the line."""
    applied = engine.inner.apply([Group((ResizePool(id="p", total=11),))])
    assert applied.unfed == (("", "p"),)


def test_a_call_that_is_put_off_although_it_is_the_first_is_sent_again_at_once(hk: Any, engine: WatchedEngine) -> None:
    unfed_behind_the_back(engine)
    engine.batches.clear()
    with pytest.raises(InsufficientCapacity, match="0 of 11 available"):
        hk.hold("p", 1, ttl=60)
    assert fed(engine)(), "it was decided after all who were in front of it had their units"
    assert len(engine.batches) >= 3


def test_those_behind_it_are_answered_in_their_order(hk: Any, engine: WatchedEngine) -> None:
    other = hk.tenant("other")
    other.create_pool("q", 5)
    engine.batches.clear()

    def leads() -> Any:
        with pytest.raises(InsufficientCapacity, match="0 of 11 available"):
            hk.hold("p", 1, ttl=60)

    with batch_of(hk, engine, [leads, leads, lambda: other.hold("q", 1, ttl=60), leads]) as callers:
        unfed_behind_the_back(engine)
    assert len(callers.join()) == 4
    assert other.pool("q").held == 1
    wait_until(fed(engine))
    assert hk.admin.verify().ok


def test_a_call_that_is_put_off_until_its_deadline_is_told_that_nothing_was_done(
    hk: Any, engine: WatchedEngine
) -> None:
    def never_decided(groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        assert not wait_for_locks
        return Applied([[] for _ in groups], None, wrote=True, put_off=frozenset(range(len(groups))))

    engine.inner.apply = never_decided  # type: ignore[method-assign]
    with holdkit.context(timeout=0.1), pytest.raises((Overloaded, OutcomeUnknown)) as late:
        hk.hold("p", 1, ttl=60)
    assert "as long as it may" in str(late.value)
    del engine.inner.apply


@pytest.mark.parametrize("kind", [LockableEngine, GrowingEngine])
def test_a_batch_that_waited_for_a_lock_has_the_rest_fed_too(mode: Sync | Async, kind: Any) -> None:
    engine = kind(limits=FEW)
    hk = mode.open(engine)
    in_line(hk, 10)
    engine.lock("p")
    callers = CallerThreads()
    callers.start(lambda: hk.admin.resize_pool("p", 11))
    engine.wait_blocked()
    engine.unlock("p")
    (pool,) = callers.join()
    assert pool.total == 11
    wait_until(fed(engine))
    hk.close()


@pytest.mark.parametrize("kind", [LockableEngine, GrowingEngine])
def test_a_call_that_is_put_off_in_a_lock_queue_is_sent_again(mode: Sync | Async, kind: Any) -> None:
    engine = kind(limits=FEW)
    hk = mode.open(engine)
    in_line(hk, 10)
    engine.lock("p")
    callers = CallerThreads()
    callers.start(lambda: hk.hold("p", 1, ttl=60))
    engine.wait_blocked()
    unfed_behind_the_back(engine)
    engine.unlock("p")
    (refused,) = callers.join()
    assert "0 of 11 available" in str(refused)
    assert fed(engine)()
    hk.close()


def test_on_the_event_loop() -> None:
    class Few(LoopEngine):
        def __init__(self) -> None:
            super().__init__()
            self.stored.in_force = FEW
            self.inner = self

    async def main() -> None:
        engine = Few()
        async with AsyncKernel(AsyncExecutor(engine)) as hk:
            await hk.create_pool("p", 1)
            await hk.hold("p", 1, ttl=60)
            await hk.apply(joins(20))
            await hk.admin.resize_pool("p", 11)
            await asyncio.to_thread(wait_until, fed(engine, 10))
            applied = engine.apply([Group((ResizePool(id="p", total=21),))])
            assert applied.unfed
            with pytest.raises(InsufficientCapacity, match="0 of 21 available"):
                await hk.hold("p", 1, ttl=60)
            assert fed(engine)()

    asyncio.run(main())


def test_a_cancelled_call_that_is_put_off_is_not_sent_again() -> None:
    async def main() -> None:
        engine = WatchedEngine(limits=FEW)
        async with AsyncKernel(AsyncExecutor(engine)) as hk:
            await hk.create_pool("p", 1)
            await hk.hold("p", 1, ttl=60)
            await hk.apply(joins(10))
            unfed_behind_the_back(engine)
            engine.gate.clear()
            engine.entered = threading.Semaphore(0)
            call = asyncio.create_task(hk.hold("p", 1, ttl=60, op="cancelled"))
            await asyncio.to_thread(engine.wait_entered)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            engine.gate.set()
            await asyncio.to_thread(wait_until, fed(engine))
            assert "cancelled" not in [key[1] for key in engine.inner._tables.operations]

    asyncio.run(main())
