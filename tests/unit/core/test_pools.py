"""CreatePool and ResizePool."""

from __future__ import annotations

from holdkit.core.commands import CreatePool, ResizePool
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import Pool
from holdkit.core.outcomes import Done
from tests.unit.core.world import World, confirm, done, place, refused, said


def test_a_pool_is_written_whole() -> None:
    world = World()
    world.slot = 5
    pool = Pool("", "p", 7, slot=5)
    outcome = world.do(CreatePool(id="p", total=7, actor="user:1", op="o", correlation_id="c", reason="r"))
    assert outcome == Done(slot=5, pool=pool)
    assert (pool.held, pool.consumed, pool.fence, pool.version, pool.on_demand) == (0, 0, 0, 1, False)
    assert world.entries == [
        Entry(
            slot=5,
            action=Action.POOL_CREATED,
            subject="p",
            effects=(Effect(pool, total=7),),
            actor="user:1",
            correlation_id="c",
            reason="r",
            op="o",
        )
    ]


def test_creating_twice() -> None:
    world = World()
    world.pool("p", 7)
    assert refused(world.do(CreatePool(id="p", total=7))).subject == "p"
    assert world.counters("p") == (7, 0, 0)


def test_creating_what_may_be_there_already() -> None:
    world = World(max_pools=1)
    world.slot = 3
    outcome = done(world.do(CreatePool(id="p", total=7, exist_ok=True)))
    assert (world.numbers, outcome.pool) == ([1], world.row("p"))
    done(world.do(place("a", "p", 100)))
    world.slot = 5
    assert world.do(CreatePool(id="p", total=99, exist_ok=True)) == Done(slot=5, pool=world.row("p"))
    assert world.counters("p") == (7, 1, 0)
    assert len(world.entries) == 2
    assert said(world.do(CreatePool(id="q", total=1, exist_ok=True))) == "pool_table_full"


def test_the_bound_on_pools() -> None:
    world = World(max_pools=2)
    answers = world.batch(*(CreatePool(id=name, total=1) for name in "abc"))
    assert [said(one) for one in answers] == ["done", "done", "pool_table_full"]
    refusal = refused(world.do(CreatePool(id="c", total=1)))
    assert (refusal.subject, refusal.found) == ("c", 2)


def test_resizing() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(place("a", {"p": 3}, 100)))
    done(world.do(place("b", {"p": 2}, 100)))
    done(world.do(confirm("b")))
    world.slot = 4
    refusal = refused(world.do(ResizePool(id="p", total=4)))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("below_in_use", "p", 5)
    after = Pool("", "p", 5, 3, 2, fence=2, slot=4, version=5)
    assert world.do(ResizePool(id="p", total=5, reason="smaller hall")) == Done(slot=4, pool=after)
    assert world.entries[-1].action is Action.POOL_RESIZED
    assert world.entries[-1].effects == (Effect(after, total=-5),)
    assert world.entries[-1].reason == "smaller hall"
    assert said(world.do(place("c", "p", 5))) == "insufficient_capacity"
    done(world.do(ResizePool(id="p", total=6)))
    assert said(world.do(place("c", "p", 5))) == "done"


def test_resizing_to_the_same_total_changes_nothing() -> None:
    world = World()
    pool = world.pool("p", 10)
    world.slot = 4
    assert world.do(ResizePool(id="p", total=10)) == Done(slot=4, pool=pool)
    assert len(world.entries) == 1


def test_resizing_counts_due_units_as_free() -> None:
    world = World()
    world.pool("p", 10)
    done(world.do(place("a", {"p": 8}, 60)))
    world.slot = 60
    assert said(world.do(ResizePool(id="p", total=0))) == "done"


def test_a_pool_that_is_not_there() -> None:
    assert refused(World().do(ResizePool(id="p", total=1))).subject == "p"


def test_resizing_only_what_the_caller_saw() -> None:
    world = World()
    world.pool("p", 10)
    assert said(world.do(ResizePool(id="p", total=9, if_version=1))) == "done"
    refusal = refused(world.do(ResizePool(id="p", total=8, if_version=1)))
    assert (refusal.reason.value, refusal.subject, refusal.found) == ("version_conflict", "p", 2)
    assert world.counters("p") == (9, 0, 0)
    assert said(world.do(ResizePool(id="p", total=8, if_version=2))) == "done"
