"""How long a whole call may take, per kernel or per context: while it is queued it ends with nothing done, once it is in a batch its outcome is unknown, and long
jobs are exempt."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

import holdkit
from holdkit import Hold, InvalidRequest, Limits, OutcomeUnknown, Overloaded
from holdkit.core import bounds
from holdkit.core.commands import Group
from holdkit.core.model import SECOND
from holdkit.engines import deadlines
from holdkit.kernel import leader_queue
from holdkit.kernel.arguments import Context, current
from holdkit.kernel.workers import AsyncSignal, AsyncWorker
from tests.support.lockable_engine import LockableEngine
from tests.support.modes import Async, Sync
from tests.support.threads import CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of, queued

SOON = "50ms"
NEVER = "1h"


def hold(hk: Any, timeout: str, **more: Any) -> Hold:
    with holdkit.context(timeout=timeout):
        found: Hold = hk.hold("p", 1, ttl=60, **more)
        return found


def test_a_queued_caller_leaves_with_nothing_done(hk: Any, engine: WatchedEngine) -> None:
    with batch_of(hk, engine, [lambda: hold(hk, SOON), lambda: hold(hk, NEVER)]) as callers:
        wait_until(lambda: 0 in callers.results)
        assert queued(hk) == 1
    late, other = callers.join()
    assert type(late) is Overloaded
    assert (late.effect, late.retry_after) == ("none", 1.0)
    assert "call_timeout" in str(late)
    assert isinstance(other, Hold)
    assert hk.pool("p").held == 1


def test_a_caller_in_a_batch_under_way_does_not_know_and_the_batch_goes_on(hk: Any, engine: WatchedEngine) -> None:
    """A leader is not cut short by those who ride with it."""
    stands, goes_on = threading.Event(), threading.Event()

    def stand(groups: Sequence[Group]) -> None:
        if len(groups) == 2:
            stands.set()
            assert goes_on.wait(60)

    engine.before = stand
    with batch_of(hk, engine, [lambda: hold(hk, NEVER), lambda: hold(hk, "1s", op="ask-again")]) as callers:
        engine.gate.set()
        assert stands.wait(60)
        wait_until(lambda: 1 in callers.results)
        assert type(callers.results[1]) is OutcomeUnknown
        assert 0 not in callers.results
        goes_on.set()
    assert isinstance(callers.join()[0], Hold)
    engine.before = None
    assert hk.hold("p", 1, ttl=60, op="ask-again").replayed
    assert hk.pool("p").held == 2


def test_whoever_is_told_that_nothing_was_done_is_not_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has left the queue before it is told so: the next leader cannot take it along meanwhile."""
    engine = WatchedEngine()
    hk = Sync().open(engine)
    hk.create_pool("p", 10)
    told: list[Overloaded] = []

    def tell() -> Overloaded:
        engine.gate.set()
        wait_until(lambda: 1 in callers.results)
        told.append(deadlines.too_late())
        return told[-1]

    monkeypatch.setattr(leader_queue, "too_late", tell)
    with batch_of(hk, engine, [lambda: hold(hk, "1s"), lambda: hold(hk, NEVER)]) as callers:
        wait_until(lambda: 0 in callers.results)
    late, other = callers.join()
    assert [late] == told
    assert isinstance(other, Hold)
    assert hk.pool("p").held == 1
    hk.close()


def test_the_kernel_has_a_deadline_for_all_calls(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=bounds.Limits(call_timeout=SECOND // 20))
    hk = mode.open(engine)
    engine.entered = threading.Semaphore(0)
    engine.gate.clear()
    callers = CallerThreads()

    def first() -> None:
        with holdkit.context(timeout=NEVER):
            hk.create_pool("first", 1)

    try:
        callers.start(first)
        engine.wait_entered()
        for _ in range(3):
            callers.start(lambda: hk.create_pool("second", 1))
        wait_until(lambda: {1, 2, 3} <= set(callers.results))
        assert [type(callers.results[n]) for n in (1, 2, 3)] == [Overloaded] * 3
    finally:
        engine.gate.set()
        callers.join()
    with holdkit.context(timeout=NEVER):
        assert [pool.id for pool in hk.pools()] == ["first"]
    hk.close()


def test_the_end_of_a_block_goes_on_though_its_time_is_up() -> None:
    """Nobody waits for it any more, and so nothing ends it: a body that left normally is confirmed."""
    mode, engine = Async(), WatchedEngine()
    hk = mode.open(engine)
    hk.create_pool("p", 10)
    seen: list[float | None] = []
    first = CallerThreads()

    def book() -> None:
        with holdkit.context(timeout="1s"), hk.holding("p", 1, ttl=60):
            engine.gate.clear()
            engine.entered = threading.Semaphore(0)
            first.start(lambda: hold(hk, NEVER))
            engine.wait_entered()
            engine.before = lambda _: seen.append(engine.until)

    try:
        with pytest.raises(OutcomeUnknown):
            book()
    finally:
        engine.gate.set()
    wait_until(lambda: hk.pool("p").consumed == 1)
    first.join()
    assert seen[-1] == inf
    hk.close()
    mode.close()


def test_the_engine_is_told_how_long_it_may_take(hk: Any, engine: WatchedEngine) -> None:
    seen: list[float | None] = []
    engine.before = lambda _: seen.append(engine.until)
    engine.reading = lambda _: seen.append(deadlines.current())
    began = time.monotonic()
    hold(hk, NEVER)
    with holdkit.context(timeout=NEVER):
        hk.pool("p")
    hk.hold("p", 1, ttl=60)
    hk.pool("p")
    assert len(seen) == 4
    hours = [3600, 3600, 30, 30]
    assert all(moment is not None and began + span <= moment for moment, span in zip(seen, hours, strict=True))
    assert all(
        moment is not None and moment <= time.monotonic() + span for moment, span in zip(seen, hours, strict=True)
    )
    assert deadlines.current() == inf


def test_a_long_job_takes_as_long_as_it_takes(hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []
    verify = engine.inner.verify

    def look(*given: Any) -> Any:
        seen.append(deadlines.current())
        return verify(*given)

    monkeypatch.setattr(engine, "verify", look)
    with holdkit.context(timeout=SOON):
        assert hk.admin.verify().ok
    assert seen == [inf]


def test_work_beside_the_callers_has_no_timeout_of_whoever_started_it() -> None:
    """A task inherits the context it is started in: who asked stays known, how long that call could take does not."""
    seen: list[tuple[Context, float | None]] = []

    async def work() -> None:
        seen.append((current(), deadlines.current()))

    async def start() -> None:
        with deadlines.until(time.monotonic() + 60), holdkit.context(timeout=SOON, actor="user:7"):
            worker = AsyncWorker(set(), work, "test", AsyncSignal())
        await worker.end(60)
        assert current() == Context()

    asyncio.run(start())
    assert seen == [(Context(actor="user:7"), inf)]


def test_a_leader_takes_along_those_who_have_about_as_much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot leave a batch, so the batch ends with it: whoever has time for longer rides in the next one."""
    engine = WatchedEngine()
    hk = Sync().open(engine)
    hk.create_pool("p", 10)
    engine.entered = threading.Semaphore(0)
    engine.batches.clear()
    calls = [lambda: hold(hk, "2m"), lambda: hold(hk, "2m"), lambda: hold(hk, NEVER), lambda: hold(hk, "2m")]
    with batch_of(hk, engine, calls) as callers:
        pass
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert engine.batches == [1, 4], "the one with the most time leads, and takes all"
    monkeypatch.setattr(leader_queue, "MAX_CANDIDATES", 1)
    engine.batches.clear()
    with batch_of(hk, engine, calls) as callers:
        pass
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert engine.batches == [1, 2, 2]
    hk.close()


def test_a_next_leader_whose_time_is_up_passes_the_lead_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WatchedEngine()
    hk = Sync().open(engine)
    hk.create_pool("p", 10)
    engine.entered = threading.Semaphore(0)
    monkeypatch.setattr(leader_queue, "_seconds_left", lambda _: 60.0)  # it is woken in time, and late all the same
    monkeypatch.setattr(leader_queue, "MAX_CANDIDATES", 1)
    with batch_of(hk, engine, [lambda: hold(hk, SOON), lambda: hold(hk, NEVER)]) as callers:
        first = next(iter(hk._executor.group_commit.main.queue))
        wait_until(lambda: first.until <= time.monotonic())
    late, other = callers.join()
    assert type(late) is Overloaded
    assert isinstance(other, Hold)
    assert hk.pool("p").held == 1
    hk.close()


def test_who_waits_for_a_lock_is_bounded_too(mode: Sync | Async) -> None:
    engine = LockableEngine()
    hk = mode.open(engine)
    hk.create_pool("p", 10)
    engine.lock("p")
    callers = CallerThreads()
    try:
        callers.start(lambda: hold(hk, NEVER))
        assert engine.blocked.acquire(timeout=60)
        callers.start(lambda: hold(hk, SOON))
        wait_until(lambda: 1 in callers.results)
        assert type(callers.results[1]) is Overloaded
    finally:
        engine.unlock("p")
    assert isinstance(callers.join()[0], Hold)
    assert hk.pool("p").held == 1
    hk.close()


@pytest.mark.parametrize(
    ("given", "code"), [(0, "timeout_too_short"), ("soon", "timeout_malformed"), (-1, "timeout_too_short")]
)
def test_a_timeout_that_is_none_is_refused(given: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused, holdkit.context(timeout=given):
        pass
    assert (refused.value.field, refused.value.code) == ("timeout", code)


def test_no_call_would_be_in_time() -> None:
    with pytest.raises(InvalidRequest) as refused:
        holdkit.connect("memory://", limits=Limits(call_timeout=0))
    assert (refused.value.field, refused.value.code) == ("call_timeout", "call_timeout_too_short")


def test_a_timeout_may_be_as_long_as_any(hk: Any) -> None:
    with holdkit.context(timeout="100000d"):
        assert hk.hold("p", 1, ttl=60)
    with holdkit.connect("memory://", limits=Limits(call_timeout="100000d")) as other:
        assert other.create_pool("p", 1).total == 1


def test_sqlite_waits_for_another_process_no_longer_than_the_call_may_take(tmp_path: Any, mode: Sync | Async) -> None:
    from holdkit.engines.sqlite import open_engine
    from holdkit.engines.sqlite.fair_write_lock import FairWriteLock

    engine = open_engine(str(tmp_path / "holds.db"), limits=bounds.Limits(lock_timeout=3600 * SECOND))
    hk = mode.open(engine)
    hk.create_pool("p", 10)
    other = FairWriteLock(engine.path)
    other.acquire(60)
    try:
        with pytest.raises(Overloaded), holdkit.context(timeout=SOON):
            hk.hold("p", 1, ttl=60)
    finally:
        other.release()
        other.close()
    assert hk.hold("p", 1, ttl=60)
    hk.close()


def test_a_face_that_asks_twice_is_one_call(hk: Any, engine: WatchedEngine) -> None:
    """A refused claim is looked at again to say who has it: within the same time."""
    seen: list[float | None] = []
    hk.claims.hold("email", "a@b", ttl=60)
    engine.before = lambda _: seen.append(engine.until)
    engine.reading = lambda _: seen.append(deadlines.current())
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold("email", "a@b", ttl=60)
    assert len(seen) > 1
    assert len(set(seen)) == 1
    assert deadlines.current() == inf
