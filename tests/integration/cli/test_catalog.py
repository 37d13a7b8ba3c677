"""``holdkit admin catalog`` and ``holdkit pools list --below``: what the dashboard shows of calendars, budgets, rates,
resources and trees of pools, the same from a database and from its server."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Allowance, Seat
from holdkit.cli.documents import NameDocument
from holdkit.wire.catalog import FacesAnswer, ResourceAnswer, RoomAnswer, StoredWindowAnswer
from holdkit.wire.pools import PoolAnswer
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import each, run, told
from tests.support.servers import live_server

BEGIN = date(2099, 7, 1)


class Table(holdkit.Resource[Any, Any]):
    """Tables, as an application knows them."""

    kind = "table"

    def capacity(self, tx: Any, key: Any, window: Any) -> int:
        return 6


def fill(url: str) -> None:
    """Something of every face that the catalog lists."""
    with holdkit.connect(url) as hk:
        inn = hk.calendar("inn", {"double": 3, "suite": 1})
        inn.hold({"double": 2, "suite": 1}, BEGIN, date(2099, 7, 3), ttl="1h")
        llm = hk.budget("llm", tokens=Allowance(1_000, per="day"))
        for client in ("customer:7", "customer:8"):
            llm.hold(client, {"tokens": 100}, ttl="1h")
        hk.rate("api", Allowance(100, per="day")).consume("customer:7", 5)
        for key in ("window", "door"):
            hk.resource(Table()).hold(key, None, 2, ttl="1h")
        hk.seats.add([Seat("A-1", "the stalls", "A", 1), Seat("B-1", "balcony", "B", 1)])
        hk.create_pool("venue", total=10)
        for name in ("venue//left", "venue//right"):
            hk.create_pool(name, total=5)


def everything() -> list[Any]:
    """What each command prints for programs."""
    present = told(FacesAnswer, "admin", "catalog", "faces")
    assert (present.calendars, present.sections, present.sagas) == (True, True, False)
    named = {
        face: [one.name for one in each(NameDocument, "admin", "catalog", "names", face)]
        for face in ("calendars", "budgets", "rates", "resources", "sections")
    }
    assert named == {
        "calendars": ["inn"], "budgets": ["llm"], "rates": ["api"], "resources": ["table"],
        "sections": ["balcony", "the stalls"],
    }  # fmt: skip
    rooms = each(RoomAnswer, "admin", "catalog", "calendar", "inn", BEGIN, "--days", 7)
    assert [(one.room, [(cell.begins, cell.held, cell.available) for cell in one.cells]) for one in rooms] == [
        ("double", [("2099-07-01", 2, 1), ("2099-07-02", 2, 1)]),
        ("suite", [("2099-07-01", 1, 0), ("2099-07-02", 1, 0)]),
    ]
    windows = each(StoredWindowAnswer, "admin", "catalog", "windows", "budgets", "llm")
    assert [(one.client, one.budget, one.held, one.total) for one in windows] == [
        ("customer:7", "tokens", 100, 1_000),
        ("customer:8", "tokens", 100, 1_000),
    ]
    rates = each(StoredWindowAnswer, "admin", "catalog", "windows", "rates", "api", "--client", "customer:7")
    assert [(one.budget, one.consumed) for one in rates] == [("", 5)]
    tables = each(ResourceAnswer, "admin", "catalog", "resources", "table")
    assert sorted((one.key, one.total, one.held) for one in tables) == [('"door"', 6, 2), ('"window"', 6, 2)]
    below = each(PoolAnswer, "pools", "list", "--below", "venue", "--archived")
    assert [(one.id, one.total) for one in below] == [("venue//left", 5), ("venue//right", 5)]
    return [named, rooms, windows, rates, tables, [one.id for one in below]]


def people() -> None:
    """What people read, and how a longer list goes on."""
    assert run("admin", "catalog", "calendar", "inn", BEGIN).out.splitlines()[1].split() == [
        "double", "2099-07-01", "3", "2", "0", "1", "2099-07-02", "00:00:00",
    ]  # fmt: skip
    assert "customer:8  tokens  day" in run("admin", "catalog", "windows", "budgets", "llm").out
    assert run("admin", "catalog", "windows", "rates", "api").out.splitlines()[1].split()[:3] == [
        "customer:7",
        "-",
        "day",
    ]
    assert "calendars  yes" in run("admin", "catalog", "faces").out
    first = run("admin", "catalog", "names", "sections", "--limit", 1)
    assert first.out.splitlines() == ["sections", "balcony"]
    assert first.err == "there is more: continue with --after balcony\n"
    assert run("admin", "catalog", "names", "sections", "--after", "balcony").out.splitlines() == [
        "sections",
        "the stalls",
    ]
    assert "continue with --after double" in run("admin", "catalog", "calendar", "inn", BEGIN, "--limit", 1).err
    assert "continue with --after venue//left" in run("pools", "list", "--below", "venue", "--limit", 1).err
    assert "continue with --after '" in run("admin", "catalog", "resources", "table", "--limit", 1).err, (
        "quoted for a shell"
    )


def wrong() -> None:
    """Bad input is named as it was typed."""
    assert (
        "DATE: must be a date such as 2026-07-01"
        in refusal("admin", "catalog", "calendar", "inn", "soon", code=2).message
    )
    assert "KIND: " in refusal("admin", "catalog", "resources", "a/b", code=2).message
    assert "CALENDAR: must not be empty" in refusal("admin", "catalog", "calendar", "", BEGIN, code=2).message
    assert "'hotels' is not one of" in refusal("admin", "catalog", "names", "hotels", code=2).message
    assert refusal("pools", "list", "--below", "nowhere").reason == "pool_not_found"
    assert each(RoomAnswer, "admin", "catalog", "calendar", "nobody's", BEGIN) == []


def test_the_catalog_is_the_same_from_a_database_and_from_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    fill(url)
    monkeypatch.setenv("HOLDKIT_URL", url)
    stored = everything()
    people()
    wrong()
    assert each(NameDocument, "admin", "catalog", "names", "calendars", "--tenant", "acme") == []
    with live_server(url) as server:
        monkeypatch.setenv("HOLDKIT_URL", server.url)
        monkeypatch.setenv("HOLDKIT_KEY", server.admin)
        assert everything() == stored
        people()
        wrong()
        monkeypatch.setenv("HOLDKIT_KEY", server.key("read", "acme"))
        assert each(NameDocument, "admin", "catalog", "names", "calendars") == []
