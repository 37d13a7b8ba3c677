"""A process killed (`kill -9`, by itself, in the middle of its saga) on SQLite and PostgreSQL; another one recovers."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdkit

SCRIPT = """
import os, signal, sys
import holdkit

class Order(holdkit.Saga):
    name, lease = "order", 0.001

    def reserve(self, intent, step):
        die("reserve")
        return "p"

    def validate(self, intent, step):
        die("validate")

    def effect(self, intent, step):
        die("effect")

def die(here):
    if here == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

with holdkit.connect(sys.argv[1]) as hk:
    hk.sagas.register(Order).run("order-1", {})
"""


class Order(holdkit.Saga):
    """The same, in good health."""

    name = "order"
    effects = 0

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> str:
        return "p"

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> None:
        Order.effects += 1


@pytest.mark.parametrize("point", ["reserve", "validate", "effect"])
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_another_process_goes_on(engine: str, point: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    if engine == "postgres":
        url = request.getfixturevalue("postgres_url")
        holdkit.migrate(url)
    Order.effects = 0
    with holdkit.connect(url) as hk:
        hk.create_pool("p", 1)
        died = subprocess.run([sys.executable, "-c", SCRIPT, url, point], check=False, capture_output=True)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        seen = hk.sagas.get("order-1")
        assert seen is not None
        assert (seen.phase, hk.pool("p").held) == {"reserve": ("reserving", 0), "validate": ("reserving", 1),
                                                   "effect": ("finalizing", 1)}[point]  # fmt: skip
        hk.sagas.register(Order)
        assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(done=1)
        assert (hk.pool("p").held, hk.pool("p").consumed, Order.effects) == (0, 1, 1)
        assert hk.admin.verify().ok
