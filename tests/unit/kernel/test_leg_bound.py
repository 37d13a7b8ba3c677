"""A batch is bounded by its legs too: a thousand holds over a thousand pools each would keep every other writer waiting."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from holdkit import InvalidRequest, Leg, PlaceHold
from holdkit.core.commands import Group
from holdkit.kernel.queued_calls import MAX_LEGS, QueuedCall, take_batch


def wide(legs: int) -> PlaceHold:
    return PlaceHold(legs=tuple(Leg(f"pool-{n}") for n in range(legs)), ttl=60)


def submission(*legs: int) -> QueuedCall:
    return QueuedCall(Group(tuple(wide(each) for each in legs)))


def test_a_batch_ends_before_the_leg_that_is_too_much() -> None:
    queue = deque([submission(6_000), submission(3_000, 1_000), submission(1), submission(1)])
    batch: list[QueuedCall] = []
    take_batch(queue, batch)
    assert [one.legs for one in batch] == [6_000, 4_000]
    take_batch(queue, batch)
    assert len(batch) == 2, "nobody else comes in"
    following: list[QueuedCall] = []
    take_batch(queue, following)
    assert [one.legs for one in following] == [1, 1]
    assert not queue


def test_one_that_is_larger_goes_alone() -> None:
    queue = deque([submission(MAX_LEGS, 1), submission(1)])
    batch: list[QueuedCall] = []
    take_batch(queue, batch)
    assert [one.size for one in batch] == [2]


def test_more_legs_than_one_transaction_may_have_are_refused(hk: Any) -> None:
    with pytest.raises(InvalidRequest, match="10000 legs") as refused:
        hk.apply([wide(1_000) for _ in range(11)])
    assert refused.value.code == "batch_too_large"
    answers = hk.apply([wide(1_000) for _ in range(10)])
    assert {answer.reason for answer in answers} == {"pool_not_found"}
