"""ExtendHold: later, never earlier, never too late."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.entries import Action, Change, Entry
from holdkit.core.model import State
from holdkit.core.outcomes import Done
from tests.unit.core.world import World, confirm, done, extend, hold_id, place, refused, release, said


@pytest.fixture
def world() -> World:
    """Hold "x" lives from slot 10 until slot 110; it is slot 30, and a hold may live for 500."""
    world = World(max_lifetime=500)
    world.pool("p", 10)
    world.slot = 10
    done(world.do(place("x", "p", 100)))
    world.slot = 30
    return world


@pytest.mark.parametrize(
    ("change", "deadline"),
    [
        ({"by_slots": 40}, 150),  # from the present deadline
        ({"ttl_slots": 100}, 130),  # from now
        ({"until": 111}, 111),
        ({"until": 510}, 510),  # exactly the longest lifetime
        ({"by_slots": 400}, 510),
        ({"ttl_slots": 480}, 510),
    ],
)
def test_a_later_deadline(world: World, change: Any, deadline: int) -> None:
    before = world.held("x")
    outcome = world.do(extend("x", **change, reason="still paying", actor="user:1"))
    hold = world.held("x")
    assert outcome == Done(slot=30, hold=hold)
    assert (hold.deadline, hold.version, hold.state, hold.reason) == (deadline, 2, State.HELD, "still paying")
    assert world.entries[-1] == Entry(
        slot=30,
        action=Action.HOLD_EXTENDED,
        subject=hold_id("x"),
        change=Change(
            state=State.HELD,
            was=State.HELD,
            version=2,
            legs=before.legs,
            deadline=deadline,
            was_deadline=110,
            reason="still paying",
        ),
        actor="user:1",
        reason="still paying",
    )
    world.slot = deadline - 1
    assert said(world.do(extend("x", until=deadline))) == "done"
    world.slot = deadline
    assert said(world.do(extend("x", until=deadline + 1))) == "hold_expired"


@pytest.mark.parametrize("change", [{"until": 110}, {"until": 109}, {"until": 31}, {"ttl_slots": 1}, {"ttl_slots": 80}])
def test_it_never_shortens(world: World, change: Any) -> None:
    before = world.held("x")
    assert world.do(extend("x", **change)) == Done(slot=30, hold=before)
    assert world.held("x") == before
    assert len(world.entries) == 2


@pytest.mark.parametrize(
    ("change", "says", "found"),
    [
        ({"until": 30}, "deadline_passed", 30),
        ({"until": 0}, "deadline_passed", 30),
        ({"until": 511}, "lifetime_exceeded", 500),
        ({"by_slots": 401}, "lifetime_exceeded", 500),
        ({"ttl_slots": 481}, "lifetime_exceeded", 500),
        ({"until": 2**63}, "slot_overflow", 2**63),
        ({"by_slots": 2**63 - 110}, "slot_overflow", 2**63),
    ],
)
def test_refused_not_clamped(world: World, change: Any, says: str, found: int) -> None:
    refusal = refused(world.do(extend("x", **change)))
    assert (refusal.reason.value, refusal.subject, refusal.found) == (says, hold_id("x"), found)
    assert world.held("x").deadline == 110


def test_the_last_slot_is_no_overflow(world: World) -> None:
    world.limits = World(max_lifetime=2**63).limits
    assert said(world.do(extend("x", until=2**63 - 1))) == "done"


def test_a_hold_without_a_deadline_has_nothing_to_extend(world: World) -> None:
    done(world.do(place("free", "p")))
    assert world.do(extend("free", until=0)) == Done(slot=30, hold=world.held("free"))
    assert world.held("free").version == 1


def test_forever_takes_the_deadline_away_once(world: World) -> None:
    outcome = world.do(extend("x", forever=True, reason="saga"))
    hold = world.held("x")
    assert outcome == Done(slot=30, hold=hold)
    assert (hold.deadline, hold.version, hold.state) == (None, 2, State.HELD)
    assert world.entries[-1].change == Change(
        state=State.HELD, was=State.HELD, version=2, legs=hold.legs, deadline=None, was_deadline=110, reason="saga"
    )
    again = world.do(extend("x", forever=True))
    assert again == Done(slot=30, hold=hold)  # nothing to change: no entry
    world.slot = 10_000  # far beyond the old deadline, and beyond the longest lifetime
    assert said(world.do(place("y", {"p": 10}, 5))) == "insufficient_capacity"
    assert said(world.do(confirm("x"))) == "done"


def test_forever_comes_too_late_at_the_deadline(world: World) -> None:
    world.slot = 110
    assert said(world.do(extend("x", forever=True))) == "hold_expired"


@pytest.mark.parametrize(
    "command", [extend("x", forever=True, token=None), release("x", token=None), confirm("x", token=None)]
)
def test_a_face_that_vouches_needs_no_token(world: World, command: Any) -> None:
    assert said(world.do(command)) == "not_owner"
    assert said(world.do(structs.replace(command, trusted=True))) == "done"
    assert not world.entries[-1].forced


def test_by_counts_from_the_deadline_as_it_is_within_the_batch(world: World) -> None:
    world.batch(extend("x", by_slots=10), extend("x", by_slots=10))
    assert world.held("x").deadline == 130
