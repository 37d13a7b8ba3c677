"""The simulator's canaries: planted bugs that it must catch, within a few seeds, and shrink to something readable; and the corpus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.simulation import __main__ as program
from tests.simulation.canaries import CANARIES, RARE, Canary
from tests.simulation.plan import draw_plan, plan_of
from tests.simulation.seeds import OPERATIONS, fails, run_seed, run_some, shrink
from tests.simulation.store import SimulationFailed
from tests.simulation.world import World

CORPUS = {path.stem.replace("-", " "): path for path in sorted((Path(__file__).parent / "corpus").glob("*.json"))}


def first_caught(canary: Canary) -> tuple[int, str]:
    for seed in range(1, canary.within + 1):
        try:
            run_seed(seed)
        except SimulationFailed as broken:
            return seed, str(broken)
    pytest.fail(f"not caught within {canary.within} seeds")


@pytest.mark.parametrize("name", CANARIES)
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES[name].plant(monkeypatch)
    _, said = first_caught(CANARIES[name])
    assert re.search(CANARIES[name].says, said), said


def test_the_same_seeds_pass_without_the_bugs() -> None:
    assert run_some(range(1, 31)).failures == []


@pytest.mark.parametrize("name", ["answers not recovered", "entry skipped", "released behind the point of no return"])
def test_a_failing_plan_is_shrunk_and_fails_still(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CANARIES[name].plant(monkeypatch)
    seed, _ = first_caught(CANARIES[name])
    plan = draw_plan(seed, OPERATIONS)
    short = shrink(plan)
    assert len(short.steps) <= min(20, len(plan.steps) // 4), short.steps
    assert fails(short)
    for index in range(len(short.steps)):
        assert not fails(replace(short, steps=short.steps[:index] + short.steps[index + 1 :]))


def test_the_corpus_is_there() -> None:
    assert CORPUS.keys() >= RARE.keys()
    assert len(CORPUS) >= 6


@pytest.mark.parametrize("name", CORPUS)
def test_what_was_found_stays_repaired(name: str) -> None:
    World(plan_of(CORPUS[name].read_bytes())).run()


@pytest.mark.parametrize("name", CORPUS)
def test_each_still_finds_its_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = (CANARIES | RARE)[name]
    canary.plant(monkeypatch)
    with pytest.raises(SimulationFailed, match=canary.says):
        World(plan_of(CORPUS[name].read_bytes())).run()


def test_a_failure_prints_the_one_line_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    CANARIES["effect before the phase"].plant(monkeypatch)
    assert program.main(["--seeds", "3", "--jobs", "1", "--operations", "60"]) == 1
    told = re.search(r"repeat it: make sim SEED=(\d+) ARGS='--operations 60'", capsys.readouterr().out)
    assert told is not None
    kept = tmp_path / "plan.json"
    assert program.main(["--seed", told[1], "--operations", "60", "--keep", str(kept)]) == 1
    again = capsys.readouterr().out
    assert f"seed {told[1]}: " in again
    assert "shortest plan that still fails" in again
    assert program.main(["--plan", str(kept)]) == 1


def test_a_run_that_never_reached_a_point_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "ENOUGH", 1)
    monkeypatch.setattr(program, "too_seldom", lambda totals: {"unknown": 0})
    assert program.main(["--seeds", "2", "--jobs", "1"]) == 1
    assert "TOO RARE unknown: 0 times" in capsys.readouterr().out
