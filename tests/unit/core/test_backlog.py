"""What goes before a batch: a backlog of due legs, and room in bounded tables."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.commands import PlaceHold
from holdkit.core.ladders.expiry import backlog, own_time, return_backlog
from holdkit.core.model import Leg, State
from holdkit.core.needs import Needs
from holdkit.core.table_bounds import overflow, spare
from holdkit.core.view import View
from tests.unit.core.world import World


def crowded(*, max_due: int) -> World:
    """Three holds on `a` and two on `b`, due at 10, 11, 12 and 10, 11."""
    world = World(max_due=max_due)
    world.pool("a", 9)
    world.pool("b", 9)
    for number, (pool, ttl) in enumerate((("a", 10), ("a", 11), ("a", 12), ("b", 10), ("b", 11)), 1):
        world.do(PlaceHold(id=f"{number:032x}", token="me", legs=(Leg(pool, 1),), ttl_slots=ttl))
    world.slot = 50
    return world


def due_on(view: View, *pools: str) -> dict[tuple[str, str], list[tuple[int, str]]]:
    return {("", pool): view.loaded.due(("", pool)) for pool in pools}


def test_a_crowd_that_fits_into_one_transaction_is_no_backlog() -> None:
    view = View(crowded(max_due=5).loaded())
    assert backlog(view, due_on(view, "a", "b")) == {}


def test_a_backlog_is_cut_pool_by_pool_earliest_first() -> None:
    view = View(crowded(max_due=4).loaded())
    first = backlog(view, due_on(view, "b", "a"))
    assert [(pool[1], [deadline for deadline, _ in legs]) for pool, legs in first.items()] == [
        ("a", [10, 11, 12]),
        ("b", [10]),
    ]


def test_pools_behind_the_cut_are_left_for_the_next_transaction() -> None:
    view = View(crowded(max_due=3).loaded())
    assert [pool for _, pool in backlog(view, due_on(view, "a", "b"))] == ["a"]


def test_what_is_due_only_by_another_pools_clock_cannot_go_first() -> None:
    world = crowded(max_due=1)
    world.slot = 10
    view = View(world.loaded())
    legs = {("", "a"): [(10, f"{1:032x}"), (11, f"{2:032x}"), (12, f"{3:032x}")]}
    assert backlog(view, legs) == {}


def test_a_leg_is_ripe_at_its_deadline_by_the_slot_of_its_own_pool() -> None:
    """The clock has stepped back behind what was last done on the pool."""
    world = crowded(max_due=1)
    world.slot = 0
    world.pools["", "a"] = structs.replace(world.pools["", "a"], slot=11)
    view = View(world.loaded())
    legs = {("", "a"): [(10, f"{1:032x}"), (11, f"{2:032x}"), (12, f"{3:032x}")]}
    first = backlog(view, legs)
    assert first == {("", "a"): [(10, f"{1:032x}")]}
    assert backlog(View(structs.replace(world.loaded(), limits=Limits(max_due=2))), legs) == {}
    return_backlog(view, {("", "a"): legs["", "a"][:2]})
    assert [(entry.subject, entry.slot) for entry in view.entries] == [(f"{1:032x}", 11), (f"{2:032x}", 11)]


def test_returning_a_backlog_expires_these_and_no_others() -> None:
    view = View(crowded(max_due=4).loaded())
    return_backlog(view, backlog(view, due_on(view, "a", "b")))
    assert [entry.subject for entry in view.entries] == [f"{number:032x}" for number in (1, 2, 3, 4)]
    assert {entry.slot for entry in view.entries} == {50}
    untouched = view.holds.get(("", f"{5:032x}"))
    assert untouched is not None
    assert untouched.state is State.HELD


def test_a_leg_whose_hold_is_gone_or_has_more_time_stays() -> None:
    view = View(crowded(max_due=1).loaded())
    extended = view.holds.get(("", f"{2:032x}"))
    assert extended is not None
    view.put_hold(structs.replace(extended, deadline=99))
    return_backlog(view, {("", "a"): [(10, "f" * 32), (11, f"{2:032x}"), (12, f"{3:032x}")]})
    assert [entry.subject for entry in view.entries] == [f"{3:032x}"]


def test_own_time_is_the_clocks_or_the_pools_whichever_is_later() -> None:
    world = World()
    world.slot = 20
    world.pool("late", 1)
    world.slot = 7
    view = View(world.loaded())
    assert own_time(view, ("", "late")) == 20
    assert own_time(view, ("", "missing")) == 7


@pytest.mark.parametrize(
    ("unended", "pools", "expected"),
    [
        (4, 1, (False, 0)),  # 4 + 1 hold fits into 5, 1 + 2 pools into 3
        (5, 1, (True, 0)),
        (0, 2, (True, 1)),
        (5, 4, (True, 3)),
    ],
)
def test_overflow_counts_what_the_batch_may_add(unended: int, pools: int, expected: tuple[bool, int]) -> None:
    needs = Needs({("", "a"), ("", "b")}, {("", "1")}, set(), set())
    over = overflow(Limits(max_holds=5, max_pools=3), needs, unended, pools)
    assert (over.holds, over.pools) == expected


def test_without_bounds_nothing_overflows() -> None:
    over = overflow(Limits(), Needs({("", "a")}, {("", "1")}, set(), set()), 10**9, 10**9)
    assert (over.holds, over.pools) == (False, 0)


def test_an_empty_pool_that_the_batch_wants_is_spared() -> None:
    needs = Needs({("", "b")}, set(), set(), set())
    assert spare([("", "a"), ("", "b"), ("", "c"), ("", "d")], needs, 2) == [("", "a"), ("", "c")]
