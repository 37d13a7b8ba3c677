"""Lines, accounts and trees on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.wire.holds import HoldNow, PlaceAnswer
from holdkit.wire.pools import PoolNow, PoolUsageAnswer
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import each, run, told

LINE = ("--ttl", "2h", "--offer-ttl", 600)


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_URL", f"sqlite:///{tmp_path}/holds")


def test_a_line_from_joining_to_confirmation() -> None:
    made = told(PoolNow, "pools", "create", "show", 2, "--per-account", 2, "--line", "skip")
    assert (made.per_account, made.line) == (2, "skip")
    assert refusal("hold", "show", "--ttl", 60).reason == "account_required"
    held = told(HoldNow, "hold", "show", "--units", 2, "--ttl", "5m", "--account", "customer:7")
    first = told(HoldNow, "join", "show", "--units", 2, *LINE, "--account", "customer:8")
    assert (first.state, first.number, first.offer_ttl) == ("waiting", 1, 600.0)
    ticket = run("join", "show", *LINE, "--account", "customer:9").out.strip()
    assert ticket.startswith("hk1.")
    assert told(PlaceAnswer, "place", "-", stdin=ticket + "\n").place == 2
    heads, row = run("place", ticket).out.splitlines()
    assert heads.split() == ["hold", "state", "place", "deadline"]
    assert row.split()[1:3] == ["waiting", "2"]
    assert "2 waiting" in run("pools", "list").out
    assert held.ticket is not None
    assert first.ticket is not None
    told(HoldNow, "release", held.ticket)
    offered = told(PlaceAnswer, "place", first.ticket)
    assert (offered.state, offered.place) == ("held", None)
    assert told(HoldNow, "confirm", first.ticket).state == "confirmed"
    assert told(HoldNow, "release", ticket).state == "released"
    again = refusal("hold", "show", "--ttl", 60, "--account", "customer:8")
    assert (again.reason, again.details["used"], again.details["limit"]) == ("account_limit", 2, 2)
    (usage,) = each(PoolUsageAnswer, "accounts", "usage", "customer:8")
    assert (usage.pool, usage.used, usage.limit) == ("show", 2, 2)
    assert run("accounts", "usage", "customer:8").out.split() == ["pool", "used", "limit", "show", "2", "2"]


def test_a_box_office_passes_the_limit_and_changes_it() -> None:
    told(PoolNow, "pools", "create", "show", 9, "--per-account", 1)
    asked = ("hold", "show", "--units", 3, "--ttl", 60, "--account", "a", "--force")
    assert refusal(*asked, code=2).field == "reason"
    assert told(HoldNow, *asked, "--reason", "box office").account == "a"
    assert told(PoolNow, "pools", "limit", "show", 4).per_account == 4
    assert told(PoolNow, "pools", "limit", "show", "none").per_account is None
    assert "a number of units, or none" in run("pools", "limit", "show", "many", code=2).err
    assert refusal("pools", "limit", "show", 0, code=2).field == "per_account"


def test_a_venue_and_its_sections() -> None:
    told(PoolNow, "pools", "create", "venue", 3)
    told(PoolNow, "pools", "create", "venue//stalls", 3)
    told(HoldNow, "hold", "venue//stalls", "--units", 2, "--ttl", "5m")
    assert [told(PoolNow, "pools", "show", pool).held for pool in ("venue", "venue//stalls")] == [2, 2]
    assert refusal("pools", "remove", "venue").reason == "pool_in_use"
    assert refusal("join", "venue//stalls", *LINE, code=2).code == "pool_without_line"
