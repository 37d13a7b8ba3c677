"""Consumption outlives retention: a unit comes back by its hold as long as that is kept, then by its pool, never twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdkit.core.audit_rows import Folded
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, Group, ReturnToPool, ReturnUnits, Sweep
from holdkit.core.decide import SweepList, decide
from holdkit.core.entries import Action, Effect, Entry, RefusedCommand
from holdkit.core.face_legs import FaceLeg
from holdkit.core.fold import fold, reconstruct
from holdkit.core.import_ import Carried, needs_of
from holdkit.core.ladders.retiring import Keeping, keeping, kept_for, may_retire, returnable_until
from holdkit.core.model import DAY, Key, Leg, Pool, State
from holdkit.core.needs import needs
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.table_bounds import portion, retirements, unnamed
from holdkit.core.validation import check
from holdkit.core.view import View
from holdkit.errors import InvalidRequest
from tests.unit.core.test_properties import thorough
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    expire,
    extend,
    give_back,
    give_back_loose,
    hold_id,
    place,
    refused,
    release,
    said,
)

KEPT, CONSUMED = 50, 200


@pytest.fixture
def world() -> World:
    world = World(retention=KEPT, retention_consumed=CONSUMED)
    world.pool("p", 10)
    return world


def window(closes: int, quantity: int = 1, opens: int = 0) -> tuple[Leg, ...]:
    return (FaceLeg("~w", quantity, 5, opens=opens, closes=closes),)


# How long


def test_the_defaults() -> None:
    assert (Limits().retention, Limits().retention_consumed) == (30 * DAY, 400 * DAY)


def test_a_hold_whose_units_are_consumed_is_there_until_a_sweep_drops_it(world: World) -> None:
    done(world.do(consume("a", {"p": 3})))
    world.slot = CONSUMED - 1
    done(world.do(Sweep()))
    assert world.held("a").state is State.CONFIRMED
    world.slot = 10 * CONSUMED
    world.prune()
    assert said(world.do(confirm("a"))) == "already_confirmed"
    assert said(world.do(expire("a"))) == "already_confirmed"
    assert said(world.do(place("a", "p", 60))) == "hold_exists"
    assert done(world.do(give_back("a", 1))).hold == world.held("a")


def test_it_is_never_kept_shorter_than_any_other() -> None:
    world = World(retention=KEPT, retention_consumed=10)
    world.pool("p", 10)
    done(world.do(consume("a", {"p": 3})))
    world.slot = KEPT - 1
    done(world.do(Sweep()))
    assert world.held("a").state is State.CONFIRMED
    world.slot = KEPT
    done(world.do(Sweep()))
    assert world.holds == {}


def test_dropping_it_is_journaled_and_its_units_become_loose(world: World) -> None:
    world.slot = 5
    done(world.do(place("a", {"p": 3}, 60, correlation_id="c", actor="user:1")))
    done(world.do(confirm("a", 2)))
    world.slot = 5 + CONSUMED
    before = world.held("a")
    assert world.do(Sweep()) == Done(
        slot=5 + CONSUMED,
    )
    assert world.entries[-1] == Entry(
        slot=5 + CONSUMED,
        action=Action.HOLD_RETIRED,
        subject=hold_id("a"),
        effects=(Effect(Pool("", "p", 10, consumed=2, fence=1, slot=5 + CONSUMED, version=4, loose=2), loose=2),),
        actor="system",
        correlation_id="c",
    )
    assert world.holds == {}
    assert reconstruct([entry for entry in world.entries if entry.subject == hold_id("a")]) == before
    assert said(world.do(give_back("a"))) == "hold_not_found"
    assert said(world.do(place("a", "p", 60))) == "done"


def test_a_return_is_a_change_and_the_last_one_counts(world: World) -> None:
    done(world.do(consume("a", {"p": 3})))
    world.slot = 150
    done(world.do(give_back("a", 1)))
    assert (world.held("a").returned_at, world.held("a").changed_at) == (150, 150)
    world.slot = 150 + CONSUMED - 1
    done(world.do(Sweep()))
    assert world.held("a").ended_at == 0
    done(world.do(give_back("a")))  # now nothing of it is consumed: the other retention, from this change
    world.slot += KEPT - 1
    world.prune()
    assert said(world.do(confirm("a"))) == "already_confirmed"
    world.slot += 1
    assert said(world.do(confirm("a"))) == "hold_not_found"
    done(world.do(Sweep()))
    assert world.actions(hold_id("a"))[-1] == "hold.returned"  # pruned by whoever comes by, without an entry


def test_units_returned_while_others_are_held_count_from_the_end(world: World) -> None:
    done(world.do(place("a", {"p": 3}, 40)))
    done(world.do(confirm("a", 2, keep_rest=True)))
    done(world.do(give_back("a", 1)))
    world.slot = 45
    done(world.do(Sweep()))
    assert (world.held("a").state, world.held("a").changed_at) == (State.EXPIRED, 40)
    assert keeping(world.held("a")) == (Keeping.CONSUMED, 40)
    world.slot = 39 + CONSUMED
    done(world.do(Sweep()))
    assert len(world.holds) == 1
    world.slot = 40 + CONSUMED
    done(world.do(Sweep()))
    assert (world.holds, world.row("p").loose) == ({}, 1)


def test_of_a_hold_with_units_out_nothing_is_dropped(world: World) -> None:
    world.pool("q", 5)
    done(world.do(place("a", {"p": 1, "q": 1}, 40)))
    done(world.do(confirm("a", {"p": 1}, keep_rest=True)))
    world.slot = 9_999
    assert keeping(world.held("a")) is None
    world.slot = 39
    done(world.do(extend("a", until=50)))
    assert may_retire(world.held("a"), world.limits, 2**60, pressed=True) is False


@pytest.mark.parametrize(("closes", "ended", "since"), [(20, 5, 20), (20, 19, 20), (300, 5, 300)])
def test_of_windows_alone_the_shorter_retention_from_their_end(
    world: World, closes: int, ended: int, since: int
) -> None:
    world.slot = ended
    done(world.do(consume("a", window(closes, 2))))
    assert world.held("a").closes == closes
    assert keeping(world.held("a")) == (Keeping.WINDOW, since)
    world.slot = since + KEPT - 1
    done(world.do(Sweep()))
    assert ("", "~w") not in world.pools
    assert world.held("a").state is State.CONFIRMED
    world.slot += 1
    done(world.do(Sweep()))
    assert world.holds == {}
    assert (world.entries[-1].action, world.entries[-1].effects) == (Action.HOLD_RETIRED, ())


def test_a_window_that_somebody_still_holds_takes_over_what_it_counts(world: World) -> None:
    done(world.do(consume("a", window(20, 2))))
    done(world.do(place("b", window(20))))
    world.slot = 20 + KEPT
    done(world.do(Sweep()))
    assert (world.row("~w").consumed, world.row("~w").loose) == (2, 2)
    done(world.do(release("b")))
    done(world.do(Sweep()))
    assert ("", "~w") not in world.pools


def test_beside_a_pool_without_an_end_the_longer_one(world: World) -> None:
    done(world.do(consume("a", (*window(20), Leg("p")))))
    assert (world.held("a").closes, keeping(world.held("a"))) == (None, (Keeping.CONSUMED, 0))
    done(world.do(consume("b", (FaceLeg("~v", 1, 5, opens=0, closes=30), *window(20)))))
    assert world.held("b").closes == 30


def test_each_rule_has_its_span() -> None:
    limits = Limits(retention=1, retention_consumed=2)
    assert [kept_for(rule, limits) for rule in Keeping] == [1, 1, 2]


# Whose units


def test_a_pool_made_anew_does_not_count_what_an_earlier_one_of_its_id_did(world: World) -> None:
    done(world.do(consume("a", window(20, 3))))
    world.slot = 20
    done(world.do(Sweep()))
    done(world.do(consume("b", window(900, opens=20))))
    assert (world.row("~w").consumed, world.row("~w").floor) == (1, 1)
    done(world.do(give_back("a", 1)))
    assert world.row("~w").consumed == 1
    world.slot = 20 + KEPT
    listed = SweepList([], [], retiring=[("", hold_id("a"))])
    view = View(world.loaded())
    assert isinstance(decide(view, Sweep(), listed), Done)
    assert [(entry.action, entry.effects) for entry in view.entries] == [(Action.HOLD_RETIRED, ())]


def test_nor_does_a_late_confirm_take_of_it(world: World) -> None:
    done(world.do(place("a", (*window(20), Leg("p")), 900)))
    done(world.do(confirm("a", {"~w": 1}, keep_rest=True)))
    world.slot = 20
    done(world.do(Sweep()))
    done(world.do(consume("b", window(900, opens=20))))
    outcome = done(world.do(confirm("a", {"~w": 2, "p": 1}, overage="up_to_available")))
    assert (outcome.uncovered, world.row("~w").consumed) == ({"~w": 2}, 1)


# By pool


def test_loose_units_come_back_by_pool_and_others_do_not(world: World) -> None:
    done(world.do(consume("a", {"p": 3})))
    world.slot = CONSUMED
    done(world.do(consume("b", {"p": 2})))
    done(world.do(Sweep()))
    assert world.row("p").loose == 3
    assert refused(world.do(give_back_loose("p", 4))) == Refusal(
        Reason.QUANTITY_EXCEEDS_CONSUMED, "p", (Shortfall("p", 4, 3, 5),), found=3
    )
    outcome = done(world.do(give_back_loose("p", 2, actor="user:9")))
    assert outcome == Done(slot=CONSUMED, pool=world.row("p"))
    assert (world.counters("p"), world.row("p").loose) == ((10, 0, 3), 1)
    entry = world.entries[-1]
    assert (entry.action, entry.forced, entry.reason, entry.actor) == (Action.POOL_RETURNED, True, "refund", "user:9")
    assert (entry.effects[0].consumed, entry.effects[0].loose) == (-2, -2)
    assert said(world.do(give_back_loose("q"))) == "pool_not_found"
    done(world.do(give_back("b")))
    assert (world.counters("p"), world.row("p").loose) == ((10, 0, 1), 1)


def test_of_a_labelled_pool_the_link_goes_too(world: World) -> None:
    done(world.do(consume("a", (FaceLeg("~l", 1, 1, label="the label"),), entity="user:7")))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    assert (world.row("~l").entity, world.row("~l").holder) == ("user:7", hold_id("a"))
    done(world.do(give_back_loose("~l")))
    assert (world.row("~l").entity, world.row("~l").consumed) == (None, 0)


def test_due_legs_come_first(world: World) -> None:
    done(world.do(consume("a", {"p": 3})))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    done(world.do(place("b", {"p": 2}, 10)))
    world.slot += 10
    done(world.do(give_back_loose("p", 3)))
    assert world.counters("p") == (10, 0, 0)


def test_by_force_a_hold_needs_no_token(world: World) -> None:
    done(world.do(consume("a", {"p": 3})))
    assert said(world.do(give_back("a", 1, token=None))) == "not_owner"
    done(world.do(give_back("a", 1, token=None, force=True, reason="refund")))
    assert (world.entries[-1].forced, world.entries[-1].reason) == (True, "refund")
    done(world.do(give_back("a", 1, token="thief", trusted=True)))
    assert world.entries[-1].forced is False


LIMITS = Limits()
MALFORMED: list[tuple[AnyCommand, str]] = [
    (ReturnToPool(id="p", quantity=1, reason="r"), "force_required"),
    (ReturnToPool(id="p", quantity=1, force=True), "reason_required"),
    (ReturnToPool(id="p", quantity=0, force=True, reason="r"), "quantity_out_of_range"),
    (ReturnToPool(id="~p", quantity=1, force=True, reason="r"), "pool_reserved"),
    (ReturnToPool(id="p", quantity=1, force=1, reason="r"), "force_not_boolean"),  # type: ignore[arg-type]
    (ReturnUnits(id=hold_id("a"), force=True), "reason_required"),
    (ReturnUnits(id=hold_id("a"), force=1, reason="r"), "force_not_boolean"),  # type: ignore[arg-type]
    (ReturnUnits(id=hold_id("a"), trusted=True), "trusted_reserved"),
]


@pytest.mark.parametrize(("command", "code"), MALFORMED)
def test_what_is_malformed_stops_before(command: AnyCommand, code: str) -> None:
    with pytest.raises(InvalidRequest) as stopped:
        check(command, LIMITS)
    assert stopped.value.code == code


def test_what_is_well_formed_passes() -> None:
    check(ReturnToPool(id="p", quantity=1, force=True, reason="r"), LIMITS)
    check(ReturnToPool(id="~p", quantity=1, force=True, reason="r"), LIMITS, faces=True)
    check(ReturnUnits(id=hold_id("a"), force=True, reason="r"), LIMITS)


# Sweeps


def test_a_sweep_drops_so_many_the_oldest_first(world: World) -> None:
    for slot, name in enumerate("edcba"):
        world.slot = slot
        done(world.do(consume(name, "p")))
    world.slot = 3 + CONSUMED
    assert done(world.do(Sweep(limit=3))).more
    assert [entry.subject for entry in world.entries[-3:]] == [hold_id(name) for name in "edc"]
    assert not done(world.do(Sweep(limit=3))).more
    assert [hold.id for hold in world.holds.values()] == [hold_id("a")]


def test_one_that_changed_after_it_was_listed_stays(world: World) -> None:
    for name in "ab":
        done(world.do(consume(name, "p")))
    world.slot = CONSUMED
    listed = world.sweep_list(10)
    assert len(listed.retiring) == 2
    done(world.do(give_back("a")))
    view = View(world.loaded())
    done(decide(view, Sweep(limit=1), structs.replace(listed, retiring=[*listed.retiring, ("", "ghost")])))
    assert view.written
    assert [entry.subject for entry in view.entries] == [hold_id("b")]


def test_dropping_never_moves_a_pool_back_in_time(world: World) -> None:
    done(world.do(consume("a", "p")))
    world.slot = CONSUMED + 90
    done(world.do(place("b", "p", 60)))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    assert (world.entries[-1].action, world.entries[-1].slot) == (Action.HOLD_RETIRED, CONSUMED + 90)


def test_a_portion_is_bounded_by_holds_and_by_legs() -> None:
    found: list[tuple[Key, int]] = [(("", name), legs) for name, legs in (("a", 2), ("b", 2), ("c", 2))]
    assert portion(found, 3, 6) == ([("", "a"), ("", "b"), ("", "c")], False)
    assert portion(found, 2, 6) == ([("", "a"), ("", "b")], True)
    assert portion(found, 3, 5) == ([("", "a"), ("", "b")], True)
    assert portion(found, 3, 1) == ([("", "a")], True)
    assert portion([], 3, 1) == ([], False)


# Room


def test_room_is_made_for_what_is_to_be_born_and_a_little_more() -> None:
    two = needs([Group((place("a", "p", 1), consume("b", "p"), confirm("c")))])
    assert retirements(Limits(), two, 10**9, 10**9) == 0
    assert retirements(Limits(max_holds=5), two, 1, 2) == 0
    assert retirements(Limits(max_holds=5), two, 2, 2) == 1
    assert retirements(Limits(max_holds=5), two, 5, 1) == 1
    assert retirements(Limits(max_holds=500), two, 10, 489) == 5
    assert retirements(Limits(max_holds=550), two, 10, 539) == 5
    assert retirements(Limits(max_holds=500), two, 10, 488) == 0  # it just fits
    assert retirements(Limits(max_holds=500), two, 10, 100) == 0
    keys = [("", hold_id(name)) for name in "cdefab"]
    assert unnamed(keys, two, 2) == [("", hold_id("d")), ("", hold_id("e"))]


def test_where_the_table_is_full_they_go_before_their_time(world: World) -> None:
    done(world.do(consume("a", "p")))
    done(world.do(place("b", "p", 60)))
    view = View(world.loaded())
    both = [("", hold_id("a")), ("", hold_id("b"))]
    done(decide(view, Sweep(), SweepList([], [], retiring=both)))
    assert view.written == 0
    done(decide(view, Sweep(), SweepList([], [], pressed=True, retiring=both)))
    assert view.written
    assert [entry.subject for entry in view.entries] == [hold_id("a")]


# Elsewhere


def test_an_import_loads_the_hold_that_an_entry_drops(world: World) -> None:
    done(world.do(consume("a", "p")))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    assert needs_of([Carried(1, world.entries[-1])]).holds == {("", hold_id("a"))}


def test_a_part_of_it_drops_nothing(world: World) -> None:
    """In the lanes of its pools stands only what they count: the hold goes in its own."""
    done(world.do(consume("a", "p")))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    folded = Folded()
    for entry in (*world.entries[:-1], structs.replace(world.entries[-1], part=True)):
        fold(folded, entry)
    assert folded.holds.get(("", hold_id("a"))) is not None
    assert folded.pools.get(("", "p")) == world.row("p")
    fold(folded, structs.replace(world.entries[-1], effects=()))
    assert folded.holds.get(("", hold_id("a"))) is None


# No unit comes back twice

NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.builds(consume, NAMES, st.sampled_from([{"p": 1}, {"p": 3}, {"p": 2, "q": 1}, {"q": 2}])),
    st.builds(lambda closes, units: consume("w", window(closes, units)), st.sampled_from([60, 160]), st.integers(1, 2)),
    st.builds(give_back, NAMES, st.sampled_from([None, 1, 2, {"p": 1}, {"q": 1}])),
    st.builds(give_back, st.just("w"), st.sampled_from([None, 1])),
    st.builds(give_back_loose, st.sampled_from(["p", "q", "~w"]), st.integers(1, 4)),
    st.builds(lambda limit: Sweep(limit=limit), st.integers(1, 3)),
)
JUMPS = st.sampled_from([0, 0, 1, 20, 60, 100, -30])


@thorough
@given(st.lists(st.tuples(JUMPS, STEPS), min_size=1, max_size=25), st.sampled_from([{}, {"max_legs": 5}]))
def test_no_order_of_returns_brings_a_unit_back_twice(program: list[tuple[int, AnyCommand]], more: Any) -> None:
    """`World` counts along each pool, by the entries' own word, what each hold has left and what is loose, and finds both
    at least 0 and their sum what the pool says is consumed."""
    world = World(retention=20, retention_consumed=60, **more)
    world.pool("p", 6)
    world.pool("q", 3)
    taken = back = 0
    for jump, command in program:
        world.slot = max(0, world.slot + jump)
        outcome = world.do(command)
        world.prune()
        if not isinstance(outcome, Done) or isinstance(command, Sweep):
            continue
        moved = sum(effect.consumed for effect in world.entries[-1].effects)
        taken, back = taken + max(0, moved), back + max(0, -moved)
        assert back <= taken
    for pool in world.pools.values():
        kept = sum(
            leg.consumed
            for hold in world.holds.values()
            for leg in hold.legs
            if leg.pool == pool.id and hold.fence > pool.floor
        )
        assert pool.consumed == kept + pool.loose


def test_the_entry_belongs_to_the_holds_tenant_and_is_nobodys_doing() -> None:
    world = World(retention=KEPT, retention_consumed=CONSUMED)
    world.pool("p", 10, tenant="acme")
    done(world.do(consume("a", {"p": 3}, tenant="acme", actor="user:7", correlation_id="order 9")))
    world.slot = 10 * CONSUMED
    done(world.do(Sweep()))
    (retired,) = [entry for entry in world.entries if entry.action is Action.HOLD_RETIRED]
    assert (retired.tenant, retired.subject) == ("acme", hold_id("a"))
    assert (retired.actor, retired.correlation_id) == ("system", "order 9")
    assert world.pools["acme", "p"].loose == 3


def test_a_hold_may_be_dropped_when_the_time_of_its_own_rule_is_over(world: World) -> None:
    done(world.do(consume("a", {"p": 1})))
    hold = world.held("a")
    assert may_retire(hold, world.limits, CONSUMED - 1) is False
    assert may_retire(hold, world.limits, CONSUMED) is True
    assert may_retire(hold, world.limits, 1, pressed=True) is True


def test_one_that_consumes_nothing_is_never_dropped_this_way(world: World) -> None:
    done(world.do(place("a", "p", 60)))
    done(world.do(release("a")))
    assert may_retire(world.held("a"), world.limits, 10 * CONSUMED) is False
    assert may_retire(world.held("a"), world.limits, 10 * CONSUMED, pressed=True) is False


@pytest.mark.parametrize(("limit", "more"), [(1, [True, False]), (2, [False, False])])
def test_a_sweep_that_drops_exactly_as_many_as_it_may_leaves_nothing(limit: int, more: list[bool]) -> None:
    world = World(retention=10, retention_consumed=10)
    world.pool("p", 5)
    world.batch(consume("a", "p"), consume("b", "p"))
    world.slot = 10
    assert [done(world.do(Sweep(limit=limit))).more for _ in range(2)] == more
    assert (world.holds, world.row("p").loose) == ({}, 2)


def history(world: World, name: str) -> list[Entry]:
    return [entry for entry in world.entries if entry.subject == hold_id(name)]


def test_until_when_a_dropped_hold_could_return_its_units(world: World) -> None:
    done(world.do(consume("a", {"p": 1})))
    done(world.do(consume("b", window(closes=30))))
    done(world.do(place("c", "p", 10)))
    done(world.do(release("c")))
    assert returnable_until(history(world, "a"), world.limits) is None, "it is still there"
    world.slot = CONSUMED + 7
    done(world.do(Sweep()))
    assert world.actions(hold_id("a"))[-1] == world.actions(hold_id("b"))[-1] == "hold.retired"
    assert returnable_until(history(world, "a"), world.limits) == (Keeping.CONSUMED, CONSUMED)
    assert returnable_until(history(world, "b"), world.limits) == (Keeping.WINDOW, 30 + KEPT)
    asked = Entry(
        CONSUMED + 9, Action.COMMAND_REFUSED, hold_id("a"), refused=RefusedCommand("return", Reason.HOLD_NOT_FOUND)
    )
    assert returnable_until([*history(world, "a"), asked], world.limits) == (Keeping.CONSUMED, CONSUMED)
    assert returnable_until(history(world, "c"), world.limits) is None, "it had nothing to return"
    assert returnable_until([], world.limits) is None
    assert returnable_until(history(world, "a")[1:], world.limits) is None, "its beginning is archived"


def test_a_hold_that_was_dropped_earlier_could_return_its_units_until_then(world: World) -> None:
    """To make room, or under a shorter retention."""
    done(world.do(consume("a", {"p": 1})))
    world.slot = CONSUMED
    done(world.do(Sweep()))
    longer = structs.replace(world.limits, retention_consumed=10 * CONSUMED)
    assert returnable_until(history(world, "a"), longer) == (Keeping.CONSUMED, CONSUMED)
