"""Everything has a limit: tables, operations, the journal; and memory stays flat (SPEC sections 7 and 13, B2)."""

from __future__ import annotations

import pytest

from holdkit.core.commands import CreatePool, PutRecord, ResizePool, Sweep
from holdkit.core.entries import Action
from holdkit.core.fold import reconstruct
from holdkit.core.model import Leg, State
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindEnds, ReadHistory, ReadJournal, entry_of
from holdkit.errors import CursorLost
from tests.engines.memory.engine_calls import Bench
from tests.unit.core.world import confirm, consume, done, give_back, hold_id, place, release, said

# Holds


def test_b2_memory_stays_flat_under_endless_holds() -> None:
    bench = Bench(journal=50, max_pools=20, max_holds=10, max_operations=10, retry_window=5, retention=1000)
    done(bench.do(CreatePool(id="p", total=10**9)))
    most: dict[str, int] = {}
    for turn in range(400):
        bench.clock.set(turn)
        done(bench.do(place(f"h{turn}", (Leg("p"), Leg(f"~{turn}", 1, 1)), 3)))
        if turn % 3 == 0:
            done(bench.do(release(f"h{turn}", op=f"r{turn}")))
        if turn % 3 == 1:
            done(bench.do(confirm(f"h{turn}", {"p": 1}, op=f"c{turn}")))
        if turn % 7 == 0:
            assert bench.differences() == []
        most = {name: max(count, most.get(name, 0)) for name, count in bench.rows.items()}
    assert most["pools"] <= 20
    assert most["holds"] <= 10
    assert most["operations"] <= 10
    assert most["journal"] == 50
    assert max(most.values()) <= 70


def test_the_oldest_ended_holds_leave_first_and_live_ones_never() -> None:
    bench = Bench(max_holds=3)
    done(bench.do(CreatePool(id="p", total=10)))
    done(bench.do(place("live", "p", 1000)))
    for slot, name in enumerate("abc", start=1):
        bench.clock.set(slot)
        done(bench.do(consume(name, "p")))
    assert [bench.hold(name) is None for name in ("live", "a", "b", "c")] == [False, True, False, False]
    bench.clock.set(9)
    done(bench.do(place("live2", "p", 1000)))
    assert [bench.hold(name) is None for name in "bc"] == [True, False]
    done(bench.do(place("live3", "p", 1000)))
    assert bench.stored() == sorted(("", hold_id(name)) for name in ("live", "live2", "live3"))
    assert said(bench.do(place("live4", "p", 1000))) == "hold_table_full"
    assert said(bench.do(give_back("c"))) == "hold_not_found"
    assert bench.differences() == []


def test_among_those_that_ended_together_the_smaller_id_leaves_first() -> None:
    bench = Bench(max_holds=2)
    done(bench.do(CreatePool(id="p", total=10)))
    for name in "cab":
        done(bench.do(consume(name, "p")))
    assert bench.stored() == [("", hold_id("b")), ("", hold_id("c"))]


def test_holds_that_only_a_sweep_can_end_make_room_by_themselves() -> None:
    bench = Bench(max_holds=5)
    for name in ("p", "q"):
        done(bench.do(CreatePool(id=name, total=1000)))
    for turn in range(0, 300, 2):
        bench.clock.set(turn)
        done(bench.do(place(f"h{turn}", {"p": 1, "q": 1}, 1)))  # each is due before the next
        done(bench.do(place(f"i{turn}", "q", 1)))
        assert bench.rows["holds"] <= 7
    assert bench.differences() == []


def test_after_the_retention_rows_are_pruned() -> None:
    bench = Bench(retention=100)
    done(bench.do(CreatePool(id="p", total=10)))
    done(bench.do(place("a", "p", 50)))
    done(bench.do(release("a")))
    done(bench.do(place("b", "p", 50)))
    bench.clock.set(99)
    done(bench.do(ResizePool(id="p", total=11)))
    assert bench.rows["holds"] == 2
    bench.clock.set(100)
    assert bench.hold("a") is None  # for every reader, pruned or not
    done(bench.do(ResizePool(id="p", total=12)))
    assert bench.stored() == [("", hold_id("b"))]
    bench.clock.set(150)
    done(bench.do(ResizePool(id="p", total=13)))
    assert bench.rows["holds"] == 0
    assert bench.differences() == []


# Pools


def test_empty_on_demand_pools_make_room_for_others() -> None:
    bench = Bench(max_pools=3)
    done(bench.do(CreatePool(id="p", total=10)))
    for turn in range(50):
        bench.clock.set(turn * 10)
        done(bench.do(place(f"h{turn}", (Leg(f"~{turn}", 1, 1),), 5)))
    assert bench.rows["pools"] <= 3
    assert bench.differences() == []


def test_a_pool_the_batch_itself_names_is_not_swept_from_under_it() -> None:
    bench = Bench(max_pools=2)
    for name in "ab":
        done(bench.do(place(name, (Leg(f"~{name}", 1, 1),), 5)))
        done(bench.do(release(name)))
    answers = bench.batch(place("c", "~a", 5), place("d", (Leg("~d", 1, 1),), 5))
    assert [said(one) for one in answers] == ["done", "done"]
    assert bench.pool("~b") is None


def test_pools_that_are_in_use_stay() -> None:
    bench = Bench(max_pools=2)
    for name in "ab":
        done(bench.do(place(name, (Leg(f"~{name}", 1, 1),), 5)))
    assert said(bench.do(place("c", (Leg("~c", 1, 1),), 5))) == "pool_table_full"
    assert said(bench.do(CreatePool(id="p", total=1))) == "pool_table_full"
    bench.clock.set(5)
    assert said(bench.do(place("c", (Leg("~c", 1, 1),), 5))) == "done"
    assert bench.rows["pools"] == 2


def test_a_sweep_takes_empty_pools_a_hundred_at_a_time() -> None:
    bench = Bench()
    for turn in range(130):
        done(bench.do(place(f"h{turn}", (Leg(f"~{turn:03}", 1, 1),), 5)))
        done(bench.do(release(f"h{turn}")))
    done(bench.do(Sweep()))
    assert bench.rows["pools"] == 30
    assert bench.pool("~099") is None
    assert bench.pool("~100") is not None
    done(bench.do(Sweep()))
    assert bench.rows["pools"] == bench.rows["idle"] == 0


# Operations


def test_operations_are_forgotten_after_their_window() -> None:
    bench = Bench(retry_window=10, max_operations=3)
    for slot in range(40):
        bench.clock.set(slot * 4)
        done(bench.do(PutRecord(kind="k", id="i", body=str(slot), op=f"o{slot}")))
    assert bench.rows["operations"] == bench.rows["answered"] == 3
    assert done(bench.do(PutRecord(kind="k", id="i", body="39", op="o39"))).replayed


def test_an_operation_that_is_answered_anew_is_kept_once() -> None:
    bench = Bench(retry_window=10)
    done(bench.do(CreatePool(id="p", total=1, op="o")))
    bench.clock.set(10)
    assert said(bench.do(CreatePool(id="p", total=1, op="o"))) == "pool_exists"
    assert bench.rows["operations"] == bench.rows["answered"] == 1


# The journal


@pytest.fixture
def told() -> Bench:
    """Ten entries, of which the last four are kept."""
    bench = Bench(journal=4)
    done(bench.do(CreatePool(id="p", total=10)))
    done(bench.do(place("a", {"p": 2}, 100)))
    done(bench.do(place("b", (Leg("p"), Leg("~k", 1, 5)), 100)))
    done(bench.do(PutRecord(kind="k", id="i", body="1")))
    done(bench.do(release("b")))
    done(bench.do(Sweep()))
    done(bench.do(confirm("a", 1, keep_rest=True)))
    done(bench.do(PutRecord(kind="k", id="i", body="2")))
    done(bench.do(ResizePool(id="p", total=20)))
    return bench


def entries(bench: Bench, subject: str) -> list[tuple[int, Action]]:
    rows = bench.engine.read(ReadHistory("", subject))
    return [(row.seq, entry_of(row).action) for row in rows]


def test_reads_before_the_kept_entries_lose_their_cursor(told: Bench) -> None:
    assert [row.seq for row in told.engine.read(ReadJournal("", after={0: 6}))] == [7, 8, 9, 10]
    with pytest.raises(CursorLost, match="entries up to 6 are no longer kept, and 6 was asked for"):
        told.engine.read(ReadJournal("", after={0: 5}))
    assert told.engine.read(ReadJournal("", after={0: 10})) == []
    assert told.engine.read(ReadJournal("", after={0: 99})) == []
    assert told.engine.read(FindEnds())[-1].seq == 10


def test_a_cut_story_begins_with_a_baseline(told: Bench) -> None:
    assert entries(told, hold_id("a")) == [(6, Action.JOURNAL_BASELINE), (8, Action.HOLD_PARTLY_CONFIRMED)]
    assert entries(told, "p") == [(6, Action.JOURNAL_BASELINE), (10, Action.POOL_RESIZED)]
    assert entries(told, "k/i") == [(6, Action.JOURNAL_BASELINE), (9, Action.RECORD_PUT)]
    assert entries(told, hold_id("b")) == [(6, Action.JOURNAL_BASELINE)]
    assert entries(told, "nobody") == []
    history = [entry_of(row) for row in told.engine.read(ReadHistory("", hold_id("a")))]
    assert reconstruct(history) == told.hold("a")


def test_verify_folds_the_baseline_and_what_follows(told: Bench) -> None:
    assert told.differences() == []
    tables = told.engine._tables
    assert tables.fence_floor == 2
    tables.fence_floor = 1
    assert told.differences() == ["settings fence_floor: value is 1, the journal says 2"]


def test_holds_that_have_left_leave_the_baseline_too() -> None:
    bench = Bench(journal=3, max_holds=2)
    done(bench.do(CreatePool(id="p", total=10**6)))
    for turn in range(50):
        bench.clock.set(turn)
        done(bench.do(consume(f"h{turn}", "p")))
        done(bench.do(give_back(f"h{turn}")))  # an entry that needs the row, which may be in the baseline by then
        assert bench.differences() == []
    assert bench.rows["baseline"] <= 4
    assert bench.hold("h49") is not None


def test_an_id_that_is_used_again_is_told_anew() -> None:
    bench = Bench(journal=4, retention=10, max_holds=2)
    done(bench.do(CreatePool(id="p", total=10**6)))
    for turn in range(0, 400, 10):
        bench.clock.set(turn)
        for name in "abc":
            assert isinstance(bench.do(place(name, "p", 3)), Done)
            done(bench.do(release(name)))
        assert bench.differences() == []
    assert bench.rows["baseline"] <= 8
    bench.clock.set(395)
    hold = bench.hold("c")
    assert hold is not None
    assert hold.state is State.RELEASED


def test_one_entry_is_the_least_that_is_kept() -> None:
    bench = Bench(journal=0)
    for name in "ab":
        done(bench.do(CreatePool(id=name, total=1)))
    assert [row.seq for row in bench.engine.read(ReadJournal(None, after={0: 1}))] == [2]
    assert bench.differences() == []
