"""Waiting in line: joining and offers; who is served, when, and who is not overtaken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from holdkit.core.commands import AnyCommand, ArchivePool, FeedLine, Group, ResizePool, Sweep, UnarchivePool
from holdkit.core.decide import decide_groups
from holdkit.core.entries import Action, Change, Effect
from holdkit.core.model import MAX_SLOT, HeldLeg, Leg, State
from holdkit.core.outcomes import Done, Invalid, Reason, Refusal, Shortfall
from holdkit.core.touching import groups_put_off
from holdkit.core.view import View
from tests.unit.core.world import (
    World,
    confirm,
    done,
    expire,
    extend,
    full_world,
    hold_id,
    join,
    leave,
    line,
    place,
    refused,
    release,
    said,
)


@pytest.fixture
def world() -> World:
    return full_world()


# Joining


def test_a_waiter_is_a_hold_without_units(world: World) -> None:
    told = done(
        world.do(join("a", {"p": 3}, 50, 10, entity="order:1", metadata={"b": 1, "a": 2}, actor="user:1", op="o"))
    )
    hold = world.held("a")
    assert told == Done(slot=5, hold=hold, token="owner of a")
    assert (hold.state, hold.held_at, hold.joined_at, hold.number, hold.fence) == (State.WAITING, None, 5, 1, 0)
    assert (hold.deadline, hold.offer_ttl, hold.legs) == (55, 10, (HeldLeg("p", 3),))
    assert (hold.entity, hold.metadata, hold.actor) == ("order:1", '{"a":2,"b":1}', "user:1")
    assert (hold.open, hold.live, hold.consumes, hold.began, hold.account) == (True, True, False, 5, None)
    pool = world.row("p")
    assert (pool.held, pool.waiting, pool.last_number, pool.fence, pool.bookable) == (10, 1, 1, 1, 0)
    entry = world.entries[-1]
    assert (entry.action, entry.hold, entry.op, entry.forced) == (Action.HOLD_WAITING, hold, "o", False)
    assert entry.effects == (Effect(pool, waiting=1),)


def test_numbers_grow_and_are_never_given_twice(world: World) -> None:
    for name in "abc":
        done(world.do(join(name, "p")))
    done(world.do(release("c")))
    done(world.do(join("d", "p")))
    assert line(world) == [("a", 1), ("b", 2), ("d", 4)]
    assert world.row("p").last_number == 4


def test_units_that_are_available_are_offered_at_once(world: World) -> None:
    done(world.do(release("full", 4)))
    told = done(world.do(join("a", {"p": 4}, 50, 10)))
    hold = world.held("a")
    assert told == Done(slot=5, hold=hold, token="owner of a"), "the answer shows the hold as it is now"
    assert (hold.state, hold.held_at, hold.deadline, hold.joined_at, hold.number) == (State.HELD, 5, 15, 5, 1)
    assert world.actions(hold.id) == ["hold.waiting", "hold.offered"]
    assert world.counters("p") == (10, 10, 0)
    assert (world.row("p").waiting, world.row("p").last_number) == (0, 1)


def test_an_operation_records_the_hold_as_it_was_offered(world: World) -> None:
    done(world.do(release("full", 4)))
    told = done(world.do(join("a", {"p": 4}, op="o")))
    again = done(world.do(join("a", {"p": 4}, op="o")))
    assert again == structs.replace(told, replayed=True)
    assert again.hold is not None
    assert again.hold.state is State.HELD
    assert world.row("p").last_number == 1


def test_an_atomic_group_records_it_too(world: World) -> None:
    told = world.atomic(release("full", 4), join("a", {"p": 4}, op="o"), join("b", {"p": 4}, op="n"))
    assert world.states("a", "b") == ["held", "waiting"]
    assert [done(one).hold for one in told[1:]] == [world.held("a"), world.held("b")]
    again = done(world.do(join("a", {"p": 4}, op="o")))
    assert (again.hold, again.replayed) == (world.held("a"), True)
    assert done(world.do(join("b", {"p": 4}, op="n"))).hold == world.held("b")


def test_an_answer_that_is_recorded_is_not_changed_by_a_group_that_repeats_it(world: World) -> None:
    first = done(world.do(join("a", {"p": 4}, op="o")))
    told = world.atomic(release("full", 4), join("a", {"p": 4}, op="o"))
    assert world.states("a") == ["held"]
    assert done(told[1]).hold == world.held("a")
    assert done(world.do(join("a", {"p": 4}, op="o"))) == structs.replace(first, replayed=True)


def test_nobody_joins_for_more_than_the_total(world: World) -> None:
    assert refused(world.do(join("a", {"p": 11}))) == Refusal(
        Reason.INSUFFICIENT_CAPACITY, "p", (Shortfall("p", 11, 0, 10),)
    )
    assert world.row("p").last_number == 0


def test_the_line_is_bounded() -> None:
    world = World(max_line=2)
    world.pool("p", 1)
    told = world.batch(*(join(name, "p") for name in "abcd"))
    assert [said(one) for one in told] == ["done", "done", "done", "line_full"], "a has units and does not wait"
    assert refused(told[3]) == Refusal(Reason.LINE_FULL, "p", found=2)


def test_waiters_count_as_live_holds() -> None:
    world = World(max_holds=2)
    world.pool("p", 1)
    told = world.batch(join("a", "p"), join("b", "p"), join("c", "p"), release("b"), join("c", "p"))
    assert [said(one) for one in told] == ["done", "done", "hold_table_full", "done", "done"]
    world.slot = 60
    assert said(world.do(join("d", "p"))) == "done", "c has stopped waiting, and a's offer is over"


@pytest.mark.parametrize("give_up", [leave, release])
def test_a_waiter_that_gives_up_makes_room_for_one_hold(give_up: Callable[[str], AnyCommand]) -> None:
    world = World(max_holds=2)
    world.pool("p", 5)
    world.slot = 7
    world.batch(place("full", {"p": 5}, 60), join("a", "p"))
    told = world.batch(give_up("a"), join("b", "p"), join("c", "p"))
    assert [said(one) for one in told] == ["done", "done", "hold_table_full"]
    assert done(told[0]).slot == 7


@pytest.mark.parametrize(
    ("ttl", "offer", "says"), [(80, 80, "done"), (81, 1, "lifetime_exceeded"), (1, 81, "lifetime_exceeded")]
)
def test_neither_the_wait_nor_the_offer_outlives_the_bound(ttl: int, offer: int, says: str) -> None:
    world = World(max_lifetime=80)
    world.pool("p", 1)
    told = world.do(join("a", "p", ttl, offer))
    assert said(told) == says
    assert says == "done" or refused(told).found == 80


@pytest.mark.parametrize("pool", ["p//a", "~k"])
def test_lines_stand_at_roots_that_were_created(world: World, pool: str) -> None:
    world.pool("p//a", 5)
    done(world.do(place("x", (Leg("~k", 1, 1),))))
    told = world.do(join("a", pool))
    assert isinstance(told, Invalid)
    assert (told.field, told.code) == ("pool", "pool_without_line")
    assert (
        told.message
        == "a line stands only at a pool that was created as one, not on demand, and that is below no other"
    )


def test_the_last_slot_is_not_passed(world: World) -> None:
    world.slot = MAX_SLOT - 50
    assert refused(world.do(join("b", "p", 51))) == Refusal(Reason.SLOT_OVERFLOW, found=MAX_SLOT + 1)
    assert said(world.do(join("a", "p", 50, 60))) == "done"
    assert (world.held("a").state, world.held("a").deadline) == (State.HELD, MAX_SLOT), (
        "an offer ends there at the latest"
    )


# Holds that may wait


def test_a_hold_that_fits_does_not_wait(world: World) -> None:
    done(world.do(release("full", 4)))
    told = done(world.do(place("a", {"p": 4}, 60, wait_slots=20, offer_slots=3)))
    assert told.hold == world.held("a")
    assert (world.held("a").state, world.held("a").deadline, world.held("a").number) == (State.HELD, 65, None)


def test_one_that_does_not_fit_waits_and_so_does_one_behind_others(world: World) -> None:
    told = done(world.do(place("a", {"p": 4}, 60, wait_slots=20, offer_slots=3, account="ann")))
    assert (told.hold, told.token) == (world.held("a"), "owner of a")
    hold = world.held("a")
    assert (hold.state, hold.deadline, hold.offer_ttl, hold.account) == (State.WAITING, 25, 3, "ann")
    done(world.do(release("full", 3)))
    done(world.do(place("b", {"p": 1}, 60, wait_slots=20, offer_slots=3)))
    assert line(world) == [("a", 1), ("b", 2)]
    done(world.do(release("full", 1)))
    assert (world.held("a").state, world.held("a").deadline, world.states("b")) == (State.HELD, 8, ["waiting"])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (place("full", {"p": 1}, 60, wait_slots=20, offer_slots=3), "hold_exists"),
        (place("a", {"p": 11}, 60, wait_slots=20, offer_slots=3), "insufficient_capacity"),
        (place("a", "nowhere", 60, wait_slots=20, offer_slots=3), "pool_not_found"),
        (place("a", "p", 60, wait_slots=20, offer_slots=10**15), "lifetime_exceeded"),
    ],
)
def test_what_waiting_does_not_help_is_refused(world: World, command: object, says: str) -> None:
    before = world.state()
    assert said(world.do(command)) == says  # type: ignore[arg-type]
    assert world.state() == before


# Offers


def test_an_offer_starts_the_life_of_the_hold_anew(world: World) -> None:
    done(world.do(join("a", {"p": 3}, 50, 10, correlation_id="call 7", entity="e")))
    world.slot = 20
    done(world.do(release("full", 3, op="o", actor="user:1", reason="because", correlation_id="call 8")))
    hold, pool = world.held("a"), world.row("p")
    assert (hold.state, hold.held_at, hold.deadline, hold.fence) == (State.HELD, 20, 30, 2)
    assert (hold.legs, hold.joined_at, hold.number, hold.version, hold.entity) == ((HeldLeg("p", 3, 3),), 5, 1, 2, "e")
    assert (pool.held, pool.waiting, pool.fence, pool.slot) == (10, 0, 2, 20)
    entry = world.entries[-1]
    assert (entry.action, entry.subject, entry.slot) == (Action.HOLD_OFFERED, hold.id, 20)
    assert (entry.actor, entry.correlation_id, entry.reason, entry.op) == ("system", "call 7", None, None)
    assert entry.effects == (Effect(pool, held=3, waiting=-1),)
    assert entry.change == Change(
        State.HELD, State.WAITING, 2, (HeldLeg("p", 3, 3),), 30, 55, entity="e", held_at=20, fence=2
    )
    assert hold.began == 20


def test_the_lifetime_of_an_offered_hold_counts_from_the_offer() -> None:
    world = World(max_lifetime=80)
    world.pool("p", 1)
    done(world.do(place("full", "p", 80)))
    done(world.do(join("a", "p", 70, 10)))
    world.slot = 10
    assert refused(world.do(extend("a", until=81))) == Refusal(Reason.LIFETIME_EXCEEDED, hold_id("a"), found=80)
    assert done(world.do(extend("a", until=80))).hold == world.held("a"), "from the join"
    world.slot = 20
    done(world.do(release("full")))
    assert said(world.do(extend("a", until=101))) == "lifetime_exceeded"
    assert said(world.do(extend("a", until=100))) == "done"


def test_an_offer_that_nobody_takes_goes_to_the_next(world: World) -> None:
    for name in "ab":
        done(world.do(join(name, {"p": 10}, 50, 10)))
    done(world.do(release("full")))
    world.slot = 15
    assert said(world.do(confirm("a"))) == "hold_expired"
    assert world.states("a", "b") == ["expired", "held"]
    assert (world.held("a").ended_at, world.held("b").deadline) == (15, 25)
    assert world.actions()[-2:] == ["hold.expired", "hold.offered"]


def test_offers_go_in_order_until_one_does_not_fit(world: World) -> None:
    for name, units in (("a", 2), ("b", 5), ("c", 1)):
        done(world.do(join(name, {"p": units})))
    done(world.do(release("full", 4)))
    assert world.states("a", "b", "c") == ["held", "waiting", "waiting"], "c fits, but is behind b"
    done(world.do(release("full", 4)))
    assert world.states("a", "b", "c") == ["held", "held", "held"]


def test_a_skip_line_serves_whoever_fits() -> None:
    world = World()
    world.pool("p", 10, line="skip")
    done(world.do(place("full", {"p": 10}, 1000)))
    for name, units in (("a", 5), ("b", 1), ("c", 4), ("d", 2)):
        done(world.do(join(name, {"p": units})))
    done(world.do(release("full", 3)))
    assert world.states("a", "b", "c", "d") == ["waiting", "held", "waiting", "held"]
    assert said(world.do(place("x", "p", 60))) == "insufficient_capacity"
    done(world.do(release("d", 1)))
    assert said(world.do(place("x", "p", 60))) == "line_ahead"


@pytest.mark.parametrize(("before", "state"), [(99, "held"), (100, "waiting")])
def test_a_skip_line_passes_over_no_more_than_a_hundred(before: int, state: str) -> None:
    world = World()
    world.pool("p", 10, line="skip")
    joins = [join(f"large {number}", {"p": 2}) for number in range(before)]
    world.batch(place("full", {"p": 9}, 1000), *joins, join("small", {"p": 1}))
    assert world.states("small") == [state]
    done(world.do(release("large 0")))
    assert world.states("small") == ["held"], "there are few enough before it now"


def test_who_asks_for_more_than_the_total_blocks_nobody(world: World) -> None:
    done(world.do(release("full")))
    done(world.do(place("some", {"p": 5}, 1000)))
    done(world.do(join("a", {"p": 10})))
    assert refused(world.do(place("x", "p", 60))) == Refusal(Reason.LINE_AHEAD, "p", found=1)
    done(world.do(ResizePool(id="p", total=9)))
    assert said(world.do(place("x", "p", 60))) == "done"
    done(world.do(join("b", {"p": 2})))
    assert world.states("a", "b") == ["waiting", "held"]
    world.slot = 6
    done(world.do(ResizePool(id="p", total=10)))
    assert refused(world.do(place("y", "p", 60))).reason is Reason.LINE_AHEAD, "it may be served again, some day"


def test_a_larger_total_is_offered(world: World) -> None:
    done(world.do(join("a", {"p": 3})))
    told = done(world.do(ResizePool(id="p", total=13)))
    assert (told.pool, world.states("a")) == (
        structs.replace(world.row("p"), held=10, waiting=1, fence=1, version=4),
        ["held"],
    )


def test_the_line_of_an_archived_pool_is_not_fed(world: World) -> None:
    done(world.do(join("a", {"p": 3})))
    done(world.do(ArchivePool(id="p")))
    done(world.do(release("full")))
    done(world.do(FeedLine(id="p")))
    assert said(world.do(join("b", "p"))) == "pool_archived"
    assert world.states("a") == ["waiting"]
    world.slot = 6
    done(world.do(Sweep()))
    assert world.states("a") == ["waiting"]
    assert said(world.do(extend("a", by_slots=1))) == "done"
    done(world.do(UnarchivePool(id="p")))
    assert (world.states("a"), world.held("a").held_at) == (["held"], 6)


def test_whatever_touches_the_pool_feeds_its_line_even_if_it_is_refused(world: World) -> None:
    world.may_offer = False
    done(world.do(release("full")))
    done(world.do(join("a", {"p": 3})))
    done(world.do(join("b", {"p": 3})))
    assert world.states("a", "b") == ["waiting", "waiting"], "a caller's own transaction offers nothing"
    assert said(world.do(place("x", "p", 60))) == "line_ahead", "and nobody overtakes there"
    assert (world.row("p").waiting, world.unfed) == (2, set())
    world.may_offer = True
    assert said(world.do(expire("a"))) == "not_due"
    assert world.states("a", "b") == ["held", "held"]


@pytest.mark.parametrize("command", [FeedLine(id="p"), Sweep()])
def test_the_line_is_fed_by_those_who_only_look_after_it(world: World, command: FeedLine | Sweep) -> None:
    done(world.do(join("a", {"p": 3}, 500)))
    world.may_offer = False
    done(world.do(release("full")))
    world.may_offer, world.slot = True, 9
    told = done(world.do(command))
    assert (world.states("a"), world.held("a").held_at, told.swept, told.more) == (["held"], 9, (), False)


def test_due_waiters_are_gone_before_anybody_is_served(world: World) -> None:
    done(world.do(join("a", {"p": 10}, 10)))
    done(world.do(join("b", {"p": 2}, 100)))
    world.slot = 15
    done(world.do(release("full")))
    assert (world.states("a", "b"), world.held("a").ended_at) == (["expired", "held"], 15)
    assert world.actions()[-3:] == ["hold.expired", "hold.released", "hold.offered"]
    assert world.held("a").held_at is None
    assert world.row("p").waiting == 0


def test_a_sweep_ends_the_wait_and_feeds_the_line(world: World) -> None:
    done(world.do(release("full")))
    done(world.do(place("short", {"p": 8}, 10)))
    done(world.do(join("a", {"p": 10}, 10)))
    done(world.do(join("b", {"p": 2}, 100)))
    world.slot = 15
    told = done(world.do(Sweep()))
    assert sorted(told.swept) == sorted([("", hold_id("short")), ("", hold_id("a"))])
    assert world.states("short", "a", "b") == ["expired", "expired", "held"]


def test_offers_are_decided_at_the_pools_own_time(world: World) -> None:
    done(world.do(join("a", {"p": 3}, 100, 10)))
    world.may_offer, world.slot = False, 40
    done(world.do(release("full", 3)))
    world.may_offer, world.slot = True, 20
    done(world.do(Sweep()))
    assert (world.held("a").held_at, world.held("a").deadline) == (40, 50)


# Several in one batch


def test_an_atomic_group_offers_nothing_until_it_is_complete(world: World) -> None:
    done(world.do(join("a", {"p": 5})))
    told = world.atomic(release("full"), place("x", {"p": 5}, 60))
    assert [said(one) for one in told] == ["aborted", "line_ahead"], "what it frees belongs to those who wait"
    assert (world.states("full", "a"), world.counters("p")) == (["held", "waiting"], (10, 10, 0))
    told = world.atomic(release("full"), join("b", {"p": 5}), join("c", {"p": 5}))
    assert [done(one).hold and done(one).hold.state.value for one in told] == ["released", "held", "waiting"]  # type: ignore[union-attr]
    assert world.actions()[-5:] == ["hold.released", "hold.waiting", "hold.waiting", "hold.offered", "hold.offered"]


def test_a_group_that_is_undone_leaves_the_line_as_it_was(world: World) -> None:
    done(world.do(join("a", {"p": 5})))
    told = world.atomic(join("b", {"p": 5}), release("a"), release("full"), place("x", {"p": 11}, 60))
    assert [said(one) for one in told] == ["aborted"] * 3 + ["insufficient_capacity"]
    assert (line(world), world.row("p").last_number) == ([("a", 1)], 1)
    outcomes = world.apply(
        Group((join("b", {"p": 5}), place("x", {"p": 11}, 60)), atomic=True),
        Group((release("full"), join("c", {"p": 5}))),
    )
    assert [said(one) for group in outcomes for one in group] == ["aborted", "insufficient_capacity", "done", "done"]
    assert world.states("a", "c") == ["held", "held"]
    assert world.held("c").number == 2


def test_one_batch_joins_is_served_and_leaves(world: World) -> None:
    told = world.batch(
        join("a", {"p": 5}),
        join("b", {"p": 5}),
        release("full", 5),
        confirm("a"),
        release("b"),
        release("full"),
        join("c", "p"),
    )
    assert [said(one) for one in told] == ["done"] * 7
    assert world.states("a", "b", "c") == ["confirmed", "released", "held"]
    assert world.counters("p") == (10, 1, 5)


# Who is to be woken


def test_a_batch_names_those_who_wait_no_longer(world: World) -> None:
    world.batch(*(join(name, {"p": 4}, 50) for name in "abcd"))
    assert world.served == []
    done(world.do(extend("a", by_slots=5)))
    assert world.served == [], "it still waits"
    done(world.do(release("full")))
    assert world.served == [hold_id("a"), hold_id("b")]
    assert [world.holds["", id].state for id in world.served] == [State.HELD] * 2
    done(world.do(release("c")))
    assert world.served == [hold_id("c")], "it has left"
    world.slot = 60
    done(world.do(Sweep()))
    assert world.served == [hold_id("d")], "its time is over"


def test_what_is_undone_wakes_nobody(world: World) -> None:
    done(world.do(join("a", "p")))
    assert said(world.atomic(release("a"), release("nobody"))[1]) == "hold_not_found"
    assert world.served == []


# Bounds


def test_a_transaction_makes_so_many_offers_and_the_rest_follow() -> None:
    world = World(max_offers=2)
    world.pool("p", 10)
    done(world.do(place("full", {"p": 10}, 1000)))
    world.batch(*(join(name, "p") for name in "abcde"))
    done(world.do(release("full")))
    assert (world.states(*"abcde"), world.unfed) == (["held", "held", "waiting", "waiting", "waiting"], {("", "p")})
    assert world.apply(Group((place("x", "p", 60),))) == [[]], "put off: the line comes first"
    assert (world.states(*"cde"), world.unfed) == (["held", "held", "waiting"], {("", "p")})
    told = world.do(place("x", "p", 60))
    assert (said(told), world.states("e"), world.unfed) == ("done", ["held"], set())


def test_a_tenant_with_a_long_line_does_not_delay_the_offers_of_another() -> None:
    world = World(max_offers=2)
    tenants = ["a", "b", "c", "d", "e"]
    for tenant in tenants:
        world.pool("p", 10, tenant=tenant)
        done(world.do(place(f"full of {tenant}", {"p": 10}, 1000, tenant=tenant)))
        for number in range(5 if tenant == "a" else 2):
            done(world.do(join(f"{tenant}{number}", "p", tenant=tenant)))
    releases = [Group((release(f"full of {tenant}", tenant=tenant),)) for tenant in tenants]
    world.apply(*releases[:2])
    assert ([world.pools[tenant, "p"].waiting for tenant in "ab"], world.unfed) == ([3, 0], {("a", "p")})
    feeding = [Group((FeedLine(id="p", tenant="a"),)), *releases[2:]]
    assert world.apply(*feeding)[0] == [], "put off: three are more than two"
    assert [world.pools[tenant, "p"].waiting for tenant in tenants] == [1, 0, 0, 0, 0]


def test_all_tenants_together_make_a_bounded_number_of_offers() -> None:
    world = World(max_offers=1)
    tenants = ["a", "b", "c", "d", "e"]
    for tenant in tenants:
        world.pool("p", 10, tenant=tenant)
        done(world.do(place(f"full of {tenant}", {"p": 10}, 1000, tenant=tenant)))
        done(world.do(join(f"{tenant}0", "p", tenant=tenant)))
    world.apply(*(Group((release(f"full of {tenant}", tenant=tenant),)) for tenant in tenants))
    assert ([world.pools[tenant, "p"].waiting for tenant in tenants], world.unfed) == ([0, 0, 0, 0, 1], {("e", "p")})


def test_groups_that_are_put_off_are_named_and_so_are_the_later_ones_of_their_tenant() -> None:
    world = World(max_offers=1)
    for tenant in ("", "b"):
        world.pool("p", 10, tenant=tenant)
    world.pool("q", 1)
    done(world.do(place("full", {"p": 10}, 1000)))
    world.batch(*(join(name, "p") for name in "abc"))
    world.may_offer = False
    done(world.do(release("full")))
    world.may_offer = True
    view = View(world.loaded())
    groups = [
        Group((place("y", "p", 60, tenant="b"),)),
        Group((place("x", "p", 60),)),
        Group((place("z", "q", 60),)),
        Group((place("v", "p", 60, tenant="b"),)),
    ]
    outcomes = decide_groups(view, groups)
    assert [[said(one) for one in group] for group in outcomes] == [["done"], [], [], ["done"]]
    assert groups_put_off(view, groups, outcomes) == {1, 2}
    assert view.unfed == {("", "p")}


def test_a_sweep_says_that_there_is_more_to_offer() -> None:
    world = World(max_offers=2)
    world.pool("p", 10)
    done(world.do(place("full", {"p": 10}, 1000)))
    world.batch(*(join(name, "p") for name in "abc"))
    world.may_offer = False
    done(world.do(release("full")))
    world.may_offer = True
    assert [done(world.do(Sweep())).more for _ in range(2)] == [True, False]
    assert world.states(*"abc") == ["held"] * 3


def test_exactly_as_many_as_the_bound_leave_nothing_unfed() -> None:
    world = World(max_offers=2)
    world.pool("p", 2)
    told = world.batch(join("a", "p"), join("b", "p"), join("c", "p"))
    assert ([said(one) for one in told], world.unfed) == (["done"] * 3, set())
