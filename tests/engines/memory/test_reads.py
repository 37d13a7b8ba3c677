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
from tests.engines.memory.engine_calls import EngineCalls
from tests.unit.core.world import confirm, consume, done, hold_id, place, release


@pytest.fixture
def calls() -> EngineCalls:
    calls = EngineCalls(retention=1000)
    for name in ("room:2", "room:1", "gpu", "~face"):
        done(calls.do(CreatePool(id=name, total=10)))
    done(calls.do(CreatePool(id="gpu", total=3, tenant="acme")))
    done(calls.do(place("a", {"gpu": 4}, 50, entity="cart:1")))
    done(calls.do(place("b", {"gpu": 1, "room:1": 2}, 60)))
    done(calls.do(consume("c", {"room:1": 1}, entity="cart:1")))
    done(calls.do(place("d", "gpu", 500)))
    done(calls.do(release("d")))
    done(calls.do(place("a", {"gpu": 3}, 50, tenant="acme")))
    return calls


def names(calls: EngineCalls, query: ListHolds) -> str:
    return "".join(bytes.fromhex(hold.id).lstrip(b"\0").decode() for hold in calls.engine.read(query))


def test_a_pool_counts_due_legs_as_returned_without_writing(calls: EngineCalls) -> None:
    for slot, held in [(0, 5), (49, 5), (50, 1), (59, 1), (60, 0)]:
        calls.clock.set(slot)
        pool = calls.pool("gpu")
        assert pool is not None
        assert (pool.held, pool.available) == (held, 10 - held)
    assert calls.engine._tables.pools["", "gpu"].held == 5
    assert calls.pool("nowhere") is None
    assert calls.engine.read(FindPool(("acme", "room:1"))) is None


def test_a_hold_is_shown_expired_at_its_deadline(calls: EngineCalls) -> None:
    shown = [(49, State.HELD, None), (50, State.EXPIRED, 50), (51, State.EXPIRED, 50)]
    for slot, state, ended_at in shown:
        calls.clock.set(slot)
        hold = calls.hold("a")
        assert hold is not None
        assert (hold.state, hold.ended_at, hold.open) == (state, ended_at, state is State.HELD)
    calls.clock.set(1050)
    assert calls.hold("a") is None
    assert calls.engine.read(FindHold(("acme", hold_id("b")))) is None


def test_a_hold_is_shown_at_the_latest_slot_of_its_pools(calls: EngineCalls) -> None:
    calls.clock.set(100)
    done(calls.do(place("e", "room:1", 50)))
    calls.clock.set(10)
    hold, other = calls.hold("e"), calls.hold("a")
    assert hold is not None
    assert other is not None
    assert (hold.state, other.state) == (State.HELD, State.HELD)
    pool = calls.pool("room:1")
    assert pool is not None
    assert pool.held == 1  # its clock stands at 100, and b is long due there
    b = calls.hold("b")
    assert b is not None
    assert b.state is State.EXPIRED


def test_a_pool_is_shown_at_its_own_slot_if_that_is_later() -> None:
    calls = EngineCalls()
    done(calls.do(CreatePool(id="p", total=10)))
    for name in "ab":
        done(calls.do(place(name, "p", 30)))
    calls.clock.set(90)
    done(calls.do(Sweep(limit=1)))  # the pool's clock stands at 90, and b's leg is still out
    calls.clock.set(20)
    pool, hold = calls.pool("p"), calls.hold("b")
    assert pool is not None
    assert hold is not None
    assert calls.engine._tables.pools["", "p"].held == 1
    assert (pool.held, hold.state) == (0, State.EXPIRED)


def test_pools_are_listed_by_id(calls: EngineCalls) -> None:
    def listed(query: ListPools) -> list[str]:
        return [pool.id for pool in calls.engine.read(query)]

    assert listed(ListPools("")) == ["gpu", "room:1", "room:2"]
    assert listed(ListPools("", limit=2)) == ["gpu", "room:1"]
    assert listed(ListPools("", after="gpu")) == ["room:1", "room:2"]
    assert listed(ListPools("", after="h", limit=1)) == ["room:1"]
    assert listed(ListPools("", prefix="room:")) == ["room:1", "room:2"]
    assert listed(ListPools("", prefix="room:", after="room:1")) == ["room:2"]
    assert listed(ListPools("", prefix="~")) == ["~face"]
    assert listed(ListPools("acme")) == ["gpu"]
    assert listed(ListPools("zebra")) == []
    calls.clock.set(50)
    assert [pool.held for pool in calls.engine.read(ListPools("acme"))] == [0]


def test_holds_are_listed_by_id(calls: EngineCalls) -> None:
    assert names(calls, ListHolds("")) == "abcd"
    assert names(calls, ListHolds("", limit=2)) == "ab"
    assert names(calls, ListHolds("", after=hold_id("b"))) == "cd"
    assert names(calls, ListHolds("", pool="gpu")) == "abd"
    assert names(calls, ListHolds("", entity="cart:1")) == "ac"
    assert names(calls, ListHolds("", pool="gpu", entity="cart:1")) == "a"
    assert names(calls, ListHolds("", state=State.HELD)) == "ab"
    assert names(calls, ListHolds("", state=State.CONFIRMED)) == "c"
    assert names(calls, ListHolds("", state=State.RELEASED)) == "d"
    assert names(calls, ListHolds("acme")) == "a"
    assert names(calls, ListHolds("zebra")) == ""


def test_the_state_listed_is_the_state_shown(calls: EngineCalls) -> None:
    calls.clock.set(50)
    assert names(calls, ListHolds("", state=State.HELD)) == "b"
    assert names(calls, ListHolds("", state=State.EXPIRED)) == "a"
    calls.clock.set(1000)
    assert (
        names(calls, ListHolds("")) == "abc"
    )  # d ended at 0, and is past its retention; what c has consumed is counted
    calls.clock.set(1060)
    assert names(calls, ListHolds("")) == "c"


def test_records(calls: EngineCalls) -> None:
    for kind, name in [("saga", "2"), ("saga", "1"), ("sagas", "3"), ("key", "9")]:
        done(calls.do(PutRecord(kind=kind, id=name, body=f'"{name}"')))
    done(calls.do(PutRecord(kind="saga", id="4", body="4", tenant="acme")))
    record = calls.engine.read(FindRecord(("", "saga", "1")))
    assert record is not None
    assert (record.body, record.version) == ('"1"', 1)
    assert calls.engine.read(FindRecord(("", "saga", "3"))) is None
    assert [row.id for row in calls.engine.read(ListRecords("", "saga"))] == ["1", "2"]
    assert [row.id for row in calls.engine.read(ListRecords("", "saga", after="1"))] == ["2"]
    assert [row.id for row in calls.engine.read(ListRecords("", "saga", limit=1))] == ["1"]
    assert [row.id for row in calls.engine.read(ListRecords("acme", "saga"))] == ["4"]
    done(calls.do(PutRecord(kind="saga", id="1", body=None)))
    assert [row.id for row in calls.engine.read(ListRecords("", "saga"))] == ["2"]


def test_the_journal_in_order_of_one_tenant_or_of_all(calls: EngineCalls) -> None:
    def numbers(query: ReadJournal) -> list[int]:
        return [row.seq for row in calls.engine.read(query)]

    assert numbers(ReadJournal(None)) == list(range(1, 13))
    assert numbers(ReadJournal("acme")) == [5, 12]
    assert numbers(ReadJournal("", after={0: 9})) == [10, 11]
    assert numbers(ReadJournal(None, after={0: 3}, limit=2)) == [4, 5]
    assert numbers(ReadJournal("acme", limit=1)) == [5]
    first = calls.engine.read(ReadJournal(None, limit=1))[0]
    assert entry_of(first).subject == "room:2"


def test_a_history_is_one_subjects_alone(calls: EngineCalls) -> None:
    done(calls.do(confirm("a")))

    def actions(tenant: str, subject: str) -> list[str]:
        return [entry_of(row).action.value for row in calls.engine.read(ReadHistory(tenant, subject))]

    assert actions("", hold_id("a")) == ["hold.held", "hold.confirmed"]
    assert actions("acme", hold_id("a")) == ["hold.held"]
    assert actions("", "gpu") == ["pool.created"]
    assert actions("acme", "room:1") == []


def test_b19_what_happened_in_one_instant_is_still_in_order(calls: EngineCalls) -> None:
    calls.batch(place("x", (Leg("gpu"),), 5), confirm("x"))
    rows = calls.engine.read(ReadHistory("", hold_id("x")))
    assert [entry_of(row).slot for row in rows] == [0, 0]
    assert [row.seq for row in rows] == [13, 14]


def test_the_end(calls: EngineCalls) -> None:
    (end,) = calls.engine.read(FindEnds())
    assert end.seq == 12
    assert entry_of(end).tenant == "acme"
    assert EngineCalls().engine.read(FindEnds()) == []


def test_entries_by_position(calls: EngineCalls) -> None:
    rows: list[JournalRow] = calls.engine.read(ReadJournal(None))
    asked = FindEntries(((0, 12), (0, 13), (1, 2), (0, 3), (0, 0)))
    assert calls.engine.read(asked) == [rows[2], rows[11]]


def test_no_read_shows_a_token(calls: EngineCalls) -> None:
    secret = place("secret", "gpu", 50, token="the-token", op="o")
    done(calls.do(secret))
    key: Key = ("", hold_id("secret"))
    texts = [row.text for row in calls.engine.read(ReadJournal(None))]
    assert "the-token" not in repr(calls.engine.read(FindHold(key))) + "".join(texts)
    assert "the-token" in repr(calls.engine._tables.operations["", "o"])  # the one place that keeps it, for the retry
