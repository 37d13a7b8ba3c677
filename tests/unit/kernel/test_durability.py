"""Every engine says what a done answer survives, and every answer that changed something carries it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.cli.documents import DoctorDocument
from tests.conftest import Migrated
from tests.support.command_line import told
from tests.support.modes import Async, Sync

LEVELS = {"memory": "process", "sqlite": "local", "postgres": "local"}


class Executors(holdkit.Resource[str, str]):
    kind = "desks"

    def capacity(self, tx: object, key: str, window: str) -> int:
        return 3


@pytest.fixture(params=list(LEVELS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The level that is expected, and the URL."""
    if request.param == "postgres":
        migrated: Migrated = request.getfixturevalue("migrated")
        return "local", migrated()
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    return LEVELS[request.param], urls[request.param]


def test_answers_carry_what_they_survive(place: tuple[str, str], mode: Sync | Async) -> None:
    level, url = place
    hk: Any = holdkit.connect(url) if isinstance(mode, Sync) else mode.run(holdkit.connect_async, url)
    try:
        hk.create_pool("p", 10)
        placed = hk.hold("p", 1, ttl=60)
        answers = [
            placed,
            hk.extend(placed, by=5),
            hk.confirm(placed),
            hk.return_units(placed),
            hk.consume("p", 1),
            hk.release(hk.hold("p", 1, ttl=60, op="again")),
            *[
                one.unwrap()
                for one in hk.apply([holdkit.commands.PlaceHold(legs=(holdkit.Leg("p", 1),), ttl_slots=60_000_000)])
            ],
            hk.rate("api", holdkit.Allowance(5, per="day")).consume("client"),
            hk.confirm(hk.claims.hold("name", "x", ttl=60, token="me"), entity="user:1"),
            hk.claims.hold("name", "y", ttl=60, token="me"),
            hk.claims.hold("name", "y", ttl=60, token="me"),
            hk.resource(Executors()).hold("blue", "monday", ttl=60),
        ]
        with pytest.raises(holdkit.AlreadyReleased):
            hk.release(answers[5])
        assert [answer.durability for answer in answers] == [level] * 12
        assert hk.get(placed.id).durability is None, "what was only read was not changed"
        assert pickle.loads(pickle.dumps(answers[-2])).durability == level
        assert "durability" not in answers[-2].to_dict()
        assert hk.admin.stats().durability.level == level
        assert hk.admin.stats().durability.says
        assert abs(hk.admin.stats().clock_lag) < 1
        assert "durability" not in placed.to_dict()
    finally:
        hk.close()


def test_the_doctor_says_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url):
        pass
    report = told(DoctorDocument, "doctor", url)
    (found,) = [finding for finding in report.findings if finding.name == "durability"]
    assert (found.level, found.says) == (
        "ok",
        "local: changes are synced to this machine's disk before their calls return",
    )
