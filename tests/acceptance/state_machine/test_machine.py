"""R1: one state machine drives every engine together; and canaries: that it would notice an off-by-one in expiry, and a batch whose key was used before.

HOLDKIT_EXAMPLES, HOLDKIT_STEPS and HOLDKIT_SEED make longer runs and repeat one; HOLDKIT_SEED=random looks for new ones. With
HOLDKIT_FAULTS=every (`make prove`) there are 200 examples.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test

from holdkit.core.commands import Group, Sweep
from holdkit.core.outcomes import Outcome, Position, Reason
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied
from holdkit.testing.broken import ExpiresLate, PassesEveryGuard
from tests.acceptance.state_machine.engine_group import BUILDERS, MEMORY, Builder, Disagreement, postgres
from tests.acceptance.state_machine.machine import EnginesAgree, compare
from tests.acceptance.state_machine.shrinking import disagree, shortened
from tests.faults.sampling import STRIDE
from tests.support.databases import Databases

EXAMPLES = int(os.environ.get("HOLDKIT_EXAMPLES", "200" if STRIDE == 1 else "40"))
STEPS = int(os.environ.get("HOLDKIT_STEPS", "25"))
FLOOR = 20
"""How often each reason must have been answered at least, in 200 examples."""
VOLUMES = ("done", "replayed", "invalid", "backwards", "restarts", "looks", "guarded", "retired",
           "returned by pool", "limits changed", "past retentions")  # fmt: skip
"""What must have happened in every tenth example at least."""
LATE: Builder = lambda _, clock, limits: ExpiresLate(clock=clock, limits=limits)  # noqa: E731


def machine_on(builders: Mapping[str, Builder], number: int) -> type[EnginesAgree]:
    """The machine on these engines, with counters of its own."""
    fields: dict[str, Any] = {"builders": builders, "counts": Counter(), "found": None}
    machine: type[EnginesAgree] = seed(number)(type("EnginesAgree", (EnginesAgree,), fields))
    return machine


def run(machine: type[EnginesAgree], examples: int) -> None:
    """Drive it. No shrinking of draws: the story is shortened instead, which is quicker. Nor is anything drawn from the constants
    of those of our modules that are imported: a seed would then mean something else in each process, by what ran there before.
    """
    with mock.patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None):
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None,
                              phases=[Phase.generate], suppress_health_check=list(HealthCheck),
                              report_multiple_bugs=False),
        )  # fmt: skip


def short_story(machine: type[EnginesAgree]) -> str:
    """The shortest story found in which the engines disagree, for people to read."""
    if machine.found is None:
        return "no story was kept"
    limits, story = machine.found
    short = shortened(machine.builders, limits, story, compare)
    told = [f"  at {step.slot}: {step.what} {step.groups or ''}" for step in short]
    return "\n".join([f"with {limits}", *told, str(disagree(machine.builders, limits, short, compare))])


def chosen_seed() -> int:
    """The same seed for everybody, so that a red run is about the change; other seeds are for those who go looking."""
    asked = os.environ.get("HOLDKIT_SEED") or "1013"
    return secrets.randbelow(2**32) if asked == "random" else int(asked)


@pytest.mark.slow
def test_engines_cannot_be_told_apart(postgres_kept: Databases) -> None:
    number = chosen_seed()
    again = f"HOLDKIT_SEED={number} HOLDKIT_EXAMPLES={EXAMPLES} HOLDKIT_STEPS={STEPS} make test ARGS=tests/acceptance/state_machine"
    machine = machine_on({**BUILDERS, "postgres": postgres(postgres_kept)}, number)
    try:
        run(machine, EXAMPLES)
    except BaseException as failure:
        failure.add_note(whole(f"to repeat it: {again}\n{failure}\nin short:\n{short_story(machine)}"))
        raise
    counts = machine.counts
    rare = {reason.value: counts[reason] for reason in Reason if counts[reason] < FLOOR * EXAMPLES / 200}
    little = {word: counts[word] for word in VOLUMES if counts[word] < EXAMPLES / 10}
    if counts["commands"] < 30 * EXAMPLES:
        little["commands"] = counts["commands"]
    answered = {str(word): count for word, count in counts.most_common()}
    assert (rare, little) == ({}, {}), whole(
        f"too seldom to prove anything; to repeat it: {again}\nanswered: {answered}"
    )


def whole(told: str) -> str:
    """What was found, and where it is kept whole: reports are cut where they are long, and this is."""
    kept = Path(".build").absolute() / "machine.txt"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(told + "\n", encoding="utf-8")
    return f"whole in {kept}\n{told}"


class SweepsApart(MemoryEngine):
    """As where the tables are distributed: a sweep looks around after the groups before it are done, not with them."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        outcomes: list[list[Outcome]] = []
        positions: list[Sequence[Position | None]] = []
        wrote, last = False, None
        for lone, some in groupby(groups, lambda group: isinstance(group.commands[0], Sweep) and alone(group)):
            for batch in [[group] for group in some] if lone else [list(some)]:
                applied = super().apply(batch, until=until, wait_for_locks=wait_for_locks)
                outcomes += applied.outcomes
                positions += applied.positions
                wrote, last = wrote or applied.wrote, applied.last_seq
        return Applied(outcomes, last, wrote, positions=positions)


def alone(group: Group) -> bool:
    return len(group.commands) == 1 and group.commands[0].op is None


@pytest.mark.slow
def test_nor_can_statements_that_name_one_lane(postgres_kept: Databases) -> None:
    """As where the tables are distributed by lane; with one lane, so that whole journals can be compared."""
    number = chosen_seed()
    memory: Builder = lambda _, clock, limits: SweepsApart(clock=clock, limits=limits)  # noqa: E731
    machine = machine_on({"memory": memory, "postgres": postgres(postgres_kept, layout="as if")}, number)
    try:
        run(machine, max(1, EXAMPLES // 5))
    except BaseException as failure:
        failure.add_note(whole(f"HOLDKIT_SEED={number}\n{failure}\nin short:\n{short_story(machine)}"))
        raise
    assert machine.counts["commands"] >= 5 * EXAMPLES


def test_canary_an_off_by_one_in_expiry_is_noticed() -> None:
    machine = machine_on({"memory": MEMORY, "late": LATE}, 1)
    with pytest.raises(Disagreement):
        run(machine, 100)
    assert machine.found is not None
    _, story = machine.found
    batches = short_story(machine).count(": batch")
    assert 0 < batches <= 5, f"{len(story)} steps were shortened to {batches} batches"


def test_canary_a_guard_that_lets_everything_pass_is_noticed() -> None:
    careless: Builder = lambda _, clock, limits: PassesEveryGuard(clock=clock, limits=limits)  # noqa: E731
    machine = machine_on({"memory": MEMORY, "careless": careless}, 1)
    with pytest.raises(Disagreement):
        run(machine, 100)


def test_same_engine_twice_never_disagrees_with_itself() -> None:
    machine = machine_on({"memory": MEMORY, "again": MEMORY}, 2)
    run(machine, 10)
    assert machine.found is None
    assert machine.counts["commands"] > 100
