"""Threads that are interrupted (Ctrl-C, a job's time limit) while they lead or wait: no other caller notices, and none waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Hold, Kernel, OutcomeUnknown
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.outcomes import Done
from holdkit.core.reading import JournalRow
from holdkit.engines.durability import IN_MEMORY
from holdkit.engines.port import Applied, Capabilities
from holdkit.engines.settings import StoredLimits
from holdkit.kernel.fair_queue import FairQueue
from holdkit.kernel.group_commit import GroupCommit
from holdkit.kernel.leader_queue import LeaderQueue
from tests.support.interrupts import Interrupted, interrupt, interrupted_anywhere
from tests.support.kernels import no_lines
from tests.support.modes import Sync
from tests.support.threads import PATIENCE, CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of, queued


@pytest.fixture
def mode() -> Sync:
    return Sync()


def alive(hk: Kernel) -> None:
    """The kernel serves the next caller, and nobody is queued."""
    done = CallerThreads()
    done.start(lambda: hk.hold("p", 1, ttl=60))
    assert isinstance(done.join()[0], Hold)
    assert queued(hk) == 0


def test_a_leader_interrupted_in_the_engine_leaves_unknown_what_it_had_sent(hk: Kernel, engine: WatchedEngine) -> None:
    hold = hk.hold("p", 1, ttl=60)

    def bite(groups: Sequence[Group]) -> None:
        if len(groups) == 4:
            raise Interrupted

    engine.after = bite
    with batch_of(hk, engine, [lambda: hk.extend(hold, by=1)] * 4) as callers:
        pass
    answers = callers.join()
    assert isinstance(answers[0], Interrupted), "the leader itself gets what struck it"
    assert [type(answer) for answer in answers[1:]] == [OutcomeUnknown] * 3
    alive(hk)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("url", ["memory", "sqlite", "postgres"])
def test_ctrl_c_in_a_leader_and_what_its_batch_is_told(
    url: str, when: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Those with a retry key ask, each for itself, and hear what became of it; without one it is unknown."""
    if url == "postgres":
        url = request.getfixturevalue("postgres_url")
        holdkit.migrate(url)
    else:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/h.db"}[url]
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 10)
        old = hk.hold("p", 1, ttl=60)
        gate = Gate(hk, when)
        callers = CallerThreads()
        for index, call in enumerate(
            [
                lambda: hk.admin.records.put("first", "x", "1"),  # stands before the gate until the others are queued
                lambda: hk.hold("p", 1, ttl=60),  # leads them
                lambda: hk.hold("p", 1, ttl=60),
                lambda: hk.confirm(old, op="op-1"),
                lambda: hk.admin.records.put("last", "x", "1"),
            ]
        ):
            callers.start(call)
            wait_until(lambda index=index: gate.entered and queued(hk) == index)  # type: ignore[misc]
        gate.opened.set()
        _, leader, minted, by_op, keyless = callers.join()
        assert isinstance(leader, KeyboardInterrupt)
        assert isinstance(minted, Hold)
        assert by_op.state == "confirmed"
        assert by_op.replayed is (when == "after")
        assert isinstance(keyless, OutcomeUnknown)
        assert (hk.pool("p").held, hk.pool("p").consumed) == (2 if when == "after" else 1, 1)
        assert hk.admin.verify().ok
        alive(hk)


class Gate:
    """Stands before an engine: the first batch waits, the one of four is interrupted before or after it was applied."""

    def __init__(self, hk: Kernel, when: str) -> None:
        self.entered, self.opened = False, threading.Event()
        self._when, self._apply = when, hk._executor.engine.apply
        hk._executor.engine.apply = self.apply  # type: ignore[method-assign]

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        self.entered = True
        assert self.opened.wait(PATIENCE)
        if len(groups) == 4 and self._when == "before":
            raise KeyboardInterrupt
        applied = self._apply(groups, until=until, wait_for_locks=wait_for_locks)
        if len(groups) == 4:
            raise KeyboardInterrupt
        return applied


def test_a_leader_interrupted_before_it_sends_leaves_everyone_queued(hk: Kernel, engine: WatchedEngine) -> None:
    interrupted: list[str] = []
    real = FairQueue.take

    def take(self: FairQueue, batch: list[Any], **bounds: Any) -> None:
        real(self, batch, **bounds)
        if len(batch) == 4 and not interrupted:
            interrupted.append("once")
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FairQueue, "take", take)
        with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 4) as callers:
            pass
        answers = callers.join()
    assert isinstance(answers[0], Interrupted)
    assert all(isinstance(answer, Hold) for answer in answers[1:])
    assert hk.pool("p").held == 3, "the struck leader's own command was not applied"
    alive(hk)


def test_an_interrupted_leader_hands_over_once(hk: Kernel, engine: WatchedEngine) -> None:
    """Whoever it queued again may be in the next batch by the time it leaves for good: they are not its own any more."""
    dismissed: list[int] = []
    real, take = LeaderQueue._dismiss, FairQueue.take

    def count(self: LeaderQueue, caller: Any, batch: list[Any]) -> None:
        dismissed.append(len(batch))
        real(self, caller, batch)

    def interrupt_once(self: FairQueue, batch: list[Any], **bounds: Any) -> None:
        take(self, batch, **bounds)
        if len(batch) == 4:
            raise Interrupted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaderQueue, "_dismiss", count)
        patch.setattr(FairQueue, "take", interrupt_once)
        with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 4) as callers:
            pass
        callers.join()
    assert dismissed == [4, 3]
    alive(hk)


def test_a_leader_interrupted_between_halves_sends_the_other_half_again(hk: Kernel, engine: WatchedEngine) -> None:
    """Poison forces halves; the leader is struck in the first half: the second was not sent, and is not lost."""
    calls = [lambda: hk.hold("p", 1, ttl=60)] * 3 + [lambda: hk.hold("p", 1, ttl=60, correlation_id="poison")]

    def bite(groups: Sequence[Group]) -> None:
        if any(command.correlation_id == "poison" for group in groups for command in group.commands):
            raise ZeroDivisionError
        if len(groups) == 2:
            raise Interrupted

    engine.before = bite
    with batch_of(hk, engine, calls) as callers:
        pass
    leader, sent, unsent, poisoned = callers.join()
    assert isinstance(leader, Interrupted)
    assert isinstance(sent, Hold), "in doubt, and asked about"
    assert isinstance(unsent, Hold)
    assert type(poisoned).__name__ == "PromiseBroken"
    assert hk.pool("p").held == 2
    alive(hk)


@pytest.mark.parametrize("step", ["_dismiss", "_pass_lead"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_leader_interrupted_while_it_hands_over_hands_over(
    hk: Kernel, engine: WatchedEngine, step: str, when: str
) -> None:
    interrupted: list[str] = []
    real = getattr(LeaderQueue, step)

    def stumble(self: LeaderQueue, *arguments: Any) -> None:
        if when == "after":
            real(self, *arguments)
        if not interrupted and len(engine.batches) == 2:
            interrupted.append("once")
            raise Interrupted
        if when == "before":
            real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaderQueue, step, stumble)
        with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 4) as callers:
            pass
        answers = callers.join()
    assert interrupted
    assert isinstance(answers[0], Interrupted)
    assert all(isinstance(answer, Hold) for answer in answers[1:])
    assert hk.pool("p").held == 4
    alive(hk)


def test_a_waiting_follower_that_is_interrupted_is_removed(hk: Kernel, engine: WatchedEngine) -> None:
    with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 3) as callers:
        woken = [*hk._executor.group_commit.main.queue][1].woken
        interrupt(callers._threads[1])
        woken.release()  # a lock is waited for in C: the interrupt strikes when it returns
        wait_until(lambda: queued(hk) == 2)
    answers = callers.join()
    assert isinstance(answers[1], Interrupted)
    assert isinstance(answers[0], Hold)
    assert isinstance(answers[2], Hold)
    assert hk.pool("p").held == 2
    alive(hk)


def test_a_next_leader_that_is_interrupted_passes_the_lead_on(hk: Kernel, engine: WatchedEngine) -> None:
    real = LeaderQueue._lead
    interrupted: list[str] = []

    def lead(self: LeaderQueue, caller: Any, batch: list[Any]) -> None:
        if len(engine.batches) == 1 and not interrupted:
            interrupted.append("once")
            raise Interrupted
        real(self, caller, batch)

    with pytest.MonkeyPatch.context() as patch:
        with batch_of(hk, engine, [lambda: hk.hold("p", 1, ttl=60)] * 3) as callers:
            patch.setattr(LeaderQueue, "_lead", lead)
        answers = callers.join()
    assert isinstance(answers[0], Interrupted)
    assert [type(answer) for answer in answers[1:]] == [Hold, Hold]
    assert hk.pool("p").held == 2
    alive(hk)


def test_ctrl_c_reaches_the_caller_and_leaves_the_kernel_working(hk: Kernel, engine: WatchedEngine) -> None:
    def bite(groups: Sequence[Group]) -> None:
        raise KeyboardInterrupt

    engine.before = bite
    with pytest.raises(KeyboardInterrupt):
        hk.hold("p", 1, ttl=60)
    engine.before = None
    alive(hk)


class RecordingEngine:
    """An engine whose transaction is one append, so that no interrupt splits it."""

    url, limits, lanes, durability = "recording://", Limits(), 1, IN_MEMORY
    stored = StoredLimits(limits)
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.applied: list[str] = []

    def clock(self) -> int:
        return 0

    def read(self, query: Any, *, durable: bool = False) -> Any:
        return [JournalRow(len(self.applied), "")]

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        self.applied.extend([group.commands[0].id for group in groups])  # type: ignore[union-attr, misc]
        return Applied([[Done(slot=0)] for _ in groups], len(self.applied), True)

    def close(self) -> None:
        pass


def test_threads_interrupted_anywhere_leave_nobody_waiting_and_nothing_applied_twice() -> None:
    interrupted_anywhere(GroupCommit(RecordingEngine(), no_lines), rounds=100)  # type: ignore[arg-type]
