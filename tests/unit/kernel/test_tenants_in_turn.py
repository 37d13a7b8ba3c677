"""Tenants take turns, sync and async: a call waits for the batch that is being written, not for all that another tenant has queued."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import holdkit
from holdkit import Hold, Overloaded
from holdkit.commands import CreatePool, PlaceHold
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.model import Leg
from holdkit.kernel.group_commit import GroupCommit
from tests.support.interrupts import interrupted_anywhere
from tests.support.kernels import no_lines
from tests.support.modes import Async, Sync, close_quietly
from tests.support.threads import CallerThreads, wait_until
from tests.support.watched_engine import WatchedEngine, batch_of, queued
from tests.unit.kernel.test_interrupted_threads import RecordingEngine

MANY = [PlaceHold(legs=(Leg("p"),), ttl=60)] * 300
"""What a tenant sends that sends all it can."""


class Tenants:
    """The tenants of a kernel, and who was in each batch."""

    def __init__(self, hk: Any, engine: WatchedEngine) -> None:
        self.hk, self.engine = hk, engine
        self.a, self.b = hk.tenant("a"), hk.tenant("b")
        for tenant in (self.a, self.b):
            tenant.create_pool("p", 10**6)
        self.batches: list[str] = []
        engine.before = self._watch

    def _watch(self, groups: Sequence[Group]) -> None:
        self.batches.append(" ".join(group.commands[0].tenant or "-" for group in groups))


@pytest.fixture
def tenants(mode: Sync | Async, engine: WatchedEngine) -> Iterator[Tenants]:
    hk = mode.open(engine)
    made = Tenants(hk, engine)
    yield made
    engine.gate.set()
    close_quietly(hk)


def test_a_call_behind_thirty_of_another_tenant_is_in_the_next_batch(tenants: Tenants, engine: WatchedEngine) -> None:
    tenants.batches.clear()
    calls = [lambda: tenants.a.apply(MANY)] * 30 + [lambda: tenants.b.hold("p", 1, ttl=60)]
    with batch_of(tenants.hk, engine, calls) as callers:
        pass
    answers = callers.join()
    assert isinstance(answers[-1], Hold)
    assert tenants.batches[0] == "-"
    first = next(index for index, batch in enumerate(tenants.batches) if "b" in batch)
    assert first <= 2, "it waits for one call of the other at most, and for its own batch"
    assert tenants.a.pool("p").held == 30 * 300


def test_the_calls_of_a_tenant_keep_their_order(tenants: Tenants, engine: WatchedEngine) -> None:
    calls: list[Any] = []
    for number in range(8):
        calls.append(lambda number=number: tenants.a.apply([*MANY, CreatePool(id=f"a{number}", total=1)]))
        calls.append(lambda number=number: tenants.b.create_pool(f"b{number}", 1))
    with batch_of(tenants.hk, engine, calls):
        pass
    for tenant, name in ((tenants.a, "a"), (tenants.b, "b")):
        created = [entry.subject for entry in tenant.journal.list(limit=10_000) if entry.action == "pool.created"]
        assert created == ["p", *[f"{name}{number}" for number in range(8)]]


def test_a_full_share_turns_its_tenant_away_and_nobody_else(mode: Sync | Async) -> None:
    engine = WatchedEngine(limits=Limits(max_queue=4))
    hk = mode.open(engine)
    tenants = Tenants(hk, engine)
    engine.entered = threading.Semaphore(0)
    with batch_of(hk, engine, [lambda: tenants.a.hold("p", 1, ttl=60)] * 4) as callers:
        with pytest.raises(Overloaded, match="4 commands are waiting"):
            tenants.a.hold("p", 1, ttl=60)
        for number in range(2):
            callers.start(lambda: tenants.b.hold("p", 1, ttl=60))
            wait_until(lambda number=number: queued(hk) == 5 + number)  # type: ignore[misc]
        with pytest.raises(Overloaded, match="6 commands are waiting already, 2 of them of this tenant") as refused:
            tenants.b.hold("p", 1, ttl=60)
        assert refused.value.effect == "none"
    assert all(isinstance(answer, Hold) for answer in callers.join())
    hk.close()


def test_a_large_batch_is_not_added_to_the_batch_of_others(tenants: Tenants, engine: WatchedEngine) -> None:
    tenants.batches.clear()
    calls = [
        lambda: tenants.b.hold("p", 1, ttl=60),
        lambda: tenants.a.apply(MANY),
        lambda: tenants.b.hold("p", 1, ttl=60),
    ]
    with batch_of(tenants.hk, engine, calls):
        pass
    assert tenants.batches == ["-", "b b", "a"]


def test_threads_of_several_tenants_interrupted_anywhere_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    group_commit = GroupCommit(RecordingEngine(), no_lines)  # type: ignore[arg-type]
    submit = group_commit.submit

    def submit_as(group: Group, **more: Any) -> Any:
        (command,) = group.commands
        assert isinstance(command, CreatePool)
        return submit(Group((CreatePool(id=command.id, total=1, tenant=command.id[0]),)), **more)

    monkeypatch.setattr(group_commit, "submit", submit_as)
    interrupted_anywhere(group_commit, rounds=100)


def test_a_cancelled_or_late_call_leaves_the_turns_of_others(tenants: Tenants, engine: WatchedEngine) -> None:
    callers = CallerThreads()
    engine.gate.clear()
    engine.entered = threading.Semaphore(0)
    callers.start(lambda: tenants.hk.admin.records.put("first", "x", "1"))
    engine.wait_entered()

    def soon() -> Any:
        with holdkit.context(timeout=0.05):
            return tenants.a.hold("p", 1, ttl=60)

    late = CallerThreads()
    late.start(soon)
    wait_until(lambda: 0 in late.results)
    callers.start(lambda: tenants.b.hold("p", 1, ttl=60))
    wait_until(lambda: queued(tenants.hk) == 1)
    engine.gate.set()
    assert isinstance(callers.join()[1], Hold)
    assert isinstance(late.join()[0], Overloaded)
    assert tenants.a.pool("p").held == 0
