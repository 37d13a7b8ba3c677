"""A batch is bounded by its legs too: a thousand holds over a thousand pools each would keep every other writer waiting."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit import InvalidRequest, Leg
from holdkit.commands import PlaceHold
from holdkit.core.commands import Group
from holdkit.kernel.batches import QueuedCall
from holdkit.kernel.fair_queue import MAX_COMMANDS, MAX_LEGS, FairQueue


def wide(legs: int) -> PlaceHold:
    return PlaceHold(legs=tuple(Leg(f"pool-{n}") for n in range(legs)), ttl=60)


def submission(*legs: int) -> QueuedCall:
    return QueuedCall(Group(tuple(wide(each) for each in legs)))


def queue_of(*calls: QueuedCall) -> FairQueue:
    queue = FairQueue(10**9)
    for call in calls:
        queue.append(call)
    return queue


def test_a_batch_ends_before_the_leg_that_is_too_much() -> None:
    queue = queue_of(submission(6_000), submission(3_000, 1_000), submission(1), submission(1))
    batch: list[QueuedCall] = []
    queue.take(batch, MAX_COMMANDS)
    assert [one.legs for one in batch] == [6_000, 4_000]
    queue.take(batch, MAX_COMMANDS)
    assert len(batch) == 2, "nobody else comes in"
    following: list[QueuedCall] = []
    queue.take(following, MAX_COMMANDS)
    assert [one.legs for one in following] == [1, 1]
    assert not queue


def test_one_that_is_larger_goes_alone() -> None:
    queue = queue_of(submission(MAX_LEGS, 1), submission(1))
    batch: list[QueuedCall] = []
    queue.take(batch, MAX_COMMANDS)
    assert [one.size for one in batch] == [2]


def test_more_legs_than_one_transaction_may_have_are_refused(hk: Any) -> None:
    with pytest.raises(InvalidRequest, match="10000 legs") as refused:
        hk.apply([wide(1_000) for _ in range(11)])
    assert refused.value.code == "batch_too_large"
    outcomes = hk.apply([wide(1_000) for _ in range(10)])
    assert {outcome.reason for outcome in outcomes} == {"pool_not_found"}
