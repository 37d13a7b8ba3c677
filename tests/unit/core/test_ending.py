"""ConfirmHold, ReleaseHold, ReturnUnits: whole, in parts, with overage, and back again."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import ExpireHold, Sweep
from holdkit.core.entries import Action, Change, Effect, Entry
from holdkit.core.model import HeldLeg, Leg, Pool, State
from holdkit.core.outcomes import Done, Invalid, Reason, Refusal, Shortfall
from tests.unit.core.world import (
    World,
    confirm,
    done,
    expire,
    extend,
    give_back,
    hold_id,
    place,
    refused,
    release,
    said,
)


@pytest.fixture
def world() -> World:
    """Hold "x" has 5 of p (of 10) and 2 of q (of 3) until slot 100; it is slot 9."""
    world = World()
    world.pool("p", 10)
    world.pool("q", 3)
    done(world.do(place("x", {"p": 5, "q": 2}, 100, entity="cart:1")))
    world.slot = 9
    return world


def test_a_confirm_is_written_whole(world: World) -> None:
    outcome = world.do(confirm("x", entity="order:9", actor="user:7", correlation_id="c", reason="paid"))
    hold = world.held("x")
    legs = (HeldLeg("p", 5, 0, 5), HeldLeg("q", 2, 0, 2))
    assert outcome == Done(slot=9, hold=hold)
    assert (hold.state, hold.ended_at, hold.entity, hold.reason) == (State.CONFIRMED, 9, "order:9", "paid")
    assert (hold.legs, hold.version, hold.deadline, hold.last_op) == (legs, 2, 100, None)
    assert world.entries[-1] == Entry(
        slot=9,
        action=Action.HOLD_CONFIRMED,
        subject=hold_id("x"),
        effects=(
            Effect(Pool("", "p", 10, 0, 5, fence=1, slot=9, version=3), held=-5, consumed=5),
            Effect(Pool("", "q", 3, 0, 2, fence=1, slot=9, version=3), held=-2, consumed=2),
        ),
        change=Change(
            state=State.CONFIRMED,
            was=State.HELD,
            version=2,
            legs=legs,
            deadline=100,
            was_deadline=100,
            entity="order:9",
            ended_at=9,
            reason="paid",
        ),
        actor="user:7",
        correlation_id="c",
        reason="paid",
    )


def test_who_owns_a_confirmed_hold_is_told_for_what_it_was_confirmed(world: World) -> None:
    done(world.do(confirm("x", entity="order:9")))
    assert refused(world.do(confirm("x", entity="order:10"))).entity == "order:9"
    assert refused(world.do(release("x"))).entity == "order:9"
    theirs = refused(world.do(confirm("x", token="somebody")))
    assert (theirs.reason, theirs.entity) == (Reason.NOT_OWNER, None)
    assert refused(world.do(ExpireHold(id=hold_id("x")))).entity is None, "it needs no token"


def test_a_released_hold_was_confirmed_for_nothing(world: World) -> None:
    done(world.do(release("x")))
    assert refused(world.do(confirm("x"))) == Refusal(Reason.ALREADY_RELEASED, hold_id("x"), found=9)


def test_a_release_is_written_whole(world: World) -> None:
    outcome = world.do(release("x", reason="user_cancelled", op="o"))
    hold = world.held("x")
    assert outcome == Done(slot=9, hold=hold)
    assert (hold.state, hold.ended_at, hold.reason, hold.entity) == (State.RELEASED, 9, "user_cancelled", "cart:1")
    assert hold.legs == (HeldLeg("p", 5), HeldLeg("q", 2))
    assert hold.last_op is not None
    assert hold.last_op.endswith("o")
    assert world.entries[-1].effects == (
        Effect(Pool("", "p", 10, 0, 0, fence=1, slot=9, version=3), held=-5),
        Effect(Pool("", "q", 3, 0, 0, fence=1, slot=9, version=3), held=-2),
    )
    assert not world.entries[-1].forced


@pytest.mark.parametrize("token", [None, "owner of y", "owner of x"])
@pytest.mark.parametrize(
    ("command", "more", "action"),
    [
        (confirm, {}, Action.HOLD_CONFIRMED),
        (confirm, {"quantity": {"p": 1}, "keep_rest": True}, Action.HOLD_PARTLY_CONFIRMED),
        (confirm, {"quantity": {"p": 6}, "overage": "if_available"}, Action.HOLD_CONFIRMED),
        (confirm, {"quantity": {"p": 0, "q": 0}}, Action.HOLD_RELEASED),
        (release, {}, Action.HOLD_RELEASED),
        (release, {"quantity": {"p": 1}}, Action.HOLD_PARTLY_RELEASED),
        (extend, {"until": 200}, Action.HOLD_EXTENDED),
        (extend, {"by_slots": 1}, Action.HOLD_EXTENDED),
    ],
)
def test_by_force_no_token_is_needed_and_the_entry_says_so(
    world: World, command: Any, more: dict[str, Any], action: Action, token: str | None
) -> None:
    if token != "owner of x":
        assert said(world.do(command("x", token=token, reason="why", **more))) == "not_owner"
    done(world.do(command("x", token=token, force=True, reason="admin_override", client_id="key:1", **more)))
    entry = world.entries[-1]
    assert (entry.action, entry.forced, entry.reason, entry.client_id) == (action, True, "admin_override", "key:1")


@pytest.mark.parametrize("command", [confirm("x"), release("x"), extend("x", until=200)])
def test_by_the_owner_no_entry_is_forced(world: World, command: Any) -> None:
    done(world.do(command))
    assert not world.entries[-1].forced


FORCE = {"token": None, "force": True, "reason": "admin_override"}


@pytest.mark.parametrize(
    ("slot", "before", "command", "says"),
    [
        (9, None, confirm("y", **FORCE), "hold_not_found"),
        (9, None, extend("y", until=200, **FORCE), "hold_not_found"),
        (9, confirm("x"), confirm("x", **FORCE), "already_confirmed"),
        (9, confirm("x"), extend("x", until=200, **FORCE), "already_confirmed"),
        (9, release("x"), confirm("x", **FORCE), "already_released"),
        (9, release("x"), extend("x", until=200, **FORCE), "already_released"),
        (100, None, confirm("x", **FORCE), "hold_expired"),
        (100, None, extend("x", until=200, **FORCE), "hold_expired"),
        (9, None, confirm("x", 1, **FORCE), "amount_ambiguous"),
        (9, None, confirm("x", {"p": 6}, **FORCE), "quantity_exceeds_hold"),
        (9, None, confirm("x", {"q": 4}, overage="if_available", **FORCE), "insufficient_capacity"),
        (9, None, extend("x", until=2**63, **FORCE), "slot_overflow"),
        (9, None, extend("x", until=9, **FORCE), "deadline_passed"),
        (9, None, extend("x", until=501, **FORCE), "lifetime_exceeded"),
    ],
)
def test_force_passes_the_owner_check_and_no_other_rung(
    world: World, slot: int, before: Any, command: Any, says: str
) -> None:
    world.limits = World(max_lifetime=500).limits
    if before is not None:
        done(world.do(before))
    world.slot = slot
    assert said(world.do(command)) == says


def test_a_forced_extension_never_shortens(world: World) -> None:
    before = world.held("x")
    assert world.do(extend("x", until=99, **FORCE)) == Done(slot=9, hold=before)
    assert world.entries[-1].action is Action.HOLD_HELD


@pytest.mark.parametrize("token", [None, "", "owner of y", "owner of xx"])
@pytest.mark.parametrize("command", [confirm, release, extend, give_back])
def test_only_the_owner_may(world: World, command: Any, token: str | None) -> None:
    more = {"until": 200} if command is extend else {}
    refusal = refused(world.do(command("x", token=token, **more)))
    assert (refusal.reason.value, refusal.subject) == ("not_owner", hold_id("x"))


@pytest.mark.parametrize(
    ("end", "slot", "says", "found"),
    [
        (confirm("x"), 20, "already_confirmed", 9),
        (release("x"), 20, "already_released", 9),
        (None, 100, "hold_expired", 100),
        (None, 5000, "hold_expired", 100),
    ],
)
@pytest.mark.parametrize(
    "command", [confirm("x"), release("x"), extend("x", until=9999)], ids=["confirm", "release", "extend"]
)
def test_a_hold_ends_exactly_once(world: World, end: Any, slot: int, says: str, found: int, command: Any) -> None:
    if end is not None:
        done(world.do(end))
    world.slot = slot
    refusal = refused(world.do(command))
    assert (refusal.reason.value, refusal.subject, refusal.found) == (says, hold_id("x"), found)


# Parts

PARTS: list[tuple[str, list[Any], str, tuple[int, int], tuple[int, int], list[str]]] = [
    # what, steps, final state, p (held, consumed), q (held, consumed), journal
    ("less confirmed, the rest released", [confirm("x", {"p": 3})], "confirmed", (0, 3), (0, 0), ["confirmed"]),
    ("rest kept", [confirm("x", {"p": 3}, keep_rest=True)], "held", (2, 3), (2, 0), ["partly_confirmed"]),
    (
        "kept, then the whole rest confirmed",
        [confirm("x", {"p": 3}, keep_rest=True), confirm("x")],
        "confirmed",
        (0, 5),
        (0, 2),
        ["partly_confirmed", "confirmed"],
    ),
    (
        "again and again",
        [confirm("x", {"p": 1, "q": 2}, keep_rest=True)] + [confirm("x", {"p": 1}, keep_rest=True)] * 4,
        "confirmed",
        (0, 5),
        (0, 2),
        ["partly_confirmed"] * 4 + ["confirmed"],
    ),
    ("partly released", [release("x", {"q": 2})], "held", (5, 0), (0, 0), ["partly_released"]),
    (
        "released in parts",
        [release("x", {"q": 2, "p": 4}), release("x", {"p": 1, "q": 0})],
        "released",
        (0, 0),
        (0, 0),
        ["partly_released", "released"],
    ),
    (
        "the last step names the state: released",
        [confirm("x", {"p": 3}, keep_rest=True), release("x")],
        "released",
        (0, 3),
        (0, 0),
        ["partly_confirmed", "released"],
    ),
    (
        "the last step names the state: confirmed",
        [release("x", {"p": 4, "q": 1}), confirm("x")],
        "confirmed",
        (0, 1),
        (0, 1),
        ["partly_released", "confirmed"],
    ),
    (
        "everything by name",
        [confirm("x", {"p": 5, "q": 2}, keep_rest=True)],
        "confirmed",
        (0, 5),
        (0, 2),
        ["confirmed"],
    ),
    ("released by name", [release("x", {"p": 5, "q": 2})], "released", (0, 0), (0, 0), ["released"]),
    (
        "nothing, and the rest kept",
        [confirm("x", {"p": 0, "q": 0}, keep_rest=True, others_as_held=True)],
        "held",
        (5, 0),
        (2, 0),
        ["partly_confirmed"],
    ),
    ("others as held", [confirm("x", {"p": 3}, others_as_held=True)], "confirmed", (0, 3), (0, 2), ["confirmed"]),
    (
        "others as they are held by then",
        [confirm("x", {"q": 1}, keep_rest=True), confirm("x", {"p": 3}, others_as_held=True)],
        "confirmed",
        (0, 3),
        (0, 2),
        ["partly_confirmed", "confirmed"],
    ),
    (
        "others, and nothing of them is left",
        [confirm("x", {"q": 2}, keep_rest=True), confirm("x", {"p": 0}, others_as_held=True, entity="order:9")],
        "released",
        (0, 0),
        (0, 2),
        ["partly_confirmed", "released"],
    ),
    ("nothing of all", [confirm("x", {"p": 0, "q": 0}, others_as_held=True)], "released", (0, 0), (0, 0), ["released"]),
]


@pytest.mark.parametrize(
    ("steps", "state", "p", "q", "journal"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS]
)
def test_parts(
    world: World, steps: list[Any], state: str, p: tuple[int, int], q: tuple[int, int], journal: list[str]
) -> None:
    for step in steps:
        done(world.do(step))
    assert world.held("x").state.value == state
    assert (world.held("x").ended_at is None) == (state == "held")
    assert world.counters("p")[1:] == p
    assert world.counters("q")[1:] == q
    assert world.actions(hold_id("x")) == ["hold.held", *(f"hold.{action}" for action in journal)]
    assert world.held("x").version == 1 + len(steps)


def test_a_partial_step_touches_only_the_pools_it_moves(world: World) -> None:
    done(world.do(confirm("x", {"p": 3}, keep_rest=True)))
    assert [effect.pool.id for effect in world.entries[-1].effects] == ["p"]
    done(world.do(release("x", {"q": 1})))
    assert [(effect.pool.id, effect.held) for effect in world.entries[-1].effects] == [("q", -1)]
    done(world.do(confirm("x", {"q": 1})))
    assert [(effect.pool.id, effect.held, effect.consumed) for effect in world.entries[-1].effects] == [
        ("p", -2, 0),
        ("q", -1, 1),
    ]


def test_a_confirm_of_nothing_is_the_release_it_stands_for(world: World) -> None:
    nothing = {"quantity": {"p": 0}, "actor": "user:7", "correlation_id": "c", "reason": "unused"}
    more = {"op": "o", "fingerprint": "f" * 32}
    done(world.do(confirm("x", {"q": 2}, keep_rest=True)))
    assert said(world.do(confirm("x", others_as_held=True, token="somebody", **nothing))) == "not_owner"
    done(world.do(confirm("x", others_as_held=True, entity="order:9", **nothing, **more)))
    entry, hold = world.entries[-1], world.held("x")
    assert (entry.action, entry.actor, entry.correlation_id) == (Action.HOLD_RELEASED, "user:7", "c")
    assert (hold.entity, hold.reason, hold.last_op) == ("cart:1", "unused", "f" * 32 + "o")


def test_a_number_will_do_for_a_single_leg(world: World) -> None:
    done(world.do(place("one", {"p": 4}, 50)))
    done(world.do(confirm("one", 1, keep_rest=True)))
    done(world.do(release("one", 1)))
    assert world.held("one").legs == (HeldLeg("p", 4, 2, 1),)


AMOUNTS = [
    (3, Invalid("quantity", "amount_ambiguous", "the hold has 2 legs: name amounts by pool")),
    ({"z": 1, "y": 1, "p": 1}, Invalid("quantity", "leg_unknown", "the hold has no leg on pool 'y'")),
]


@pytest.mark.parametrize(("quantity", "invalid"), AMOUNTS)
@pytest.mark.parametrize("command", [confirm, release])
def test_amounts_that_do_not_fit_the_hold(world: World, command: Any, quantity: Any, invalid: Invalid) -> None:
    assert world.do(command("x", quantity, op="o")) == invalid
    assert world.operations == {}  # an invalid request is never remembered
    assert said(world.do(command("x", {"p": 1}, op="o"))) == "done"


@pytest.mark.parametrize("command", [confirm, release])
def test_more_than_the_hold_has(world: World, command: Any) -> None:
    refusal = refused(world.do(command("x", {"p": 5, "q": 3})))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("quantity_exceeds_hold", hold_id("x"), 7)
    done(world.do(release("x", {"p": 2})))
    assert refused(world.do(command("x", {"p": 4}))).found == 5


# Overage: p has 5 more available, q has 1


def test_overage_if_available_takes_it_from_the_pools(world: World) -> None:
    outcome = done(world.do(confirm("x", {"p": 10, "q": 3}, overage="if_available")))
    assert outcome.uncovered is None
    assert world.held("x").legs == (HeldLeg("p", 5, 0, 10), HeldLeg("q", 2, 0, 3))
    assert world.counters("p") == (10, 0, 10)
    assert world.counters("q") == (3, 0, 3)


def test_overage_if_available_is_all_legs_or_none(world: World) -> None:
    refusal = refused(world.do(confirm("x", {"p": 6, "q": 4}, overage="if_available")))
    assert refusal.subject == hold_id("x")
    assert refusal.shortfalls == (Shortfall("q", 2, 1, 3),)
    both = refused(world.do(confirm("x", {"p": 11, "q": 4}, overage="if_available")))
    assert both.shortfalls == (Shortfall("p", 6, 5, 10), Shortfall("q", 2, 1, 3))
    assert world.held("x").open


def test_overage_up_to_available_says_what_stayed_uncovered(world: World) -> None:
    outcome = done(world.do(confirm("x", {"p": 12, "q": 3}, overage="up_to_available")))
    assert outcome.uncovered == {"p": 2}
    assert world.held("x").legs == (HeldLeg("p", 5, 0, 10), HeldLeg("q", 2, 0, 3))
    assert world.counters("p") == (10, 0, 10)


@pytest.mark.parametrize("overage", ["if_available", "up_to_available"])
def test_overage_policies_change_nothing_below_the_hold(world: World, overage: str) -> None:
    outcome = done(world.do(confirm("x", {"p": 5}, overage=overage)))
    assert outcome.uncovered is None
    assert world.counters("p") == (10, 0, 5)
    assert world.counters("q") == (3, 0, 0)


def test_overage_with_the_rest_kept(world: World) -> None:
    done(world.do(confirm("x", {"p": 6}, overage="if_available", keep_rest=True)))
    assert world.held("x").state is State.HELD
    assert world.held("x").legs == (HeldLeg("p", 5, 0, 6), HeldLeg("q", 2, 2))
    done(world.do(confirm("x", {"p": 1}, overage="up_to_available", keep_rest=True)))  # p's leg has nothing left
    assert world.held("x").legs[0] == HeldLeg("p", 5, 0, 7)


def test_due_units_are_available_to_overage(world: World) -> None:
    done(world.do(place("other", {"p": 5}, 10)))
    assert said(world.do(confirm("x", {"p": 6}, overage="if_available"))) == "insufficient_capacity"
    world.slot = 19
    assert said(world.do(confirm("x", {"p": 6}, overage="if_available"))) == "done"


def test_overage_on_a_pool_that_was_swept_away_meanwhile() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(place("x", (Leg("p"), Leg("~k", 1, create_with_total=4)), 100)))
    done(world.do(release("x", {"~k": 1})))
    done(world.do(Sweep()))
    assert ("", "~k") not in world.pools
    refusal = refused(world.do(confirm("x", {"p": 1, "~k": 1}, overage="if_available")))
    assert refusal.shortfalls == (Shortfall("~k", 1, 0, 0),)
    outcome = done(world.do(confirm("x", {"p": 1, "~k": 3}, overage="up_to_available")))
    assert outcome.uncovered == {"~k": 3}
    assert ("", "~k") not in world.pools


# Units that come back


def test_returned_units_are_available_again(world: World) -> None:
    done(world.do(confirm("x", entity="order:1")))
    world.slot = 50
    outcome = world.do(give_back("x", {"p": 2}, reason="cancelled"))
    hold = world.held("x")
    assert outcome == Done(slot=50, hold=hold)
    assert (hold.state, hold.ended_at, hold.version, hold.reason) == (State.CONFIRMED, 9, 3, "cancelled")
    assert hold.legs == (HeldLeg("p", 5, 0, 5, 2), HeldLeg("q", 2, 0, 2))
    assert world.entries[-1].action is Action.HOLD_RETURNED
    assert world.entries[-1].effects == (Effect(Pool("", "p", 10, 0, 3, fence=1, slot=50, version=4), consumed=-2),)
    done(world.do(give_back("x")))
    assert world.held("x").legs == (HeldLeg("p", 5, 0, 5, 5), HeldLeg("q", 2, 0, 2, 2))
    assert world.counters("p") == (10, 0, 0)
    assert world.counters("q") == (3, 0, 0)


def test_what_came_back_is_not_forgotten_by_later_steps(world: World) -> None:
    for end in (confirm, release):
        done(world.do(place("y", {"p": 3}, 50, id=hold_id(f"y{end.__name__}"))))
        named = {"id": hold_id(f"y{end.__name__}")}
        done(world.do(confirm("y", 2, keep_rest=True, **named)))
        done(world.do(give_back("y", 1, **named)))
        done(world.do(end("y", **named)))
        leg = world.holds["", named["id"]].legs[0]
        assert (leg.held, leg.returned) == (0, 1)


def test_what_a_hold_was_born_with_stays(world: World) -> None:
    born = done(world.do(place("y", "p", 50, correlation_id="c", actor="user:1", metadata={"k": 1}))).hold
    assert born is not None
    done(world.do(extend("y", by_slots=1)))
    done(world.do(confirm("y", correlation_id="d", actor="user:2")))
    hold = world.held("y")
    assert (hold.correlation_id, hold.actor, hold.metadata) == ("c", "user:1", '{"k":1}')
    assert (hold.held_at, hold.fence, hold.owner_hash) == (9, born.fence, born.owner_hash)


def test_nothing_comes_back_twice(world: World) -> None:
    done(world.do(confirm("x")))
    done(world.do(give_back("x", {"p": 4})))
    refusal = refused(world.do(give_back("x", {"p": 2})))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("quantity_exceeds_hold", hold_id("x"), 3)
    done(world.do(give_back("x")))
    assert refused(world.do(give_back("x"))).found == 0


def test_units_come_back_from_any_state_that_has_confirmed_some(world: World) -> None:
    done(world.do(confirm("x", {"p": 3}, keep_rest=True)))
    done(world.do(give_back("x", {"p": 1})))
    assert world.held("x").state is State.HELD
    assert world.held("x").legs == (HeldLeg("p", 5, 2, 3, 1), HeldLeg("q", 2, 2))
    world.slot = 100
    done(world.do(give_back("x", {"p": 1})))
    assert world.held("x").state is State.EXPIRED
    assert world.counters("p") == (10, 0, 1)


@pytest.mark.parametrize("end", [None, release("x"), expire("x")])
def test_without_a_confirm_nothing_comes_back(world: World, end: Any) -> None:
    if end is not None:
        world.slot = 100 if end == expire("x") else 9
        done(world.do(end))
    refusal = refused(world.do(give_back("x")))
    assert (refusal.reason.value, refusal.subject) == ("not_confirmed", hold_id("x"))


@pytest.mark.parametrize(("quantity", "invalid"), AMOUNTS)
def test_amounts_to_return_must_fit_the_hold(world: World, quantity: Any, invalid: Invalid) -> None:
    done(world.do(confirm("x")))
    assert world.do(give_back("x", quantity)) == invalid


def test_an_earlier_entity_and_reason_stay_unless_replaced(world: World) -> None:
    done(world.do(confirm("x", {"p": 1}, keep_rest=True, reason="first")))
    done(world.do(confirm("x", {"p": 1}, keep_rest=True)))
    assert (world.held("x").entity, world.held("x").reason) == ("cart:1", "first")
    done(world.do(confirm("x", entity="order:2", reason="second")))
    assert (world.held("x").entity, world.held("x").reason) == ("order:2", "second")


def test_a_confirm_of_nothing_is_a_release_in_the_trace_of_its_caller(world: World) -> None:
    done(world.do(confirm("x", {"p": 0, "q": 0}, trace="00-trace-01")))
    assert (world.entries[-1].action, world.entries[-1].trace) == (Action.HOLD_RELEASED, "00-trace-01")
