"""For every state that passes the guard, the server writes and answers exactly what the core decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest

import holdkit
from holdkit.core.outcomes import Done
from holdkit.engines.postgres import PostgresEngine, guard_routing, guarded_batch, migrate
from tests.engines.commands import Clock, confirm, create, groups
from tests.engines.postgres import engine_calls, guard_sabotage
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import LANES, place
from tests.engines.postgres.guard_cases import CASES, Case, goes_by_the_guard
from tests.engines.postgres.guarded_pairs import SHORT, Pair, Story

SEEDS: Final = 25
STEPS: Final = 12


@pytest.fixture
def make_pair(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Pair]]:
    migrate(postgres_url, schema="ordinary", lanes=LANES)
    monkeypatch.setattr(guard_routing, "PAUSE_SECONDS", dict.fromkeys(guard_routing.PAUSE_SECONDS, 0.0))
    monkeypatch.setattr(guard_routing, "GROUPS_PER_EXCEPTION", 1)
    monkeypatch.setattr(guard_routing, "BATCHES_HELD_OFF", 0)
    monkeypatch.setattr(guard_routing, "MAX_GUARDED_POOLS", 100)
    monkeypatch.setattr(guard_routing, "EXPECT_DUE_SECONDS", 0.0)
    clock = Clock()
    ordinary = PostgresEngine(postgres_url, schema="ordinary", clock=clock, guarded=False, prune_every=1e9)
    opened: list[Pair] = []

    def make() -> Pair:
        opened.append(Pair(postgres_url, ordinary, clock))
        return opened[-1]

    yield make
    for pair in opened:
        pair.close()
    ordinary.close()


def play(pair: Pair, seed: int) -> None:
    story = Story(pair, seed)
    for _ in range(STEPS):
        story.step()
    pair.compare(story.tenant)


def test_what_passes_the_guard_is_what_the_core_decides(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    pair.both(SHORT)
    for seed in range(SEEDS):
        play(pair, seed)
    for engine in (pair.guarded, pair.ordinary):
        assert [str(difference) for difference in engine.verify()] == []
    stats = pair.guarded.guard_stats
    assert stats.passed > SEEDS * STEPS
    assert stats.returned > SEEDS / 2
    assert {"special", "due", "capacity", "hold", "duplicate"} <= stats.misses.keys(), stats


def test_short_holds_are_returned_by_the_batches_that_come_after_them(postgres_url: str, open_engine: Open) -> None:
    """The first place meets a due leg and takes the ordinary way; the next ones return such legs themselves."""
    clock = Clock()
    engine = open_engine(clock=clock, prune_every=1e9)
    engine_calls.done(engine, create("p", 2))
    for _ in range(20):
        clock.slot += 10
        ((outcome,),) = engine.apply(groups(place("p", ttl=10))).outcomes
        assert isinstance(outcome, Done)
    stats = engine.guard_stats
    assert (stats.passed, stats.returned, stats.misses) == (19, 18, {"due": 1})
    engine_calls.sound(engine, postgres_url)


def test_ends_of_which_most_miss_are_not_tried_batch_after_batch(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they end is not known before: here holds of two legs. One that passes is enough to go on."""
    monkeypatch.setattr(guard_routing, "PAUSE_SECONDS", {**guard_routing.PAUSE_SECONDS, "pool": 1e9})
    engine = open_engine(prune_every=1e9)
    for pool in ("p", "q"):
        engine_calls.done(engine, create(pool, 100))
    wide = [held(engine, "p", "q") for _ in range(6)]
    plain = [held(engine, "p") for _ in range(3)]
    before = engine.guard_stats
    for ends in (
        (wide[0],),
        (plain[0],),
        (wide[1], plain[1]),
        (wide[2],),
        (wide[3],),
        (wide[4],),
        (plain[2],),
        (wide[5],),
    ):
        applied = engine.apply(groups(*map(confirm, ends)))
        assert [type(outcome) for (outcome,) in applied.outcomes] == [Done] * len(ends)
    after = engine.guard_stats
    assert (after.batches - before.batches, after.passed - before.passed, after.misses) == (5, 2, {"hold": 4})


@pytest.mark.parametrize(("pools", "by_the_guard"), [("p", 4), ("pq", 4), ("pqr", 0)])
def test_a_batch_over_more_than_two_pools_goes_the_ordinary_way(
    open_engine: Open, pools: str, by_the_guard: int
) -> None:
    engine = open_engine(prune_every=1e9)
    for pool in "pqr":
        engine_calls.done(engine, create(pool, 100))
    before = engine.guard_stats
    applied = engine.apply(groups(*(place(pools[number % len(pools)]) for number in range(4))))
    assert [type(outcome) for (outcome,) in applied.outcomes] == [Done] * 4
    assert (engine.guard_stats.commands - before.commands, engine.guard_stats.misses) == (by_the_guard, {})


def held(engine: PostgresEngine, *pools: str) -> str:
    hold = engine_calls.done(engine, place(*pools)).hold
    assert hold is not None
    return hold.id


def test_the_usual_calls_go_by_the_guard(postgres_url: str) -> None:
    """By default, on threads and on an event loop, with and without an operation id."""
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("p", 100)
        for number in range(10):
            hold = hk.hold("p", 1, ttl=60, op=f"op-{number}")
            assert hk.hold("p", 1, ttl=60).position is not None
            hk.confirm(hold) if number % 2 else hk.release(hold)
        counted = hk.admin.stats().guards
    assert counted.passed >= 20
    assert counted.misses == {}

    async def on_loop() -> int:
        async with await holdkit.connect_async(postgres_url) as hk:
            for _ in range(10):
                await hk.confirm(await hk.hold("p", 1, ttl=60))
            return (await hk.admin.stats()).guards.passed

    assert asyncio.run(on_loop()) >= 10


SABOTAGES: Final = [*guard_sabotage.statements()]


def test_every_case_is_decided_as_the_core_does(make_pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_batch, "MAX_RETURNED_LEGS", 2)
    pair = make_pair()
    for name, case in CASES.items():
        case(Case(pair, name, 3))
    assert {sabotage.case for sabotage in SABOTAGES} <= CASES.keys()


def test_every_rule_that_is_left_out_is_noticed(make_pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the case that it is for."""
    monkeypatch.setattr(guarded_batch, "MAX_RETURNED_LEGS", 2)
    unnoticed: list[str] = []
    for number, sabotage in enumerate(SABOTAGES):
        with monkeypatch.context() as patch:
            engine_calls.alter(patch, sabotage.name, sabotage.of)
            with closing(make_pair()) as pair:
                goes_by_the_guard(Case(pair, f"usual {number}", 3))
                try:
                    CASES[sabotage.case](Case(pair, f"canary {number}", 3))
                except AssertionError:
                    continue
            unnoticed.append(f"{sabotage.name}: {sabotage.case}")
    assert not unnoticed, "\n".join(unnoticed)
    assert len(SABOTAGES) > 40
