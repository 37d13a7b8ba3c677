"""Calls that touch too many legs for one transaction: the rest of a batch goes into the next, in order; one call too large is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from holdkit import Hold, InvalidRequest
from holdkit.commands import ExtendHold
from holdkit.core.bounds import Limits
from holdkit.engines.port import Applied
from tests.support.modes import Async, Sync, close_quietly
from tests.support.watched_engine import WatchedEngine, batch_of
from tests.unit.kernel.test_loop_batches import kernel

LEGS = 4


@pytest.fixture
def engine() -> WatchedEngine:
    return WatchedEngine(limits=Limits(max_touched_legs=10))


@pytest.fixture
def wide(mode: Sync | Async, engine: WatchedEngine) -> Iterator[tuple[Any, Hold]]:
    """A kernel, and a hold of four legs."""
    hk = mode.open(engine)
    for number in range(LEGS):
        hk.create_pool(f"p{number}", 100)
    yield hk, hk.hold([f"p{number}" for number in range(LEGS)], ttl=60)
    engine.gate.set()
    close_quietly(hk)


def extended(hk: Any, hold: Hold) -> int:
    return [entry.action for entry in hk.history(hold.id)].count("hold.extended")


def test_a_batch_of_one_caller_that_touches_too_many_is_refused_and_nothing_is_done(wide: tuple[Any, Hold]) -> None:
    hk, hold = wide
    extension = ExtendHold(id=hold.id, token=hold.token, by=1)
    for atomic, op in ((False, None), (True, None), (False, "key")):
        with pytest.raises(InvalidRequest, match="touches 12 legs, at most 10 are allowed") as refused:
            hk.apply([extension] * 3, atomic=atomic, op=op)
        assert (refused.value.field, refused.value.code) == ("commands", "batch_too_large")
    assert extended(hk, hold) == 0
    assert [outcome.unwrap().state for outcome in hk.apply([extension] * 2, op="key")] == ["held", "held"], (
        "the key is free"
    )


def test_calls_that_do_not_fit_go_into_the_next_transaction_in_order(
    wide: tuple[Any, Hold], engine: WatchedEngine
) -> None:
    hk, hold = wide
    engine.batches.clear()
    applied: list[frozenset[int]] = []
    apply = engine.inner.apply

    def watch(groups: Any, *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        done = apply(groups, until=until, wait_for_locks=wait_for_locks)
        applied.append(done.put_off)
        return done

    engine.inner.apply = watch  # type: ignore[method-assign]
    calls = [lambda number=number: hk.extend(hold, by=1, reason=str(number)) for number in range(7)]
    with batch_of(hk, engine, calls) as callers:
        pass
    assert all(isinstance(answer, Hold) for answer in callers.join())
    assert [len(put_off) for put_off in applied] == [0, 4, 1, 0], (
        "three calls of four legs fit: the third may overshoot"
    )
    assert engine.batches == [1, 7, 4, 1]
    reasons = [entry.reason for entry in hk.history(hold.id) if entry.action == "hold.extended"]
    assert reasons == [str(number) for number in range(7)]


def test_what_is_put_off_on_the_event_loop_is_sent_again() -> None:
    async def main() -> None:
        hk, engine = await kernel()
        engine.stored.in_force = Limits(max_touched_legs=2)
        holds = await asyncio.gather(*[hk.hold("p", 1, ttl=60) for _ in range(7)])
        assert len({hold.id for hold in holds}) == 7
        assert engine.flown[-4:] == [7, 5, 3, 1]
        assert (await hk.pool("p")).held == 7
        await hk.close()

    asyncio.run(main())


def test_a_call_that_touches_as_many_as_a_transaction_may_is_not_put_off_again_and_again(
    wide: tuple[Any, Hold], engine: WatchedEngine
) -> None:
    """Behind the calls of another tenant it has no room, in any batch: it begins the next one."""
    hk, hold = wide
    other = hk.tenant("other")
    other.create_pool("p", 100)
    extensions = [ExtendHold(id=hold.id, token=hold.token, by=1)] * 2
    engine.batches.clear()
    calls = (
        [lambda: other.hold("p", 1, ttl=60)] * 3 + [lambda: hk.apply(extensions)] + [lambda: other.hold("p", 1, ttl=60)]
    )
    with batch_of(hk, engine, calls) as callers:
        pass
    assert len(callers.join()) == 5
    assert extended(hk, hold) == 2
    assert engine.batches[:2] == [1, 5]
    assert len(engine.batches) == 3
