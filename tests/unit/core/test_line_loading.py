"""How much of a line is loaded: as few as will do, and never so few that a batch is decided otherwise than with the whole line. And what
a batch says is left to offer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdkit.core import line_loading
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    FeedLine,
    Group,
    RemovePool,
    ResizePool,
    Sweep,
    UnarchivePool,
)
from holdkit.core.decide import decide_groups
from holdkit.core.ladders import lines
from holdkit.core.line_loading import ToLoad, lines_to_load
from holdkit.core.model import Key
from holdkit.core.needs import needs
from holdkit.core.outcomes import Outcome
from holdkit.core.view import NOBODY, FrontOfLine, View
from tests.unit.core.test_properties import thorough
from tests.unit.core.world import (
    World,
    confirm,
    consume,
    done,
    extend,
    give_back,
    give_back_loose,
    join,
    leave,
    place,
    release,
    said,
)


class Frugal(World):
    """Loads no more of a line than it is told to."""

    def apply(self, *groups: Group) -> list[list[Outcome]]:
        swept = self.sweep_list(needs(groups).sweep)
        due = {key: self.due(key, max(self.slot, self.last_slot)) for key in self.pools}
        ending = [self.holds[key] for key in swept.holds]
        self.to_load = lines_to_load(groups, self.pools, self.holds, due, self.limits, ending)
        return super().apply(*groups)

    def line(self, pool: Key) -> FrontOfLine:
        wanted = self.to_load.get(pool)
        if wanted is None:
            return NOBODY
        fitting = [one for one in super().line(pool).holds if self.holds[pool[0], one].legs[0].quantity <= wanted.most]
        return FrontOfLine(fitting[: wanted.limit], len(fitting) > wanted.limit)


# How much


@pytest.fixture
def world() -> World:
    """p of 10 with 2 available, before a line of five; q of 10, full, before a line of one that serves whoever fits."""
    world = World(max_offers=20)
    world.pool("p", 10)
    world.pool("p//c", 10)
    world.pool("q", 10, line="skip")
    world.pool("r", 10)
    world.batch(place("x", {"p": 4}, 1000), place("y", {"p//c": 4}, 20), place("z", {"q": 10}, 1000))
    world.batch(*(join(name, {"p": 3}, 500) for name in "abcd"), join("e", {"p": 3}, 30), join("f", "q", 500))
    return world


def wanted(world: World, *commands: AnyCommand, sweep: bool = False) -> dict[str, ToLoad]:
    due = {key: world.due(key, world.slot) for key in world.pools}
    ending = [world.held(name) for name in ("y", "e")] if sweep else []
    found = lines_to_load([Group(commands)], world.pools, world.holds, {} if sweep else due, world.limits, ending)
    return {key[1]: much for key, much in found.items()}


@pytest.mark.parametrize(
    ("commands", "p", "q"),
    [
        ([FeedLine(id="p")], 2 + 1, 100),
        ([release("x")], 6 + 1, 100),
        ([confirm("x", 1)], 6 + 1, 100),
        ([release("y")], 6 + 1, 100),
        ([give_back("x")], 6 + 1, 100),
        ([release("x"), release("y")], 10 + 1, 100),
        ([release("z")], 2 + 1, 10 + 100),
        ([release("a")], 5 + 1 + 1, 100),
        ([leave("a"), leave("b")], 8 + 2 + 1, 100),
        ([leave("f")], 2 + 1, 1 + 1 + 100),
        ([release("missing"), extend("x", by_slots=1), give_back("missing")], 2 + 1, 100),
        ([give_back_loose("p", 3)], 5 + 1, 100),
        ([give_back_loose("p//c", 3)], 5 + 1, 100),
        ([give_back_loose("q", 30)], 2 + 1, 20 + 100),
        ([ResizePool(id="p", total=13)], 5 + 1, 100),
        ([ResizePool(id="p", total=9)], 2 + 1, 100),
        ([ResizePool(id="r", total=99)], 2 + 1, 100),
        ([ResizePool(id="p", total=99)], 20 + 1, 100),
        ([Sweep(), place("g", "r", 5)], 2 + 1, 100),
    ],
)
def test_as_many_as_may_be_served_and_one_more(world: World, commands: list[AnyCommand], p: int, q: int) -> None:
    found = wanted(world, *commands)
    assert {name: much.limit for name, much in found.items()} == {"p": p, "q": q}


def test_what_is_due_is_free_and_those_who_stop_waiting_make_others_move_up(world: World) -> None:
    world.slot = 20
    assert wanted(world)["p"].limit == 6 + 1
    world.slot = 30
    assert wanted(world)["p"].limit == 6 + 1 + 1
    assert wanted(world, sweep=True)["p"].limit == 6 + 1 + 1


def test_units_that_are_confirmed_may_come_back_too(world: World) -> None:
    done(world.do(confirm("x", 3, keep_rest=True)))
    assert wanted(world, give_back("x"))["p"].limit == 2 + 4 + 1


def test_nobody_is_loaded_who_asks_for_more_than_the_total_may_be(world: World) -> None:
    assert wanted(world) == {"p": ToLoad(3, 10), "q": ToLoad(100, 10)}
    assert wanted(world, ResizePool(id="p", total=13), ResizePool(id="p", total=7))["p"] == ToLoad(6, 13)


def test_a_batch_without_lines_loads_none() -> None:
    world = World()
    world.pool("p", 10)
    assert wanted(world, release("a"), FeedLine(id="p")) == {}


def test_other_tenants_have_lines_of_their_own(world: World) -> None:
    assert wanted(world, release("x", tenant="acme"), give_back_loose("p", 4, tenant="acme"))["p"].limit == 3


# Enough

NAMES = st.sampled_from("abcdefghijkl")
HOLDERS = st.sampled_from("xxyyabcdefghijkl")
LINES = st.lists(st.tuples(st.sampled_from("pps"), st.integers(1, 3), st.integers(5, 60)), min_size=4, max_size=10)
"""Who waits at first: for which pool, how many units, how long."""
POOLS = st.sampled_from(["p", "p", "s", "p//c"])
UNITS = st.integers(1, 4)
SPANS = st.integers(1, 30)


@st.composite
def commands(draw: st.DrawFn) -> AnyCommand:
    """Whatever touches a line; no total is lowered."""
    name, units = draw(NAMES), draw(UNITS)
    verb = draw(st.sampled_from(["join"] * 3 + ["place"] * 2 + ["release"] * 8 + ["leave"] * 4 + OTHERS))
    if verb == "join":
        return join(name, {draw(st.sampled_from(["p", "s"])): units}, draw(SPANS), draw(SPANS))
    if verb == "place":
        waits = draw(st.sampled_from([{}, {"wait_slots": 20, "offer_slots": 5}]))
        pool = "p" if waits else draw(POOLS)
        return place(name, {pool: units}, draw(SPANS), **waits)
    if verb == "release":
        return release(draw(HOLDERS), draw(st.sampled_from([None, None, 1])))
    if verb == "leave":
        return leave(name)
    if verb == "confirm":
        return confirm(draw(HOLDERS), draw(st.sampled_from([None, 1, 3])), overage=draw(st.sampled_from(["reject", "if_available", "up_to_available"])))  # fmt: skip
    others: list[AnyCommand] = [
        consume(name, {draw(POOLS): units}),
        give_back(name),
        give_back_loose(draw(POOLS), 1),
        extend(name, by_slots=draw(SPANS)),
        FeedLine(id="p"),
        Sweep(limit=draw(st.integers(1, 5))),
        ArchivePool(id="p"),
        UnarchivePool(id="p"),
    ]
    return draw(st.sampled_from(others))


OTHERS = ["confirm", "confirm", "other", "other", "other"]
BATCHES = st.lists(
    st.tuples(st.integers(0, 12), st.lists(commands(), min_size=1, max_size=6), st.booleans()), min_size=1, max_size=6
)


def started(kind: type[World], line: list[tuple[str, int, int]], max_offers: int) -> World:
    world = kind(max_offers=max_offers, retention=20, retention_consumed=20)
    world.pool("p", 5)
    world.pool("p//c", 4)
    world.pool("s", 4, line="skip")
    world.batch(place("x", {"p": 5}, 40), place("y", {"s": 4}, 40))
    for name, (pool, units, ttl) in zip("abcdefghij", line, strict=False):
        done(world.do(join(name, {pool: units}, ttl)))
    return world


@thorough
@given(LINES, BATCHES, st.sampled_from([1, 2, 250]))
def test_a_batch_is_decided_as_with_the_whole_line(
    line: list[tuple[str, int, int]], program: list[tuple[int, list[AnyCommand], bool]], max_offers: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (lines, line_loading):
            patch.setattr(module, "SKIPPED", 2)
        whole, front = started(World, line, max_offers), started(Frugal, line, max_offers)
        for jump, batch, atomic in program:
            whole.slot = front.slot = whole.slot + jump
            group = Group(tuple(batch), atomic)
            for _ in range(20):
                expected = whole.apply(group)[0]
                assert front.apply(group)[0] == expected
                assert front.unfed == whole.unfed
                if expected:
                    break
            feed_all(whole)
            feed_all(front)
            assert front.state() == whole.state()


def feed_all(world: World) -> None:
    """As the kernel does it."""
    for _ in range(30):
        if not world.unfed:
            return
        world.do_or_put_off(FeedLine(id=min(world.unfed)[1]))
    raise AssertionError("fed for ever")


def test_after_a_lowered_total_the_rest_follows_in_another_transaction() -> None:
    world = Frugal()
    world.pool("p", 6)
    done(world.do(place("x", {"p": 5}, 1000)))
    large = [join(f"large {number}", {"p": 6}, 500) for number in range(9)]
    world.batch(*large, join("small", "p", 500))
    told = world.batch(ResizePool(id="p", total=5), release("x", 1), place("y", "p", 9))
    assert [said(one) for one in told] == ["done", "done", "line_ahead"]
    assert (world.states("small"), world.unfed) == (["waiting"], {("", "p")}), "the large ones hid it"
    feed_all(world)
    assert world.states("large 0", "large 8", "small") == ["waiting", "waiting", "held"]


def test_a_batch_that_offers_nothing_says_where_there_are_units_to_offer() -> None:
    world = World()
    for pool in ("freed", "full", "archived", "nobody waits"):
        world.pool(pool, 1)
        done(world.do(place(f"hold of {pool}", pool, 1000)))
        if pool != "nobody waits":
            done(world.do(join(f"waits for {pool}", pool)))
    world.pool("gone", 1)
    world.may_offer = False
    for told in (ArchivePool(id="archived"), RemovePool(id="gone"), ResizePool(id="full", total=2)):
        view = View(world.loaded())
        decide_groups(view, [Group((told,))])
        assert lines.left_to_offer(view) == ({("", "full")} if told.id == "full" else set())
    done(world.do(ArchivePool(id="archived")))
    view = View(world.loaded())
    decide_groups(view, [Group((release(f"hold of {pool}"),)) for pool in ("freed", "archived", "nobody waits")])
    assert lines.left_to_offer(view) == {("", "freed")}
    view = View(world.loaded())
    decide_groups(view, [Group((join("waits too", "full"),))])
    assert lines.left_to_offer(view) == set(), "nothing is available"
    world.may_offer = True
    view = View(world.loaded())
    decide_groups(view, [Group((release("hold of freed"),))])
    assert lines.left_to_offer(view) == set(), "it was offered at once"
