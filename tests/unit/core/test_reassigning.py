"""ReassignHold: what moves to another account, what stays, and what the journal says of it."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import ArchivePool, CreatePool, LimitPool
from holdkit.core.entries import Action, Effect
from holdkit.core.erased_names import erased_account
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import Leg
from holdkit.core.outcomes import Reason, Refusal, Shortfall
from holdkit.core.outstanding import Tally
from tests.unit.core.world import (
    SECRET,
    World,
    confirm,
    consume,
    done,
    give_back,
    hold_id,
    join,
    place,
    reassign,
    refused,
    release,
    said,
)

FORCED: dict[str, Any] = {"force": True, "reason": "box office", "token": None}


@pytest.fixture
def world() -> World:
    """A pool p of 10, at most 4 for each account, and a tree of q and q//a; a hold of ann has 3 of p, 2 of q and 4 of q//a."""
    world = World(retention=100, retention_consumed=100)
    world.slot = 5
    world.pool("p", 10, per_account=4)
    world.pool("q", 20)
    world.pool("q//a", 10)
    done(world.do(place("x", {"p": 3, "q": 2, "q//a": 4}, 60, account="ann", entity="order:1")))
    return world


def uses(world: World, account: str) -> dict[str, int]:
    return {pool: tally.used for (_, pool, name), tally in sorted(world.tallies.items()) if name == account}


def test_all_that_it_counts_for_moves_on_every_level_and_nothing_else_changes(world: World) -> None:
    before = world.held("x")
    world.slot = 7
    told = done(world.do(reassign("x", "bob", reason="a present", actor="user:7")))
    assert (uses(world, "ann"), uses(world, "bob")) == ({}, {"p": 3, "q": 6, "q//a": 4})
    after = world.held("x")
    assert told.hold == after
    changed = {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    assert changed == {"account", "version", "reason"}
    assert [leg.account for _, leg in after.open_legs()] == ["bob"] * 3
    assert (world.counters("p"), world.counters("q"), world.row("p").slot) == ((10, 3, 0), (20, 6, 0), 7)


def test_the_journal_says_both_accounts(world: World) -> None:
    done(world.do(reassign("x", "bob", actor="user:7")))
    entry = world.entries[-1]
    assert (entry.action, entry.subject, entry.actor, entry.forced) == (
        Action.HOLD_REASSIGNED, hold_id("x"), "user:7", False
    )  # fmt: skip
    assert entry.change is not None
    assert (entry.change.was_account, entry.change.account) == ("ann", "bob")
    of_p = [effect for effect in entry.effects if effect.pool.id == "p"]
    assert [(effect.used, effect.tally, effect.held) for effect in of_p] == [
        (-3, Tally("ann", 0), 0), (3, Tally("bob", 3), 0)
    ]  # fmt: skip
    assert of_p[-1].pool == world.row("p")


def test_what_was_confirmed_and_not_returned_moves_too(world: World) -> None:
    done(world.do(confirm("x", {"p": 2, "q//a": 1}, keep_rest=True)))
    done(world.do(give_back("x", {"p": 1, "q//a": 0})))
    done(world.do(release("x", {"q": 1})))
    done(world.do(reassign("x", "bob")))
    assert (uses(world, "ann"), uses(world, "bob")) == ({}, {"p": 2, "q": 5, "q//a": 4})
    done(world.do(confirm("x")))
    done(world.do(give_back("x")))
    assert uses(world, "bob") == {}


def test_to_none_and_from_none(world: World) -> None:
    done(world.do(LimitPool(id="p", per_account=None)))
    done(world.do(reassign("x", None)))
    assert (world.tallies, world.held("x").account) == ({}, None)
    assert [effect.pool.id for effect in world.entries[-1].effects] == ["p", "q", "q//a"]
    done(world.do(reassign("x", "bob")))
    assert uses(world, "bob") == {"p": 3, "q": 6, "q//a": 4}
    assert (world.entries[-1].change.was_account, len(world.entries[-1].effects)) == (None, 3)  # type: ignore[union-attr]


def test_the_same_account_changes_nothing_and_needs_no_room(world: World) -> None:
    done(world.do(LimitPool(id="p", per_account=1)))
    before, entries = world.held("x"), len(world.entries)
    assert done(world.do(reassign("x", "ann"))).hold == before
    done(world.do(place("y", "q", 60)))
    done(world.do(LimitPool(id="q", per_account=1)))
    assert done(world.do(reassign("y", None))).hold == world.held("y"), "of no account, where one is required since"
    assert [entry.action for entry in world.entries[entries:]] == [Action.HOLD_HELD, Action.POOL_LIMITED]


def test_the_limit_counts_what_the_hold_has_there(world: World) -> None:
    done(world.do(consume("his", {"p": 2}, account="bob")))
    done(world.do(consume("more", {"q": 1}, account="bob")))
    done(world.do(LimitPool(id="q", per_account=6)))
    assert refused(world.do(reassign("x", "bob"))) == Refusal(
        Reason.ACCOUNT_LIMIT, "p", (Shortfall("p", 3, 2, 4, used=2), Shortfall("q", 6, 5, 6, used=1))
    )
    assert refused(world.do(reassign("x", None))) == Refusal(Reason.ACCOUNT_REQUIRED, "p")
    done(world.do(release("x", {"p": 1, "q": 1})))
    done(world.do(reassign("x", "bob")))
    assert uses(world, "bob") == {"p": 4, "q": 6, "q//a": 4}


def test_a_limit_where_it_has_nothing_any_more_is_no_limit(world: World) -> None:
    done(world.do(release("x", {"p": 3})))
    done(world.do(reassign("x", None)))
    assert world.tallies == {}


def test_an_operator_passes_the_limits_and_the_token(world: World) -> None:
    done(world.do(consume("his", {"p": 4}, account="bob")))
    assert said(world.do(reassign("x", "bob", token=None))) == "not_owner"
    done(world.do(reassign("x", "bob", **FORCED)))
    assert (uses(world, "bob")["p"], world.entries[-1].forced) == (7, True)
    done(world.do(reassign("x", None, **FORCED)))
    assert uses(world, "bob") == {"p": 4}


def test_archived_pools_closed_windows_and_lines_do_not_refuse_it(world: World) -> None:
    window = FaceLeg("~w", 1, 1, opens=0, closes=20)
    done(world.do(place("y", (Leg("p", 1), window), 60, account="carl")))
    world.slot = 30
    done(world.do(join("z", {"p": 10}, account="carl", **FORCED | {"token": "of z"})))
    done(world.do(ArchivePool(id="p")))
    done(world.do(reassign("y", "bob")))
    assert uses(world, "bob") == {"p": 1}
    assert [effect.pool.id for effect in world.entries[-1].effects] == ["p", "p"], "pools of faces count no accounts"


def test_a_hold_of_faces_alone_moves_too(world: World) -> None:
    done(world.do(place("seat", (Leg("~item/1", 1, 1),), 60, account="ann")))
    done(world.do(reassign("seat", "bob")))
    assert (world.held("seat").account, world.entries[-1].effects) == ("bob", ())
    assert world.entries[-1].change.was_account == "ann"  # type: ignore[union-attr]


def test_in_a_batch_with_what_it_depends_on(world: World) -> None:
    told = world.batch(
        place("y", {"p": 1}, 60, account="ann"),
        reassign("y", "bob"),
        reassign("x", "bob"),
        place("z", {"p": 1}, 60, account="bob"),
        reassign("x", "ann"),
        place("z", {"p": 1}, 60, account="bob"),
    )
    assert [said(one) for one in told] == ["done", "done", "done", "account_limit", "done", "done"]
    assert (uses(world, "ann")["p"], uses(world, "bob")["p"]) == (3, 2)
    before = world.state()
    told = world.atomic(reassign("x", "dora"), place("big", {"p": 9}, 60, account="carl"))
    assert [said(one) for one in told] == ["aborted", "account_limit"]
    assert world.state() == before


def test_a_retry_is_answered_with_what_was(world: World) -> None:
    done(world.do(place("y", {"p": 1}, 60, account="ann", op="o1")))
    done(world.do(reassign("y", "bob", op="o2")))
    done(world.do(reassign("y", "carl")))
    assert done(world.do(place("y", {"p": 1}, 60, account="ann", op="o1"))).hold.account == "ann"  # type: ignore[union-attr]
    again = done(world.do(reassign("y", "bob", op="o2")))
    assert (again.replayed, again.hold.account) == (True, "bob")  # type: ignore[union-attr]
    assert said(world.do(reassign("y", "ann", op="o2"))) == "operation_conflict"
    assert said(world.do(reassign("y", None, op="o2"))) == "operation_conflict"


def test_an_account_that_was_erased_is_the_same_under_its_name() -> None:
    world = World(erased_accounts=1)
    world.pool("p", 10, per_account=4)
    stub = erased_account(SECRET, "", "ann")
    done(world.do(place("x", {"p": 3}, 60, account=stub)))
    assert done(world.do(reassign("x", "ann"))).hold == world.held("x")
    assert world.held("x").account == stub
    done(world.do(place("y", {"p": 2}, 60, account="bob")))
    assert refused(world.do(reassign("y", "ann"))).shortfalls == (Shortfall("p", 2, 1, 4, used=3),)


def test_where_a_hold_is_on_a_pool_and_below_it(world: World) -> None:
    world.do(CreatePool(id="q//b", total=5))
    done(world.do(place("y", {"q//a": 1, "q//b": 2}, 60)))
    done(world.do(reassign("y", "bob")))
    assert uses(world, "bob") == {"q": 3, "q//a": 1, "q//b": 2}
    assert world.entries[-1].effects[-1] == Effect(world.row("q"), used=3, tally=Tally("bob", 3))
