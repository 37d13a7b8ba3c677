"""Waiters, tallies and trees in a file: which rows there are, which statements a batch runs, and what commits together."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.command_kinds import Command
from holdkit.core.commands import (
    AnyCommand,
    ExtendHold,
    FeedLine,
    Group,
    JoinLine,
    LimitPool,
    PlaceHold,
    ResizePool,
    Sweep,
)
from holdkit.core.import_ import Carried
from holdkit.core.model import Leg, State, StoredHold
from holdkit.core.outcomes import Done, Reason
from holdkit.core.reading import (
    CountAhead,
    CountRows,
    FindPools,
    ListHolds,
    ListPools,
    ListUsage,
    NextDeadline,
    ReadJournal,
    entry_of,
)
from holdkit.engines.port import Lent
from holdkit.engines.sqlite import SqliteEngine, loading
from holdkit.engines.sqlite.caller_transaction import open_application_connection
from holdkit.kernel.results import replies_of
from tests.engines.commands import START, Clock, confirm, create, release
from tests.engines.sqlite.conftest import Open
from tests.engines.sqlite.engine_calls import (
    consistent,
    done,
    groups,
    hold,
    hold_id,
    outside,
    place,
    pool,
    refused,
    rows,
)


def join(name: str = "gpu", quantity: int = 1, ttl: int = 1_000, offer: int = 60, **more: Any) -> JoinLine:
    named = {"id": hold_id(), "token": "me", **more}
    return JoinLine(legs=(Leg(name, quantity),), ttl_slots=ttl, offer_slots=offer, **named)


def placed(engine: SqliteEngine, command: AnyCommand) -> StoredHold:
    found = done(engine, command).hold
    assert found is not None
    return found


def full(engine: SqliteEngine, total: int = 2, **more: Any) -> StoredHold:
    """A pool without a unit left, and the hold that has them."""
    done(engine, create(total=total, **more))
    return placed(engine, place(("gpu", total)))


LEGS = "select hold, deadline, units, waiting, number, account from holdkit_legs order by number, hold"
POOL = "select held, waiting, last_number from holdkit_pools where id = 'gpu'"


def test_a_waiter_is_stored_offered_and_gone(engine: SqliteEngine, path: Path) -> None:
    held = full(engine)
    first = placed(engine, join(quantity=2, account="ann"))
    second = placed(engine, join(account="bob"))
    assert rows(path, LEGS) == [
        (held.id, START + 60, 2, 0, 0, None),
        (first.id, START + 1_000, 0, 2, 1, "ann"),
        (second.id, START + 1_000, 0, 1, 2, "bob"),
    ]
    waits = "select state, open, held_at, fence, joined_at, number, offer_ttl, account from holdkit_holds where id = ?"
    assert rows(path, waits, first.id) == [("waiting", 1, None, 0, START, 1, 60, "ann")]
    assert rows(path, POOL) == [(2, 2, 2)]
    assert rows(path, "select * from holdkit_tallies") == [("", "gpu", "ann", 2, 0), ("", "gpu", "bob", 1, 0)]
    done(engine, release(held.id))
    assert rows(path, LEGS) == [(first.id, START + 60, 2, 0, 0, "ann"), (second.id, START + 1_000, 0, 1, 2, "bob")]
    assert rows(path, waits, first.id) == [("held", 1, START, 2, START, 1, 60, "ann")]
    assert rows(path, POOL) == [(2, 1, 2)]
    done(engine, release(second.id))
    done(engine, confirm(first.id))
    assert rows(path, LEGS) == []
    assert rows(path, "select state, open, held_at from holdkit_holds where id = ?", second.id) == [
        ("released", 0, None)
    ]
    assert rows(path, "select * from holdkit_tallies") == [("", "gpu", "ann", 2, 0)]
    consistent(engine)


def test_a_line_is_there_after_opening_anew(open_one: Open) -> None:
    first = open_one()
    held = full(first)
    waiting = [placed(first, join()) for _ in range(3)]
    first.close()
    second = open_one()
    assert [second.read(CountAhead(hold.key)) for hold in waiting] == [0, 1, 2]
    done(second, release(held.id))
    assert [hold(second, one.id).state for one in waiting] == [State.HELD, State.HELD, State.WAITING]
    assert (pool(second).waiting, pool(second).bookable) == (1, 0)
    consistent(second)


def test_an_extended_waiter_keeps_its_place(engine: SqliteEngine, path: Path, clock: Clock) -> None:
    full(engine)
    first, second = placed(engine, join(ttl=10)), placed(engine, join(ttl=10))
    done(engine, ExtendHold(id=first.id, token="me", by_slots=500))
    assert [row[:2] for row in rows(path, LEGS)[1:]] == [(first.id, START + 510), (second.id, START + 10)]
    third = placed(engine, join())
    assert engine.read(CountAhead(third.key)) == 2
    clock.slot += 10
    assert engine.read(CountAhead(first.key)) == 0
    assert engine.read(CountAhead(third.key)) == 1
    assert engine.read(CountAhead(second.key)) is None, "its time is over"
    assert (pool(engine).waiting, hold(engine, second.id).state) == (2, State.EXPIRED)
    assert engine.read(NextDeadline(("", "gpu"))) == START + 10
    consistent(engine)


def test_a_waiter_whose_time_is_over_leaves_where_nothing_is_held(
    engine: SqliteEngine, path: Path, clock: Clock
) -> None:
    done(engine, confirm(full(engine).id))
    done(engine, join(ttl=10))
    clock.slot += 10
    done(engine, FeedLine(id="gpu"))
    assert rows(path, POOL) == [(0, 0, 1)]
    assert rows(path, LEGS) == []
    consistent(engine)


def test_pools_without_any_of_this_cost_no_statement_more(open_one: Open) -> None:
    seen: list[str] = []
    engine = open_one(on_statement=seen.append)
    done(engine, create(total=5))
    seen.clear()
    held = placed(engine, place())
    assert seen == ["begin immediate", "load_head", "load_pool", "load_hold", "update_pools", "insert_plain_holds", "insert_legs",
                    "insert_journal", "commit"]  # fmt: skip
    seen.clear()
    done(engine, confirm(held.id))
    assert seen == ["begin immediate", "load_head", "load_hold", "load_pool", "update_pools", "update_holds", "delete_legs",
                    "insert_journal", "commit"]  # fmt: skip


def test_a_line_and_an_account_cost_one_statement_each(open_one: Open) -> None:
    seen: list[str] = []
    engine = open_one(on_statement=seen.append)
    full(engine)
    for _ in range(5):
        placed(engine, join(account="ann"))
    seen.clear()
    placed(engine, join(account="bob"))
    assert Counter(seen)["load_line"] == Counter(seen)["load_tallies"] == 1
    assert Counter(seen)["load_hold"] == 2, "its own, and the first of the line: no more may be served"
    assert "load_holds" not in seen


def test_a_tree_moves_every_level_and_has_a_leg_on_each(engine: SqliteEngine, path: Path, clock: Clock) -> None:
    engine.apply(groups(create("v", 10), create("v//a", 6), create("v//a//x", 4)))
    assert rows(path, "select id, children from holdkit_pools order by id") == [("v", 1), ("v//a", 1), ("v//a//x", 0)]
    held = placed(engine, place(("v//a//x", 3), account="ann"))
    legs = "select pool, units, account from holdkit_legs order by pool"
    assert rows(path, legs) == [("v", 3, "ann"), ("v//a", 3, "ann"), ("v//a//x", 3, "ann")]
    assert [one.bookable for one in engine.read(ListPools(""))] == [7, 3, 1]
    done(engine, confirm(held.id, quantity=1, keep_rest=True))
    assert rows(path, legs) == [("v", 2, "ann"), ("v//a", 2, "ann"), ("v//a//x", 2, "ann")]
    assert rows(path, "select pool, used from holdkit_tallies order by pool") == [("v", 3), ("v//a", 3), ("v//a//x", 3)]
    clock.slot += 60
    done(engine, ResizePool(id="v", total=9))  # only v is touched: its leg returns, the others stay
    assert rows(path, legs) == [("v//a", 2, "ann"), ("v//a//x", 2, "ann")]
    assert rows(path, "select state, open from holdkit_holds") == [("expired", 1)]
    assert [one.held for one in engine.read(ListPools(""))] == [0, 0, 0]
    consistent(engine)
    done(engine, Sweep())
    assert rows(path, legs) == []
    assert rows(path, "select pool, used from holdkit_tallies order by pool") == [("v", 1), ("v//a", 1), ("v//a//x", 1)]
    consistent(engine)


def test_a_hold_is_seen_at_the_clock_of_a_pool_above_its_own(engine: SqliteEngine, clock: Clock) -> None:
    engine.apply(groups(create("v", 10), create("v//a", 6)))
    held = placed(engine, place("v//a"))
    clock.slot += 60
    done(engine, place("v"))
    clock.slot -= 60
    assert hold(engine, held.id).state is State.EXPIRED
    assert [one.id for one in engine.read(ListHolds("", state=State.EXPIRED))] == [held.id]


def test_children_are_seen_with_what_is_left_above(engine: SqliteEngine) -> None:
    engine.apply(groups(create("v", 3), create("v//a", 6), create("v//b", 6)))
    done(engine, place(("v//a", 2)))
    found = engine.read(FindPools((("", "v//b"), ("", "v"), ("", "none"))))
    assert [None if one is None else (one.available, one.bookable) for one in found] == [(6, 1), (1, 1), None]
    done(engine, place("v"))
    done(engine, join("v"))
    done(engine, ResizePool(id="v", total=4))  # offers the unit
    done(engine, ResizePool(id="v", total=5))
    assert pool(engine, "v//b").bookable == 1
    done(engine, join("v", 5))
    assert pool(engine, "v//b").bookable == 0, "somebody waits above"


def test_a_callers_transaction_offers_nothing_and_the_next_batch_does(engine: SqliteEngine, path: Path) -> None:
    held, waiting = full(engine), placed(engine, join(quantity=2))
    with closing(open_application_connection(str(path))) as tx:
        applied = engine.apply_in(tx, groups(release(held.id)))
        assert isinstance(applied.outcomes[0][0], Done)
        tx.execute("commit")
    assert hold(engine, waiting.id).state is State.WAITING
    assert refused(engine, place()).reason is Reason.INSUFFICIENT_CAPACITY
    assert hold(engine, waiting.id).state is State.HELD, "the batch fed the line before it refused"
    consistent(engine)


def test_a_callers_transaction_is_not_put_off_and_overtakes_nobody(open_one: Open, path: Path) -> None:
    engine = open_one(limits=Limits(max_offers=1))
    held = full(engine, 3)
    for _ in range(3):
        placed(engine, join())
    with closing(open_application_connection(str(path))) as tx:
        assert isinstance(engine.apply_in(tx, groups(release(held.id))).outcomes[0][0], Done)
        (answers,) = replies_of(engine.apply_in(tx, groups(place())), None)
        assert [getattr(one, "reason", None) for one in answers] == [Reason.LINE_AHEAD]
        tx.execute("commit")
    consistent(engine)


def test_a_lent_transaction_offers_and_puts_nothing_off(open_one: Open) -> None:
    engine = open_one(limits=Limits(max_offers=1))
    held = full(engine, 4)
    waiting = [placed(engine, join()) for _ in range(4)]
    with closing(open_application_connection(engine.path)) as tx:
        engine.apply_in(tx, groups(release(held.id)))
        tx.execute("commit")

    def work(lent: Lent) -> list[str]:
        applied = lent.apply([Group((FeedLine(id="gpu"),)), Group((create("other"),))])
        assert not applied.put_off
        return [type(group[0]).__name__ for group in applied.outcomes]

    assert engine.lend(work) == ["Done", "Done"]
    assert [hold(engine, one.id).state for one in waiting] == [State.HELD] * 4
    consistent(engine)


def test_offers_are_bounded_and_the_rest_is_reported(open_one: Open) -> None:
    engine = open_one(limits=Limits(max_offers=2))
    held = full(engine, 7)
    waiting = [placed(engine, join()) for _ in range(9)]
    freed = engine.apply(groups(release(held.id)))
    assert (freed.put_off, freed.unfed) == (frozenset(), (("", "gpu"),))
    served = [hold(engine, one.id).state for one in waiting].count(State.HELD)
    assert served == 2
    put_off = engine.apply(groups(place()))
    assert (put_off.outcomes, put_off.put_off, put_off.unfed) == ([[]], frozenset({0}), (("", "gpu"),))
    for left in (1, 0, 0):
        fed = engine.apply(groups(FeedLine(id="gpu")))
        assert len(fed.unfed) == left or fed.put_off
    assert [hold(engine, one.id).state for one in waiting].count(State.HELD) == 7
    assert engine.read(CountAhead(waiting[8].key)) == 1
    consistent(engine)


def test_those_behind_the_loaded_front_are_not_overtaken(engine: SqliteEngine) -> None:
    """A total is lowered under all who were loaded: whoever is behind them could be served, and is loaded by the next batch."""
    done(engine, create(total=4))
    done(engine, place(("gpu", 2)))
    for quantity in (4, 4, 4, 3):
        placed(engine, join(quantity=quantity))
    applied = engine.apply(groups(ResizePool(id="gpu", total=3), place()))
    assert (applied.outcomes[1], applied.put_off, applied.unfed) == ([], frozenset({1}), (("", "gpu"),))
    assert refused(engine, place()).reason is Reason.LINE_AHEAD
    consistent(engine)


def freed_outside(engine: SqliteEngine, held: str, tenant: str = "") -> None:
    """Released in a caller's transaction, which offers nothing."""
    with closing(open_application_connection(engine.path)) as tx:
        engine.apply_in(tx, groups(release(held, tenant=tenant)))
        tx.execute("commit")


@pytest.mark.parametrize("line", ["strict", "skip"])
def test_lines_that_cannot_be_fed_do_not_keep_the_sweep_from_others(
    engine: SqliteEngine, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "FED_LINES", 3)
    for number in range(4):  # a unit is left, and the only one who waits asks for two
        done(engine, create(f"a{number}", 2, line=line))
        done(engine, place(f"a{number}", ttl=10**6))
        done(engine, join(f"a{number}", 2))
        if line == "strict":
            done(engine, join(f"a{number}"))  # who would fit, but is behind
    held = full(engine, line=line)
    waiting = placed(engine, join())
    freed_outside(engine, held.id)
    assert hold(engine, waiting.id).state is State.WAITING
    done(engine, Sweep())
    assert hold(engine, waiting.id).state is State.HELD
    consistent(engine)


def test_a_sweep_feeds_behind_one_who_is_due_or_asks_too_much(engine: SqliteEngine, clock: Clock) -> None:
    held = full(engine, 3)
    done(engine, join(quantity=3, ttl=10**6))
    done(engine, join(quantity=2, ttl=10))
    third = placed(engine, join(ttl=10**6))
    with closing(open_application_connection(engine.path)) as tx:
        engine.apply_in(tx, groups(release(held.id, quantity=2), ResizePool(id="gpu", total=2)))
        tx.execute("commit")
    clock.slot += 10
    done(engine, Sweep(limit=1))
    assert hold(engine, third.id).state is State.HELD
    consistent(engine)


def on_demand(name: str, **more: Any) -> PlaceHold:
    return PlaceHold(legs=(Leg(name, 1, 2),), ttl_slots=60, id=hold_id(), token="me", **more)


def test_a_sweep_takes_away_a_child_and_its_parent_counts_it(engine: SqliteEngine, path: Path) -> None:
    done(engine, create("v", 9))
    held = placed(engine, on_demand("v//tmp"))
    assert rows(path, "select id, children from holdkit_pools order by id") == [("v", 1), ("v//tmp", 0)]
    done(engine, release(held.id))
    done(engine, Sweep())
    assert rows(path, "select id, children from holdkit_pools") == [("v", 0)]
    consistent(engine)


def test_empty_pools_with_children_do_not_keep_the_sweep_from_others(
    open_one: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading.gather, "__defaults__", (2,))  # empty pools that one sweep removes
    engine = open_one()
    for name in ("a", "b", "c"):
        done(engine, release(placed(engine, on_demand(name)).id))
        done(engine, create(f"{name}//child", 1))
    done(engine, release(placed(engine, on_demand("z")).id))
    done(engine, Sweep())
    assert [name for (name,) in rows(path, "select id from holdkit_pools where on_demand")] == ["a", "b", "c"]
    consistent(engine)


def test_what_an_account_uses_is_listed_by_pool(engine: SqliteEngine, clock: Clock) -> None:
    engine.apply(groups(create("a", 9), create("b", 9, per_account=5), create("c", 9)))
    for name, ttl in (("a", 60), ("b", 600), ("c", 600)):
        placed(engine, place((name, 2), ttl=ttl, account="ann"))
    placed(engine, place("b", account="bob"))
    assert refused(engine, place(("b", 4), account="ann")).reason is Reason.ACCOUNT_LIMIT
    clock.slot += 60
    found = engine.read(ListUsage("", "ann"))
    assert [(one.pool, one.used, one.limit) for one in found] == [("b", 2, 5), ("c", 2, None)], "a is due"
    assert [one.pool for one in engine.read(ListUsage("", "ann", limit=1))] == ["b"], (
        "what is due takes no room of a page"
    )
    assert [one.pool for one in engine.read(ListUsage("", "ann", after="b"))] == ["c"]
    assert engine.read(ListUsage("other", "ann")) == []
    consistent(engine)


def test_waiters_and_tallies_count_as_what_a_tenant_stores(engine: SqliteEngine) -> None:
    full(engine)
    before = engine.read(CountRows("", "pools"))
    for number in range(10):
        placed(engine, join(account=f"customer:{number}" + "x" * 100))
    counted = engine.read(CountRows("", "holds"))
    assert (counted.rows, counted.live) == (11, 11)
    assert engine.read(CountRows("", "pools")).bytes - before.bytes > 10 * 210


def test_bounded_tables_count_those_who_wait(open_one: Open) -> None:
    engine = open_one(limits=Limits(max_holds=3, max_line=5))
    full(engine)
    done(engine, join())
    done(engine, join())
    assert refused(engine, join()).reason is Reason.HOLD_TABLE_FULL
    assert refused(engine, place()).reason is Reason.HOLD_TABLE_FULL
    consistent(engine)


def test_holds_are_listed_by_the_state_of_waiting(engine: SqliteEngine, clock: Clock) -> None:
    held = full(engine)
    first, second = placed(engine, join(ttl=30)), placed(engine, join())
    assert [one.id for one in engine.read(ListHolds("", pool="gpu", state=State.WAITING))] == [first.id, second.id]
    assert [one.id for one in engine.read(ListHolds("", pool="gpu", state=State.HELD))] == [held.id]
    clock.slot += 30
    assert [one.id for one in engine.read(ListHolds("", state=State.WAITING))] == [second.id]
    assert [one.id for one in engine.read(ListHolds("", state=State.EXPIRED))] == [first.id]


def test_a_kill_at_any_statement_leaves_no_unit_free_before_somebody_who_waits(tmp_path: Path) -> None:
    """The release and the offer are in one transaction, so there is nothing between them."""
    outcomes = Counter[str]()
    for stop in range(1, 40):
        path = tmp_path / f"{stop}.db"
        engine = SqliteEngine(path, clock=Clock())
        held, waiting = full(engine), placed(engine, join(quantity=2))
        engine.close()
        child = os.fork()
        if child == 0:
            left = [stop]

            def die(_: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)

            dying = SqliteEngine(path, clock=Clock())
            dying._writer._hook = die  # from here on: opening has statements of its own
            dying.apply(groups(release(held.id)))
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        engine = SqliteEngine(path, clock=Clock())
        states = (hold(engine, held.id).state, hold(engine, waiting.id).state)
        outcomes["killed" if killed else "whole"] += 1
        assert states in ((State.HELD, State.WAITING), (State.RELEASED, State.HELD)), stop
        assert states[0] is State.HELD or not killed
        consistent(engine)
        engine.close()
        if not killed:
            break
    assert outcomes["killed"] > 8
    assert outcomes["whole"] == 1


def test_a_journal_with_lines_is_imported(engine: SqliteEngine, tmp_path: Path, clock: Clock) -> None:
    engine.apply(groups(create("v", 4, per_account=9, line="skip"), create("v//a", 3)))
    held = placed(engine, place(("v//a", 3), account="ann"))
    for account in ("bob", "dan", "cy"):
        placed(engine, join("v", 2, account=account))
    done(engine, confirm(held.id, quantity=1))
    rest = engine.read(ReadJournal(None))
    with closing(SqliteEngine(tmp_path / "other.db", clock=clock)) as other:
        other.receive([Carried(number, entry_of(row)) for number, row in enumerate(rest)], verify=True)
        for query in (ListPools(""), ListHolds(""), ListUsage("", "ann"), ListUsage("", "bob")):
            assert other.read(query) == engine.read(query)
        consistent(other)
        assert refused(other, place("v", account="ann")).reason is Reason.LINE_AHEAD


DAMAGES = {
    "a line counted too long": "update holdkit_pools set waiting = waiting + 1 where id = 'gpu'",
    "numbers given again": "update holdkit_pools set last_number = 0 where id = 'gpu'",
    "children forgotten": "update holdkit_pools set children = 0",
    "a line where there is none": "update holdkit_pools set waiting = 1 where id = 'v//a'",
    "a limit lost": "update holdkit_pools set per_account = null",
    "another kind of line": "update holdkit_pools set line = 'skip'",
    "a waiter ended": "update holdkit_holds set state = 'released' where state = 'waiting'",
    "another place": "update holdkit_holds set number = 7 where number = 1",
    "joined before": "update holdkit_holds set joined_at = 1 where number = 1",
    "a longer offer": "update holdkit_holds set offer_ttl = 9999 where number = 1",
    "another account": "update holdkit_holds set account = 'eve' where account = 'ann'",
    "units above lost": "update holdkit_holds set above = null",
    "nonsense above": "update holdkit_holds set above = 'nonsense' where above is not null",
    "a place in the table of legs": "update holdkit_legs set number = 77 where number = 1",
    "a wish": "update holdkit_legs set waiting = 2 where number = 1",
    "a leg's account": "update holdkit_legs set account = null",
    "a place lost": "delete from holdkit_legs where number = 1",
    "a leg above lost": "delete from holdkit_legs where pool = 'v'",
    "a tally": "update holdkit_tallies set used = used + 1 where pool = 'v'",
    "a tally loose": "update holdkit_tallies set loose = 1",
    "a tally lost": "delete from holdkit_tallies",
    "a tally of nobody": "insert into holdkit_tallies values ('', 'v', 'eve', 3, 0)",
}


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=[*DAMAGES])
def test_damaged_rows_are_named_and_repaired(engine: SqliteEngine, path: Path, sql: str) -> None:
    full(engine)
    engine.apply(groups(create("v", 4), create("v//a", 3), LimitPool(id="v", per_account=8)))
    assert rows(path, "select per_account from holdkit_pools where id = 'v'") == [(8,)]
    placed(engine, place(("v//a", 2), account="ann"))
    placed(engine, join(account="ann"))
    placed(engine, join(account="bob"))
    consistent(engine)
    everything = {
        table: rows(path, f"select * from {table}") for table in ("holdkit_holds", "holdkit_legs", "holdkit_tallies")
    }
    with outside(path) as someone:
        assert someone.execute(sql).rowcount >= 1
    assert list(engine.verify()) != []
    report = engine.repair(Command(actor="user:7", reason="damaged"), dry_run=False)
    assert report.repaired
    assert not report.left
    consistent(engine)
    assert {table: rows(path, f"select * from {table}") for table in everything} == everything
