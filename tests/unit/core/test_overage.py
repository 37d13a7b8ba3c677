"""Overage: what a confirm takes beyond what was held, on every level, under every limit, and past no line."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import ArchivePool, LimitPool, ResizePool
from holdkit.core.outcomes import Reason, Refusal, Shortfall
from tests.unit.core.world import World, confirm, done, hold_id, join, place, refused, release, said

LEAVES = ["v//a", "v//b"]


@pytest.fixture
def world() -> World:
    """A pool v of 10 with v//a and v//b of 8 each; ann holds 2 of each of those."""
    world = World()
    world.pool("v", 10)
    for name in LEAVES:
        world.pool(name, 8)
    done(world.do(place("x", dict.fromkeys(LEAVES, 2), 60, account="ann")))
    return world


def extra(a: int, b: int = 0, **more: Any) -> Any:
    """Confirm x with so much more than it holds."""
    return confirm("x", {"v//a": 2 + a, "v//b": 2 + b}, **{"overage": "if_available"} | more)


def test_all_levels_move(world: World) -> None:
    told = done(world.do(extra(3, 1)))
    assert told.uncovered is None
    assert [world.counters(name) for name in ("v", *LEAVES)] == [(10, 0, 8), (8, 0, 5), (8, 0, 3)]
    assert [world.used(name) for name in ("v", *LEAVES)] == [8, 5, 3]
    assert [leg.confirmed for leg in world.held("x").legs] == [5, 3]


def test_by_default_there_is_none(world: World) -> None:
    told = world.do(extra(1, overage="reject"))
    assert refused(told) == Refusal(Reason.QUANTITY_EXCEEDS_HOLD, hold_id("x"), found=4)


@pytest.mark.parametrize(
    ("a", "b", "short"),
    [
        (7, 0, (Shortfall("v//a", 7, 6, 8), Shortfall("v", 7, 6, 10))),
        (4, 3, (Shortfall("v", 7, 6, 10),)),
        (3, 3, ()),
    ],
)
def test_every_level_that_falls_short_is_listed(world: World, a: int, b: int, short: tuple[Shortfall, ...]) -> None:
    told = world.do(extra(a, b))
    assert told == Refusal(Reason.INSUFFICIENT_CAPACITY, hold_id("x"), short) if short else said(told) == "done"


@pytest.mark.parametrize(
    ("a", "b", "uncovered"), [(7, 0, {"v//a": 1}), (4, 3, {"v//b": 1}), (6, 6, {"v//b": 6}), (3, 3, None)]
)
def test_as_much_as_there_is(world: World, a: int, b: int, uncovered: dict[str, int] | None) -> None:
    told = done(world.do(extra(a, b, overage="up_to_available")))
    assert told.uncovered == uncovered
    assert world.counters("v") == (10, 0, 4 + a + b - sum((uncovered or {}).values()))


@pytest.mark.parametrize("level", ["v", "v//a"])
def test_an_archived_level_gives_nothing(world: World, level: str) -> None:
    done(world.do(ArchivePool(id=level)))
    assert refused(world.do(extra(1))) == Refusal(Reason.POOL_ARCHIVED, level)
    told = done(world.do(extra(1, 1, overage="up_to_available")))
    assert told.uncovered == ({"v//a": 1, "v//b": 1} if level == "v" else {"v//a": 1})


@pytest.mark.parametrize(("level", "limit", "used"), [("v", 6, 4), ("v//a", 4, 2)])
def test_each_level_has_its_own_limit(world: World, level: str, limit: int, used: int) -> None:
    done(world.do(LimitPool(id=level, per_account=limit)))
    assert refused(world.do(extra(3))) == Refusal(
        Reason.ACCOUNT_LIMIT, level, (Shortfall(level, 3, 2, limit, used=used),)
    )
    told = done(world.do(extra(3, overage="up_to_available")))
    assert (told.uncovered, world.used(level)) == ({"v//a": 1}, limit)


def test_a_lowered_limit_leaves_no_room(world: World) -> None:
    done(world.do(LimitPool(id="v", per_account=1)))
    told = done(world.do(extra(1, overage="up_to_available")))
    assert (told.uncovered, world.used("v")) == ({"v//a": 1}, 4)


def test_an_operator_passes_the_limit_and_nothing_else(world: World) -> None:
    done(world.do(LimitPool(id="v", per_account=4)))
    forced: dict[str, Any] = {"force": True, "reason": "box office", "token": None}
    assert said(world.do(extra(1))) == "account_limit"
    assert said(world.do(extra(7, **forced))) == "insufficient_capacity"
    done(world.do(extra(1, keep_rest=True, **forced)))
    assert (world.used("v"), world.entries[-1].forced) == (5, True)


def test_an_operator_covers_as_much_as_there_is(world: World) -> None:
    done(world.do(LimitPool(id="v", per_account=4)))
    told = done(world.do(extra(7, overage="up_to_available", force=True, reason="box office", token=None)))
    assert (told.uncovered, world.used("v")) == ({"v//a": 1}, 10)


def test_a_hold_of_nobody_gets_nothing_where_there_is_a_limit() -> None:
    world = World()
    world.pool("v", 10)
    done(world.do(place("x", {"v": 2}, 60)))
    done(world.do(LimitPool(id="v", per_account=9)))
    assert refused(world.do(confirm("x", 3, overage="if_available"))) == Refusal(Reason.ACCOUNT_REQUIRED, "v")
    assert done(world.do(confirm("x", 3, overage="up_to_available", keep_rest=True))).uncovered == {"v": 1}
    assert world.counters("v") == (10, 0, 2)


def test_nothing_is_taken_from_those_who_wait(world: World) -> None:
    done(world.do(join("w", {"v": 7}, 500)))
    assert refused(world.do(extra(1))) == Refusal(Reason.LINE_AHEAD, "v", found=1)
    told = done(world.do(extra(1, overage="up_to_available", keep_rest=True)))
    assert told.uncovered == {"v//a": 1}
    done(world.do(release("w")))
    assert world.counters("v") == (10, 0, 4)


def test_who_can_never_be_served_stops_nobody(world: World) -> None:
    done(world.do(join("w", {"v": 7}, 500)))
    done(world.do(ResizePool(id="v", total=6)))
    assert said(world.do(extra(1))) == "done"
    assert world.counters("v") == (6, 0, 5)


def test_what_a_confirm_gives_back_goes_to_the_line(world: World) -> None:
    done(world.do(join("w", {"v": 7}, 500)))
    done(world.do(confirm("x", {"v//a": 1})))
    assert (world.states("w"), world.counters("v")) == (["held"], (10, 7, 1))


def test_a_leg_without_extra_asks_for_nothing(world: World) -> None:
    done(world.do(ArchivePool(id="v//b")))
    done(world.do(LimitPool(id="v//b", per_account=1)))
    assert said(world.do(extra(1))) == "done"
