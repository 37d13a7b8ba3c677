"""Reads: rows as they look now, in explicit order, page by page."""

from __future__ import annotations

import pytest

from holdkit.core.commands import CreatePool, PutRecord, Sweep
from holdkit.core.model import Key, Leg, State
from holdkit.core.reading import (
    FindEnds,
    FindEntries,
    FindHold,
    FindPool,
    FindRecord,
    JournalRow,
    ListHolds,
    ListPools,
    ListRecords,
    ReadHistory,
    ReadJournal,
    entry_of,
)
from tests.engines.memory.engine_calls import Bench
from tests.unit.core.world import confirm, consume, done, hold_id, place, release


@pytest.fixture
def bench() -> Bench:
    bench = Bench(retention=1000)
    for name in ("room:2", "room:1", "gpu", "~face"):
        done(bench.do(CreatePool(id=name, total=10)))
    done(bench.do(CreatePool(id="gpu", total=3, tenant="acme")))
    done(bench.do(place("a", {"gpu": 4}, 50, entity="cart:1")))
    done(bench.do(place("b", {"gpu": 1, "room:1": 2}, 60)))
    done(bench.do(consume("c", {"room:1": 1}, entity="cart:1")))
    done(bench.do(place("d", "gpu", 500)))
    done(bench.do(release("d")))
    done(bench.do(place("a", {"gpu": 3}, 50, tenant="acme")))
    return bench


def names(bench: Bench, query: ListHolds) -> str:
    return "".join(bytes.fromhex(hold.id).lstrip(b"\0").decode() for hold in bench.engine.read(query))


def test_a_pool_counts_due_legs_as_returned_without_writing(bench: Bench) -> None:
    for slot, held in [(0, 5), (49, 5), (50, 1), (59, 1), (60, 0)]:
        bench.clock.set(slot)
        pool = bench.pool("gpu")
        assert pool is not None
        assert (pool.held, pool.available) == (held, 10 - held)
    assert bench.engine._tables.pools["", "gpu"].held == 5
    assert bench.pool("nowhere") is None
    assert bench.engine.read(FindPool(("acme", "room:1"))) is None


def test_a_hold_is_shown_expired_at_its_deadline(bench: Bench) -> None:
    shown = [(49, State.HELD, None), (50, State.EXPIRED, 50), (51, State.EXPIRED, 50)]
    for slot, state, ended_at in shown:
        bench.clock.set(slot)
        hold = bench.hold("a")
        assert hold is not None
        assert (hold.state, hold.ended_at, hold.open) == (state, ended_at, state is State.HELD)
    bench.clock.set(1050)
    assert bench.hold("a") is None
    assert bench.engine.read(FindHold(("acme", hold_id("b")))) is None


def test_a_hold_is_shown_at_the_latest_slot_of_its_pools(bench: Bench) -> None:
    bench.clock.set(100)
    done(bench.do(place("e", "room:1", 50)))
    bench.clock.set(10)
    hold, other = bench.hold("e"), bench.hold("a")
    assert hold is not None
    assert other is not None
    assert (hold.state, other.state) == (State.HELD, State.HELD)
    pool = bench.pool("room:1")
    assert pool is not None
    assert pool.held == 1  # its clock stands at 100, and b is long due there
    b = bench.hold("b")
    assert b is not None
    assert b.state is State.EXPIRED


def test_a_pool_is_shown_at_its_own_slot_if_that_is_later() -> None:
    bench = Bench()
    done(bench.do(CreatePool(id="p", total=10)))
    for name in "ab":
        done(bench.do(place(name, "p", 30)))
    bench.clock.set(90)
    done(bench.do(Sweep(limit=1)))  # the pool's clock stands at 90, and b's leg is still out
    bench.clock.set(20)
    pool, hold = bench.pool("p"), bench.hold("b")
    assert pool is not None
    assert hold is not None
    assert bench.engine._tables.pools["", "p"].held == 1
    assert (pool.held, hold.state) == (0, State.EXPIRED)


def test_pools_are_listed_by_id(bench: Bench) -> None:
    def listed(query: ListPools) -> list[str]:
        return [pool.id for pool in bench.engine.read(query)]

    assert listed(ListPools("")) == ["gpu", "room:1", "room:2"]
    assert listed(ListPools("", limit=2)) == ["gpu", "room:1"]
    assert listed(ListPools("", after="gpu")) == ["room:1", "room:2"]
    assert listed(ListPools("", after="h", limit=1)) == ["room:1"]
    assert listed(ListPools("", prefix="room:")) == ["room:1", "room:2"]
    assert listed(ListPools("", prefix="room:", after="room:1")) == ["room:2"]
    assert listed(ListPools("", prefix="~")) == ["~face"]
    assert listed(ListPools("acme")) == ["gpu"]
    assert listed(ListPools("zebra")) == []
    bench.clock.set(50)
    assert [pool.held for pool in bench.engine.read(ListPools("acme"))] == [0]


def test_holds_are_listed_by_id(bench: Bench) -> None:
    assert names(bench, ListHolds("")) == "abcd"
    assert names(bench, ListHolds("", limit=2)) == "ab"
    assert names(bench, ListHolds("", after=hold_id("b"))) == "cd"
    assert names(bench, ListHolds("", pool="gpu")) == "abd"
    assert names(bench, ListHolds("", entity="cart:1")) == "ac"
    assert names(bench, ListHolds("", pool="gpu", entity="cart:1")) == "a"
    assert names(bench, ListHolds("", state=State.HELD)) == "ab"
    assert names(bench, ListHolds("", state=State.CONFIRMED)) == "c"
    assert names(bench, ListHolds("", state=State.RELEASED)) == "d"
    assert names(bench, ListHolds("acme")) == "a"
    assert names(bench, ListHolds("zebra")) == ""


def test_the_state_listed_is_the_state_shown(bench: Bench) -> None:
    bench.clock.set(50)
    assert names(bench, ListHolds("", state=State.HELD)) == "b"
    assert names(bench, ListHolds("", state=State.EXPIRED)) == "a"
    bench.clock.set(1000)
    assert (
        names(bench, ListHolds("")) == "abc"
    )  # d ended at 0, and is past its retention; what c has consumed is counted
    bench.clock.set(1060)
    assert names(bench, ListHolds("")) == "c"


def test_records(bench: Bench) -> None:
    for kind, name in [("saga", "2"), ("saga", "1"), ("sagas", "3"), ("key", "9")]:
        done(bench.do(PutRecord(kind=kind, id=name, body=f'"{name}"')))
    done(bench.do(PutRecord(kind="saga", id="4", body="4", tenant="acme")))
    record = bench.engine.read(FindRecord(("", "saga", "1")))
    assert record is not None
    assert (record.body, record.version) == ('"1"', 1)
    assert bench.engine.read(FindRecord(("", "saga", "3"))) is None
    assert [row.id for row in bench.engine.read(ListRecords("", "saga"))] == ["1", "2"]
    assert [row.id for row in bench.engine.read(ListRecords("", "saga", after="1"))] == ["2"]
    assert [row.id for row in bench.engine.read(ListRecords("", "saga", limit=1))] == ["1"]
    assert [row.id for row in bench.engine.read(ListRecords("acme", "saga"))] == ["4"]
    done(bench.do(PutRecord(kind="saga", id="1", body=None)))
    assert [row.id for row in bench.engine.read(ListRecords("", "saga"))] == ["2"]


def test_the_journal_in_order_of_one_tenant_or_of_all(bench: Bench) -> None:
    def numbers(query: ReadJournal) -> list[int]:
        return [row.seq for row in bench.engine.read(query)]

    assert numbers(ReadJournal(None)) == list(range(1, 13))
    assert numbers(ReadJournal("acme")) == [5, 12]
    assert numbers(ReadJournal("", after={0: 9})) == [10, 11]
    assert numbers(ReadJournal(None, after={0: 3}, limit=2)) == [4, 5]
    assert numbers(ReadJournal("acme", limit=1)) == [5]
    first = bench.engine.read(ReadJournal(None, limit=1))[0]
    assert entry_of(first).subject == "room:2"


def test_a_history_is_one_subjects_alone(bench: Bench) -> None:
    done(bench.do(confirm("a")))

    def actions(tenant: str, subject: str) -> list[str]:
        return [entry_of(row).action.value for row in bench.engine.read(ReadHistory(tenant, subject))]

    assert actions("", hold_id("a")) == ["hold.held", "hold.confirmed"]
    assert actions("acme", hold_id("a")) == ["hold.held"]
    assert actions("", "gpu") == ["pool.created"]
    assert actions("acme", "room:1") == []


def test_b19_what_happened_in_one_instant_is_still_in_order(bench: Bench) -> None:
    bench.batch(place("x", (Leg("gpu"),), 5), confirm("x"))
    rows = bench.engine.read(ReadHistory("", hold_id("x")))
    assert [entry_of(row).slot for row in rows] == [0, 0]
    assert [row.seq for row in rows] == [13, 14]


def test_the_end(bench: Bench) -> None:
    (end,) = bench.engine.read(FindEnds())
    assert end.seq == 12
    assert entry_of(end).tenant == "acme"
    assert Bench().engine.read(FindEnds()) == []


def test_entries_by_position(bench: Bench) -> None:
    rows: list[JournalRow] = bench.engine.read(ReadJournal(None))
    asked = FindEntries(((0, 12), (0, 13), (1, 2), (0, 3), (0, 0)))
    assert bench.engine.read(asked) == [rows[2], rows[11]]


def test_no_read_shows_a_token(bench: Bench) -> None:
    secret = place("secret", "gpu", 50, owner="the-token", op="o")
    done(bench.do(secret))
    key: Key = ("", hold_id("secret"))
    texts = [row.text for row in bench.engine.read(ReadJournal(None))]
    assert "the-token" not in repr(bench.engine.read(FindHold(key))) + "".join(texts)
    assert "the-token" in repr(bench.engine._tables.operations["", "o"])  # the one place that keeps it, for the retry
