"""Retention: how a missing or long-ended hold answers, the same whether it was pruned or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.codec import minted_id
from holdkit.core.ladders.finding import missing, retired
from holdkit.core.model import SECOND, State
from holdkit.core.outcomes import Reason, Refusal
from tests.unit.core.world import World, confirm, done, expire, extend, give_back, place, release, said

START = 1_700_000_000 * SECOND
MINTED = minted_id(START, b"0123456789")
RETENTION = 1000 * SECOND


@pytest.fixture
def world() -> World:
    world = World(retention=RETENTION)
    world.slot = START
    world.pool("p", 10)
    done(world.do(place("a", {"p": 2}, SECOND, id=MINTED)))
    done(world.do(place("chosen", {"p": 2}, SECOND)))
    return world


ENDS: dict[str, Callable[..., Any]] = {"release": release, "expire": expire}
VERBS: list[Callable[..., Any]] = [confirm, release, lambda name, **more: extend(name, by_slots=1, **more), give_back]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("end", ["release", "expire", "unswept"])
def test_after_the_retention_it_is_gone(world: World, end: str, pruned: bool) -> None:
    world.slot += SECOND if end == "expire" else 0
    ended_at = START + SECOND if end in ("expire", "unswept") else START
    for name, more in (("a", {"id": MINTED}), ("chosen", {})):
        if end != "unswept":
            done(world.do(ENDS[end](name, **more)))
    world.slot = ended_at + RETENTION - 1
    known = "already_released" if end == "release" else "hold_expired"
    assert said(world.do(confirm("a", id=MINTED))) == known
    world.slot = ended_at + RETENTION
    if pruned:
        world.prune()
    for verb in VERBS:
        assert said(world.do(verb("a", id=MINTED))) == "hold_retired"
        assert said(world.do(verb("chosen"))) == "hold_not_found"
    assert said(world.do(expire("chosen"))) == "hold_not_found"
    assert said(world.do(expire("a", id=MINTED))) == "hold_retired"


def test_ids_that_were_never_there(world: World) -> None:
    young = minted_id(START + SECOND, b"9876543210")
    world.slot = START + SECOND + RETENTION - 1
    assert world.do(confirm("x", id=young)) == Refusal(Reason.HOLD_NOT_FOUND, young)
    world.slot += 1
    assert world.do(confirm("x", id=young)) == Refusal(Reason.HOLD_RETIRED, young)
    assert missing("0" * 32, Limits(retention=5), 2**60) == Refusal(Reason.HOLD_NOT_FOUND, "0" * 32)


@pytest.mark.parametrize(
    ("state", "deadline", "ended_at", "now", "gone"),
    [
        (State.HELD, 100, None, 99 + 50, False),
        (State.HELD, 100, None, 100 + 50, True),
        (State.HELD, None, None, 2**60, False),
        (State.RELEASED, 100, 30, 79, False),
        (State.RELEASED, 100, 30, 80, True),
        (State.CONFIRMED, None, 30, 80, True),
        (State.EXPIRED, 100, 100, 149, False),
        (State.EXPIRED, 100, 100, 150, True),
    ],
)
def test_retired(world: World, state: State, deadline: Any, ended_at: Any, now: int, gone: bool) -> None:
    hold = structs.replace(world.holds["", MINTED], state=state, deadline=deadline, ended_at=ended_at)
    assert retired(hold, Limits(retention=50), now) is gone


def test_a_refused_command_on_a_retired_hold_still_returns_its_units(world: World) -> None:
    world.slot = START + 10 * RETENTION
    assert said(world.do(confirm("chosen"))) == "hold_not_found"
    assert world.counters("p") == (10, 0, 0)


def test_a_command_on_a_retired_hold_touches_nothing_pruned_or_not(world: World) -> None:
    """Else the journal would tell when an engine prunes."""
    done(world.do(release("chosen")))
    world.slot = START + RETENTION
    assert said(world.do(confirm("chosen"))) == "hold_not_found"
    assert world.counters("p") == (10, 2, 0)  # the other hold is due, and stays for whoever names its pool
    assert said(world.do(confirm("a", id=MINTED))) == "hold_expired"
    assert world.counters("p") == (10, 0, 0)
