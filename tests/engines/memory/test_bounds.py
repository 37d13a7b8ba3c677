"""Everything is bounded: tables, operations, the journal; and memory stays flat (B2)."""

from __future__ import annotations

import pytest

from holdkit.core.commands import CreatePool, PutRecord, ResizePool, Sweep
from holdkit.core.entries import Action
from holdkit.core.fold import reconstruct
from holdkit.core.model import Leg, State
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindEnds, ReadHistory, ReadJournal, entry_of
from holdkit.errors import CursorLost
from tests.engines.memory.engine_calls import EngineCalls
from tests.unit.core.world import confirm, consume, done, give_back, hold_id, place, release, said

# Holds


def test_b2_memory_stays_flat_under_endless_holds() -> None:
    calls = EngineCalls(journal=50, max_pools=20, max_holds=10, max_operations=10, retry_window=5, retention=1000)
    done(calls.do(CreatePool(id="p", total=10**9)))
    most: dict[str, int] = {}
    for turn in range(400):
        calls.clock.set(turn)
        done(calls.do(place(f"h{turn}", (Leg("p"), Leg(f"~{turn}", 1, 1)), 3)))
        if turn % 3 == 0:
            done(calls.do(release(f"h{turn}", op=f"r{turn}")))
        if turn % 3 == 1:
            done(calls.do(confirm(f"h{turn}", {"p": 1}, op=f"c{turn}")))
        if turn % 7 == 0:
            assert calls.differences() == []
        most = {name: max(count, most.get(name, 0)) for name, count in calls.rows.items()}
    assert most["pools"] <= 20
    assert most["holds"] <= 10
    assert most["operations"] <= 10
    assert most["journal"] == 50
    assert max(most.values()) <= 70


def test_the_oldest_ended_holds_leave_first_and_live_ones_never() -> None:
    calls = EngineCalls(max_holds=3)
    done(calls.do(CreatePool(id="p", total=10)))
    done(calls.do(place("live", "p", 1000)))
    for slot, name in enumerate("abc", start=1):
        calls.clock.set(slot)
        done(calls.do(consume(name, "p")))
    assert [calls.hold(name) is None for name in ("live", "a", "b", "c")] == [False, True, False, False]
    calls.clock.set(9)
    done(calls.do(place("live2", "p", 1000)))
    assert [calls.hold(name) is None for name in "bc"] == [True, False]
    done(calls.do(place("live3", "p", 1000)))
    assert calls.stored() == sorted(("", hold_id(name)) for name in ("live", "live2", "live3"))
    assert said(calls.do(place("live4", "p", 1000))) == "hold_table_full"
    assert said(calls.do(give_back("c"))) == "hold_not_found"
    assert calls.differences() == []


def test_among_those_that_ended_together_the_smaller_id_leaves_first() -> None:
    calls = EngineCalls(max_holds=2)
    done(calls.do(CreatePool(id="p", total=10)))
    for name in "cab":
        done(calls.do(consume(name, "p")))
    assert calls.stored() == [("", hold_id("b")), ("", hold_id("c"))]


def test_holds_that_only_a_sweep_can_end_make_room_by_themselves() -> None:
    calls = EngineCalls(max_holds=5)
    for name in ("p", "q"):
        done(calls.do(CreatePool(id=name, total=1000)))
    for turn in range(0, 300, 2):
        calls.clock.set(turn)
        done(calls.do(place(f"h{turn}", {"p": 1, "q": 1}, 1)))  # each is due before the next
        done(calls.do(place(f"i{turn}", "q", 1)))
        assert calls.rows["holds"] <= 7
    assert calls.differences() == []


def test_after_the_retention_rows_are_pruned() -> None:
    calls = EngineCalls(retention=100)
    done(calls.do(CreatePool(id="p", total=10)))
    done(calls.do(place("a", "p", 50)))
    done(calls.do(release("a")))
    done(calls.do(place("b", "p", 50)))
    calls.clock.set(99)
    done(calls.do(ResizePool(id="p", total=11)))
    assert calls.rows["holds"] == 2
    calls.clock.set(100)
    assert calls.hold("a") is None  # for every reader, pruned or not
    done(calls.do(ResizePool(id="p", total=12)))
    assert calls.stored() == [("", hold_id("b"))]
    calls.clock.set(150)
    done(calls.do(ResizePool(id="p", total=13)))
    assert calls.rows["holds"] == 0
    assert calls.differences() == []


# Pools


def test_empty_on_demand_pools_make_room_for_others() -> None:
    calls = EngineCalls(max_pools=3)
    done(calls.do(CreatePool(id="p", total=10)))
    for turn in range(50):
        calls.clock.set(turn * 10)
        done(calls.do(place(f"h{turn}", (Leg(f"~{turn}", 1, 1),), 5)))
    assert calls.rows["pools"] <= 3
    assert calls.differences() == []


def test_a_pool_the_batch_itself_names_is_not_swept_from_under_it() -> None:
    calls = EngineCalls(max_pools=2)
    for name in "ab":
        done(calls.do(place(name, (Leg(f"~{name}", 1, 1),), 5)))
        done(calls.do(release(name)))
    answers = calls.batch(place("c", "~a", 5), place("d", (Leg("~d", 1, 1),), 5))
    assert [said(one) for one in answers] == ["done", "done"]
    assert calls.pool("~b") is None


def test_pools_that_are_in_use_stay() -> None:
    calls = EngineCalls(max_pools=2)
    for name in "ab":
        done(calls.do(place(name, (Leg(f"~{name}", 1, 1),), 5)))
    assert said(calls.do(place("c", (Leg("~c", 1, 1),), 5))) == "pool_table_full"
    assert said(calls.do(CreatePool(id="p", total=1))) == "pool_table_full"
    calls.clock.set(5)
    assert said(calls.do(place("c", (Leg("~c", 1, 1),), 5))) == "done"
    assert calls.rows["pools"] == 2


def test_a_sweep_takes_empty_pools_a_hundred_at_a_time() -> None:
    calls = EngineCalls()
    for turn in range(130):
        done(calls.do(place(f"h{turn}", (Leg(f"~{turn:03}", 1, 1),), 5)))
        done(calls.do(release(f"h{turn}")))
    done(calls.do(Sweep()))
    assert calls.rows["pools"] == 30
    assert calls.pool("~099") is None
    assert calls.pool("~100") is not None
    done(calls.do(Sweep()))
    assert calls.rows["pools"] == calls.rows["idle"] == 0


# Operations


def test_operations_are_forgotten_after_their_window() -> None:
    calls = EngineCalls(retry_window=10, max_operations=3)
    for slot in range(40):
        calls.clock.set(slot * 4)
        done(calls.do(PutRecord(kind="k", id="i", body=str(slot), op=f"o{slot}")))
    assert calls.rows["operations"] == calls.rows["answered"] == 3
    assert done(calls.do(PutRecord(kind="k", id="i", body="39", op="o39"))).replayed


def test_an_operation_that_is_answered_anew_is_kept_once() -> None:
    calls = EngineCalls(retry_window=10)
    done(calls.do(CreatePool(id="p", total=1, op="o")))
    calls.clock.set(10)
    assert said(calls.do(CreatePool(id="p", total=1, op="o"))) == "pool_exists"
    assert calls.rows["operations"] == calls.rows["answered"] == 1


# The journal


@pytest.fixture
def told() -> EngineCalls:
    """Ten entries, of which the last four are kept."""
    calls = EngineCalls(journal=4)
    done(calls.do(CreatePool(id="p", total=10)))
    done(calls.do(place("a", {"p": 2}, 100)))
    done(calls.do(place("b", (Leg("p"), Leg("~k", 1, 5)), 100)))
    done(calls.do(PutRecord(kind="k", id="i", body="1")))
    done(calls.do(release("b")))
    done(calls.do(Sweep()))
    done(calls.do(confirm("a", 1, keep_rest=True)))
    done(calls.do(PutRecord(kind="k", id="i", body="2")))
    done(calls.do(ResizePool(id="p", total=20)))
    return calls


def entries(calls: EngineCalls, subject: str) -> list[tuple[int, Action]]:
    rows = calls.engine.read(ReadHistory("", subject))
    return [(row.seq, entry_of(row).action) for row in rows]


def test_reads_before_the_kept_entries_lose_their_cursor(told: EngineCalls) -> None:
    assert [row.seq for row in told.engine.read(ReadJournal("", after={0: 6}))] == [7, 8, 9, 10]
    with pytest.raises(CursorLost, match="entries up to 6 are no longer kept, and 6 was asked for"):
        told.engine.read(ReadJournal("", after={0: 5}))
    assert told.engine.read(ReadJournal("", after={0: 10})) == []
    assert told.engine.read(ReadJournal("", after={0: 99})) == []
    assert told.engine.read(FindEnds())[-1].seq == 10


def test_a_cut_story_begins_with_a_baseline(told: EngineCalls) -> None:
    assert entries(told, hold_id("a")) == [(6, Action.JOURNAL_BASELINE), (8, Action.HOLD_PARTLY_CONFIRMED)]
    assert entries(told, "p") == [(6, Action.JOURNAL_BASELINE), (10, Action.POOL_RESIZED)]
    assert entries(told, "k/i") == [(6, Action.JOURNAL_BASELINE), (9, Action.RECORD_PUT)]
    assert entries(told, hold_id("b")) == [(6, Action.JOURNAL_BASELINE)]
    assert entries(told, "nobody") == []
    history = [entry_of(row) for row in told.engine.read(ReadHistory("", hold_id("a")))]
    assert reconstruct(history) == told.hold("a")


def test_verify_folds_the_baseline_and_what_follows(told: EngineCalls) -> None:
    assert told.differences() == []
    tables = told.engine._tables
    assert tables.fence_floors == {"": 2}
    tables.fence_floors[""] = 1
    assert told.differences() == ["fence_floors (default tenant): floor is 1, the journal says 2"]


def test_holds_that_have_left_leave_the_baseline_too() -> None:
    calls = EngineCalls(journal=3, max_holds=2)
    done(calls.do(CreatePool(id="p", total=10**6)))
    for turn in range(50):
        calls.clock.set(turn)
        done(calls.do(consume(f"h{turn}", "p")))
        done(calls.do(give_back(f"h{turn}")))  # an entry that needs the row, which may be in the baseline by then
        assert calls.differences() == []
    assert calls.rows["baseline"] <= 4
    assert calls.hold("h49") is not None


def test_an_id_that_is_used_again_is_told_anew() -> None:
    calls = EngineCalls(journal=4, retention=10, max_holds=2)
    done(calls.do(CreatePool(id="p", total=10**6)))
    for turn in range(0, 400, 10):
        calls.clock.set(turn)
        for name in "abc":
            assert isinstance(calls.do(place(name, "p", 3)), Done)
            done(calls.do(release(name)))
        assert calls.differences() == []
    assert calls.rows["baseline"] <= 8
    calls.clock.set(395)
    hold = calls.hold("c")
    assert hold is not None
    assert hold.state is State.RELEASED


def test_one_entry_is_the_least_that_is_kept() -> None:
    calls = EngineCalls(journal=0)
    for name in "ab":
        done(calls.do(CreatePool(id=name, total=1)))
    assert [row.seq for row in calls.engine.read(ReadJournal(None, after={0: 1}))] == [2]
    assert calls.differences() == []
