"""Limits per account: what a tally counts, whom a limit refuses, and whose units are loose."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import AnyCommand, LimitPool, ResizePool, Sweep
from holdkit.core.entries import Action, Effect
from holdkit.core.model import Leg
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.outstanding import Tally
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    give_back,
    give_back_loose,
    hold_id,
    join,
    place,
    refused,
    release,
    said,
)

FORCED: dict[str, Any] = {"force": True, "reason": "box office"}


@pytest.fixture
def world() -> World:
    """A pool p of 10, at most 4 for each account, at slot 5."""
    world = World(retention=100, retention_consumed=100)
    world.slot = 5
    world.pool("p", 10, per_account=4)
    return world


def forms(quantity: int = 1, **more: Any) -> list[AnyCommand]:
    """Every command that takes units, or a place in line."""
    what = {"p": quantity}
    return [place("a", what, 60, **more), consume("a", what, **more), join("a", what, **more)]


# What a tally counts


def test_a_tally_moves_with_every_step_of_a_hold(world: World) -> None:
    done(world.do(place("a", {"p": 3}, 60, account="ann")))
    assert world.used("p") == 3
    assert world.entries[-1].effects == (Effect(world.row("p"), held=3, used=3, tally=Tally("ann", 3)),)
    done(world.do(release("a", 1)))
    assert world.used("p") == 2
    done(world.do(confirm("a", 1, keep_rest=True)))
    assert (world.used("p"), world.counters("p")) == (2, (10, 1, 1)), "consumed units are used like held ones"
    assert world.entries[-1].effects == (Effect(world.row("p"), held=-1, consumed=1),), "so the tally does not change"
    world.slot = 65
    done(world.do(place("other", "p", 60, account="bob")))
    assert (world.used("p"), world.used("p", "bob")) == (1, 1)
    assert world.actions(hold_id("a"))[-1] == "hold.expired"
    done(world.do(give_back("a")))
    assert ("", "p", "ann") not in world.tallies, "gone at 0"
    assert world.entries[-1].effects == (Effect(world.row("p"), consumed=-1, used=-1, tally=Tally("ann", 0)),)


def test_a_confirm_of_less_gives_back_the_rest(world: World) -> None:
    done(world.do(place("a", {"p": 3}, 60, account="ann")))
    done(world.do(confirm("a", 1)))
    assert (world.used("p"), world.counters("p")) == (1, (10, 0, 1))


def test_a_waiter_is_counted_from_the_join_and_the_offer_changes_nothing(world: World) -> None:
    done(world.do(place("full", {"p": 10}, 60, **FORCED)))
    done(world.do(join("a", {"p": 3}, 20, account="ann")))
    assert world.entries[-1].effects == (Effect(world.row("p"), waiting=1, used=3, tally=Tally("ann", 3)),)
    assert refused(world.do(join("b", {"p": 2}, account="ann"))).shortfalls == (Shortfall("p", 2, 1, 4, used=3),)
    done(world.do(join("c", {"p": 2}, 100, account="bob")))
    done(world.do(release("full", 3)))
    assert (world.states("a"), world.used("p"), world.entries[-1].effects[0].tally) == (["held"], 3, None)
    done(world.do(release("c")))
    assert world.used("p", "bob") == 0


def test_a_wait_that_is_over_is_not_counted(world: World) -> None:
    done(world.do(place("full", {"p": 10}, 60, **FORCED)))
    done(world.do(join("a", {"p": 4}, 20, account="ann")))
    world.slot = 25
    done(world.do(join("b", {"p": 4}, 20, account="ann")))
    assert (world.states("a", "b"), world.used("p")) == (["expired", "waiting"], 4)


@pytest.mark.parametrize("number", range(3))
def test_units_of_no_account_are_in_no_tally(world: World, number: int) -> None:
    done(world.do(forms(**FORCED)[number]))
    assert (world.tallies, world.held("a").account) == ({}, None)
    done(world.do(give_back("a") if number == 1 else release("a")))
    assert (world.tallies, world.counters("p")) == ({}, (10, 0, 0))


def test_what_is_there_counts_under_a_limit_that_is_set_later() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(consume("a", {"p": 3}, account="ann")))
    done(world.do(LimitPool(id="p", per_account=4)))
    assert said(world.do(consume("b", {"p": 2}, account="ann"))) == "account_limit"
    assert said(world.do(consume("b", {"p": 1}, account="ann"))) == "done"


def test_pools_of_faces_have_no_tallies() -> None:
    world = World()
    world.pool("p", 10, per_account=1)
    done(world.do(place("a", (Leg("~seat", 1, 1), Leg("p")), 60, account="ann")))
    assert list(world.tallies) == [("", "p", "ann")]
    assert world.held("a").account == "ann"
    assert [leg.account for _, leg in world.held("a").open_legs()] == [None, "ann"]
    done(world.do(confirm("a")))
    assert list(world.tallies) == [("", "p", "ann")]


# Whom the limit refuses


@pytest.mark.parametrize("number", range(3))
def test_an_account_must_be_named(world: World, number: int) -> None:
    before = world.state()
    assert refused(world.do(forms()[number])) == Refusal(Reason.ACCOUNT_REQUIRED, "p")
    assert world.state() == before


@pytest.mark.parametrize("number", range(3))
def test_an_account_gets_as_much_as_the_limit_says(world: World, number: int) -> None:
    done(world.do(consume("mine", {"p": 2}, account="ann")))
    assert refused(world.do(forms(3, account="ann")[number])) == Refusal(
        Reason.ACCOUNT_LIMIT, "p", (Shortfall("p", 3, 2, 4, used=2),)
    )
    assert said(world.do(forms(2, account="ann")[number])) == "done"
    assert world.used("p") == 4


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("account", [None, "ann"])
def test_a_box_office_passes_both_rungs_and_says_why(world: World, number: int, account: str | None) -> None:
    done(world.do(consume("mine", {"p": 4}, account="ann")))
    done(world.do(forms(5, account=account, **FORCED)[number]))
    own = [entry for entry in world.entries if entry.subject == hold_id("a")]
    assert [entry.reason for entry in own if entry.action is not Action.HOLD_OFFERED] == ["box office"] * (
        2 if number == 1 else 1
    )
    assert [entry.forced for entry in own if entry.action is not Action.HOLD_OFFERED] == [True] * (
        2 if number == 1 else 1
    )
    assert world.used("p") == (9 if account else 4)
    assert said(world.do(consume("b", "p", account="ann"))) == "account_limit"


def test_force_passes_no_other_rung(world: World) -> None:
    assert said(world.do(place("a", {"p": 11}, 60, **FORCED))) == "insufficient_capacity"
    done(world.do(place("a", "p", 60, **FORCED)))
    done(world.do(join("b", {"p": 10}, **FORCED)))
    assert said(world.do(place("c", "p", 60, **FORCED))) == "line_ahead"
    assert said(world.do(join("d", {"p": 11}, **FORCED))) == "insufficient_capacity"


def test_every_pool_where_the_account_has_too_much_is_listed(world: World) -> None:
    world.pool("q", 10, per_account=1)
    world.pool("r", 10)
    legs = {"r": 9, "q": 2, "p": 5}
    assert refused(world.do(place("a", legs, 60, account="ann"))) == Refusal(
        Reason.ACCOUNT_LIMIT, "q", (Shortfall("q", 2, 1, 1), Shortfall("p", 5, 4, 4))
    )
    assert refused(world.do(place("a", legs, 60))) == Refusal(Reason.ACCOUNT_REQUIRED, "q")


def test_one_batch_counts_what_it_has_given(world: World) -> None:
    told = world.batch(*(place(name, {"p": 2}, 60, account="ann") for name in "abc"), release("a"), place("d", {"p": 2}, 60, account="ann"))  # fmt: skip
    assert [said(one) for one in told] == ["done", "done", "account_limit", "done", "done"]


def test_a_group_that_is_undone_leaves_the_tally_as_it_was(world: World) -> None:
    done(world.do(place("x", "p", 60, account="ann")))
    told = world.atomic(place("a", {"p": 3}, 60, account="ann"), place("b", "p", 60, account="ann"))
    assert [said(one) for one in told] == ["aborted", "account_limit"]
    assert world.used("p") == 1


# Changing the limit


def test_a_limit_is_set_changed_and_taken_away(world: World) -> None:
    world.slot = 7
    told = done(world.do(LimitPool(id="p", per_account=2, reason="presale")))
    assert told == Done(slot=7, pool=world.row("p"))
    assert (world.row("p").per_account, world.row("p").version, world.row("p").slot) == (2, 2, 7)
    entry = world.entries[-1]
    assert (entry.action, entry.subject, entry.reason, entry.effects) == (
        Action.POOL_LIMITED,
        "p",
        "presale",
        (Effect(world.row("p")),),
    )
    assert done(world.do(LimitPool(id="p", per_account=2, if_version=2))).pool == world.row("p")
    assert len(world.entries) == 2, "no change, no entry"
    assert refused(world.do(LimitPool(id="p", per_account=3, if_version=1))) == Refusal(
        Reason.VERSION_CONFLICT, "p", found=2
    )
    done(world.do(LimitPool(id="p", per_account=None, if_version=2)))
    assert world.row("p").per_account is None
    assert said(world.do(place("a", {"p": 9}, 60))) == "done"
    assert refused(world.do(LimitPool(id="nowhere", per_account=1))) == Refusal(Reason.POOL_NOT_FOUND, "nowhere")


def test_a_lowered_limit_cancels_nothing(world: World) -> None:
    done(world.do(place("full", {"p": 9}, 60, **FORCED)))
    done(world.do(place("a", "p", 60, account="ann")))
    done(world.do(join("b", {"p": 3}, account="ann")))
    done(world.do(LimitPool(id="p", per_account=1)))
    assert refused(world.do(consume("c", "p", account="ann"))).shortfalls == (Shortfall("p", 1, 0, 1, used=4),)
    done(world.do(release("full", 3)))
    assert world.states("b") == ["held"], "who waits already is served"
    done(world.do(confirm("a")))
    done(world.do(confirm("b")))
    assert world.used("p") == 4


# Loose units


def loosened() -> World:
    """Holds of ann (3), bob (2) and nobody (1) have been dropped; one of ann (1) is kept."""
    world = World(retention=100, retention_consumed=100)
    world.pool("p", 10)
    done(world.do(consume("a", {"p": 3}, account="ann")))
    done(world.do(consume("b", {"p": 2}, account="bob")))
    done(world.do(consume("c", {"p": 1})))
    world.slot = 50
    done(world.do(consume("d", {"p": 1}, account="ann")))
    world.slot = 100
    done(world.do(Sweep()))
    assert world.actions()[-3:] == ["hold.retired"] * 3
    return world


def test_loose_units_are_counted_by_account() -> None:
    world = loosened()
    assert (world.counters("p"), world.row("p").loose) == ((10, 0, 7), 1)
    assert world.tallies == {("", "p", "ann"): Tally("ann", 4, 3), ("", "p", "bob"): Tally("bob", 2, 2)}
    retired = {entry.subject: entry.effects[0] for entry in world.entries[-3:]}
    assert (retired[hold_id("a")].loose, retired[hold_id("a")].used, retired[hold_id("a")].consumed) == (3, 0, 0)
    assert (retired[hold_id("c")].loose, retired[hold_id("c")].tally) == (1, None)


@pytest.mark.parametrize(("account", "loose"), [("ann", 3), ("bob", 2), (None, 1), ("carl", 0)])
def test_an_accounts_loose_units_come_back_and_no_others(account: str | None, loose: int) -> None:
    world = loosened()
    assert refused(world.do(give_back_loose("p", loose + 1, account=account))) == Refusal(
        Reason.QUANTITY_EXCEEDS_CONSUMED, "p", (Shortfall("p", loose + 1, loose, 7),), found=loose
    )
    if not loose:
        return
    used = world.used("p", account or "nobody")
    told = done(world.do(give_back_loose("p", loose, account=account, op="o")))
    assert told.pool == world.row("p")
    assert world.counters("p") == (10, 0, 7 - loose)
    assert world.used("p", account or "nobody") == max(0, used - loose)
    assert (world.entries[-1].action, world.entries[-1].forced) == (Action.POOL_RETURNED, True)
    assert said(world.do(give_back_loose("p", 1, account=account))) == "quantity_exceeds_consumed"


def test_what_a_kept_hold_has_comes_back_by_that_hold_alone() -> None:
    world = loosened()
    done(world.do(give_back_loose("p", 3, account="ann")))
    assert said(world.do(give_back_loose("p", 1, account="ann"))) == "quantity_exceeds_consumed"
    done(world.do(give_back("d")))
    assert (world.used("p"), world.counters("p")) == (0, (10, 0, 3))


def test_a_resize_looks_at_no_tally(world: World) -> None:
    done(world.do(consume("a", {"p": 3}, account="ann")))
    done(world.do(ResizePool(id="p", total=3)))
    assert world.used("p") == 3
