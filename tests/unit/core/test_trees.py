"""Trees of pools: the path is in the id, a leg moves every level, and each level comes back when it is touched."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.commands import ArchivePool, CreatePool, Group, LimitPool, RemovePool, ResizePool, Sweep
from holdkit.core.entries import Action, Effect
from holdkit.core.lanes import lane_of_pool
from holdkit.core.model import HeldLeg, Leg, Pool, State
from holdkit.core.needs import needs, pools_named, tallies_of
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall
from holdkit.core.outstanding import Level, Tally
from holdkit.core.seen import NOTHING_ON_POOL, DueOnPool, expired_at, seen_pool
from holdkit.core.trees import LAST, all_levels, all_pools, ancestors, directly_below, parent_of, path_of, root_of
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    expire,
    give_back,
    give_back_loose,
    hold_id,
    join,
    place,
    refused,
    release,
    said,
)

VENUE = ("v", "v//a", "v//a//x", "v//b")


@pytest.fixture
def world() -> World:
    """A venue of 10 with sections a (8, with a row x of 6) and b (8), at slot 5."""
    world = World(retention=100, retention_consumed=100)
    world.slot = 5
    for name, total in zip(VENUE, (10, 8, 6, 8), strict=True):
        world.pool(name, total)
    return world


def held(world: World) -> list[int]:
    """Units held, level by level."""
    return [world.row(name).held for name in VENUE]


def consumed(world: World) -> list[int]:
    return [world.row(name).consumed for name in VENUE]


# Ids


@pytest.mark.parametrize(
    ("pool", "above"),
    [
        ("v", ()),
        ("v/a", ()),
        ("v//a", ("v",)),
        ("v//a/b//c", ("v//a/b", "v")),
        ("~v//a", ()),
        ("~items:v//a", ()),
    ],
)
def test_the_path_follows_from_the_id(pool: str, above: tuple[str, ...]) -> None:
    assert ancestors(pool) == above
    assert parent_of(pool) == (above[0] if above else None)
    assert root_of(pool) == (above[-1] if above else pool)
    assert path_of(pool) == (pool, *above)


def test_a_tree_is_in_the_lane_of_its_root() -> None:
    lanes = {lane_of_pool(("acme", name), 64) for name in ("v", "v//a", "v//a//x", "v//b//y//z")}
    assert lanes == {lane_of_pool(("acme", "v"), 64)}
    assert len({lane_of_pool(("", f"~v//{n}"), 64) for n in range(20)}) > 5, (
        "the pools of faces are in lanes of their own"
    )


def test_what_legs_ask_of_every_level_is_summed() -> None:
    legs = (Leg("v//a//x", 1), Leg("w", 2), Leg("v", 4), Leg("v//b", 8))
    assert all_pools(legs) == ["v//a//x", "w", "v", "v//b", "v//a"]
    levels, above = all_levels(legs)
    assert levels == (Leg("v//a//x", 1), Leg("w", 2), Leg("v", 13), Leg("v//b", 8), Leg("v//a", 1))
    assert above == (Level("v", 9), Level("v//a", 1))
    assert all_levels((Leg("w"), Leg("u"))) == ((Leg("w"), Leg("u")), ())
    assert all_pools((Leg("w"), Leg("u"))) == ["w", "u"]
    assert all_pools((Leg("~w//x"),)) == ["~w//x"]


def test_a_batch_names_every_level() -> None:
    group = Group(
        (place("a", {"v//a//x": 1, "~k": 1}, account="ann"), RemovePool(id="v//b"), CreatePool(id="u//c", total=1))
    )
    wanted = needs([group])
    assert wanted.pools == {("", name) for name in ("v//a//x", "v//a", "v", "~k", "v//b", "u//c", "u")}
    assert wanted.tallies == {("", name, "ann") for name in ("v//a//x", "v//a", "v")}
    assert wanted.created == {("", "u//c")}
    loose = needs([Group((give_back_loose("v//a", account="ann"),))])
    assert (loose.pools, loose.tallies) == ({("", "v//a"), ("", "v")}, {("", "v//a", "ann"), ("", "v", "ann")})
    assert pools_named(ResizePool(id="v//a", total=1)) == ("v//a",), "resizing looks at its own pool"


# Children


def test_a_child_is_created_below_an_existing_pool(world: World) -> None:
    assert [world.row(name).children for name in VENUE] == [2, 1, 0, 0]
    assert refused(world.do(CreatePool(id="nowhere//a", total=1))) == Refusal(Reason.POOL_NOT_FOUND, "nowhere")
    world.slot = 7
    told = done(world.do(CreatePool(id="v//c", total=3)))
    assert told.pool == world.row("v//c")
    assert world.entries[-1].effects == (Effect(world.row("v//c"), total=3), Effect(world.row("v"), children=1))
    assert (world.row("v").children, world.row("v").slot, world.row("v").version) == (3, 7, 4)
    assert done(world.do(CreatePool(id="v//c", total=9, exist_ok=True))).pool == world.row("v//c")
    assert world.row("v").children == 3


def test_a_parent_is_removed_after_its_children(world: World) -> None:
    assert refused(world.do(RemovePool(id="v//a"))) == Refusal(Reason.POOL_IN_USE, "v//a", found=0)
    for name in ("v//a//x", "v//a", "v//b"):
        done(world.do(RemovePool(id=name)))
    assert world.entries[-1].effects[1] == Effect(world.row("v"), children=-1)
    assert (list(world.pools), world.row("v").children) == ([("", "v")], 0)
    done(world.do(RemovePool(id="v")))
    assert world.pools == {}


def test_children_of_one_batch(world: World) -> None:
    told = world.batch(CreatePool(id="v//c", total=3), CreatePool(id="v//c//y", total=3), RemovePool(id="v//c"), RemovePool(id="v//c//y"), RemovePool(id="v//c"))  # fmt: skip
    assert [said(one) for one in told] == ["done", "done", "pool_in_use", "done", "done"]
    told = world.atomic(CreatePool(id="v//c", total=3), CreatePool(id="nowhere//c", total=3))
    assert ([said(one) for one in told], world.row("v").children) == (["aborted", "pool_not_found"], 2)


def test_a_leg_creates_a_child_and_its_parent_counts_it(world: World) -> None:
    done(world.do(place("a", (Leg("v//c", 2, 5),), 60)))
    assert (world.row("v//c").on_demand, world.row("v").children, world.row("v").held) == (True, 3, 2)
    assert refused(world.do(place("b", (Leg("u//c", 2, 5),), 60))) == Refusal(Reason.POOL_NOT_FOUND, "u")
    assert refused(world.do(place("b", (Leg("v//d", 12, 20),), 60))).shortfalls == (Shortfall("v", 12, 8, 10),)
    assert ("", "v//d") not in world.pools
    done(world.do(place("b", (Leg("u//c", 1, 5), Leg("u", 1, 5)), 60)))
    assert (world.row("u").children, world.row("u").held, world.actions()[-3:]) == (
        1,
        2,
        ["pool.created", "pool.created", "hold.held"],
    )
    done(world.do(release("b")))
    assert world.row("u").idle_from(0) is None, "not before its child"
    done(world.do(Sweep()))
    done(world.do(Sweep()))
    assert ("", "u") not in world.pools
    assert ("", "u//c") not in world.pools


def test_a_child_is_swept_at_its_parents_time(world: World) -> None:
    done(world.do(place("a", (Leg("v//c", 2, 5),), 60)))
    done(world.do(release("a")))
    world.slot = 50
    done(world.do(place("b", "v", 60)))
    world.slot = 20
    done(world.do(Sweep()))
    assert (world.actions()[-1], world.entries[-1].slot, world.row("v").slot) == ("pool.removed", 50, 50)
    assert world.row("v").children == 2


def test_removing_a_child_raises_the_floor_of_later_pools(world: World) -> None:
    done(world.do(place("a", "v//b", 60)))
    done(world.do(release("a")))
    done(world.do(RemovePool(id="v//b")))
    assert world.fence_floors == {"": 1}
    world.pool("v//b", 8)
    assert (world.row("v//b").floor, world.row("v").floor) == (1, 0)


# Holds


def test_a_leg_moves_every_level(world: World) -> None:
    told = done(world.do(place("a", {"v//a//x": 3}, 60)))
    hold = world.held("a")
    assert told.hold == hold
    assert hold.legs == (HeldLeg("v//a//x", 3, 3),), "only the named pool is a leg"
    assert hold.above == (Level("v", 3), Level("v//a", 3))
    assert hold.pools == ["v//a//x", "v", "v//a"]
    assert held(world) == [3, 3, 3, 0]
    assert [effect.pool.id for effect in world.entries[-1].effects] == ["v//a//x", "v", "v//a"]
    done(world.do(release("a", 1)))
    assert (held(world), world.held("a").above) == ([2, 2, 2, 0], (Level("v", 2), Level("v//a", 2)))
    done(world.do(confirm("a", 1, keep_rest=True)))
    assert (held(world), consumed(world)) == ([1, 1, 1, 0], [1, 1, 1, 0])
    done(world.do(confirm("a", {"v//a//x": 1})))
    assert (held(world), consumed(world)) == ([0] * 4, [2, 2, 2, 0])
    assert (world.held("a").above, world.held("a").open) == ((Level("v", 0), Level("v//a", 0)), False)
    done(world.do(give_back("a", 1)))
    assert consumed(world) == [1, 1, 1, 0]


def test_consume_moves_every_level(world: World) -> None:
    done(world.do(consume("a", {"v//a//x": 3, "v//b": 1})))
    assert (held(world), consumed(world)) == ([0] * 4, [4, 3, 3, 1])
    assert world.held("a").above == (Level("v", 0), Level("v//a", 0))


def test_a_pool_may_be_named_beside_one_below_it(world: World) -> None:
    done(world.do(place("a", {"v": 4, "v//a": 2, "v//a//x": 1}, 60)))
    assert held(world) == [7, 3, 1, 0]
    assert dict(world.held("a").open_legs())["v"].units == 7
    done(world.do(release("a", {"v//a": 1, "v": 1})))
    assert held(world) == [5, 2, 1, 0]
    done(world.do(confirm("a", {"v//a//x": 1})))
    assert (held(world), consumed(world)) == ([0] * 4, [1, 1, 1, 0])


def test_every_level_that_falls_short_is_listed(world: World) -> None:
    done(world.do(place("b", {"v//b": 5}, 60)))
    assert refused(world.do(place("a", {"v//a//x": 7}, 60))) == Refusal(
        Reason.INSUFFICIENT_CAPACITY, "v//a//x", (Shortfall("v//a//x", 7, 6, 6), Shortfall("v", 7, 5, 10))
    )
    assert refused(world.do(place("a", {"v//a//x": 3, "v//a": 3, "v": 1}, 60))).shortfalls == (
        Shortfall("v", 7, 5, 10),
    )
    assert held(world) == [5, 0, 0, 5]


def test_an_archived_level_refuses_what_is_below_it(world: World) -> None:
    done(world.do(place("b", {"v//a//x": 1}, 60)))
    done(world.do(ArchivePool(id="v//a")))
    assert refused(world.do(place("a", "v//a//x", 60))) == Refusal(Reason.POOL_ARCHIVED, "v//a")
    assert said(world.do(place("a", "v//b", 60))) == "done"
    assert said(world.do(confirm("b"))) == "done"


def test_resizing_looks_at_its_own_pool(world: World) -> None:
    done(world.do(place("a", {"v//a": 3}, 60)))
    assert refused(world.do(ResizePool(id="v", total=2))) == Refusal(Reason.BELOW_IN_USE, "v", found=3)
    assert said(world.do(ResizePool(id="v", total=3))) == "done", "less than its children have together"


def test_a_fence_is_above_that_of_every_level(world: World) -> None:
    for number, name in enumerate(("v//a", "v//a", "v//b", "v", "v//a//x"), 1):
        done(world.do(place(f"h{number}", name, 60)))
        assert world.held(f"h{number}").fence == number
    assert [world.row(name).fence for name in VENUE] == [5, 5, 5, 3]
    done(world.do(join("w", "v")))
    assert (world.held("w").fence, world.row("v").fence, world.row("v//b").fence) == (6, 6, 3)


# Time


def test_each_level_comes_back_when_it_is_touched(world: World) -> None:
    done(world.do(place("a", {"v//a//x": 3, "v//b": 1}, 10)))
    world.slot = 15
    done(world.do(ResizePool(id="v//a", total=8)))
    hold = world.held("a")
    assert (hold.state, hold.ended_at, held(world)) == (State.EXPIRED, 15, [4, 0, 3, 1])
    assert (hold.above, [leg.held for leg in hold.legs], hold.open) == ((Level("v", 4), Level("v//a", 0)), [3, 1], True)
    done(world.do(ResizePool(id="v", total=10)))
    assert (held(world), world.held("a").above) == ([0, 0, 3, 1], (Level("v", 0), Level("v//a", 0)))
    assert said(world.do(place("a", "v//b", 60))) == "hold_exists"
    assert held(world) == [0, 0, 3, 0]
    world.slot = 16
    done(world.do(Sweep()))
    assert (held(world), world.held("a").open) == ([0] * 4, False)
    assert world.actions(hold_id("a")) == ["hold.held", "hold.expired", "leg.returned", "leg.returned", "leg.returned"]


def test_the_account_of_each_level_comes_back_with_it(world: World) -> None:
    done(world.do(place("a", {"v//a//x": 3}, 10, account="ann")))
    world.slot = 15
    done(world.do(LimitPool(id="v", per_account=3)))
    assert [world.used(name) for name in VENUE] == [0, 3, 3, 0]
    done(world.do(place("b", {"v//b": 3}, 10, account="ann")))
    done(world.do(expire("a")))
    assert [world.used(name) for name in VENUE] == [3, 0, 0, 3]


def test_a_due_hold_looks_expired_on_every_level(world: World) -> None:
    done(world.do(place("a", {"v//a//x": 3}, 10)))
    seen = expired_at(world.held("a"), 15)
    assert (seen.state, seen.above, seen.legs) == (
        State.EXPIRED,
        (Level("v", 0), Level("v//a", 0)),
        (HeldLeg("v//a//x", 3),),
    )


# Accounts


def test_each_level_has_its_own_limit(world: World) -> None:
    done(world.do(LimitPool(id="v", per_account=4)))
    assert refused(world.do(place("a", "v//a//x", 60))) == Refusal(Reason.ACCOUNT_REQUIRED, "v")
    done(world.do(place("a", {"v//a//x": 3}, 60, account="ann")))
    assert [world.used(name) for name in VENUE] == [3, 3, 3, 0]
    assert refused(world.do(place("b", {"v//b": 2}, 60, account="ann"))) == Refusal(
        Reason.ACCOUNT_LIMIT, "v", (Shortfall("v", 2, 1, 4, used=3),)
    )
    done(world.do(LimitPool(id="v", per_account=9)))
    done(world.do(LimitPool(id="v//b", per_account=1)))
    assert refused(world.do(place("b", {"v//b": 7}, 60, account="ann"))).shortfalls == (
        Shortfall("v//b", 7, 1, 1),
        Shortfall("v", 7, 6, 9, used=3),
    )
    assert tallies_of([world.held("a")]) == {("", name, "ann") for name in VENUE[:3]}


# Loose units


def test_loose_units_belong_to_the_named_pool(world: World) -> None:
    done(world.do(consume("a", {"v//a//x": 3, "v//a": 1}, account="ann")))
    done(world.do(consume("b", {"v//a//x": 2})))
    world.slot = 105
    done(world.do(Sweep()))
    assert consumed(world) == [6, 6, 5, 0]
    assert [world.row(name).loose for name in VENUE] == [0, 0, 2, 0]
    assert world.tallies == {
        ("", "v", "ann"): Tally("ann", 4),
        ("", "v//a", "ann"): Tally("ann", 4, 1),
        ("", "v//a//x", "ann"): Tally("ann", 3, 3),
    }
    assert said(world.do(give_back_loose("v", 1, account="ann"))) == "quantity_exceeds_consumed"
    told = done(world.do(give_back_loose("v//a//x", 2, account="ann")))
    assert told == Done(slot=105, pool=world.row("v//a//x"))
    assert (consumed(world), [world.used(name) for name in VENUE]) == ([4, 4, 3, 0], [2, 2, 1, 0])
    assert [effect.pool.id for effect in world.entries[-1].effects] == ["v//a//x", "v//a", "v"]
    done(world.do(give_back_loose("v//a//x", 2)))
    assert (consumed(world), world.row("v//a//x").loose) == ([2, 2, 1, 0], 0)
    assert [world.used(name) for name in VENUE] == [2, 2, 1, 0]
    done(world.do(give_back_loose("v//a", 1, account="ann")))
    done(world.do(give_back_loose("v//a//x", 1, account="ann")))
    assert (consumed(world), world.tallies) == ([0] * 4, {})
    assert world.actions()[-1] == Action.POOL_RETURNED.value


# Reading


def test_a_pool_is_bookable_as_far_as_every_level_above_it(world: World) -> None:
    done(world.do(place("b", {"v//b": 7}, 10)))
    v, a, x = (world.row(name) for name in ("v", "v//a", "v//a//x"))
    quiet = DueOnPool()
    assert x.bookable == 6, "in an answer the pools above are not known"
    assert seen_pool(x, quiet, [(a, quiet), (v, quiet)]).bookable == 3
    assert seen_pool(x, quiet, [(a, quiet), (v, DueOnPool(units=7))]).bookable == 6
    assert seen_pool(x, quiet, [(a, quiet), (v, DueOnPool(line_ahead=True))]).bookable == 0
    assert seen_pool(x, quiet, [(structs.replace(a, archived=True), quiet), (v, quiet)]).bookable == 0
    assert seen_pool(structs.replace(x, archived=True), quiet, [(v, quiet)]).bookable == 0
    due = seen_pool(v, DueOnPool(units=7, waiting=0))
    assert (due.held, due.available, due.bookable) == (0, 10, 10)


def test_a_line_leaves_nothing_bookable_unless_nobody_in_it_can_be_served(world: World) -> None:
    done(world.do(place("b", {"v": 7}, 60)))
    done(world.do(join("w", {"v": 9})))
    pool = world.row("v")
    assert pool.bookable == 0
    assert seen_pool(pool, DueOnPool(line_ahead=True)).bookable == 0
    assert seen_pool(pool, DueOnPool()).bookable == 3
    done(world.do(ResizePool(id="v", total=8)))
    pool = world.row("v")
    assert (pool.bookable, seen_pool(pool, NOTHING_ON_POOL).bookable) == (0, 1)
    gone = seen_pool(pool, DueOnPool(waiting=1))
    assert (gone.waiting, gone.bookable) == (0, 1)
    archived = structs.replace(pool, archived=True)
    assert [seen_pool(archived, due).least for due in (NOTHING_ON_POOL, DueOnPool())] == [0, 0]
    quiet = world.row("v//b")
    assert seen_pool(quiet, NOTHING_ON_POOL) is quiet


def test_a_search_for_children_passes_over_what_is_below_them() -> None:
    def search(start: str, *ids: str) -> tuple[list[str], str]:
        found, end = directly_below("v//", [Pool("", id, 1) for id in ids], start)
        return [pool.id for pool in found], end

    assert search("s") == ([], "s")
    assert search("s", "v//a", "v//a!") == (["v//a", "v//a!"], "v//a!")
    assert search("s", "v//a", "v//a//x", "v//b") == (["v//a"], f"v//a//{LAST}")
    assert search("s", "v//a//x//y", "v//b") == ([], f"v//a//{LAST}")
    assert search("s", f"v//a//{LAST}y", "v//b") == ([], f"v//a//{LAST}y"), "never back"
