"""The examples of calendars and budgets run as they stand, and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_llm_budget(engine: str, tmp_path: Path) -> None:
    told = run("llm_budget.py", "memory://" if engine == "memory" else f"sqlite:///{tmp_path}/holds.db")
    assert "the budget was never overspent" in told
    calls = re.match(r"200 calls: (\d+) answered, (\d+) refused, (\d+) failed, ", told)
    assert calls is not None, told
    answered, away, failed = map(int, calls.groups())
    assert answered + away + failed == 200
    assert min(answered, away, failed) > 0, told


def test_hotel(tmp_path: Path) -> None:
    assert run("hotel.py", f"sqlite:///{tmp_path}/holds.db").splitlines() == [
        "held: 6 legs until payment",
        "refused: 1 night short",
        "friday: 1 suite",
        "suites: [0, 0, 1, 1]",
        "monday: 0 doubles",
        "verified: True",
    ]
