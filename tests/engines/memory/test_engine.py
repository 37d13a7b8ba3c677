"""The engine as a whole: the port, threads, closing, what it is made with; and the clock that tests it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, Group
from holdkit.core.outstanding import OpenLeg
from holdkit.core.reading import FindEnds, ReadJournal
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.memory.batches import BOUNDED
from holdkit.engines.port import Engine
from holdkit.errors import EngineError, InvalidRequest
from holdkit.testing import FakeClock
from tests.engines.memory.engine_calls import EngineCalls
from tests.unit.core.world import done, hold_id, place, release, said


def test_it_is_an_engine() -> None:
    engine: Engine = MemoryEngine()
    assert engine.url == "memory://"
    assert engine.limits == BOUNDED
    assert (BOUNDED.max_pools, BOUNDED.max_holds, BOUNDED.max_operations) == (100_000, 100_000, 100_000)
    limits = Limits(max_holds=5)
    assert MemoryEngine(limits=limits).limits == limits


def test_the_wall_clock_is_in_microseconds() -> None:
    before = time.time_ns() // 1000
    slot = MemoryEngine().clock()
    assert before <= slot <= time.time_ns() // 1000


def test_what_a_batch_came_to() -> None:
    calls = EngineCalls()
    create = Group((CreatePool(id="p", total=1),))
    first = calls.engine.apply([create, create])
    assert [[said(one) for one in group] for group in first.outcomes] == [["done"], ["pool_exists"]]
    assert (first.last_seq, first.wrote) == (1, True)
    again = calls.engine.apply([create])
    assert (again.last_seq, again.wrote) == (1, False)
    remembered = calls.engine.apply([Group((CreatePool(id="p", total=1, op="o", fingerprint="f"),))])
    assert (remembered.last_seq, remembered.wrote) == (1, True)  # the refusal was written down, the journal was not
    nothing = calls.engine.apply([])
    assert (nothing.outcomes, nothing.wrote) == ([], False)


def test_there_is_no_transaction_to_join() -> None:
    with pytest.raises(InvalidRequest, match=r"^holdkit: tx: the memory engine has no transactions to join$") as caught:
        MemoryEngine().apply_in(object(), [])
    assert (caught.value.field, caught.value.code) == ("tx", "tx_unsupported")


def test_after_closing_every_call_is_an_error() -> None:
    engine = EngineCalls().engine
    engine.close()
    engine.close()
    for call in (lambda: engine.apply([]), lambda: engine.read(FindEnds()), lambda: list(engine.verify())):
        with pytest.raises(EngineError, match=r"^holdkit: the engine is closed$"):
            call()
    with pytest.raises(EngineError, match="closed"):
        engine.apply_in(None, [])


def test_b20_a_batch_that_breaks_changes_nothing() -> None:
    calls = EngineCalls()
    done(calls.do(CreatePool(id="p", total=10)))
    create = CreatePool(id="q", total=1)
    broken = place("b", "p", 50, token=None)  # the kernel would have minted one
    before = calls.rows
    with pytest.raises(AssertionError, match="the kernel mints tokens"):
        calls.batch(create, place("a", "p", 50), broken)
    assert calls.rows == before
    assert calls.pool("q") is None
    assert calls.differences() == []


def test_verify_names_what_was_tampered_with() -> None:
    calls = EngineCalls()
    done(calls.do(CreatePool(id="p", total=10)))
    done(calls.do(place("a", {"p": 2}, 50)))
    calls.engine._tables.legs["", "p"][hold_id("a")] = OpenLeg(3)
    assert calls.differences() == [
        f"legs p of hold {hold_id('a')}: units is 3, the journal says 2",
        "pools p: held is 2, the journal says 3 (sum of its legs)",
    ]


def test_an_order_that_lost_a_row_is_noticed() -> None:
    calls = EngineCalls()
    done(calls.do(CreatePool(id="p", total=10)))
    done(calls.do(place("a", {"p": 2}, 50)))
    done(calls.do(place("b", {"p": 2}, 60)))
    calls.engine._tables.live.drop(1)
    with pytest.raises(AssertionError, match="an order has lost one of its rows"):
        calls.do(release("a"))


def test_b18_racing_threads_admit_exactly_the_capacity() -> None:
    calls = EngineCalls()
    done(calls.do(CreatePool(id="p", total=37)))
    start = Barrier(8)

    def race(number: int) -> list[str]:
        start.wait()
        return [said(calls.do(place(f"t{number}-{turn}", "p", 50))) for turn in range(10)]

    with ThreadPoolExecutor(8) as threads:
        answers = [answer for told in threads.map(race, range(8)) for answer in told]
    assert answers.count("done") == 37
    assert answers.count("insufficient_capacity") == 43
    assert [row.seq for row in calls.engine.read(ReadJournal(None))] == list(range(1, 39))
    assert calls.differences() == []


# The clock


def test_a_fake_clock_moves_when_told() -> None:
    clock = FakeClock()
    assert (clock(), clock.now()) == (0, 0)
    assert clock.advance(1.5) == 1_500_000
    assert clock.advance(0.000_001) == 1_500_001
    assert clock.advance(-1) == 500_001
    clock.set(7)
    assert clock() == clock.now() == 7
    assert repr(clock) == "FakeClock(7)"
    assert FakeClock(start=42).now() == 42


def test_a_fake_clock_loses_no_step_between_threads() -> None:
    clock = FakeClock()

    def step(_: int) -> None:
        for _ in range(500):
            clock.advance(0.000_001)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(step, range(4)))
    assert clock.now() == 2000
