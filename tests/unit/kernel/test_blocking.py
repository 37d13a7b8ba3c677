"""Blocking calls, sync and async: fair, woken by what happens, and gone from the line however they end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import holdkit
from holdkit import AsyncKernel, Hold, InsufficientCapacity, InvalidRequest, LineAhead, OutcomeUnknown
from holdkit.commands import PlaceHold
from holdkit.core.commands import ConfirmHold, ExtendHold, FeedLine, Group, LeaveLine, ReleaseHold
from holdkit.core.model import SECOND, Leg, State
from holdkit.core.reading import FindHold, FindPools, NextDeadline, Query
from holdkit.errors import EngineError
from holdkit.kernel._async import blocking as async_blocking
from holdkit.kernel._async import line_watch as async_line_watch
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._sync import blocking, line_watch
from holdkit.kernel._sync.blocking import WaitGivenUp
from tests.support.modes import Async, Sync, close_quietly
from tests.support.threads import CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine

LONG = "10m"


@pytest.fixture
def hk(mode: Sync | Async, engine: WatchedEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    kernel.create_pool("gpu", 2)
    yield kernel
    engine.gate.set()
    close_quietly(kernel)


def set_both(monkeypatch: pytest.MonkeyPatch, name: str, value: object, *modules: Any) -> None:
    for module in modules or (blocking, async_blocking):
        monkeypatch.setattr(module, name, value)


def waiting(hk: Any, count: int, pool: str = "gpu") -> None:
    wait_until(lambda: hk.pool(pool).waiting == count)


def blocked(hk: Any, count: int = 1, **more: Any) -> CallerThreads:
    """So many calls that are blocked, in this order."""
    callers = CallerThreads()
    for number in range(count):
        callers.start(lambda: hk.hold("gpu", 1, **{"ttl": 60, "wait": LONG, **more}))
        waiting(hk, number + 1)
    return callers


def test_what_is_free_is_held_at_once_and_without_a_place(hk: Any) -> None:
    hold = hk.hold("gpu", 2, ttl=60, wait=LONG)
    assert (hold.state, hold.raw.number, hold.raw.deadline) == (State.HELD, None, 60 * SECOND)


def test_a_wait_of_nothing_is_no_wait(hk: Any) -> None:
    hk.hold("gpu", 2, ttl=60)
    for wait in (0, "0s", None):
        with pytest.raises(InsufficientCapacity):
            hk.hold("gpu", 1, ttl=60, wait=wait)
    assert hk.pool("gpu").raw.last_number == 0


def test_they_are_served_in_their_order_and_keep_their_units_for_the_ttl(hk: Any, engine: WatchedEngine) -> None:
    first = hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk, 5, ttl=100)
    served: list[Hold] = []
    hk.release(first, quantity=1)
    for number in range(1, 6):
        wait_until(lambda number=number: len(callers.results) == number)  # type: ignore[misc]
        served.append([*callers.results.values()][-1])
        engine.fake.advance(1)
        hk.release(served[-1])
    assert [hold.raw.number for hold in served] == [1, 2, 3, 4, 5]
    assert [hold.raw.deadline for hold in served] == [(100 + number) * SECOND for number in range(5)]
    assert all(hold.state is State.HELD for hold in served)
    assert hk.admin.verify().ok


def test_the_time_is_over(hk: Any) -> None:
    hk.hold("gpu", 2, ttl=3_600)
    with pytest.raises(InsufficientCapacity) as refused:
        hk.hold("gpu", 1, ttl=60, wait=0.02, op="try")
    assert (refused.value.requested, refused.value.available, refused.value.total) == (1, 0, 2)
    assert hk.pool("gpu").waiting == 0
    with pytest.raises(InsufficientCapacity) as again:
        hk.hold("gpu", 1, ttl=60, wait=LONG, op="try")
    assert again.value.replayed


def test_a_place_stands_no_longer_than_a_hold_may_live() -> None:
    limits = holdkit.Limits(max_ttl="30s", max_lifetime="30s")
    with holdkit.connect("memory://", limits=limits) as hk:
        hk.create_pool("gpu", total=1)
        hk.hold("gpu", 1, ttl=20)
        with pytest.raises(InsufficientCapacity):
            hk.hold("gpu", 1, ttl=20, wait=0.01)
        (left,) = hk.holds(state="released")
        assert left.raw.joined_at is not None
        assert left.raw.deadline == left.raw.joined_at + 30 * SECOND


def test_those_in_front_are_the_reason_if_there_are_units(hk: Any) -> None:
    hk.hold("gpu", 1, ttl=3_600)
    callers = CallerThreads()
    callers.start(lambda: hk.hold("gpu", 2, ttl=60, wait=LONG))
    waiting(hk, 1)
    with pytest.raises(LineAhead) as refused:
        hk.hold("gpu", 1, ttl=60, wait=0.02)
    assert refused.value.waiting == 1 + 1, "its own place is counted, which it left after that"
    hk.close()
    callers.join()


def test_what_was_offered_when_the_time_is_over_is_taken(hk: Any, engine: WatchedEngine) -> None:
    first = hk.hold("gpu", 2, ttl=3_600)

    def offers_first(groups: Sequence[Group]) -> None:
        if isinstance(groups[0].commands[0], LeaveLine):
            engine.before = None
            engine.inner.apply([Group((ReleaseHold(id=first.id, token=first.token),))])

    engine.before = offers_first
    hold = hk.hold("gpu", 1, ttl=60, wait=0.02)
    assert (hold.state, hold.raw.deadline) == (State.HELD, 60 * SECOND)


def test_a_retry_goes_on_waiting_for_the_same_hold(hk: Any) -> None:
    first = hk.hold("gpu", 2, ttl=3_600)
    callers = CallerThreads()
    for _ in range(2):
        callers.start(lambda: hk.hold("gpu", 1, ttl=60, wait=LONG, op="job-7"))
        waiting(hk, 1)
    hk.release(first)
    one, other = callers.join()
    assert one.id == other.id
    assert one.token == other.token
    assert hk.pool("gpu").held == 1
    hk.release(one)
    late = hk.hold("gpu", 1, ttl=60, wait=LONG, op="job-7")
    assert (late.id, late.state, late.replayed) == (one.id, State.RELEASED, True), "the operation has had its units"


@pytest.mark.parametrize("op", [None, "job-7"])
def test_what_an_operator_confirmed_meanwhile_is_the_answer(hk: Any, engine: WatchedEngine, op: str | None) -> None:
    """And no other place is taken, which would consume twice."""
    first = hk.hold("gpu", 2, ttl=3_600)

    def confirms_first(groups: Sequence[Group]) -> None:
        command = groups[0].commands[0]
        if isinstance(command, ExtendHold):
            engine.before = None
            engine.inner.apply([Group((ConfirmHold(id=command.id, force=True, reason="paid"),))])

    callers = blocked(hk, op=op)
    engine.before = confirms_first
    hk.release(first)
    (hold,) = callers.join()
    assert hold.state is State.CONFIRMED
    assert (hk.pool("gpu").consumed, hk.pool("gpu").waiting) == (1, 0)


def test_who_was_taken_out_of_the_line_by_force_does_not_join_it_again(hk: Any) -> None:
    hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk)
    (hold,) = hk.holds(state="waiting")
    hk.admin.release(hold.id, reason="closing time")
    (refused,) = callers.join()
    assert isinstance(refused, InsufficientCapacity)
    assert hk.pool("gpu").waiting == 0


def test_a_ttl_as_long_as_a_hold_may_live_is_shortened_by_the_time_to_accept(
    mode: Sync | Async, engine: WatchedEngine
) -> None:
    hk: Any = mode.open(engine)
    hk.create_pool("gpu", 1)
    hk.admin.change_limits(max_ttl="1m", max_lifetime="1m")
    first = hk.hold("gpu", 1, ttl=60)

    def later(groups: Sequence[Group]) -> None:
        if isinstance(groups[0].commands[0], ExtendHold):
            engine.before = None
            engine.fake.advance(1)

    callers = blocked(hk)
    engine.before = later
    hk.release(first)
    (hold,) = callers.join()
    assert (hold.state, hold.raw.deadline) == (State.HELD, hold.raw.held_at + 60 * SECOND)
    close_quietly(hk)


def test_a_place_is_renewed_while_its_caller_lives(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "RENEWAL", 0.005)
    first = hk.hold("gpu", 2, ttl=36_000)
    callers = blocked(hk)
    (hold,) = hk.holds(state="waiting")
    for minute in range(1, 4):
        engine.fake.advance(59)
        until = (59 * minute + 60) * SECOND
        wait_until(lambda until=until: hk.get(hold.id).raw.deadline >= until)  # type: ignore[misc]
    hk.release(first)
    assert callers.join()[0].id == hold.id


def test_units_that_become_free_by_themselves_are_offered(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    hk.hold("gpu", 2, ttl=30)
    callers = blocked(hk, 2)
    engine.fake.advance(30)
    assert [hold.state for hold in callers.join()] == [State.HELD] * 2


def test_a_dead_caller_costs_the_next_one_its_offer(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first in line is dead: its place stands for 60 s, or its offer for 10."""
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    first = hk.hold("gpu", 2, ttl=3_600)
    dead = PlaceHold(legs=(Leg("gpu", 2),), ttl_slots=SECOND, id="00" * 16, token="x", wait_slots=60 * SECOND, offer_slots=10 * SECOND)  # fmt: skip
    engine.inner.apply([Group((dead,))])
    callers = CallerThreads()
    callers.start(lambda: hk.hold("gpu", 1, ttl=60, wait=LONG))
    waiting(hk, 2)
    hk.release(first)
    assert hk.get("00" * 16).state is State.HELD
    engine.fake.advance(9.9)
    assert hk.pool("gpu").waiting == 1
    engine.fake.advance(0.1)
    (hold,) = callers.join()
    assert hold.state is State.HELD


def test_a_place_that_was_lost_is_taken_anew(hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    first = hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk)
    engine.fake.advance(61)  # it was suspended for longer than its place stands
    hk.create_pool("other", 1)
    engine.inner.apply([Group((FeedLine(id="gpu"),))])
    wait_until(lambda: hk.pool("gpu").raw.last_number == 2)
    hk.release(first)
    (hold,) = callers.join()
    assert (hold.state, hold.raw.number) == (State.HELD, 2)


def test_a_lost_place_with_an_operation_id_is_refused(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk, op="job")
    engine.fake.advance(61)
    engine.inner.apply([Group((FeedLine(id="gpu"),))])
    (refused,) = callers.join()
    assert isinstance(refused, InsufficientCapacity)


def test_it_goes_on_waiting_while_the_engine_fails(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "RENEWAL", 0.005)
    set_both(monkeypatch, "PAUSE", 0.005)
    set_both(monkeypatch, "SHORTLY", 0.001)
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    first = hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk)
    failures: list[Exception] = [EngineError("gone"), OutcomeUnknown("who knows")] * 3

    def fails(groups: Sequence[Group]) -> None:
        if failures and isinstance(groups[0].commands[0], ExtendHold):
            raise failures.pop()

    def fails_reading(query: Query[Any]) -> None:
        if len(failures) % 2 and isinstance(query, FindPools):
            raise EngineError("cannot read")

    engine.before, engine.reading = fails, fails_reading
    wait_until(lambda: len(failures) < 3)
    hk.release(first)
    assert callers.join()[0].state is State.HELD


def test_a_closed_kernel_ends_the_wait(hk: Any) -> None:
    hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk)
    hk.close()
    (failed,) = callers.join()
    assert isinstance(failed, EngineError)


def test_a_lease_waits_and_is_renewed_from_its_grant(hk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = hk.hold("gpu", 2, ttl=3_600)
    leases: list[Any] = []

    def work() -> None:
        with hk.lease("gpu", 1, ttl=30, wait=LONG) as lease:
            leases.append((lease.lost, lease.hold.raw.number, lease.fence))

    callers = CallerThreads()
    callers.start(work)
    waiting(hk, 1)
    hk.release(first)
    callers.join()
    assert leases == [(False, 1, 2)]
    assert hk.pool("gpu").held == 0


def test_a_lease_can_be_told_to_stop_waiting(mode: Sync | Async, hk: Any) -> None:
    if mode.name != "sync":
        return  # a task is cancelled
    hk.hold("gpu", 2, ttl=3_600)
    lease = hk.lease("gpu", 1, ttl=30, wait=LONG)
    callers = CallerThreads()
    callers.start(lease.__enter__)
    waiting(hk, 1)
    lease.stop_waiting()
    (given_up,) = callers.join()
    assert isinstance(given_up, WaitGivenUp)
    assert hk.pool("gpu").waiting == 0


def test_an_interrupted_thread_leaves_the_line(engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sync().open(engine) as hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl=3_600)

        def ctrl_c(waiter: Any, seconds: float) -> None:
            assert hk.pool("gpu").waiting == 1
            raise KeyboardInterrupt

        monkeypatch.setattr(line_watch.Waiter, "wait", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            hk.hold("gpu", 1, ttl=60, wait=LONG)
        assert hk.pool("gpu").waiting == 0


@pytest.mark.parametrize("written", [False, True])
def test_a_thread_that_is_interrupted_while_it_joins_leaves_no_place(engine: WatchedEngine, written: bool) -> None:
    with Sync().open(engine) as hk:
        hk.create_pool("gpu", 1)
        hk.hold("gpu", 1, ttl=3_600)

        def ctrl_c(groups: Sequence[Group]) -> None:
            if isinstance(groups[0].commands[0], PlaceHold):
                engine.before = engine.after = None
                raise KeyboardInterrupt

        setattr(engine, "after" if written else "before", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            hk.hold("gpu", 1, ttl=60, wait=LONG)
        assert (hk.pool("gpu").waiting, hk.pool("gpu").raw.last_number) == (0, 1 if written else 0)


@pytest.mark.parametrize("offered", [False, True])
def test_a_cancelled_task_leaves_the_line_and_gives_back_what_was_offered(offered: bool) -> None:
    async def main() -> None:
        engine = WatchedEngine()
        async with AsyncKernel(AsyncExecutor(engine)) as hk:
            await hk.create_pool("gpu", 1)
            first = await hk.hold("gpu", 1, ttl=3_600)
            call = asyncio.create_task(hk.hold("gpu", 1, ttl=60, wait=LONG))
            while (await hk.pool("gpu")).waiting == 0:  # noqa: ASYNC110 - a read, not a sleep
                await asyncio.sleep(0)
            if offered:
                engine.inner.apply([Group((ReleaseHold(id=first.id, token=first.token),))])
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            pool = await hk.pool("gpu")
            assert (pool.waiting, pool.held) == (0, 0 if offered else 1)

    asyncio.run(main())


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda hk: hk.hold("gpu", 1, ttl=60, wait=1, tx=object()), "wait_in_transaction"),
    (lambda hk: hk.hold({"gpu": 1, "other": 1}, ttl=60, wait=1), "line_of_several"),
    (lambda hk: hk.hold("gpu//part", 1, ttl=60, wait=1), "pool_without_line"),
    (lambda hk: hk.hold([holdkit.claim("email", "a@b.c")], ttl=60, wait=1), "pool_without_line"),
    (lambda hk: hk.hold("gpu", 1, deadline=10**15, wait=1), "ttl_required"),
    (lambda hk: hk.hold("gpu", 1, ttl=60, wait=-1), "wait_malformed"),
    (lambda hk: hk.hold("gpu", 1, ttl=60, wait=object()), "wait_malformed"),
    (lambda hk: hk.apply([PlaceHold(legs=(Leg("gpu"),), ttl=60, wait_slots=1, offer_slots=1)]), "wait_in_batch"),
    (lambda hk: hk.lease("gpu", 1, ttl=60, wait="soon"), "wait_malformed"),
]


@pytest.mark.parametrize(("call", "code"), REFUSED)
def test_what_cannot_wait_is_an_invalid_request(hk: Any, call: Callable[[Any], Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as invalid:
        call(hk)
    assert invalid.value.code == code


def test_a_commit_that_concerns_others_costs_no_read_and_a_look_costs_one_however_many_wait(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "LOOK", 0.2, line_watch, async_line_watch)
    hk.hold("gpu", 2, ttl=3_600)
    reads: list[Query[Any]] = []
    engine.reading = reads.append
    callers = blocked(hk, 8)
    wait_until(lambda: len({query.key for query in reads if isinstance(query, FindHold)}) == 8)

    def looks() -> list[Query[Any]]:
        return [query for query in reads if isinstance(query, FindPools)]

    joined = len(looks())
    wait_until(lambda: len(looks()) > joined + 1)  # the last one was examined
    reads.clear()
    for number in range(50):
        hk.admin.records.put("k", str(number), "1")
    assert len(looks()) < 25, "one every LOOK seconds, and not one for each commit"
    wait_until(lambda: len(looks()) > 1)
    assert not [query for query in reads if isinstance(query, FindHold)]
    hk.close()
    callers.join()


def test_an_offer_of_this_process_wakes_its_call_without_a_read(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "LOOK", 9.0, line_watch, async_line_watch)
    reads: list[Query[Any]] = []
    engine.reading = reads.append
    first = hk.hold("gpu", 2, ttl=3_600)
    callers = blocked(hk, 3)
    wait_until(lambda: len({query.key for query in reads if isinstance(query, FindHold)}) == 3)
    wait_until(lambda: any(isinstance(query, NextDeadline) for query in reads))
    reads.clear()
    hk.release(first)
    wait_until(lambda: len(callers.results) == 2)
    assert not [query for query in reads if isinstance(query, FindHold | FindPools)]
    hk.close()
    callers.join()


def test_a_line_whose_first_does_not_fit_is_fed_once(
    hk: Any, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_both(monkeypatch, "LOOK", 0.01, line_watch, async_line_watch)
    hk.hold("gpu", 1, ttl=3_600)
    callers = CallerThreads()
    callers.start(lambda: hk.hold("gpu", 2, ttl=60, wait=LONG))
    waiting(hk, 1)
    fed: list[Group] = []
    looked = threading.Semaphore(0)
    engine.before = lambda groups: fed.extend(one for one in groups if isinstance(one.commands[0], FeedLine))
    engine.reading = lambda query: looked.release() if isinstance(query, FindPools) else None
    for number in range(3):
        hk.admin.records.put("k", str(number), "1")
        assert looked.acquire(timeout=30)
    assert len(fed) <= 1
    hk.close()
    callers.join()


def test_an_offer_that_ended_before_it_was_accepted_is_not_a_hold(hk: Any, engine: WatchedEngine) -> None:
    """The process was suspended between the offer and its acceptance."""
    first = hk.hold("gpu", 2, ttl=3_600)

    def too_late(groups: Sequence[Group]) -> None:
        if isinstance(groups[0].commands[0], ExtendHold):
            engine.before = None
            engine.fake.advance(11)

    engine.before = too_late
    callers = blocked(hk, id="11" * 16)
    hk.release(first)
    (refused,) = callers.join()
    assert isinstance(refused, holdkit.LineAhead)
    assert (refused.waiting, refused.transient) == (0, True)
    assert "ended before its units were taken, and they are free now" in str(refused)
