"""Group commit, sync and async: which calls share a batch, and who is told of an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

import pytest
from msgspec import structs

import holdkit
from holdkit import Hold, InsufficientCapacity, OutcomeUnknown, Overloaded
from holdkit.commands import PlaceHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.model import Leg
from holdkit.engines.port import Applied, BatchRejected
from holdkit.errors import EngineError, HoldkitError, PromiseBroken
from holdkit.kernel import leader_queue
from holdkit.kernel._sync.executor import Executor
from tests.support.modes import Async, Sync
from tests.support.threads import PATIENCE, CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of, queued


def marked(groups: Sequence[Group], mark: str) -> bool:
    return any(command.correlation_id == mark for group in groups for command in group.commands)


def poison(error: BaseException) -> Any:
    def bite(groups: Sequence[Group]) -> None:
        if marked(groups, "poison"):
            raise error

    return bite


def test_a_lone_caller_is_a_batch_of_one(hk: Any, engine: WatchedEngine) -> None:
    hk.hold("p", 1, ttl=60)
    hk.hold("p", 1, ttl=60)
    assert engine.batches == [1, 1]


def test_everyone_who_waits_rides_in_one_batch(hk: Any, engine: WatchedEngine) -> None:
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 32) as callers:
        pass
    answers = callers.join()
    assert engine.batches == [1, 32]
    assert sum(isinstance(answer, Hold) for answer in answers) == 10
    assert sum(isinstance(answer, InsufficientCapacity) for answer in answers) == 22
    assert len({answer.id for answer in answers if isinstance(answer, Hold)}) == 10


def test_batches_stay_large_because_followers_wake_before_the_lead_is_passed(hk: Any, engine: WatchedEngine) -> None:
    """Each rider comes twice: the second time all of them ride in one batch again, not in 1 and n-1."""
    with batch_of(hk, engine, []):
        rounds = CallerThreads()
        again = threading.Semaphore(0)

        def twice() -> None:
            hk.admin.records.put("k", "a", "1")
            again.release()
            hk.admin.records.put("k", "a", "2")

        for index in range(8):
            rounds.start(twice)
            wait_until(lambda index=index: queued(hk) == index + 1)  # type: ignore[misc]

        def hold_up(groups: Sequence[Group]) -> None:  # the next leader waits until everyone has queued again
            if len(engine.batches) == 2:
                wait_until(lambda: queued(hk) + len(groups) == 8)

        engine.before = hold_up
    rounds.join()
    assert sum(engine.batches) == 17
    assert engine.batches[:2] == [1, 8]
    assert len(engine.batches) <= 4, engine.batches  # one may have gone ahead, the rest ride behind it


@pytest.fixture
def on_threads(engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A kernel for threads, whose batches take long enough for the next leader to wait."""
    monkeypatch.setattr(leader_queue, "BRIEF_SECONDS", -1.0)
    with holdkit.Kernel(Executor(engine)) as kernel:
        yield kernel


def test_a_leader_waits_for_the_callers_of_the_last_batch(
    on_threads: holdkit.Kernel, engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that call in a loop share every batch, instead of forming halves that take turns."""
    monkeypatch.setattr(leader_queue, "GATHER_SHARE", 1e6)
    hk, threads = on_threads, CallerThreads()

    def calls(number: int) -> None:
        for turn in range(number):
            hk.admin.records.put("k", "a", str(turn))

    engine.before = lambda groups: wait_until(lambda: len(engine.batches) > 0 or queued(hk) == 3)
    threads.start(partial(calls, 4))
    assert engine.entered.acquire(timeout=PATIENCE)
    for _ in range(3):
        threads.start(partial(calls, 3))
    threads.join()
    assert engine.batches == [1, 4, 4, 4]


def test_a_leader_does_not_wait_for_those_who_do_not_come(on_threads: holdkit.Kernel) -> None:
    """After a wait that was in vain, the next ones are left out."""
    queue = on_threads._executor.group_commit.main
    while not queue._not_gathered:
        queue._present, queue._gather_until = 4, time.monotonic() + 0.02
        on_threads.admin.records.put("k", "a", "1")
    assert queue._not_gathered == leader_queue.BATCHES_NOT_GATHERED
    for left in reversed(range(leader_queue.BATCHES_NOT_GATHERED)):
        queue._present, queue._gather_until = 4, time.monotonic() + 1e6
        on_threads.admin.records.put("k", "a", "1")
        assert queue._not_gathered == left


def test_a_batch_has_a_bound(hk: Any, engine: WatchedEngine) -> None:
    many = [PlaceHold(legs=(Leg("p"),), ttl=60)] * 600
    with batch_of(hk, engine, [lambda: hk.apply(many)] * 3):
        pass
    assert engine.batches == [1, 1, 1, 1]


def test_a_full_queue_turns_callers_away_with_no_effect(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=Limits(max_queue=3))
    hk = mode.open(engine)
    hk.create_pool("p", 10)
    engine.entered = threading.Semaphore(0)
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 3) as callers:
        with pytest.raises(Overloaded, match="3 commands are waiting") as turned_away:
            hk.hold("p", 5, ttl=60)
        assert turned_away.value.effect == "none"
        assert turned_away.value.retry_after > 0
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert hk.pool("p").held == 3
    assert isinstance(hk.hold("p", 1, ttl=60), Hold), "room again"
    hk.close()


def test_a_batch_larger_than_the_queue_is_taken_when_nobody_waits(mode: Sync | Async) -> None:
    hk = mode.open(WatchedEngine(limits=Limits(max_queue=1)))
    hk.create_pool("p", 10)
    assert len(hk.apply([PlaceHold(legs=(Leg("p"),), ttl=60)] * 5)) == 5
    hk.close()


@pytest.mark.parametrize("place", [0, 3, 6])
def test_poison_fails_its_owner_only(hk: Any, engine: WatchedEngine, place: int) -> None:
    calls = [lambda: hk.hold("p", 1, ttl=60)] * 7
    calls[place] = lambda: hk.hold("p", 1, ttl=60, correlation_id="poison")
    engine.before = poison(ZeroDivisionError("hush: the token is s3cret"))
    with batch_of(hk, engine, calls) as callers:
        pass
    answers = callers.join()
    broken = answers.pop(place)
    assert isinstance(broken, PromiseBroken)
    assert "ZeroDivisionError" in str(broken)
    assert "s3cret" not in str(broken)
    assert isinstance(broken.__cause__, ZeroDivisionError)
    assert all(isinstance(answer, Hold) for answer in answers)
    assert hk.pool("p").held == 6
    assert hk.admin.verify().ok


def test_an_error_that_does_not_come_again_fails_nobody_but_the_interrupted(
    hk: Any, engine: WatchedEngine, mode: Sync | Async
) -> None:
    """A job's time limit may be an ordinary exception, raised by a signal in whoever leads."""
    bites = [RuntimeError("time limit")]

    def once(groups: Sequence[Group]) -> None:
        if len(groups) == 5 and bites:
            raise bites.pop()

    engine.before = once
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 5) as callers:
        pass
    answers = callers.join()
    assert hk.pool("p").held == 5, "each was applied once"
    interrupted = [answer for answer in answers if not isinstance(answer, Hold)]
    assert [type(error) for error in interrupted] == ([RuntimeError] if mode.name == "sync" else []), "only its leader"


def test_an_error_after_the_commit_is_not_run_again(hk: Any, engine: WatchedEngine) -> None:
    """The journal has grown, so nobody may say that nothing happened: those with a retry key are answered, others not."""
    hold = hk.hold("p", 1, ttl=60)
    engine.after = lambda groups: (_ for _ in ()).throw(RuntimeError("late")) if len(groups) == 3 else None
    calls = [
        lambda: hk.hold("p", 1, ttl=60),
        lambda: hk.hold("p", 1, ttl=60, op="op-1"),
        lambda: hk.confirm(hold),
    ]
    with batch_of(hk, engine, calls) as callers:
        pass
    minted, by_op, confirmed = callers.join()
    assert isinstance(minted, Hold)
    assert isinstance(by_op, Hold)
    assert by_op.replayed
    assert isinstance(confirmed, OutcomeUnknown)
    assert (hk.pool("p").held, hk.pool("p").consumed) == (2, 1)
    assert hk.admin.verify().ok


@pytest.mark.parametrize("error", [EngineError("disk"), Overloaded("busy", retry_after=3), OutcomeUnknown("who knows")])
def test_every_call_in_the_batch_gets_its_own_exception(hk: Any, engine: WatchedEngine, error: HoldkitError) -> None:
    hold = hk.hold("p", 1, ttl=60)

    def fail(groups: Sequence[Group]) -> None:
        if len(groups) == 4:
            error.__cause__ = OSError("no space")
            raise error

    engine.before = fail
    with batch_of(hk, engine, [lambda: hk.extend(hold, by=1)] * 4) as callers:
        pass
    answers = callers.join()
    assert [type(answer) for answer in answers] == [type(error)] * 4
    assert len({id(answer) for answer in answers}) == 4
    assert {str(answer) for answer in answers} == {str(error)}
    assert all(isinstance(answer.__cause__, OSError) for answer in answers)
    if isinstance(error, Overloaded):
        assert {answer.retry_after for answer in answers} == {3}
    assert hk.hold("p", 1, ttl=60).state == "held", "the next batch goes through"


def test_an_engine_that_miscounts_its_answers_is_not_believed(hk: Any, engine: WatchedEngine) -> None:
    honest = engine.inner.apply

    def miscount(groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        return structs.replace(honest(groups, until=until, wait_for_locks=wait_for_locks), outcomes=[])

    engine.inner.apply = miscount  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        hk.create_pool("q", 1)


def test_many_callers_lose_nothing(hk: Any, engine: WatchedEngine) -> None:
    """Stress: no lost wake-up, no deadlock, every unit accounted for."""
    hk.create_pool("big", 10**6)
    callers = CallerThreads()

    def work() -> int:
        for _ in range(40):
            hold = hk.hold("big", 1, ttl=60)
            hk.confirm(hold)
        return 40

    for _ in range(16):
        callers.start(work)
    assert callers.join() == [40] * 16
    assert (hk.pool("big").consumed, hk.pool("big").held) == (640, 0)
    assert hk.admin.verify().ok


def test_an_engine_that_cannot_read_fails_for_certain(mode: Sync | Async) -> None:
    """The journal is looked at before the first batch, so that there is proof later; that it fails proves nothing."""
    engine = WatchedEngine()

    def fail(_: Any) -> None:
        raise EngineError("disk")

    engine.reading = fail
    engine.before = fail
    hk = mode.open(engine)
    with pytest.raises(EngineError, match="disk"):
        hk.create_pool("p", 1)
    engine.before = None
    assert hk.create_pool("p", 1).total == 1
    engine.before = poison(ZeroDivisionError())
    engine.reading = None
    with pytest.raises(PromiseBroken):
        hk.create_pool("q", 1, correlation_id="poison")
    engine.reading = fail
    with pytest.raises(OutcomeUnknown):  # no proof, no word on what happened
        hk.create_pool("q", 1, correlation_id="poison")
    hk.close()


def reject(mark: str = "poison", biting: int | None = None) -> Any:
    def bite(groups: Sequence[Group]) -> None:
        if marked(groups, mark) if biting is None else len(groups) >= biting:
            raise BatchRejected("one of them is at fault") from OSError("the server said why")

    return bite


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_rejected_batch_is_sent_again_in_halves_and_fails_its_owner_only(
    hk: Any, engine: WatchedEngine, place: int
) -> None:
    """The engine says that nothing was done, so no look at the journal is needed."""
    calls = [lambda: hk.hold("p", 1, ttl=60)] * 7
    calls[place] = lambda: hk.hold("p", 1, ttl=60, correlation_id="poison")
    engine.before = reject()
    engine.reading = lambda query: pytest.fail("a look at the journal")
    with batch_of(hk, engine, calls) as callers:
        pass
    engine.reading = None
    answers = callers.join()
    rejected = answers.pop(place)
    assert type(rejected) is EngineError
    assert str(rejected) == "holdkit: one of them is at fault"
    assert isinstance(rejected.__cause__, OSError)
    assert all(isinstance(answer, Hold) for answer in answers)
    assert hk.pool("p").held == 6
    assert hk.admin.verify().ok


def test_a_lone_rejected_command_is_not_sent_again(hk: Any, engine: WatchedEngine) -> None:
    sent: list[int] = []

    def bite(groups: Sequence[Group]) -> None:
        sent.append(len(groups))
        reject()(groups)

    engine.before = bite
    with pytest.raises(EngineError) as failed:
        hk.create_pool("q", 1, correlation_id="poison")
    assert type(failed.value) is EngineError
    assert sent == [1]


def test_a_batch_rejected_for_its_size_goes_through_in_parts(hk: Any, engine: WatchedEngine) -> None:
    engine.before = reject(biting=3)
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 8) as callers:
        pass
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert engine.batches == [1, 2, 2, 2, 2]


def test_rejected_in_the_midst_of_an_isolation(hk: Any, engine: WatchedEngine) -> None:
    """Poison of both kinds in one batch: each fails its owner, with its own error."""
    calls = [lambda: hk.hold("p", 1, ttl=60)] * 6
    calls[1] = lambda: hk.hold("p", 1, ttl=60, correlation_id="poison")
    calls[4] = lambda: hk.hold("p", 1, ttl=60, correlation_id="rejected")

    def bite(groups: Sequence[Group]) -> None:
        poison(ZeroDivisionError())(groups)
        reject("rejected")(groups)

    engine.before = bite
    with batch_of(hk, engine, calls) as callers:
        pass
    answers = callers.join()
    kinds = [type(answer) for answer in answers]
    assert kinds == [Hold, PromiseBroken, Hold, Hold, EngineError, Hold]
    assert hk.pool("p").held == 4
