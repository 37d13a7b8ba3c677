"""A pool that other processes keep busy: calls wait for it at once, instead of finding out first that they have to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdkit.core.commands import ConfirmHold, Consume, Group, PlaceHold, ReleaseHold
from holdkit.core.model import Leg
from holdkit.kernel.busy_locks import AT_ONCE, MAX_BUSY, MAX_HOLDS, BusyLocks
from tests.support.lockable_engine import LockableEngine, no_lock_queues
from tests.support.modes import Async, Sync, close_quietly


class BusyEngine(LockableEngine):
    """Others have these pools locked whenever a batch does not wait, and never for long."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[str] = set()

    def _locked(self, group: Group) -> str | None:
        pools = [pool for command in group.commands for pool in self._pools(command) if pool in self.taken]
        return f"/{min(pools)}" if pools else None


@pytest.fixture
def engine() -> BusyEngine:
    return BusyEngine()


@pytest.fixture
def hk(mode: Sync | Async, engine: BusyEngine) -> Iterator[Any]:
    kernel = mode.open(engine)
    for pool in ("hot", "cold"):
        kernel.create_pool(pool, 100)
    engine.batches.clear()
    yield kernel
    close_quietly(kernel)


def place(*pools: str, tenant: str = "") -> Group:
    return Group((PlaceHold(tenant=tenant, id="a", legs=tuple(Leg(pool, 1) for pool in pools), token="me"),))


def test_batches_that_waited_are_counted(hk: Any, engine: BusyEngine) -> None:
    """Where processes share a pool most calls wait: without them there would be more calls per batch than callers."""
    engine.taken = {"hot"}
    before = hk.admin.stats()
    for _ in range(5):
        hk.hold("hot", 1, ttl=60)
    after = hk.admin.stats()
    assert (after.batches - before.batches, after.commands - before.commands, after.largest) == (5, 5, 1)


def test_after_two_tries_in_vain_calls_wait_at_once(hk: Any, engine: BusyEngine) -> None:
    engine.taken = {"hot"}
    for _ in range(2):
        hk.hold("hot", 1, ttl=60)
    assert (engine.batches, engine.wait_for_locks) == ([0, 0], [1, 1])
    for _ in range(AT_ONCE):
        hk.hold("hot", 1, ttl=60)
    assert (engine.batches, engine.wait_for_locks) == ([0, 0], [1] * (2 + AT_ONCE)), "none of them tried first"
    hk.hold("cold", 1, ttl=60)
    assert engine.batches == [0, 0, 1], "other pools are nobody's concern"
    hk.hold("hot", 1, ttl=60)
    assert engine.batches == [0, 0, 1, 0], "then one tries"
    hk.hold("hot", 1, ttl=60)
    assert engine.batches == [0, 0, 1, 0], "and if that was in vain, the next ones wait at once again"
    assert hk.pool("hot").held == 4 + AT_ONCE
    no_lock_queues(hk)


def test_a_try_that_succeeds_ends_it(hk: Any, engine: BusyEngine) -> None:
    engine.taken = {"hot"}
    for _ in range(2 + AT_ONCE):
        hk.hold("hot", 1, ttl=60)
    engine.taken.clear()
    engine.batches.clear()
    engine.wait_for_locks.clear()
    for _ in range(3):
        hk.hold("hot", 1, ttl=60)
    assert (engine.batches, engine.wait_for_locks) == ([1, 1, 1], [])
    engine.taken = {"hot"}
    hk.hold("hot", 1, ttl=60)
    engine.taken.clear()
    hk.hold("hot", 1, ttl=60)
    assert engine.batches == [1, 1, 1, 0, 1], "once in vain is no habit"


def test_what_is_remembered() -> None:
    busy = BusyLocks()
    assert not busy.at_once
    busy.found_taken("/hot", place("hot"))
    assert busy.at_once
    assert busy.wait_at_once(place("hot")) is None
    busy.found_taken("/hot", place("hot"))
    assert busy.wait_at_once(place("cold", "hot")) == "/hot"
    assert busy.wait_at_once(place("hot", tenant="other")) is None, "another tenant's pool"
    assert busy.wait_at_once(Group((ConfirmHold(id="b", token="me"),))) is None, "nobody knows its pool"
    assert busy.wait_at_once(Group((Consume(id="a", legs=(Leg("hot", 1),)),))) == "/hot"
    busy.found_free(place("cold"))
    assert busy.at_once
    busy.found_free(place("hot"))
    assert not busy.at_once
    assert busy.wait_at_once(place("hot")) is None


def test_no_more_than_so_many_are_remembered() -> None:
    busy = BusyLocks()
    for n in range(MAX_BUSY + 10):
        busy.found_taken(f"/{n}", place(str(n)))
        busy.found_taken(f"/{n}", place(str(n)))
    assert len(busy.at_once) == MAX_BUSY
    assert busy.wait_at_once(place("9")) is None
    assert busy.wait_at_once(place(str(MAX_BUSY))) == f"/{MAX_BUSY}"


def test_a_hold_on_a_busy_pool_is_known_by_its_id(hk: Any, engine: BusyEngine) -> None:
    engine.taken = {"hot"}
    first, second, third = (hk.hold("hot", 1, ttl=60) for _ in range(3))
    assert (engine.batches, engine.wait_for_locks) == ([0, 0], [1, 1, 1])
    hk.extend(first, by=60)
    hk.confirm(second)
    hk.release(third)
    assert (engine.batches, engine.wait_for_locks) == ([0, 0], [1] * 6), "none of them tried first"
    no_lock_queues(hk)


def test_whose_locks_are_remembered() -> None:
    busy = BusyLocks()
    release = Group((ReleaseHold(id="elsewhere", token="me"),))
    busy.found_taken("/hot", release)
    assert busy.wait_at_once(release) is None
    busy.found_taken("/hot", release)
    assert busy.wait_at_once(release) == "/hot", "placed by another process, and found locked here"
    assert busy.queue_for({"/cold": None}, release) is None, "no queue for this lock"
    several = Group((ReleaseHold(id="b", token="me"), ReleaseHold(id="c", token="me")))
    busy.found_taken("/hot", several)
    assert busy.wait_at_once(Group(several.commands[:1])) is None, "which of them was it?"
    for n in range(MAX_HOLDS):
        busy.found_taken("/hot", Group((ReleaseHold(id=f"{n}", token="me"),)))
    assert len(busy._of_holds) == MAX_HOLDS
    assert busy.wait_at_once(release) is None
