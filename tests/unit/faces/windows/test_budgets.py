"""Budgets: hold the estimate, confirm the actual, on every engine, sync and async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdkit
from holdkit import Allowance, HoldExpired, InsufficientCapacity, InvalidRequest, State
from holdkit.errors import BelowInUse, PoolNotFound
from tests.support.kernels import Store
from tests.unit.faces.windows.conftest import set_actual

SECOND = 1_000_000
HOUR = 3600
DAY = 86_400


def opened(store: Store, tokens: int = 1_000, requests: int = 3) -> Any:
    return store.hk.budget(
        "llm", requests=Allowance(requests, per="minute"), tokens=Allowance(tokens, per="day", zone="Europe/Berlin")
    )


def tokens_only(store: Store, total: int = 1_000) -> Any:
    return store.hk.budget("llm", tokens=Allowance(total, per="hour"))


def test_the_estimate_is_held_and_the_actual_counts(store: Store) -> None:
    llm = opened(store)
    hold = llm.hold("team", {"requests": 1, "tokens": 600}, ttl=60)
    assert llm.remaining("team") == {"requests": 2, "tokens": 400}
    with pytest.raises(InsufficientCapacity) as no:
        llm.hold("team", {"requests": 1, "tokens": 401}, ttl=60)
    assert (no.value.budgets, no.value.requested, no.value.available) == (("tokens",), 401, 400)
    assert no.value.retry_after == 23 * HOUR, "midnight in Berlin is an hour before that in UTC"
    assert llm.remaining("team")["requests"] == 2, "all or nothing"
    ended = llm.confirm(hold, {"tokens": 250})
    assert ended.state is State.CONFIRMED
    assert llm.remaining("team") == {"requests": 2, "tokens": 750}, "a budget that is not named counts as estimated"
    assert [(usage.budget, usage.held, usage.consumed) for usage in llm.usage("team")] == [
        ("requests", 0, 1),
        ("tokens", 0, 250),
    ]
    assert llm.remaining("others") == {"requests": 3, "tokens": 1_000}


def test_nothing_spent_is_a_release_and_nothing_said_is_the_estimate(store: Store) -> None:
    llm = tokens_only(store)
    free, all_of_it = llm.hold("team", 400, ttl=60), llm.hold("team", 300, ttl=60)
    assert llm.confirm(free, 0, op="x").state is State.RELEASED
    assert llm.confirm(free, 0, op="x").replayed
    assert llm.confirm(all_of_it).state is State.CONFIRMED
    assert llm.remaining("team") == {"tokens": 700}


def test_more_than_was_estimated(store: Store) -> None:
    llm = tokens_only(store)
    first, second, third = (llm.hold("team", 300, ttl=60) for _ in range(3))
    with pytest.raises(Exception, match="quantity_exceeds_hold"):
        llm.confirm(first, 350, overage="reject")
    with pytest.raises(InsufficientCapacity):
        llm.confirm(first, 401, overage="if_available")
    llm.confirm(first, 350, overage="if_available")
    ended = llm.confirm(second, 500)
    assert (ended.uncovered, ended.legs[0].confirmed) == ({"tokens": 150}, 350)
    assert llm.remaining("team") == {"tokens": 0}
    llm.confirm(third, 100)
    assert llm.remaining("team") == {"tokens": 200}
    (usage,) = llm.usage("team")
    assert usage.held + usage.consumed <= usage.total


def test_spending_step_by_step(store: Store) -> None:
    llm = opened(store)
    hold = llm.hold("team", {"requests": 1, "tokens": 100}, ttl=60)
    llm.confirm(hold, {"tokens": 40}, keep_rest=True)
    assert llm.remaining("team") == {"requests": 2, "tokens": 900}
    llm.confirm(hold, {"requests": 1})  # the hold in hand is an old one: what is left of the tokens counts, not 100
    assert llm.remaining("team") == {"requests": 2, "tokens": 900}
    assert store.hk.get(hold).state is State.CONFIRMED
    other = llm.hold("team", {"requests": 1, "tokens": 100}, ttl=60)
    llm.confirm(other, {"tokens": 40}, keep_rest=True)
    llm.confirm(other, {"tokens": 0, "requests": 0})
    assert llm.remaining("team") == {"requests": 2, "tokens": 860}


def test_a_step_that_came_to_nothing_ends_nothing(store: Store) -> None:
    llm = opened(store)
    hold = llm.hold("team", {"requests": 1, "tokens": 100}, ttl=60)
    assert llm.confirm(hold, {"tokens": 0}, keep_rest=True, op="step").state is State.HELD
    assert llm.confirm(hold, {"tokens": 0, "requests": 0}, keep_rest=True).state is State.HELD
    assert llm.remaining("team") == {"requests": 2, "tokens": 900}
    llm.confirm(hold, {"tokens": 40})
    assert llm.remaining("team") == {"requests": 2, "tokens": 960}
    assert llm.confirm(hold, {"tokens": 0}, keep_rest=True, op="step").replayed


def test_one_budget_may_have_two_windows(store: Store) -> None:
    llm = store.hk.budget("llm", tokens=(Allowance(100, per="minute"), Allowance(150, per="hour")))
    llm.confirm(llm.hold("team", 100, ttl=30), 90)
    store.clock.advance(60)
    assert llm.remaining("team") == {"tokens": 60}
    with pytest.raises(InsufficientCapacity) as no:
        llm.hold("team", 61, ttl=30, op="x")
    assert no.value.retry_after == 3540.0
    store.clock.advance(60)
    with pytest.raises(InsufficientCapacity) as again:
        llm.hold("team", 61, ttl=30, op="x")
    assert (again.value.replayed, again.value.budgets) == (True, ("tokens",))
    ended = llm.confirm(llm.hold("team", 50, ttl=30), 120)
    assert ended.uncovered == {"tokens": 60}, "the hour had 60 left, the minute 100"
    assert [(usage.per, usage.consumed) for usage in llm.usage("team")] == [("60s", 100), ("3600s", 150)]


def test_a_hold_belongs_to_the_window_in_which_it_was_decided(store: Store) -> None:
    llm = tokens_only(store)
    store.clock.set(HOUR * SECOND - 1)
    last = llm.hold("team", 600, ttl=120)
    store.clock.set(HOUR * SECOND)  # decided exactly at `closes`: the next window's
    first = llm.hold("team", 900, ttl=120)
    assert [hold.legs[0].pool for hold in (last, first)] == [
        "~budgets/llm/team/tokens/3600s@0",
        "~budgets/llm/team/tokens/3600s@3600",
    ]
    store.hk.sweep()
    assert store.hk.pool("~budgets/llm/team/tokens/3600s@0").held == 600, "not swept away under a live hold"
    llm.confirm(last, 700)
    assert store.hk.pool("~budgets/llm/team/tokens/3600s@0").consumed == 700, "late, and counted where it belongs"
    assert llm.remaining("team") == {"tokens": 100}
    store.hk.sweep()
    assert [pool.id for pool in store.hk.pools("~budgets/")] == ["~budgets/llm/team/tokens/3600s@3600"]


def test_windows_go_even_if_their_holds_were_forgotten(store: Store) -> None:
    llm = tokens_only(store)
    hold = llm.hold("team", 600, ttl="2h")
    store.clock.set(2 * HOUR * SECOND)
    for _ in range(2):
        store.hk.sweep()
    assert store.hk.pools("~budgets/") == []
    with pytest.raises(HoldExpired):
        llm.confirm(hold, 5)


def test_a_retry_is_the_same_operation_whatever_happened_since(store: Store) -> None:
    llm = opened(store)
    store.clock.set(23 * HOUR * SECOND - 1)
    hold = llm.hold("team", {"tokens": 100, "requests": 1}, ttl=60, op="h")
    store.clock.set(23 * HOUR * SECOND)  # both windows have moved on
    again = llm.hold("team", {"requests": 1, "tokens": 100}, ttl="1m", op="h")
    assert (again.id, again.token, again.replayed) == (hold.id, hold.token, True)
    assert llm.remaining("team") == {"requests": 3, "tokens": 1_000}
    llm.confirm(again, {"tokens": 120}, op="c")
    done = llm.confirm(hold.ticket, {"tokens": 120}, op="c")
    assert (done.replayed, done.state) == (True, State.CONFIRMED)
    for other in ({"tokens": 121}, {"tokens": 120, "requests": 1}, None, {"tokens": 0}):
        with pytest.raises(Exception, match="operation_conflict"):
            llm.confirm(hold, other, op="c")
    with pytest.raises(Exception, match="operation_conflict"):
        llm.hold("team", {"tokens": 101, "requests": 1}, ttl=60, op="h")
    with pytest.raises(Exception, match="operation_conflict"):
        llm.hold("other", {"tokens": 100, "requests": 1}, ttl=60, op="h")


def test_a_ticket_will_do_and_an_id_alone_will_not(store: Store) -> None:
    llm = opened(store)
    one, other = (llm.hold("team", {"requests": 1, "tokens": 100}, ttl=60) for _ in range(2))
    llm.confirm(one.ticket, {"tokens": 10})
    with pytest.raises(holdkit.InvalidRequest) as wrong:
        llm.confirm(other.id, {"tokens": 10})
    assert wrong.value.code == "ticket_required"
    with pytest.raises(holdkit.NotOwner):
        llm.confirm(holdkit.ticket(other.id, "thief"), {"tokens": 10})
    llm.confirm(other, {"tokens": 20})
    assert llm.remaining("team")["tokens"] == 970
    with pytest.raises(Exception, match="already_confirmed"):
        llm.confirm(other, {"tokens": 20})
    with pytest.raises(Exception, match="hold_not_found"):
        llm.confirm(holdkit.ticket("0" * 32, "me"), {"tokens": 20})


def test_known_costs_need_one_step(store: Store) -> None:
    llm = opened(store)
    assert llm.consume("team", {"tokens": 300}).state is State.CONFIRMED
    assert llm.remaining("team") == {"requests": 3, "tokens": 700}


def test_another_total_for_the_window_that_runs(store: Store) -> None:
    llm = tokens_only(store)
    store.clock.set((HOUR - 5) * SECOND)
    with pytest.raises(PoolNotFound):
        llm.resize("team", "tokens", 5)
    llm.consume("team", 600)
    assert llm.resize("team", "tokens", 700).total == 700
    with pytest.raises(InsufficientCapacity):
        llm.hold("team", 101, ttl=60)
    with pytest.raises(BelowInUse) as no:
        llm.resize("team", "tokens", 599)
    assert no.value.in_use == 600
    llm.resize("team", "tokens", 5_000, op="r")
    llm.consume("team", 3_000)
    store.clock.set(HOUR * SECOND)
    assert llm.remaining("team") == {"tokens": 1_000}, "the next window is as the allowance says"
    llm.consume("team", 1)
    assert llm.resize("team", "tokens", 5_000, op="r").replayed
    assert llm.remaining("team") == {"tokens": 999}


# Blocks


def fail(after: Callable[[], object] = lambda: None) -> None:
    after()
    raise ZeroDivisionError


def test_a_block_confirms_what_its_body_says(store: Store) -> None:
    llm = opened(store)
    with llm.holding("team", {"requests": 1, "tokens": 600}, ttl=60, entity="call:1") as spending:
        assert llm.remaining("team")["tokens"] == 400
        assert not spending.actual
        set_actual(spending, {"tokens": 1_100})
        assert spending.actual == {"tokens": 1_100}
    assert spending.uncovered == {"tokens": 100}
    assert llm.remaining("team") == {"requests": 2, "tokens": 0}
    assert store.hk.get(spending.hold).entity == "call:1"


def test_a_block_that_says_nothing_confirms_the_estimate_and_zero_releases(store: Store) -> None:
    llm = tokens_only(store)
    with llm.holding("team", 100, ttl=60) as spending:
        pass
    assert (llm.remaining("team"), spending.uncovered) == ({"tokens": 900}, {})
    with llm.holding("team", 100, ttl=60) as spending:
        set_actual(spending, 0)
    assert llm.remaining("team") == {"tokens": 900}
    assert store.hk.get(spending.hold).state is State.RELEASED


def test_a_block_that_fails_confirms_what_was_spent_or_releases(store: Store) -> None:
    llm = tokens_only(store)
    with pytest.raises(ZeroDivisionError), llm.holding("team", 100, ttl=60):
        fail()
    assert llm.remaining("team") == {"tokens": 1_000}
    with pytest.raises(ZeroDivisionError), llm.holding("team", 100, ttl=60) as spending:
        fail(lambda: set_actual(spending, 70))
    assert llm.remaining("team") == {"tokens": 930}


def test_a_block_that_takes_too_long_says_so(memory: Store) -> None:
    llm = tokens_only(memory)
    with pytest.raises(HoldExpired), llm.holding("team", 100, ttl=60):
        memory.clock.advance(60)
    with pytest.raises(ZeroDivisionError) as failed, llm.holding("team", 100, ttl=60):
        fail(lambda: memory.clock.advance(60))
    assert "could not be ended" in failed.value.__notes__[0]


def test_a_body_may_end_its_hold_itself(memory: Store) -> None:
    llm = tokens_only(memory)
    with llm.holding("team", 100, ttl=60) as spending:
        llm.confirm(spending.hold, 30)
    with llm.holding("team", 100, ttl=60) as spending:
        memory.hk.release(spending.hold)
    assert llm.remaining("team") == {"tokens": 970}
    with pytest.raises(Exception, match="already_released"), llm.holding("team", 100, ttl=60) as spending:
        memory.hk.admin.release(spending.hold.id, reason="admin_override")


def test_a_block_is_entered_once_and_says_only_what_it_holds(memory: Store) -> None:
    llm = opened(memory)
    block = llm.holding("team", {"tokens": 10}, ttl=60)
    with pytest.raises(InvalidRequest, match="no hold before"):
        _ = block.hold
    with block as spending:
        for wrong, code in [({"requests": 1}, "budget_unknown"), (-1, "actual_out_of_range"), ({}, "actual_required"),
                            (True, "actual_not_whole"), ("5", "actual_not_whole")]:  # fmt: skip
            with pytest.raises(InvalidRequest) as no:
                set_actual(spending, wrong)
            assert no.value.code == code
        set_actual(spending, 5)
    with pytest.raises(InvalidRequest, match="can be entered once"), block:
        pass
    assert llm.remaining("team")["tokens"] == 995


# Bad input

BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"client": " "}, "client", "client_required"),
    ({"estimate": {}}, "estimate", "estimate_required"),
    ({"estimate": 5}, "estimate", "estimate_ambiguous"),
    ({"estimate": None}, "estimate", "estimate_ambiguous"),
    ({"estimate": {"tokens": 0}}, "estimate", "estimate_out_of_range"),
    ({"estimate": {"tokens": -1}}, "estimate", "estimate_out_of_range"),
    ({"estimate": {"tokens": 2**53}}, "estimate", "estimate_out_of_range"),
    ({"estimate": {"tokens": True}}, "estimate", "estimate_not_whole"),
    ({"estimate": {"tokens": float("nan")}}, "estimate", "estimate_not_whole"),
    ({"estimate": {"tokens": "5"}}, "estimate", "estimate_not_whole"),
    ({"estimate": {"gold": 1}}, "estimate", "budget_unknown"),
    ({"estimate": {7: 1}}, "estimate", "budget_unknown"),
    ({"ttl": 0}, "ttl", "ttl_too_short"),
    ({"ttl": "soon"}, "ttl", "ttl_malformed"),
    ({"ttl": "31d"}, "ttl", "ttl_too_long"),
    ({"token": ""}, "token", "token_required"),
    ({"op": "x" * 256}, "op", "op_too_long"),
    ({"mode": "red"}, "mode", "argument_unknown"),
]


@pytest.mark.parametrize(("options", "field", "code"), BAD, ids=range(len(BAD)))
def test_bad_holds_are_refused_and_nothing_is_written(
    memory: Store, options: dict[str, Any], field: str, code: str
) -> None:
    llm = opened(memory)
    good = {"client": "team", "estimate": {"tokens": 5}, "ttl": 60}
    for verb in ("hold",) if "token" in options else ("hold", "holding"):
        with pytest.raises(InvalidRequest) as no, getattr(llm, verb)(**{**good, **options}):
            pass
        assert (no.value.field, no.value.code) == (field, code)
    assert list(memory.hk.journal.list()) == []


CONFIRMED: list[tuple[dict[str, Any], str, str]] = [
    ({"actual": 5}, "actual", "actual_ambiguous"),
    ({"actual": {"tokens": -1}}, "actual", "actual_out_of_range"),
    ({"actual": {"tokens": 1.5}}, "actual", "actual_not_whole"),
    ({"actual": {"requests": 1}}, "actual", "leg_unknown"),
    ({"actual": {"tokens": 1}, "overage": "always"}, "overage", "overage_unknown"),
    ({"actual": {"tokens": 1}, "keep_rest": 1}, "keep_rest", "keep_rest_not_boolean"),
    ({"actual": {"tokens": 1}, "entity": ""}, "entity", "entity_required"),
    ({"hold": "nonsense"}, "hold", "hold_malformed"),
    ({"hold": "hk1.x"}, "hold", "ticket_malformed"),
    ({"hold": 7}, "hold", "hold_malformed"),
]


@pytest.mark.parametrize(("options", "field", "code"), CONFIRMED, ids=range(len(CONFIRMED)))
def test_bad_confirms_are_refused_and_nothing_changes(
    memory: Store, options: dict[str, Any], field: str, code: str
) -> None:
    llm = opened(memory)
    hold = llm.hold("team", {"tokens": 5}, ttl=60)
    with pytest.raises(InvalidRequest) as no:
        llm.confirm(**{"hold": hold, **options})
    assert (no.value.field, no.value.code) == (field, code)
    assert memory.hk.get(hold).version == 1


def test_other_bad_definitions_and_totals(memory: Store) -> None:
    cases: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: memory.hk.budget("llm"), "budgets", "budgets_required"),
        (lambda: memory.hk.budget("llm", tokens=5), "tokens", "allowance_required"),
        (lambda: memory.hk.budget("llm", tokens=()), "tokens", "allowance_required"),
        (lambda: memory.hk.budget("llm", **{"": Allowance(1, per=1)}), "budget", "budget_required"),
        (lambda: memory.hk.budget("llm", **{"x" * 65: Allowance(1, per=1)}), "budget", "budget_too_long"),
        (lambda: memory.hk.budget(7, tokens=Allowance(1, per=1)), "name", "name_not_text"),
        (lambda: opened(memory).resize("team", "gold", 5), "budget", "budget_unknown"),
        (lambda: opened(memory).resize("team", "tokens", -5), "total", "total_out_of_range"),
        (lambda: opened(memory).holding("team", {"tokens": 5}, ttl=5, tx=object()), "tx", "tx_unsupported"),
    ]
    for make, field, code in cases:
        with pytest.raises(InvalidRequest) as no:
            make()
        assert (no.value.field, no.value.code) == (field, code)
