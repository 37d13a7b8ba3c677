"""A caller never pays for a backlog: one transaction returns a bounded number of due legs, and the rest goes first."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import CreatePool, Sweep
from holdkit.core.outcomes import Done
from holdkit.engines.memory import batches as module
from tests.engines.memory.engine_calls import EngineCalls
from tests.unit.core.world import confirm, done, expire, hold_id, place, said


@pytest.fixture
def calls() -> EngineCalls:
    calls = EngineCalls(max_due=10)
    for name in ("p", "q"):
        done(calls.do(CreatePool(id=name, total=100)))
    for turn in range(35):
        done(calls.do(place(f"h{turn:02}", "p", 50 + turn)))
    return calls


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each transaction wrote."""
    written: list[int] = []
    write = module.Batches._write

    def counted(self: Any, view: Any) -> None:
        written.append(len(view.entries))
        write(self, view)

    monkeypatch.setattr(module.Batches, "_write", counted)
    return written


def test_expiry_only_rounds_go_first(calls: EngineCalls, rounds: list[int]) -> None:
    calls.clock.set(84)
    done(calls.do(place("new", "p", 50)))
    assert rounds == [10, 10, 10, 6]  # the last 5 and the hold itself
    pool = calls.pool("p")
    assert pool is not None
    assert pool.held == 1
    assert calls.differences() == []


def test_no_round_where_one_transaction_will_do(calls: EngineCalls, rounds: list[int]) -> None:
    calls.clock.set(59)
    done(calls.do(place("new", "p", 50)))
    assert rounds == [11]


def test_the_pools_of_a_named_hold_count(calls: EngineCalls, rounds: list[int]) -> None:
    done(calls.do(place("both", {"p": 1, "q": 1}, 500)))
    rounds.clear()
    calls.clock.set(84)
    done(calls.do(confirm("both")))
    assert rounds == [10, 10, 10, 6]


def test_other_pools_are_left_alone(calls: EngineCalls, rounds: list[int]) -> None:
    calls.clock.set(84)
    done(calls.do(place("new", "q", 50)))
    assert rounds == [1]
    assert said(calls.do(expire("nobody"))) == "hold_not_found"
    assert rounds == [1, 0]


def test_several_pools_share_the_rounds(calls: EngineCalls, rounds: list[int]) -> None:
    for turn in range(12):
        done(calls.do(place(f"i{turn:02}", "q", 40)))
    rounds.clear()
    calls.clock.set(84)
    done(calls.do(place("new", {"p": 1, "q": 1}, 50)))
    assert sum(rounds) == 35 + 12 + 1
    assert rounds[-1] <= 11
    assert max(rounds[:-1]) == 10
    assert calls.differences() == []


def test_an_older_clock_than_the_pools_is_no_trap(calls: EngineCalls) -> None:
    calls.clock.set(84)
    done(calls.do(Sweep(limit=1)))  # moves the pool to slot 84 and leaves the others
    calls.clock.set(10)
    done(calls.do(place("new", "p", 50)))
    assert calls.differences() == []
    hold = calls.hold("new")
    assert hold is not None
    assert hold.held_at == 84


def test_a_sweep_is_bounded_by_holds_and_by_legs(calls: EngineCalls) -> None:
    calls.clock.set(84)
    assert done(calls.do(Sweep(limit=4))).expired == 4
    outcome = done(calls.do(Sweep(limit=500)))
    assert (outcome.expired, outcome.more) == (10, True)
    assert [done(calls.do(Sweep())).expired for _ in range(3)] == [10, 10, 1]
    assert calls.do(Sweep()) == Done(slot=84)


def test_a_hold_with_many_legs_is_swept_all_the_same() -> None:
    calls = EngineCalls(max_due=2)
    names = [f"p{n}" for n in range(5)]
    for name in names:
        done(calls.do(CreatePool(id=name, total=1)))
    done(calls.do(place("wide", dict.fromkeys(names, 1), 5)))
    calls.clock.set(5)
    assert calls.do(Sweep()) == Done(slot=5, swept=(("", hold_id("wide")),))


def test_a_sweep_takes_late_legs_in_the_order_of_deadlines() -> None:
    calls = EngineCalls()
    for name in ("p", "q"):
        done(calls.do(CreatePool(id=name, total=10)))
    done(calls.do(place("b", {"p": 1, "q": 1}, 5)))
    done(calls.do(place("a", "q", 6)))
    done(calls.do(place("c", "q", 4)))
    calls.clock.set(6)
    done(calls.do(place("new", "p", 50)))  # b is expired on p; its leg on q is left over
    outcome = done(calls.do(Sweep(limit=2)))
    assert (outcome.expired, outcome.more) == (1, True)  # c, and the leg of b
    shown = [calls.engine._tables.holds["", hold_id(name)].open for name in "abc"]
    assert shown == [True, False, False]
