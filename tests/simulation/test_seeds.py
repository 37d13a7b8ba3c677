"""R2: simulated runs of the kernel over the memory engine: 500 seeds here, 2,000 longer ones in `make prove`. HOLDKIT_SIM_SEEDS runs more of them, or
fewer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.plan import draw_plan, plan_of, text_of
from tests.simulation.seeds import OPERATIONS, POINTS, SEEDS, Totals, run_some, too_seldom

WANTED = int(os.environ.get("HOLDKIT_SIM_SEEDS", "500"))
CHUNK = 250
"""Seeds of one test, so that they can be spread over processes; each chunk must reach its part of every point."""
FIRSTS = range(1, WANTED + 1, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRSTS)
def test_nothing_acknowledged_is_lost_and_nothing_refused_is_there(first: int) -> None:
    totals = run_some(range(first, min(first + CHUNK, WANTED + 1)))
    lines = [f"{broken}\n  repeat it: make sim SEED={seed}" for seed, broken in totals.failures]
    assert not lines, "\n".join(lines)
    assert totals.seeds == min(CHUNK, WANTED + 1 - first)
    assert too_seldom(totals) == {}, "these points were hardly reached: the run proves nothing about them"


def test_chunks_make_up_the_whole() -> None:
    assert sum(min(CHUNK, WANTED + 1 - first) for first in FIRSTS) == WANTED
    assert len(set(POINTS)) == len(POINTS) > 60


def test_a_run_that_reached_nothing_does_not_pass() -> None:
    assert too_seldom(Totals(SEEDS)).keys() == {*POINTS, "operations"}
    plenty = Totals(SEEDS, SEEDS * OPERATIONS, Counter(dict.fromkeys(POINTS, 100)))
    assert too_seldom(plenty) == {}
    plenty.reached["unknown"] = 99
    assert too_seldom(plenty) == {"unknown": 99}


@pytest.mark.parametrize("seed", ["146", "266"], ids=["with processes of their own", "embedded"])
def test_the_same_seed_gives_the_same_transcript_in_another_process(seed: str) -> None:
    assert draw_plan(int(seed)).is_embedded == (seed == "266")

    def transcript(hash_seed: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", seed],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        return run.stdout

    told = transcript("1")
    assert "ok, transcript" in told
    assert told == transcript("2")


def test_a_plan_comes_back_from_its_file() -> None:
    for seed in range(1, 40):
        plan = draw_plan(seed)
        assert plan_of(text_of(plan)) == plan
