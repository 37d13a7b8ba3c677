"""R2: simulated lives of the log engine: 500 here, 2,000 in `make prove`. HOLDKIT_SIM_SEEDS runs more of them, or fewer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdkit.testing.sim import run_seeds
from holdkit.testing.sim.seeds import FLOOR, POINTS, SEEDS, Totals, too_seldom

WANTED = int(os.environ.get("HOLDKIT_SIM_SEEDS", "500"))
CHUNK = 250
"""Seeds of one test, so that they can be spread over processes; each chunk must reach its part of every point."""
FIRSTS = range(1, WANTED + 1, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRSTS)
def test_nothing_acknowledged_is_lost_and_nothing_refused_is_there(first: int) -> None:
    totals = run_seeds(first, min(CHUNK, WANTED + 1 - first))
    lines = [f"{broken}\n  repeat it: python -m holdkit.sim --seed {seed}" for seed, broken in totals.failures]
    assert not lines, "\n".join(lines)
    assert totals.seeds == min(CHUNK, WANTED + 1 - first)
    assert too_seldom(totals) == {}, "these points were hardly reached: the run proves nothing about them"


def test_chunks_make_up_the_whole() -> None:
    assert sum(min(CHUNK, WANTED + 1 - first) for first in FIRSTS) == WANTED
    assert FLOOR * SEEDS // SEEDS == 100
    assert len(set(POINTS)) == len(POINTS) > 50


def test_a_run_that_reached_nothing_does_not_pass() -> None:
    rare = too_seldom(Totals(SEEDS, 0, {}))
    assert rare.keys() == {*POINTS, "operations"}
    plenty = Totals(SEEDS, SEEDS * 100, dict.fromkeys(POINTS, FLOOR))
    assert too_seldom(plenty) == {}
    assert too_seldom(Totals(SEEDS, SEEDS * 100, plenty.reached | {"unknown": FLOOR - 1})) == {"unknown": FLOOR - 1}


@pytest.mark.parametrize("seed", ["42", "10"], ids=["without sagas", "with sagas"])
def test_the_same_seed_gives_the_same_transcript_in_another_process(seed: str) -> None:
    def transcript(hash_seed: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "holdkit.sim", "--seed", seed],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        return run.stdout

    told = transcript("1")
    assert "ok, transcript" in told
    assert told == transcript("2")
