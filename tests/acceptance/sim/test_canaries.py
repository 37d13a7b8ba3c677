"""The simulator's canaries: planted bugs that it must catch, within a few seeds, and shrink to something readable."""

from __future__ import annotations

import re

import pytest

from holdkit import sim
from holdkit.testing.sim import SimulationFailed, World, draw_plan, run_seed
from holdkit.testing.sim.seeds import run_some, shrink
from tests.acceptance.sim.canaries import CANARIES, Canary

WITHIN = 200
"""Seeds until a planted bug must have been caught."""


def first_caught(canary: Canary) -> tuple[int, str]:
    for seed in range(1, WITHIN + 1):
        try:
            run_seed(seed, canary.engine)
        except SimulationFailed as broken:
            return seed, str(broken)
    pytest.fail(f"not caught within {WITHIN} seeds")


@pytest.mark.parametrize("name", CANARIES)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = CANARIES[name]
    canary.plant(monkeypatch)
    _, said = first_caught(canary)
    assert re.search(canary.says, said), said


def test_the_same_seeds_pass_without_the_bugs() -> None:
    assert run_some(range(1, 31)).failures == []


@pytest.mark.parametrize("name", ["ack before fsync", "doubt forgotten", "released behind the point of no return"])
def test_a_failing_plan_is_shrunk_and_fails_still(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = CANARIES[name]
    canary.plant(monkeypatch)
    seed, _ = first_caught(canary)
    plan = draw_plan(seed)
    short = shrink(plan, canary.engine)
    assert len(short.steps) <= min(6, len(plan.steps) - 1), short.steps
    with pytest.raises(SimulationFailed):
        World(short, canary.engine).run()
    for index in range(len(short.steps)):
        fewer = short.steps[:index] + short.steps[index + 1 :]
        World(type(plan)(plan.seed, plan.limits, plan.segment_bytes, fewer, plan.first_fault), canary.engine).run()


def test_a_failure_prints_the_one_line_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    CANARIES["ack before fsync"].plant(monkeypatch)
    assert sim.main(["--seeds", "20", "--jobs", "1"]) == 1
    told = re.search(r"repeat it: python -m holdkit\.sim --seed (\d+)", capsys.readouterr().out)
    assert told is not None
    assert sim.main(["--seed", told[1]]) == 1
    again = capsys.readouterr().out
    assert re.search(rf"seed {told[1]}: .*(?:{CANARIES['ack before fsync'].says})", again)
    assert "shortest plan that still fails" in again


def test_a_run_that_never_reached_a_point_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "ENOUGH", 1)
    monkeypatch.setattr(sim, "too_seldom", lambda totals: {"unknown": 0})
    assert sim.main(["--seeds", "2", "--jobs", "1"]) == 1
    assert "TOO RARE unknown: 0 times" in capsys.readouterr().out
