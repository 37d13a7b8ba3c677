"""The ten programs that a newcomer reads first: each runs, and prints what its page shows."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tools.api_budget import PROGRAMS

PRINTS = {
    "program_01_readme": "True True\n2 1\n1 True\n",
    "program_02_shop": "",
    "program_03_sign_up": "Already taken\n<Claim email:ann@example.com confirmed for user:7>\n",
    "program_04_llm_budget": "{'requests': 59, 'tokens': 8750}\n{'tokens': 250}\nNot enough left 0\n",
    "program_05_hotel": "['inn/parking/2027-07-01', 'inn/parking/2027-07-02', 'inn/parking/2027-07-03']\nTrue\n",
    "program_06_seats": "('42/A4', '42/A5')\nSome of these are gone\n['available', 'available', 'confirmed']\n",
    "program_07_line": "waiting 1\nNot enough left\nheld 0:05:00\n",
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


def test_the_shop() -> None:
    shop = runpy.run_path(str(PROGRAMS / "program_02_shop.py"))
    with TestClient(shop["app"]) as client:
        order = client.post("/orders", params={"customer": "ann", "count": 4}).json()
        assert order["pay_before"]
        fifth = client.post("/orders", params={"customer": "ann", "count": 1})
        assert (fifth.status_code, fifth.json()["title"]) == (409, "Limit per customer reached")
        paid = client.post("/payments", params={"ticket": order["ticket"], "payment": "p-1"})
        assert paid.json() == "confirmed"


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
