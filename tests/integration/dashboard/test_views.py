"""Views of what faces, lines, trees and accounts have: one database with something of everything, as a person finds it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
from holdkit import Allowance
from tests.integration.dashboard.browser import served, watched
from tests.integration.dashboard.test_accessibility import found
from tests.support.servers import LiveServer

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp/@#%2F" + "w" * 60
"""A name that is long, turns its direction, and would like to be markup."""


class Shelf(holdkit.Resource[Any, Any]):
    """A resource whose keys are of any kind."""

    kind = "shop.shelf"

    def capacity(self, tx: Any, key: Any, window: Any) -> int:
        return 7


class Everything:
    """A server whose database has something of every face, lines, a tree and accounts; but no counted pool of tenant `quiet`."""

    def __init__(self, server: LiveServer, url: str) -> None:
        self.server = server
        with holdkit.connect(url) as hk:
            self.today = hk.executor.now() // 86_400_000_000
            faces(hk, self.day(1))
            faces(hk.tenant("quiet"), self.day(1))
            self.claim = hk.claims.reserve("email", "ann@example.org", ttl="1h").hold_id

    def day(self, offset: int) -> date:
        """A date, so many days after that of the engine's clock."""
        return date(1970, 1, 1) + timedelta(days=self.today + offset)


def faces(hk: holdkit.Kernel, begin: date) -> None:
    """Something of every face."""
    inn = hk.calendar("inn", {"double": 10, "suite": 2, HOSTILE[:64]: 1})
    inn.hold({"double": 3, "suite": 1}, begin, begin + timedelta(days=3), ttl="2h")
    inn.consume({"suite": 1, HOSTILE[:64]: 1}, begin + timedelta(days=1), begin + timedelta(days=2))
    llm = hk.budgets("llm", tokens=Allowance(1_000, per="day"), calls=Allowance(10, per="year"))
    for client in ("team-a", HOSTILE):
        llm.hold(client, {"tokens": 100}, ttl="2h")
        llm.consume(client, {"tokens": 40, "calls": 9})
    hk.rates("api", Allowance(100, per="year")).take("client-7", 5)
    shelf = hk.resource(Shelf())
    for key in (HOSTILE, ("aisle", 4), "y" * 300):
        shelf.hold(key, None, 2, ttl="2h")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder: Path = tmp_path_factory.mktemp("views")
    with served(folder) as (server, _):
        yield Everything(server, f"sqlite:///{folder}/holds.db")


def look(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = '#/' + view }", view)


def test_who_has_no_counted_pool_is_told_what_there_is(browser: Browser, everything: Everything) -> None:
    server = everything.server
    with watched(browser, server) as tab:
        page = tab.open("pools", key=server.key("read", "quiet"))
        there = page.locator("[data-there-is]")
        expect(there).to_contain_text("calendars, budgets, rates, resources")
        there.get_by_role("link", name="budgets").click()
        expect(page.locator("h1")).to_have_text("Faces")
        for name in ("inn", "llm", "api", "shop.shelf"):
            expect(page.locator(".names").get_by_text(name, exact=True)).to_be_visible()
        assert found(page) == []
