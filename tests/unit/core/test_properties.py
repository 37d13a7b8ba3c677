"""For random commands in any order, with any clock: the invariants hold, and replay agrees.

`World` checks every invariant after every batch: counters, lives, conservation of units, and that folding the journal rebuilds
every row.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec import structs

from holdkit.core.commands import Group, Sweep
from holdkit.core.entries import Action
from holdkit.core.model import HeldLeg
from holdkit.core.outcomes import Outcome
from tests.unit.core.command_strategies import ANY_JUMPS, FORWARD, LIMITS, programs
from tests.unit.core.world import World, check, confirm, consume, done, expire, give_back, place, release, said

MUTATED = "MUTANT_UNDER_TEST" in os.environ  # many short runs: the first example that fails will do
EXAMPLES = 40 if MUTATED else int(os.environ.get("HOLDKIT_EXAMPLES", "150"))
PHASES = (Phase.generate,) if MUTATED else tuple(Phase)

thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=MUTATED or "CI" in os.environ,
    phases=PHASES,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)

Program = list[tuple[int, list[Group]]]


def run(world: World, program: Program) -> list[list[list[Outcome]]]:
    """Play it, from slot 100 on."""
    world.slot = 100
    answers = []
    for jump, groups in program:
        world.slot = max(0, world.slot + jump)
        answers.append(world.apply(*groups))
    return answers


def start(limits: dict[str, Any]) -> World:
    world = World(**limits)
    world.slot = 100
    world.pool("p", 6)
    world.pool("q", 5, per_account=3)
    world.pool("q//a", 4)
    return world


@thorough
@given(programs(ANY_JUMPS), LIMITS)
def test_the_invariants_hold(program: Program, limits: dict[str, Any]) -> None:
    run(start(limits), program)


@thorough
@given(programs(ANY_JUMPS), LIMITS)
def test_the_same_commands_give_the_same_entries(program: Program, limits: dict[str, Any]) -> None:
    first, second = start(limits), start(limits)
    assert run(first, program) == run(second, program)
    assert first.state() == second.state()


@thorough
@given(programs(ANY_JUMPS), LIMITS)
def test_a_batch_is_its_commands_one_after_the_other(program: Program, limits: dict[str, Any]) -> None:
    """Group commit changes nothing; but a sweep, whose list is drawn up per batch. Before a group is decided, all its lines are
    fed, so the journal may have offers on one pool before entries on others, and another pool may be the first to notice that a
    hold is due; along each pool it is the same."""
    program = [
        (jump, [group for group in groups if not any(isinstance(command, Sweep) for command in group.commands)])
        for jump, groups in program
    ]
    unbounded = limits | {"max_offers": 250}  # where offers are put off, so are later groups
    together, separate = start(unbounded), start(unbounded)
    answers = run(together, program)
    separate.slot = 100
    for (jump, groups), expected in zip(program, answers, strict=True):
        separate.slot = max(0, separate.slot + jump)
        for group, said_together in zip(groups, expected, strict=True):
            if group.atomic:
                assert separate.apply(group)[0] == said_together
            else:
                assert [separate.do(command) for command in group.commands] == said_together
    assert rows(separate) == rows(together)
    assert by_pool(separate) == by_pool(together)


def rows(world: World) -> tuple[Any, ...]:
    """All that is stored, but for the numbers of entries."""
    operations = {key: structs.replace(row, seq=0) for key, row in world.operations.items()}
    return world.pools, world.holds, world.records, world.tallies, world.fence_floors, operations


def by_pool(world: World) -> dict[Any, list[Any]]:
    """The journal of each pool, and of what concerns none. Of a leg that was due it has the pool's part, not whether this pool was
    the one that noticed."""
    found: dict[Any, list[Any]] = {}
    for entry in world.entries:
        if not entry.effects:
            found.setdefault(("", entry.subject), []).append(entry)
        for effect in entry.effects:
            due = entry.action in (Action.HOLD_EXPIRED, Action.LEG_RETURNED)
            found.setdefault(effect.pool.key, []).append((entry.slot, entry.subject, effect) if due else entry)
    return found


@thorough
@given(programs(FORWARD), LIMITS)
def test_pruned_or_not_the_answers_are_the_same(program: Program, limits: dict[str, Any]) -> None:
    kept, pruned = start(limits), start(limits)
    answers = run(kept, program)
    for (jump, groups), expected in zip(program, answers, strict=True):
        pruned.slot += jump
        pruned.prune()
        assert pruned.apply(*groups) == expected
    assert pruned.entries == kept.entries


def test_the_checks_can_fail() -> None:
    """A world whose rows were tampered with is noticed."""
    world = start({})
    done(world.do(place("a", {"p": 2}, 50)))
    world.pools["", "p"] = type(world.row("p"))("", "p", 6, held=1, fence=1, slot=100, version=2)
    with pytest.raises(AssertionError):
        check(world)


def test_canary_units_that_come_back_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pool counts less than nothing: the audit that `check` begins with says so."""
    world = start({})
    done(world.do(place("a", {"p": 2}, 50)))
    done(world.do(confirm("a")))
    done(world.do(give_back("a")))
    monkeypatch.setattr(HeldLeg, "consumed", property(lambda leg: leg.confirmed))
    with pytest.raises(AssertionError):
        world.do(give_back("a"))
    assert world.row("p").consumed == -2


def test_n_callers_on_capacity_c_admit_exactly_the_smaller() -> None:
    for capacity in range(4):
        for callers in range(6):
            world = World()
            world.pool("p", capacity)
            answers = world.batch(*(place(f"h{n}", "p", 60) for n in range(callers)))
            assert [said(one) for one in answers].count("done") == min(capacity, callers)


def test_holding_and_ending_for_ever_never_fills_a_bounded_table() -> None:
    """B2: the bound is on live holds."""
    world = World(max_holds=2, retention=5, retention_consumed=5)
    world.pool("p", 10**6)
    for turn in range(60):
        world.slot = turn
        end = (release, confirm, expire, None)[turn % 4]
        done(world.do(place(f"h{turn}", "p", 1)))
        if end is expire:
            world.slot = turn + 1
        if end is not None:
            done(world.do(end(f"h{turn}")))
        world.prune()
        done(world.do(Sweep()))
    assert len(world.holds) < 12
    assert said(world.do(consume("last", "p"))) == "done"
