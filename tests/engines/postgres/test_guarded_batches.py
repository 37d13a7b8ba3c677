"""For every state that passes the guard, the server writes and answers exactly what the core decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import pytest

import holdkit
from holdkit.core.outcomes import Done
from holdkit.engines.postgres import PostgresEngine, guards, migrate
from tests.engines.commands import Clock, create, groups
from tests.engines.postgres import engine_calls, guard_cases
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import LANES, place
from tests.engines.postgres.guard_cases import CASES, Case
from tests.engines.postgres.guarded_pairs import Pair, Story

SEEDS: Final = 25
STEPS: Final = 12


@pytest.fixture
def make_pair(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Pair]]:
    migrate(postgres_url, schema="ordinary", lanes=LANES)
    monkeypatch.setattr(guards, "PAUSES", dict.fromkeys(guards.PAUSES, 0.0))
    monkeypatch.setattr(guards, "ORDINARY_SHARE", 1)
    monkeypatch.setattr(guards, "RETRIES", 0)
    monkeypatch.setattr(guards, "MOST_POOLS", 100)
    monkeypatch.setattr(guards, "DUE_FOR", 0.0)
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


def test_the_usual_calls_go_by_the_guard(postgres_url: str) -> None:
    """By default, on threads and on an event loop, with and without an operation id."""
    with holdkit.connect(postgres_url) as hk:
        hk.create_pool("p", 100)
        for number in range(10):
            hold = hk.hold("p", 1, ttl=60, op=f"op-{number}")
            assert hk.hold("p", 1, ttl=60).position is not None
            hk.confirm(hold) if number % 2 else hk.release(hold)
        counted = hk.stats.guards
    assert counted.passed >= 20
    assert counted.misses == {}

    async def on_loop() -> int:
        async with await holdkit.connect_async(postgres_url) as hk:
            for _ in range(10):
                await hk.confirm(await hk.hold("p", 1, ttl=60))
            return hk.stats.guards.passed

    assert asyncio.run(on_loop()) >= 10


CANARIES: Final = {
    "due legs are not looked for": (guard_cases.due_at_a_place, "guard_places", "limit 1) is not null then 'due' end", "limit 1) is not null then null end"),
    "due legs are not returned": (guard_cases.due_at_an_end, "guard_moves", "and g.deadline <= p.now\n        order", "and g.deadline <= p.now and false\n        order"),
    "each place for itself": (guard_cases.each_fits_both_do_not, "guard_places", "x.upto <= p.total", "x.units <= p.total"),
    "each place for itself, in general": (guard_cases.each_fits_both_do_not_on_two_pools, "guard_moves", "then x.upto <= p.total", "then x.units <= p.total"),
    "one unit too many": (guard_cases.one_too_many, "guard_places", "x.upto <= p.total - p.held", "x.upto <= 1 + p.total - p.held"),
    "one unit too many, in general": (guard_cases.one_too_many_on_two_pools, "guard_moves", "then x.upto <= p.total", "then x.upto <= 1 + p.total"),
    "a deadline that has come": (guard_cases.ended_after_its_deadline, "guard_moves", "h.deadline > p.now) and h.fence > p.floor end", "true) and h.fence > p.floor end"),
    "anybody's hold": (guard_cases.ended_by_another, "guard_moves", "and h.owner_hash = x.owner_hash and", "and"),
    "a pool of an earlier life": (guard_cases.ended_in_a_later_life, "guard_moves", "and h.fence > p.floor end", "end"),
    "those who wait are passed over": (guard_cases.in_front_of_a_line, "guard_places", "when p.waiting > 0 then 'line'", ""),
    "those who wait are passed over, in general": (guard_cases.in_front_of_a_line_on_two_pools, "guard_moves", "when p.waiting > 0 then 'line'", ""),
    "an archived pool": (guard_cases.on_an_archived_pool, "guard_places", " or p.archived", ""),
    "a hold that was confirmed in part": (guard_cases.ended_in_part_before, "guard_moves", """where h.legs like '%,"quantity":' || g.units || ',"held":' || g.units""",
                                          """where h.legs like '%,"held":' || g.units"""),
}  # fmt: skip


@pytest.mark.parametrize("name", CANARIES)
def test_canary(make_pair: Callable[[], Pair], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each is noticed by the case that its rule is for."""
    case, statement, text, instead = CANARIES[name]
    engine_calls.alter(monkeypatch, statement, lambda whole: whole.replace(text, instead, 1))
    with pytest.raises(AssertionError):
        case(Case(make_pair(), "canary", 3))


def test_every_case_is_decided_as_the_core_does(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    for case in CASES:
        case(Case(pair, case.__name__, 3))
    assert {case for case, *_ in CANARIES.values()} == {*CASES}
