"""Every file in `examples/` runs and prints what it promises."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

SAYS = {
    "checkout_slot": "sold out: 0 of 1\nreleased\nconfirmed\nconfirmed\n",
    "rate_limit": "[True, True, False] False\n[True, True, False]\n0 2 of 2\n1 2 of 2\n[1001]\n",
    "sweeping": "5 expired\n0 holds expired\n",
    "tickets": "0 of 2 free; over: True\n42 confirmed user:7\n42 expired user:8\n42 held user:9\n",
}


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == SAYS[name]
    assert (EXAMPLES / f"{name}.py").read_text("utf-8").startswith('"""')


def test_resources_have_their_four_examples() -> None:
    assert set(SAYS) <= {path.stem for path in EXAMPLES.glob("*.py")}
