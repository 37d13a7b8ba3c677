"""Every file in `examples/` runs and prints what it promises."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

SAYS = {
    "apscheduler_jobs": "3 reports, at most 1 at a time\n",
    "checkout_slot": "sold out: 0 of 1\nreleased\nconfirmed\nconfirmed\n",
    "dramatiq_jobs": "6 models trained, all evaluated on 2 GPUs\n2 GPUs free, 1 forgotten hold swept\n",
    "gpu_slots": "12 jobs wait for 4 GPUs\nan impatient job gave up: 0 of 4 free\n"
    "all 12 ran, never on more than 4 GPUs: True, fences differ: True\n4 GPUs free, 0 jobs waiting\n",
    "rate_limit": "[True, True, False] False\n[True, True, False]\n0 2 of 2\n1 2 of 2\n[1001]\n",
    "sweeping": "5 expired\n0 holds expired\n",
    "ticket_drop": "550 places in line, 50 refused, the 21st has place 21\n"
    "100 seats sold to 47 customers, at most 4 each\n"
    "served in order: True; still waiting: 476\n",
    "venue": "confirmed\ncustomer:1 has 4 of 5\nconfirmed\narena: 3 of 10 left\narena//balcony is closed\nconfirmed\n"
    "arena: 10 of 10, 0 bookable\narena//balcony: 2 of 6, 0 bookable\narena//stalls: 8 of 8, 0 bookable\n"
    "customer:2 has 3 of arena\ncustomer:2 has 2 of arena//balcony\ncustomer:2 has 1 of arena//stalls\n",
    "tickets": "0 of 2 free; over: True\n42 confirmed user:7\n42 expired user:8\n42 held user:9\n",
}


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == SAYS[name]
    assert (EXAMPLES / f"{name}.py").read_text("utf-8").startswith('"""')


def test_every_example_that_prints_is_run() -> None:
    assert set(SAYS) <= {path.stem for path in EXAMPLES.glob("*.py")}
