"""Tenants take turns in the queue: what a batch is filled with, who pays for large calls, and that nobody is lost or starved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdkit import Overloaded
from holdkit.core.commands import ExtendHold, Group, PlaceHold
from holdkit.core.model import HeldLeg, Leg, StoredHold
from holdkit.core.outcomes import Receipt
from holdkit.kernel import fair_queue
from holdkit.kernel.batches import QueuedCall
from holdkit.kernel.fair_queue import MAX_COMMANDS, FairQueue

QUANTUM = 512
"""What the tests count with; the kernel's own is smaller."""
COST = 2
"""Of a command with one leg."""


@pytest.fixture(autouse=True, scope="module")
def quantum() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fair_queue, "QUANTUM", QUANTUM)
        yield


def call(tenant: str, commands: int = 1, until: float = inf) -> QueuedCall:
    """A call of so many holds with one leg each."""
    return QueuedCall(Group((PlaceHold(tenant=tenant, legs=(Leg("p"),), ttl=60),) * commands), until=until)


def queue_of(*calls: QueuedCall) -> FairQueue:
    queue = FairQueue(10**9)
    for one in calls:
        queue.append(one)
    return queue


def take(queue: FairQueue, most: int = MAX_COMMANDS, latest: float = inf) -> list[QueuedCall]:
    batch: list[QueuedCall] = []
    queue.take(batch, most, latest=latest)
    return batch


def shown(batch: list[QueuedCall]) -> str:
    """The tenants of a batch, in order; a call of several commands with their number."""
    return " ".join(one.tenant if one.size == 1 else f"{one.tenant}{one.size}" for one in batch)


def test_a_tenant_alone_has_the_whole_batch() -> None:
    queue = queue_of(*[call("a") for _ in range(1_100)])
    assert [len(take(queue)), len(take(queue)), len(take(queue))] == [1_000, 100, 0]


def test_with_others_it_has_a_share_of_each_batch() -> None:
    queue = queue_of(*[call("a") for _ in range(1_100)], call("b"), call("c"))
    assert Counter(one.tenant for one in take(queue)) == {"a": QUANTUM // COST, "b": 1, "c": 1}
    queue.append(call("b"))
    assert Counter(one.tenant for one in take(queue)) == {"a": QUANTUM // COST, "b": 1}


def test_a_call_behind_fifty_of_another_tenant_is_in_the_next_batch() -> None:
    queue = queue_of(*[call("a", 100) for _ in range(50)], call("b"))
    assert shown(take(queue)) == "a100 a100 a100 b"


def test_a_large_call_begins_a_batch_and_is_not_added_to_that_of_others() -> None:
    queue = queue_of(call("b"), call("a", 1_000), call("a", 1_000), call("b"), call("c"))
    assert shown(take(queue)) == "b b c"
    queue.append(call("b"))
    assert shown(take(queue)) == "a1000"
    assert shown(take(queue)) == "b"


def test_a_tenant_that_has_sent_a_large_call_pays_before_its_next() -> None:
    queue = queue_of(call("b"), *[call("a", 1_000) for _ in range(3)])
    seen = []
    for _ in range(11):
        seen.append(shown(take(queue)))
        queue.append(call("b"))
    each = ["a1000", "b b", "b", "b"]
    assert seen == ["b", *each, *each, "a1000", "b b"], "a cost of 2,000 is paid by four visits"


def test_a_tenant_that_was_alone_pays_for_its_last_batch_only() -> None:
    queue = queue_of(*[call("a", 1_000) for _ in range(9)])
    for _ in range(5):
        assert shown(take(queue)) == "a1000"
    seen = []
    for _ in range(6):
        queue.append(call("b"))
        seen.append(shown(take(queue)))
    assert seen == ["b", "b", "a1000", "b b", "b", "b"]


def test_credit_is_not_saved() -> None:
    queue = queue_of(call("a"), call("b"))
    for _ in range(10):
        take(queue)
        queue.append(call("a"))
        queue.append(call("b"))
    for _ in range(500):
        queue.append(call("b"))
    assert Counter(one.tenant for one in take(queue))["b"] == QUANTUM // COST


def test_if_all_are_in_debt_nobody_waits_for_it() -> None:
    queue = queue_of(call("a", 1_000), call("b", 1_000), call("a", 1_000), call("b", 1_000))
    assert [shown(take(queue)) for _ in range(5)] == ["a1000", "b1000", "a1000", "b1000", ""]


def test_a_tenant_whose_call_does_not_fit_is_the_first_of_the_next_batch() -> None:
    queue = queue_of(call("a"), call("b", 200), call("c"))
    assert shown(take(queue, most=100)) == "a"
    queue.append(call("a"))
    assert shown(take(queue, most=100)) == "b200"
    assert shown(take(queue, most=100)) == "c a"


def test_who_has_more_time_than_the_leader_is_passed_over_with_all_behind_it() -> None:
    queue = queue_of(call("a", until=5), call("a", until=9), call("a", until=5), call("b", until=5))
    assert shown(take(queue, latest=5)) == "a b"
    assert [one.until for one in take(queue)] == [9, 5]


def test_legs_of_holds_that_were_named_are_charged_afterwards() -> None:
    queue = queue_of(call("b"))
    extend = QueuedCall(Group((ExtendHold(tenant="a", id="0" * 32, by_slots=1),)))
    queue.append(extend)
    assert shown(take(queue)) == "b a"
    wide = StoredHold("a", "0" * 32, tuple(HeldLeg(f"p{n}", 1, 1) for n in range(2_000)), "", 0, 1)
    extend.outcomes = [Receipt(slot=0, hold=wide)]
    queue.charge([extend])
    seen = []
    for _ in range(5):
        queue.append(call("a"))
        queue.append(call("b"))
        seen.append(shown(take(queue)))
    assert seen == ["b", "b", "b a a a", "b a", "b a"]


def test_a_debt_is_paid_after_so_many_visits() -> None:
    queue = queue_of(call("b"), extend := QueuedCall(Group((ExtendHold(tenant="a", id="0" * 32, by_slots=1),))))
    take(queue)
    wide = StoredHold("a", "0" * 32, tuple(HeldLeg(f"p{n}", 1, 1) for n in range(10_000)), "", 0, 1)
    extend.outcomes = [Receipt(slot=0, hold=wide)]
    queue.charge([extend])
    queue.append(call("a"))
    waited = 0
    while len(queue):
        queue.append(call("b"))
        waited += "a" not in shown(take(queue))
    assert waited == fair_queue.MAX_DEBT_VISITS


def test_calls_put_back_are_first_and_those_that_were_sent_before_all_tenants() -> None:
    queue = queue_of(call("a"), call("a"), call("b"), call("c"))
    batch = take(queue)
    asked = batch[-1]
    asked.sent = True
    queue.append(call("a", 2))
    queue.put_back(batch)
    assert queue.turn()[0] is asked
    again = take(queue)
    assert again[0] is asked
    assert [one for one in again if one.tenant == "a"][:2] == batch[:2]
    assert shown(again) == "c a a a2 b"


def test_a_call_that_the_engine_put_off_begins_the_next_batch() -> None:
    queue = queue_of(call("b"), call("a"), call("c"))
    _, a, _ = take(queue)
    queue.put_back([a])
    for tenant in "bc":
        queue.append(call(tenant))
    assert queue.turn()[0] is a
    queue.put_back([])
    assert shown(take(queue)).startswith("a ")


def test_the_leader_is_of_the_tenant_that_has_the_turn() -> None:
    queue = queue_of(call("a", 1_000), call("a", 1_000), call("b"))
    first = queue.turn()[0]
    assert first.tenant == "a"
    assert queue.withdraw(first)
    queue.spend(first)
    batch = [first]
    queue.take(batch, MAX_COMMANDS)
    assert shown(batch) == "a1000", "it has all commands of a batch"
    assert queue.turn()[0].tenant == "b"
    assert shown(take(queue)) == "b"
    assert queue.turn()[0].tenant == "a", "in debt, and alone"


def test_tenants_that_have_gone_are_forgotten() -> None:
    queue = queue_of(*[call(f"t{number}") for number in range(50)])
    assert len(take(queue)) == 50
    for _ in range(3):
        queue.append(call("x"))
        take(queue)
    assert len(queue._order) == len(queue._by_tenant) == 1
    assert not queue


# The bound


def queued(bounded: FairQueue, tenant: str) -> int:
    """How many commands the tenant can queue now."""
    count = 0
    while True:
        try:
            bounded.add(call(tenant))
        except Overloaded:
            return count
        count += 1


def test_one_tenant_cannot_fill_the_queue_for_the_others() -> None:
    bounded = FairQueue(100)
    assert queued(bounded, "a") == 100
    with pytest.raises(Overloaded, match=r"^holdkit: 100 commands are waiting already \(max_queue\)"):
        bounded.add(call("a"))
    assert queued(bounded, "b") == 50
    with pytest.raises(Overloaded, match="150 commands are waiting already, 50 of them of this tenant"):
        bounded.add(call("b"))
    assert [queued(bounded, tenant) for tenant in ("c", "d", "e", "f")] == [25, 12, 6, 3]
    assert bounded.commands < 200
    batch: list[Any] = []
    bounded.take(batch, most=120)
    assert queued(bounded, "f") > 0, "room again"


def test_a_call_larger_than_the_bound_enters_an_empty_queue() -> None:
    bounded = FairQueue(1)
    bounded.add(call("a", 5))
    with pytest.raises(Overloaded):
        bounded.add(call("a"))


# Whatever happens

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.sampled_from([1, 1, 1, 2, 300, 1_000])),
        st.tuples(st.just("take"), st.sampled_from([1, 10, 1_000]), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("lead"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Watched:
    """A queue, and what must be in it: the calls of each tenant in order of arrival."""

    def __init__(self) -> None:
        self.bounded = FairQueue(10**9)
        self.calls: dict[str, list[QueuedCall]] = {"a": [], "b": [], "c": []}

    def add(self, tenant: str, commands: int) -> None:
        one = call(tenant, commands)
        self.bounded.add(one)
        self.calls[tenant].append(one)

    def take(self, most: int = MAX_COMMANDS, put_back: bool = False) -> list[QueuedCall]:
        batch: list[QueuedCall] = []
        self.bounded.take(batch, most=most)
        assert bool(batch) == any(self.calls.values()), "something is taken if anything waits"
        return self._took(batch, put_back)

    def lead(self, _: int, __: int) -> None:
        queue = self.bounded
        if queue:
            leader = queue.turn()[0]
            assert self.bounded.withdraw(leader)
            queue.spend(leader)
            batch = [leader]
            self.bounded.take(batch)
            self._took(batch, put_back=False)

    def _took(self, batch: list[QueuedCall], put_back: bool) -> list[QueuedCall]:
        for tenant, calls in self.calls.items():
            mine = [one for one in batch if one.tenant == tenant]
            assert mine == calls[: len(mine)], "in order of arrival"
        if put_back and len(batch) > 1:
            self.bounded.put_back(batch[1:])
            batch = batch[:1]
        for one in batch:
            self.calls[one.tenant].remove(one)
        return batch

    def cancel(self, number: int, _: int) -> None:
        calls = [one for some in self.calls.values() for one in some]
        if calls:
            gone = calls[number % len(calls)]
            assert self.bounded.withdraw(gone)
            assert not self.bounded.withdraw(gone)
            self.calls[gone.tenant].remove(gone)

    def check(self) -> None:
        queue, left = self.bounded, [one for some in self.calls.values() for one in some]
        assert (len(queue), bool(queue), {*queue}) == (len(left), bool(left), {*left})
        assert self.bounded.commands == sum(one.size for one in left)
        assert all(queue.waiting(tenant) == sum(one.size for one in calls) for tenant, calls in self.calls.items())


@settings(max_examples=300, deadline=None)
@given(steps, st.sampled_from("abc"), st.sampled_from([1, 300, 1_000]))
def test_nothing_is_lost_nobody_overtakes_within_a_tenant_and_nobody_starves(
    steps: list[tuple[str, Any, Any]], quiet: str, commands: int
) -> None:
    watched = Watched()
    for kind, what, how in steps:
        getattr(watched, kind)(what, how)
        watched.check()
    while watched.calls[quiet]:
        watched.take()
    watched.add(quiet, 1)
    batches = 0
    while watched.calls[quiet]:  # the others send all they can
        for tenant in {*"abc"} - {quiet}:
            for _ in range(3):
                watched.add(tenant, commands)
        watched.take()
        batches += 1
    assert batches <= 12, "its own debt of a large call, and a large call of each of the others"
