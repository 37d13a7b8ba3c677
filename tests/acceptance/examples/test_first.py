"""The ten programs that a newcomer reads first: each runs, and prints what its page shows."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

from tools.api_budget import PROGRAMS

PRINTS = {
    "program_01_readme": "True True\n2 1\n1 True\n",
    "program_04_llm_budget": "{'requests': 59, 'tokens': 8750}\n{'tokens': 250}\nNot enough left 0\n",
    "program_08_saga": "charged 30 as saga:order-9:1\nNot enough left\n",
    "program_09_clock": "",
    "program_10_operator": "90 days, 0:00:00\nlimits.changed audit\npool.resized None\nhold.held school class\n"
    "hold.released card reported stolen\n",
}


def test_the_clock(program: dict[str, Any]) -> None:
    program["test_a_hold_ends_at_its_deadline"]()


@pytest.fixture
def program() -> dict[str, Any]:
    return runpy.run_path(str(PROGRAMS / "program_09_clock.py"))


@pytest.mark.parametrize("name", PRINTS)
def test_a_program_prints(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTS[name]


def test_every_program_is_run() -> None:
    assert set(PRINTS) == {path.stem for path in PROGRAMS.glob("*.py")}
