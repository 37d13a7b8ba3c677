from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import ChangeLimits, Consume, Group, PlaceHold, PutRecord, ReturnUnits
from holdkit.core.face_legs import FaceLeg
from holdkit.core.import_ import Carried
from holdkit.core.model import DAY, Leg, State
from holdkit.core.outcomes import Done, Reason, Refusal
from holdkit.core.reading import (
    FindEnds,
    FindHold,
    FindPool,
    FindRecord,
    ListHolds,
    ListPools,
    ListRecords,
    ReadHistory,
    ReadJournal,
    entry_of,
)
from holdkit.engines.sqlite import SqliteEngine
from tests.engines.commands import START, Clock, confirm, create, extend, release, sweep
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import consistent, done, groups, hold, hold_id, one, place, pool, refused, rows


def test_hold_confirm_and_expire_leave_what_the_journal_says(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create(total=10))
    kept = done(engine, place(("gpu", 3))).hold
    lost = done(engine, place(("gpu", 4))).hold
    assert kept is not None
    assert lost is not None
    assert (pool(engine).held, pool(engine).available) == (7, 3)
    done(engine, confirm(kept.id, entity="order:1"))
    clock.slot += 59
    assert hold(engine, lost.id).state is State.HELD
    clock.slot += 1
    assert (pool(engine).held, pool(engine).consumed) == (0, 3)
    assert hold(engine, lost.id).state is State.EXPIRED
    assert refused(engine, release(lost.id)).reason is Reason.HOLD_EXPIRED
    assert rows(Path(engine.path), "select count(*) from holdkit_legs") == [(0,)]
    consistent(engine)


def test_everything_is_there_after_opening_anew(open_one: Open) -> None:
    first = open_one()
    done(first, create(total=5))
    placed = done(first, place(("gpu", 2), metadata={"a": [1]}, actor="user:7", correlation_id="c")).hold
    first.close()
    second = open_one()
    assert placed is not None
    assert second.read(FindHold(("", placed.id))) == placed
    assert second.read(FindEnds())[-1].seq == 2
    consistent(second)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"actor": "user:7"},
        {"correlation_id": "c"},
        {"metadata": {"a": 1}},
        {"entity": "order:1"},
        {"ttl_slots": None},
        {"legs": (FaceLeg("~window", 2, 5, closes=2**60, opens=0),)},
        {"legs": (Leg("gpu", 2), Leg("~other", 1, 3))},
    ],
    ids=str,
)
def test_a_hold_is_stored_with_all_that_was_said_of_it(engine: SqliteEngine, more: dict[str, Any]) -> None:
    """Whichever statement inserts it: `verify` compares every column with the journal."""
    done(engine, create())
    said: dict[str, Any] = {"id": hold_id(), "token": "me", "legs": (Leg("gpu", 2),), "ttl_slots": 60}
    placed = done(engine, PlaceHold(**said | more)).hold
    assert placed is not None
    assert hold(engine, placed.id) == placed
    consistent(engine)


def test_a_multi_leg_hold_expires_leg_by_leg_on_the_pools_that_are_touched(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create("a", 1))
    done(engine, create("b", 1))
    both = hold_id()
    done(engine, place("a", "b", id=both))
    clock.slot += 60
    done(engine, place("a"))
    stored = Path(engine.path)
    assert rows(stored, "select pool from holdkit_legs where hold = ?", both) == [("b",)]
    assert rows(stored, "select held, version from holdkit_pools where id = 'b'") == [(1, 2)]
    assert rows(stored, "select state, open from holdkit_holds where id = ?", both) == [("expired", 1)]
    assert pool(engine, "b").held == 0
    consistent(engine)
    done(engine, place("b"))
    actions = [row.text.split('"action":"')[1].split('"')[0] for row in engine.read(ReadHistory("", both))]
    assert actions == ["hold.held", "hold.expired", "leg.returned"]
    consistent(engine)


def test_a_backlog_longer_than_one_transaction_goes_first(open_one: Open, clock: Clock) -> None:
    begun: list[str] = []
    engine = open_one(
        limits=Limits(max_due=10), on_statement=lambda name: begun.append(name) if name == "commit" else None
    )
    done(engine, create("a", 40))
    done(engine, create("b", 40))
    engine.apply(groups(*(place("a", "b", ttl=10 + n) for n in range(25))))
    clock.slot += 100
    begun.clear()
    granted = done(engine, place(("a", 40)))
    assert granted.hold is not None
    assert len(begun) == 3  # ten legs of a, ten more, then five and the hold
    assert pool(engine, "a").held == 40
    assert rows(Path(engine.path), "select count(*) from holdkit_legs where pool = 'b'") == [(25,)]
    consistent(engine)


def test_a_lagging_clock_still_sees_what_is_due_by_its_pools_clock(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create("ahead", 9))
    done(engine, create("behind", 1))
    done(engine, place("behind", ttl=50))
    clock.slot += 100
    done(engine, place("ahead"))
    clock.slot -= 100
    assert refused(engine, place("behind")).reason is Reason.INSUFFICIENT_CAPACITY
    both = done(engine, place("ahead", "behind"))
    assert both.slot == START + 100
    consistent(engine)


def test_reads_see_a_hold_at_the_latest_clock_of_its_pools(engine: SqliteEngine, clock: Clock) -> None:
    engine.apply(groups(create("a", 9), create("b", 9)))
    id = hold_id()
    done(engine, place("a", "b", id=id))
    done(engine, confirm(id, quantity={"a": 1}, keep_rest=True))
    clock.slot += 60
    done(engine, place("a"))  # moves the clock of a, on which nothing of the hold is outstanding
    clock.slot -= 60
    assert hold(engine, id).state is State.EXPIRED
    assert [row.id for row in engine.read(ListHolds("", state=State.EXPIRED))] == [id]
    assert refused(engine, confirm(id)).reason is Reason.HOLD_EXPIRED


def test_partial_confirm_and_extend_keep_the_outstanding_legs_right(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create(total=10))
    id = hold_id()
    done(engine, place(("gpu", 5), id=id))
    done(engine, extend(id, 40))
    done(engine, confirm(id, quantity=2, keep_rest=True))
    assert rows(Path(engine.path), "select deadline, units from holdkit_legs") == [(START + 100, 3)]
    consistent(engine)
    done(engine, release(id))
    assert (pool(engine).held, pool(engine).consumed) == (0, 2)
    done(engine, ReturnUnits(id=id, token="me", quantity=1))
    assert pool(engine).consumed == 1
    consistent(engine)


def test_a_hold_without_deadline_is_filed_last_and_never_due(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create(total=2))
    id = hold_id()
    done(engine, place(id=id, ttl=None))
    clock.slot += 10**12
    assert pool(engine).held == 1
    done(engine, place())
    assert hold(engine, id).state is State.HELD
    consistent(engine)


def test_the_sweep_is_bounded_ordered_and_says_whether_there_is_more(engine: SqliteEngine, clock: Clock) -> None:
    done(engine, create(total=10))
    engine.apply(groups(*(place(ttl=10 + n) for n in range(5)), place("tmp", ttl=500)))
    clock.slot += 100
    assert [(done(engine, sweep(2)).expired, done(engine, sweep(2)).more) for _ in range(1)] == [(2, True)]
    last = done(engine, sweep(2))
    assert (last.expired, last.more) == (1, False)
    again = engine.apply(groups(sweep(2)))
    assert again.wrote is False
    consistent(engine)


def test_the_sweep_takes_away_empty_on_demand_pools_and_keeps_their_fence(engine: SqliteEngine, clock: Clock) -> None:
    def on_demand() -> int:
        command = place(("claim", 1))
        leg = Leg("claim", 1, create_with_total=1)
        outcome = one(engine, type(command)(legs=(leg,), ttl_slots=10, id=hold_id(), token="me"))
        assert isinstance(outcome, Done)
        assert outcome.hold is not None
        return outcome.hold.fence

    first = on_demand()
    clock.slot += 10
    done(engine, sweep())
    done(engine, sweep())
    assert engine.read(FindPool(("", "claim"))) is None
    assert rows(Path(engine.path), "select tenant, floor from holdkit_fence_floors") == [("", first)]
    consistent(engine)
    assert on_demand() > first
    consistent(engine)


def test_a_retry_is_answered_from_its_record_and_writes_nothing(engine: SqliteEngine) -> None:
    done(engine, create())
    command = place(op="r1", fingerprint="f" * 32)
    first = done(engine, command)
    again = engine.apply(groups(place(op="r1", fingerprint="f" * 32)))
    replayed = again.outcomes[0][0]
    assert isinstance(replayed, Done)
    assert (replayed.hold, replayed.replayed, again.wrote) == (first.hold, True, False)
    assert refused(engine, place(op="r1", fingerprint="0" * 32)).reason is Reason.OPERATION_CONFLICT
    assert pool(engine).held == 1


def test_an_atomic_group_is_all_or_none_and_its_neighbours_stand(engine: SqliteEngine) -> None:
    done(engine, create(total=2))
    applied = engine.apply(
        [Group((place(), place(("gpu", 9))), atomic=True), Group((place(),)), Group((place("none"), place()))]
    )
    assert [[type(outcome) for outcome in outcomes] for outcomes in applied.outcomes] == [
        [Refusal, Refusal],
        [Done],
        [Refusal, Done],
    ]
    assert pool(engine).held == 2
    consistent(engine)


def test_old_rows_are_pruned_by_batches_that_write_anyway(open_one: Open, clock: Clock) -> None:
    engine = open_one(limits=Limits(retry_window=100, retention=100))
    done(engine, create(total=100))
    for _ in range(30):
        id = hold_id()
        engine.apply(groups(place(id=id, op=id, fingerprint="f" * 32), release(id)))
    stored = Path(engine.path)
    clock.slot += 100
    assert refused(engine, place("none")).reason is Reason.POOL_NOT_FOUND
    assert rows(stored, "select count(*) from holdkit_holds") == [(30,)]
    done(engine, place())
    assert rows(stored, "select count(*) from holdkit_holds") == [(11,)]
    assert rows(stored, "select count(*) from holdkit_operations") == [(10,)]
    done(engine, sweep())
    assert rows(stored, "select count(*) from holdkit_holds") == [(1,)]
    assert rows(stored, "select count(*) from holdkit_operations") == [(0,)]
    consistent(engine)


def test_a_bounded_hold_table_never_stays_full(open_one: Open) -> None:
    engine = open_one(limits=Limits(max_holds=3, max_pools=1, max_operations=2))
    done(engine, create(total=100))
    assert refused(engine, create("second")).reason is Reason.POOL_TABLE_FULL
    for _ in range(10):
        id = hold_id()
        done(engine, place(id=id))
        done(engine, release(id))
    assert rows(Path(engine.path), "select count(*) from holdkit_holds") == [(3,)]
    engine.apply(groups(place(), place(), place()))
    assert refused(engine, place()).reason is Reason.HOLD_TABLE_FULL
    for op in ("a", "b"):
        refused(engine, place("none", op=op, fingerprint="f" * 32))
    assert refused(engine, place("none", op="c", fingerprint="f" * 32)).reason is Reason.OPERATION_TABLE_FULL
    consistent(engine)


def test_the_id_of_a_retired_hold_can_be_used_anew(open_one: Open, clock: Clock) -> None:
    engine = open_one(limits=Limits(retention=0))
    done(engine, create(total=5))
    id = hold_id()
    engine.apply(groups(place(id=id, actor="first"), release(id), place(("gpu", 2), id=id, actor="second")))
    assert hold(engine, id).actor == "second"
    done(engine, release(id))
    done(engine, place(("gpu", 3), id=id, actor="third"))
    assert (hold(engine, id).actor, pool(engine).held) == ("third", 3)
    consistent(engine)


def test_nothing_crosses_tenants(engine: SqliteEngine) -> None:
    for tenant in ("a", "b"):
        done(engine, create(total=5, tenant=tenant))
    id = hold_id()
    engine.apply(groups(*(place(id=id, tenant=tenant) for tenant in ("a", "b"))))
    done(engine, confirm(id, tenant="a"))
    assert hold(engine, id, "a").state is State.CONFIRMED
    assert hold(engine, id, "b").state is State.HELD
    assert [row.seq for row in engine.read(ReadJournal("b"))] == [2, 4]
    assert engine.read(ListPools("c")) == []
    consistent(engine)


def test_records_are_written_replaced_and_removed(engine: SqliteEngine) -> None:
    done(engine, PutRecord(kind="saga", id="1", body="{}", if_version=0))
    done(engine, PutRecord(kind="saga", id="2", body="[1]"))
    assert refused(engine, PutRecord(kind="saga", id="1", body="{}", if_version=0)).found == 1
    done(engine, PutRecord(kind="saga", id="1", body="[2]", if_version=1))
    assert [(row.id, row.body, row.version) for row in engine.read(ListRecords("", "saga"))] == [
        ("1", "[2]", 2),
        ("2", "[1]", 1),
    ]
    done(engine, PutRecord(kind="saga", id="1", body=None))
    assert engine.read(FindRecord(("", "saga", "1"))) is None
    consistent(engine)


def test_lists_are_paged_by_id_and_show_states_as_of_now(engine: SqliteEngine, clock: Clock) -> None:
    engine.apply(groups(create("a:1"), create("a:2"), create("b:1")))
    ids = [hold_id() for _ in range(6)]
    engine.apply(
        groups(*(place("a:1", id=id, ttl=10 if n < 3 else DAY, entity=f"e{n % 2}") for n, id in enumerate(ids)))
    )
    done(engine, Consume(legs=(Leg("b:1"),), id=hold_id(), token="me"))
    assert [row.id for row in engine.read(ListPools("", prefix="a:"))] == ["a:1", "a:2"]
    assert [row.id for row in engine.read(ListPools("", after="a:1", limit=1))] == ["a:2"]
    clock.slot += 10
    held = engine.read(ListHolds("", pool="a:1", state=State.HELD))
    assert [row.id for row in held] == ids[3:]
    assert [row.id for row in engine.read(ListHolds("", pool="a:1", state=State.EXPIRED, after=ids[0]))] == ids[1:3]
    assert [row.id for row in engine.read(ListHolds("", entity="e0", limit=2))] == [ids[0], ids[2]]
    assert [row.held for row in engine.read(ListPools("", prefix="a:1"))] == [3]
    assert len(engine.read(ListHolds("", state=State.CONFIRMED))) == 1
    assert [row.seq for row in engine.read(ReadJournal(None, after={0: 9}, limit=1))] == [10]


def test_reserved_pools_are_listed_only_when_asked_for(engine: SqliteEngine) -> None:
    engine.apply(groups(create("~claim:x"), create("z"), create("\U0010ffff"), create("\U0010ffffb")))
    assert [row.id for row in engine.read(ListPools(""))] == ["z", "\U0010ffff", "\U0010ffffb"]
    assert [row.id for row in engine.read(ListPools("", prefix="~"))] == ["~claim:x"]
    assert [row.id for row in engine.read(ListPools("", prefix="\U0010ffff"))] == ["\U0010ffff", "\U0010ffffb"]


def test_a_refused_batch_writes_nothing_and_commits_nothing(open_one: Open) -> None:
    seen: list[str] = []
    engine = open_one(on_statement=seen.append)
    done(engine, create(total=1))
    seen.clear()
    refused(engine, place(("gpu", 2)))
    assert "commit" not in seen
    assert "rollback" in seen


def test_many_keys_are_loaded_by_one_statement_per_table(open_one: Open) -> None:
    seen: list[str] = []
    engine = open_one(on_statement=seen.append)
    engine.apply(groups(*(create(f"p{n}", 10) for n in range(50))))
    seen.clear()
    engine.apply(groups(*(place(f"p{n}", op=f"o{n}", fingerprint="f" * 32) for n in range(50))))
    assert seen == [
        "begin immediate", "load_head", "load_pools", "load_holds", "load_operations", "update_pools", "insert_plain_holds",
        "insert_legs", "insert_journal", "put_operations", "commit",
    ]  # fmt: skip


def test_a_journal_is_imported_behind_a_change_of_limits_in_it(
    engine: SqliteEngine, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdkit.core.import_.CHUNK", 1)
    done(engine, create(total=5))
    done(engine, ChangeLimits(changes={"retention": 3 * DAY}, reason="longer"))
    done(engine, place(("gpu", 2)))
    carried = [Carried(number, entry_of(row)) for number, row in enumerate(engine.read(ReadJournal(None)))]
    with closing(SqliteEngine(tmp_path / "other.db", clock=clock)) as other:
        other.receive(carried, verify=True)
        assert len(carried) == 3
        assert pool(other).held == 2
        done(other, place(("gpu", 1)))
        assert other.limits.retention == 3 * DAY
