"""The same random commands to the core's plain world and to the engine give the same answers, entries and rows."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdkit.core.commands import Group
from holdkit.core.reading import FindPool, ListHolds, ListPools, ReadJournal, entry_of
from tests.engines.memory.engine_calls import EngineCalls
from tests.unit.core.command_strategies import ANY_JUMPS, FORWARD, LIMITS, programs
from tests.unit.core.test_properties import Program
from tests.unit.core.world import World, signed

often = settings(max_examples=int(os.environ.get("HOLDKIT_EXAMPLES", "70")))
SPANS: st.SearchStrategy[tuple[Program, dict[str, Any]]] = st.one_of(
    st.tuples(programs(ANY_JUMPS), st.just({})),
    # What was pruned is gone, also for a clock that falls back behind it: the bare world never prunes.
    st.tuples(programs(FORWARD), st.just({"retry_window": 30, "retention": 50, "max_lifetime": 80})),
)


def ready(groups: list[Group]) -> list[Group]:
    return [Group(tuple(map(signed, group.commands)), group.atomic) for group in groups]


@often
@given(SPANS)
def test_the_engine_says_what_the_core_says(case: tuple[Program, dict[str, Any]]) -> None:
    program, limits = case
    world, calls = World(**limits), EngineCalls(**limits)
    world.slot = 100
    for jump, groups in program:
        world.slot = max(0, world.slot + jump)
        calls.clock.set(world.slot)
        applied = calls.engine.apply(ready(groups))
        assert applied.outcomes == world.apply(*groups)
        assert applied.last_seq == len(world.entries)
        assert calls.differences() == []
        tables = calls.engine._tables
        assert (tables.pools, tables.records) == (world.pools, world.records)
        assert {key: world.holds[key] for key in tables.holds} == tables.holds
        assert all(world.operations[key] == row for key, row in tables.operations.items())
    rows = calls.engine.read(ReadJournal(None, limit=10_000))
    assert [entry_of(row) for row in rows] == world.entries


@often
@given(programs(ANY_JUMPS), LIMITS, st.integers(1, 8), st.integers(1, 3))
def test_whatever_the_bounds_the_books_balance(
    program: Program, limits: dict[str, Any], journal: int, due: int
) -> None:
    calls = EngineCalls(journal=journal, start=100, max_due=due, **limits)
    slot = 100
    for jump, groups in program:
        slot = max(0, slot + jump)
        calls.clock.set(slot)
        calls.engine.apply(ready(groups))
        assert calls.differences() == []
        rows = calls.rows
        assert rows["journal"] <= journal
        assert rows["subjects"] <= journal
        assert rows["legs"] >= rows["deadlines"]
        if "max_pools" in limits:
            assert rows["pools"] <= limits["max_pools"]
            live = calls.engine.read(ListHolds("")) + calls.engine.read(ListHolds("acme"))
            assert sum(hold.state.value == "held" for hold in live) <= limits["max_holds"]


@often
@given(programs(ANY_JUMPS))
def test_reads_show_what_the_next_command_will_find(program: Program) -> None:
    """Due legs count as returned: what a pool shows as available is what a hold can take."""
    calls = EngineCalls(start=100)
    slot = 100
    for jump, groups in program:
        slot = max(0, slot + jump)
        calls.clock.set(slot)
        calls.engine.apply(ready(groups))
    calls.clock.advance(0.000_020)
    for tenant in ("", "acme"):
        for pool in calls.engine.read(ListPools(tenant)) + calls.engine.read(ListPools(tenant, prefix="~")):
            assert calls.engine.read(FindPool(pool.key)) == pool
            shown = sum(
                leg.held
                for hold in calls.engine.read(ListHolds(tenant, limit=1000))
                for leg in hold.legs
                if leg.pool == pool.id or leg.pool.startswith(f"{pool.id}//")  # the units of a part count in the whole
            )
            assert shown == pool.held
