"""Sweep: the due legs of up to `limit` holds, earliest first, and empty on-demand pools."""

from __future__ import annotations

import pytest

from holdkit.core.commands import Sweep
from holdkit.core.decide import SweepList, decide
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import Key, Leg, Pool, State
from holdkit.core.outcomes import Done
from holdkit.core.view import View
from tests.unit.core.world import World, confirm, consume, done, extend, hold_id, place, release, said


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("p", "q"):
        world.pool(name, 10)
    return world


def keys(names: str, tenant: str = "") -> tuple[Key, ...]:
    return tuple((tenant, hold_id(name)) for name in names)


def test_it_expires_whole_holds_earliest_first(world: World) -> None:
    for name, ttl in [("c", 30), ("a", 40), ("b", 40), ("d", 50), ("e", 51)]:
        done(world.do(place(name, {"p": 1, "q": 1}, ttl)))
    world.slot = 50
    assert world.do(Sweep(limit=3)) == Done(slot=50, swept=keys("cab"), more=True)
    assert [entry.subject for entry in world.entries[-3:]] == [hold_id(name) for name in "cab"]
    assert [world.held(name).state.value for name in "abcde"] == ["expired", "expired", "expired", "held", "held"]
    assert world.do(Sweep(limit=3)) == Done(slot=50, swept=keys("d"))
    assert world.do(Sweep(limit=3)) == Done(slot=50)  # nothing to do, nothing written
    assert len(world.entries) == 11


def test_late_legs_of_expired_holds_are_returned_but_not_counted(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 1}, 30)))
    world.slot = 30
    done(world.do(place("b", "p", 30)))
    assert world.do(Sweep()) == Done(
        slot=30,
    )
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired", "leg.returned"]
    assert world.row("q").held == 0


def test_each_sweep_of_a_batch_keeps_its_own_limit(world: World) -> None:
    for name in "abcde":
        done(world.do(place(name, "p", 30)))
    world.slot = 30
    first, second, third = (done(outcome) for outcome in world.batch(Sweep(limit=1), Sweep(limit=3), Sweep(limit=3)))
    assert (first.expired, first.more) == (1, True)
    assert (second.expired, second.more) == (2, True)  # only 3 were looked up for this batch
    assert (third.expired, third.more) == (0, True)


def test_one_extended_after_it_was_listed_is_not_expired(world: World) -> None:
    for name in "ab":
        done(world.do(place(name, "p", 30)))
    world.slot = 30
    listed = world.sweep_list(10)
    world.slot = 29
    done(world.do(extend("a", until=31)))
    done(world.do(release("b")))
    world.slot = 30
    view = View(world.loaded())
    assert decide(view, Sweep(), listed) == Done(slot=30)
    assert view.entries == []


def test_a_listed_hold_that_is_gone_is_passed_over(world: World) -> None:
    view = View(world.loaded())
    listed = SweepList([("", hold_id("ghost"))], [("", "ghost"), ("", "p")])
    assert decide(view, Sweep(), listed) == Done(slot=0)


def test_what_cannot_be_removed_does_not_save_the_rest(world: World) -> None:
    done(world.do(place("a", (Leg("~k", 1, 1),), 60)))
    done(world.do(release("a")))
    view = View(world.loaded())
    done(decide(view, Sweep(), SweepList([], [("", "ghost"), ("", "p"), ("", "~k")])))
    assert view.written == 6
    assert view.pools.get(("", "~k")) is None


def test_a_limit_that_just_suffices_leaves_nothing(world: World) -> None:
    for name in "ab":
        done(world.do(place(name, "p", 30)))
    world.slot = 30
    assert world.do(Sweep(limit=2)) == Done(slot=30, swept=keys("ab"))


def test_in_an_atomic_group_and_under_an_operation_id(world: World) -> None:
    for name in "ab":
        done(world.do(place(name, "p", 30)))
    world.slot = 30
    assert [done(one).swept for one in world.atomic(Sweep(limit=1))] == [keys("a")]
    first = done(world.do(Sweep(op="o")))
    again = done(world.do(Sweep(op="o")))
    assert (first.swept, first.expired, first.replayed) == (keys("b"), 1, False)
    assert (again.swept, again.expired, again.replayed) == (keys("b"), 1, True)  # told again, not done again


def test_a_tenant_is_told_of_its_own_holds_only_and_the_default_tenant_of_all() -> None:
    world = World()
    for tenant in ("", "acme", "globex"):
        world.pool("p", 10, tenant=tenant)
    for name, tenant, ttl in [("a", "acme", 30), ("b", "globex", 20), ("c", "acme", 10), ("d", "", 5)]:
        done(world.do(place(name, "p", ttl, tenant=tenant)))
    world.slot = 30
    first = done(world.do(Sweep(limit=3, tenant="acme", op="o")))
    assert (first.swept, first.expired, first.more) == (keys("c", "acme"), 1, True)  # two others' are expired as well
    assert [entry.tenant for entry in world.entries[-3:]] == ["", "acme", "globex"]
    done(world.do(place("e", "p", 5, tenant="globex")))
    world.slot = 40
    assert done(world.do(Sweep())).swept == (*keys("a", "acme"), *keys("e", "globex"))
    assert done(world.do(Sweep(limit=3, tenant="acme", op="o"))).swept == keys("c", "acme")
    assert done(world.do(Sweep(tenant="globex"))) == Done(slot=40)


def test_expiry_by_sweep_never_moves_a_pool_back_in_time(world: World) -> None:
    done(world.do(place("a", "p", 30)))
    done(world.do(place("b", {"p": 1, "q": 1}, 30)))
    world.slot = 90
    assert done(world.do(Sweep(limit=1))).more
    world.slot = 40
    assert world.do(Sweep()) == Done(slot=40, swept=keys("b"))
    assert [(effect.pool.id, effect.pool.slot) for effect in world.entries[-1].effects] == [("p", 90), ("q", 90)]


def test_empty_on_demand_pools_are_removed_and_others_are_not(world: World) -> None:
    world.slot = 5
    done(world.do(place("a", (Leg("~empty", 1, 4),), 60)))
    done(world.do(release("a")))
    done(world.do(place("b", (Leg("~held", 1, 1),), 60)))
    done(world.do(consume("c", (Leg("~spent", 1, 1),))))
    world.slot = 3
    outcome = world.do(Sweep())
    assert sorted(name for _, name in world.pools) == ["p", "q", "~held", "~spent"]
    assert outcome == Done(
        slot=3,
    )
    assert world.entries[-1] == Entry(
        slot=5,
        action=Action.POOL_REMOVED,
        subject="~empty",
        effects=(Effect(Pool("", "~empty", 0, fence=1, slot=5, version=4, on_demand=True), total=-4),),
        removed=True,
        actor="system",
    )


def test_a_pool_that_is_taken_again_within_the_batch_stays(world: World) -> None:
    done(world.do(place("a", (Leg("~k", 1, 1),), 60)))
    done(world.do(release("a")))
    world.batch(place("b", "~k", 60), Sweep())
    assert world.row("~k").held == 1
    done(world.do(confirm("b")))


def test_removed_pools_make_room_within_the_batch() -> None:
    world = World(max_pools=1)
    done(world.do(place("a", (Leg("~a", 1, 1),), 60)))
    done(world.do(release("a")))
    places = [place(name, (Leg(f"~{name}", 1, 1),), 60) for name in "bc"]
    assert [said(one) for one in world.batch(Sweep(), *places)] == ["done", "done", "pool_table_full"]


def test_the_floor_of_fences_never_falls(world: World) -> None:
    for name in "abc":
        done(world.do(place(name, (Leg("~high", 1, 1),), 60)))
        done(world.do(release(name)))
    done(world.do(place("d", (Leg("~low", 1, 1),), 60)))
    done(world.do(release("d")))
    done(world.do(Sweep()))
    assert world.fence_floors == {"": 3}
    assert world.held("d").state is State.RELEASED


def test_what_a_sweep_returned_is_not_returned_again_in_the_same_batch(world: World) -> None:
    done(world.do(place("a", {"p": 1, "q": 1}, 30)))
    world.slot = 30
    world.batch(Sweep(), place("b", {"p": 10}, 30))
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired"]
