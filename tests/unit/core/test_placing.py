"""PlaceHold and Consume: what is written when every rung is passed, and what a refusal carries."""

from __future__ import annotations

import pytest

from holdkit.core.codec import hash_owner
from holdkit.core.commands import AnyCommand, CreatePool, Sweep
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import HeldLeg, Leg, Pool, State, StoredHold
from holdkit.core.outcomes import Done, Refusal, Shortfall
from tests.unit.core.world import World, confirm, consume, done, hold_id, place, refused, release, said


@pytest.fixture
def world() -> World:
    world = World()
    world.pool("p", 10)
    world.pool("q", 3)
    world.slot = 7
    return world


def test_a_hold_is_written_whole(world: World) -> None:
    command = place("a", {"p": 4, "q": 3}, 60, entity="order:9", metadata={"b": 1, "a": [True, None]}, actor="user:7",
                    correlation_id="c-1", reason="a sale", op="op-1")  # fmt: skip
    outcome = world.do(command)
    hold = StoredHold(
        tenant="",
        id=hold_id("a"),
        legs=(HeldLeg("p", 4, 4), HeldLeg("q", 3, 3)),
        owner_hash=hash_owner("owner of a"),
        held_at=7,
        fence=1,
        deadline=67,
        state=State.HELD,
        entity="order:9",
        actor="user:7",
        correlation_id="c-1",
        metadata='{"a":[true,null],"b":1}',
        version=1,
    )
    assert outcome == Done(slot=7, hold=hold, token="owner of a")
    assert world.held("a") == hold
    pool_p = Pool("", "p", 10, held=4, fence=1, slot=7, version=2)
    pool_q = Pool("", "q", 3, held=3, fence=1, slot=7, version=2)
    assert world.pools == {("", "p"): pool_p, ("", "q"): pool_q}
    assert world.entries[-1] == Entry(
        slot=7,
        action=Action.HOLD_HELD,
        subject=hold_id("a"),
        effects=(Effect(pool_p, held=4), Effect(pool_q, held=3)),
        hold=hold,
        actor="user:7",
        correlation_id="c-1",
        reason="a sale",
        op="op-1",
    )


def test_a_bare_hold_carries_nothing(world: World) -> None:
    hold = done(world.do(place("a", "p", 60))).hold
    assert hold is not None
    assert (hold.metadata, hold.entity, hold.actor, hold.correlation_id, hold.reason) == (None, None, None, None, None)


def test_a_refusal_names_every_leg_that_fell_short(world: World) -> None:
    world.pool("r", 1)
    world.do(place("other", {"p": 4, "q": 1}, 100))
    outcome = world.do(place("a", {"p": 7, "r": 1, "q": 3}, 60))
    assert outcome == Refusal(
        reason=refused(outcome).reason,
        subject="p",
        shortfalls=(Shortfall("p", 7, 6, 10), Shortfall("q", 3, 2, 3)),
    )
    assert said(outcome) == "insufficient_capacity"
    assert world.row("r").held == 0


@pytest.mark.parametrize(("quantity", "says"), [(10, "done"), (11, "insufficient_capacity")])
def test_the_last_unit_is_granted_and_not_one_more(world: World, quantity: int, says: str) -> None:
    assert said(world.do(place("a", {"p": quantity}, 60))) == says


def test_what_each_refusal_finds(world: World) -> None:
    world.limits = World(max_lifetime=100).limits
    table = [
        (place("a", "p", deadline=2**63), "slot_overflow", "", 2**63),
        (place("a", "p", deadline=7), "deadline_passed", "", 7),
        (place("a", "p", deadline=108), "lifetime_exceeded", "", 100),
        (place("a", {"p": 1, "x": 1, "y": 1}, 9), "pool_not_found", "x", None),
    ]
    for command, says, subject, found in table:
        refusal = refused(world.do(command))
        assert (refusal.reason.value, refusal.subject, refusal.found) == (says, subject, found)
    done(world.do(place("a", "p", 9)))
    assert refused(world.do(place("a", "p", 9))).subject == hold_id("a")


def test_time_bounds_are_inclusive(world: World) -> None:
    world.limits = World(max_lifetime=100).limits
    assert done(world.do(place("a", "p", deadline=107))).hold == world.held("a")
    assert world.held("a").deadline == 107
    assert done(world.do(place("b", "p", deadline=8))).slot == 7
    world.limits = World(max_lifetime=2**63).limits
    assert said(world.do(place("c", "p", deadline=2**63 - 1))) == "done"
    assert said(world.do(place("d", "p", 2**63 - 7))) == "slot_overflow"


def test_a_hold_without_a_deadline_never_expires(world: World) -> None:
    done(world.do(place("a", {"p": 10})))
    assert world.held("a").deadline is None
    world.slot = 2**62
    assert said(world.do(place("b", "p", 1))) == "insufficient_capacity"
    assert said(world.do(confirm("a"))) == "done"


def test_fences_grow_with_every_grant_over_all_pools_of_a_hold(world: World) -> None:
    fences = [done(world.do(place(name, what, 60))).hold for name, what in [("a", "p"), ("b", "p"), ("c", "q")]]
    assert [hold.fence for hold in fences if hold] == [1, 2, 1]
    both = done(world.do(place("d", {"q": 1, "p": 1}, 60))).hold
    assert both is not None
    assert both.fence == 3
    assert (world.row("p").fence, world.row("q").fence) == (3, 3)
    done(world.do(release("d")))
    assert (world.row("p").fence, world.row("q").fence) == (3, 3)
    again = done(world.do(place("e", "q", 60))).hold
    assert again is not None
    assert again.fence == 4


# Pools on demand


def test_a_missing_pool_is_created_by_the_leg_that_brings_it(world: World) -> None:
    done(world.do(place("a", (Leg("p", 1), Leg("new", 2, create_with_total=5)), 60, actor="user:1")))
    assert world.numbers == [4]
    created, held = world.entries[2:]
    assert created == Entry(
        slot=7,
        action=Action.POOL_CREATED,
        subject="new",
        effects=(Effect(Pool("", "new", 5, slot=7, version=1, on_demand=True), total=5),),
        actor="user:1",
    )
    assert held.effects[1] == Effect(Pool("", "new", 5, held=2, fence=1, slot=7, version=2, on_demand=True), held=2)
    assert world.row("new") == held.effects[1].pool


def test_an_existing_pool_keeps_its_total(world: World) -> None:
    done(world.do(place("a", (Leg("p", 1, create_with_total=99),), 60)))
    assert world.counters("p") == (10, 1, 0)
    assert not world.row("p").on_demand
    assert world.actions() == ["pool.created", "pool.created", "hold.held"]


def test_a_refused_command_takes_back_the_pools_it_brought(world: World) -> None:
    outcome = refused(world.do(place("a", (Leg("new", 1, create_with_total=5), Leg("p", 11)), 60)))
    assert outcome.reason.value == "insufficient_capacity"
    assert ("", "new") not in world.pools
    too_much = refused(world.do(place("a", (Leg("new", 6, create_with_total=5),), 60)))
    assert too_much.shortfalls == (Shortfall("new", 6, 5, 5),)
    assert ("", "new") not in world.pools
    assert len(world.entries) == 2


def test_a_pool_may_be_created_with_nothing_in_it(world: World) -> None:
    outcome = refused(world.do(place("a", (Leg("new", 1, create_with_total=0),), 60)))
    assert outcome.shortfalls == (Shortfall("new", 1, 0, 0),)


def test_fences_grow_across_removal_and_creation_anew() -> None:
    world = World()
    for name in "abc":
        done(world.do(place(name, (Leg("~k", 1, create_with_total=1),), 60)))
        done(world.do(release(name)))
    assert world.row("~k").fence == 3
    done(world.do(Sweep()))
    assert ("", "~k") not in world.pools
    assert world.fence_floors == {"": 3}
    reborn = done(world.do(place("d", (Leg("~k", 1, create_with_total=1),), 60))).hold
    assert reborn is not None
    assert reborn.fence == 4
    assert world.pool("plain", 1).fence == 3  # by command too: whoever had the name before may have had any fence


# Bounded tables


def test_the_pool_table_has_room_for_exactly_its_bound() -> None:
    world = World(max_pools=3)
    world.pool("p", 10)
    legs = (Leg("p"), Leg("n1", 1, 1), Leg("n2", 1, 1), Leg("n3", 1, 1))
    assert said(world.do(place("a", legs, 60))) == "pool_table_full"
    assert said(world.do(place("a", legs[:3], 60))) == "done"
    assert said(world.do(place("b", "p", 60))) == "done"  # brings no pool
    assert said(world.do(place("c", (Leg("n3", 1, 1),), 60))) == "pool_table_full"


def test_pools_brought_within_a_batch_count() -> None:
    world = World(max_pools=2)
    commands = [place(name, (Leg(f"~{name}", 1, 1),), 60) for name in "abc"]
    assert [said(outcome) for outcome in world.batch(*commands)] == ["done", "done", "pool_table_full"]
    world = World(max_pools=1)
    outcomes = world.batch(place("a", (Leg("~a", 1, 1),), 60), CreatePool(id="p", total=1))
    assert [said(outcome) for outcome in outcomes] == ["done", "pool_table_full"]


def test_the_hold_table_bounds_live_holds_only() -> None:
    world = World(max_holds=2)
    world.pool("p", 10)
    assert said(world.do(place("a", "p", 5))) == "done"
    assert said(world.do(place("b", "p", 60))) == "done"
    assert said(world.do(place("c", "p", 60))) == "hold_table_full"
    assert said(world.do(consume("c", "p"))) == "hold_table_full"
    world.slot = 5  # a is due, swept or not
    assert said(world.do(place("c", "p", 60))) == "done"
    assert said(world.do(place("d", "p", 60))) == "hold_table_full"
    assert said(world.do(confirm("b"))) == "done"
    assert said(world.do(place("d", "p", 60))) == "done"


def test_room_made_and_taken_within_a_batch_counts() -> None:
    world = World(max_holds=1)
    world.pool("p", 10)
    commands: list[AnyCommand] = [place("a", "p", 60), place("b", "p", 60), release("a"), place("c", "p", 60), confirm("c"),
                consume("d", "p"), place("e", "p", 60), place("f", "p", 60)]  # fmt: skip
    answers = [said(outcome) for outcome in world.batch(*commands)]
    assert answers == ["done", "hold_table_full", "done", "done", "done", "done", "done", "hold_table_full"]


def test_every_hold_of_a_batch_counts() -> None:
    world = World(max_holds=3)
    world.pool("p", 10)
    answers = world.batch(*(place(name, "p", 60) for name in "abcd"))
    assert [said(one) for one in answers] == ["done", "done", "done", "hold_table_full"]


def test_a_hold_that_expires_on_a_later_pool_clock_makes_room() -> None:
    world = World(max_holds=1)
    world.pool("p", 10)
    world.slot = 50
    world.pool("q", 10)
    world.slot = 0
    done(world.do(place("a", "p", 20)))
    answers = world.batch(place("b", "p", 60), place("c", {"p": 1, "q": 1}, 60), place("d", "p", 60))
    assert [said(outcome) for outcome in answers] == ["hold_table_full", "done", "hold_table_full"]


def test_a_hold_due_by_the_clock_is_not_subtracted_twice() -> None:
    world = World(max_holds=1)
    world.pool("p", 10)
    done(world.do(place("a", "p", 20)))
    world.slot = 20
    assert [said(outcome) for outcome in world.batch(place("b", "p", 60), place("c", "p", 60))] == [
        "done",
        "hold_table_full",
    ]


# Ids that were there before


def test_an_id_can_be_used_again_once_it_has_retired(world: World) -> None:
    world.limits = World(retention=100).limits
    done(world.do(place("a", "p", 5)))
    done(world.do(release("a")))
    world.slot = 106
    assert said(world.do(place("a", "p", 5))) == "hold_exists"
    world.slot = 107
    assert said(world.do(place("a", "p", 5))) == "done"


def test_an_id_is_taken_while_legs_of_its_hold_are_out(world: World) -> None:
    world.limits = World(retention=100).limits
    done(world.do(place("a", {"p": 1, "q": 1}, 5)))
    world.slot = 1000
    assert said(world.do(place("a", "p", 5))) == "hold_exists"  # its leg on q has not come back
    assert said(world.do(place("b", "q", 5))) == "done"
    assert said(world.do(place("a", "p", 5))) == "done"


# Consume


def test_consume_is_a_hold_and_a_confirm_in_one_step(world: World) -> None:
    outcome = done(world.do(consume("a", {"p": 4, "q": 3}, entity="order:1", actor="job:x", reason="direct", op="o")))
    held, confirmed = world.entries[2:]
    assert (held.action, confirmed.action) == (Action.HOLD_HELD, Action.HOLD_CONFIRMED)
    assert held.hold is not None
    assert (held.hold.state, held.hold.deadline, held.hold.held_at) == (State.HELD, None, 7)
    assert [(effect.held, effect.consumed) for effect in confirmed.effects] == [(-4, 4), (-3, 3)]
    hold = world.held("a")
    assert hold.legs == (HeldLeg("p", 4, 0, 4), HeldLeg("q", 3, 0, 3))
    assert (hold.state, hold.ended_at, hold.version, hold.entity) == (State.CONFIRMED, 7, 2, "order:1")
    assert (hold.reason, hold.actor) == ("direct", "job:x")
    assert outcome == Done(slot=7, hold=hold, token="owner of a")
    assert [entry.op for entry in world.entries[2:]] == ["o", "o"]
    assert world.counters("p") == (10, 0, 4)
    assert world.counters("q") == (3, 0, 3)
    assert world.row("p").fence == 1


def test_a_refused_consume_consumes_nothing(world: World) -> None:
    assert refused(world.do(consume("a", {"p": 1, "q": 4}))).shortfalls == (Shortfall("q", 4, 3, 3),)
    assert world.counters("p") == (10, 0, 0)
