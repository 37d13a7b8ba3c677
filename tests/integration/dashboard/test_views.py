"""Views of what faces, lines, trees and accounts have: one database with something of everything, as a person finds it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
import holdkit.client
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
            counted(hk)

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


def counted(hk: holdkit.Kernel) -> None:
    """A tree, a line that is longer than a page, and accounts."""
    for id, total in (
        ("venue", 20),
        ("venue//stalls", 12),
        ("venue//stalls//left", 6),
        ("venue//balcony", 10),
        (f"venue//{HOSTILE}", 2),
    ):
        hk.create_pool(id, total)
    hk.consume("venue//stalls//left", 4, account="customer:7")
    hk.create_pool("show", 4, per_account=3)
    hk.hold("show", 3, ttl="2h", account=HOSTILE)
    hk.hold("show", 1, ttl="2h", account="customer:7")
    for number in range(1, 24):
        hk.join("show", 1, ttl="2h", offer_ttl="5m", id=f"{1_000 - number:032x}", account=f"fan:{number}")


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


def test_a_tree_is_opened_level_by_level(browser: Browser, everything: Everything) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open("pool/venue")
        tree = page.locator(".tree").first
        expect(tree.locator("> li > .tree-row > .id")).to_have_text([HOSTILE.split("//", maxsplit=1)[0], "balcony", "stalls"])
        expect(tree).not_to_contain_text("left")
        tree.get_by_role("button", name="Pools below stalls").click()
        expect(tree).to_contain_text("2 of 6 free")
        tree.get_by_role("link", name="left").click()
        expect(page.locator("h1")).to_have_text("venue//stalls//left")
        page.get_by_role("navigation", name="Pools above").get_by_role("link", name="venue").click()
        expect(page.locator("h1")).to_have_text("venue")


def test_a_line_says_who_is_next_whatever_their_ids(browser: Browser, everything: Everything) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open("pool/show")
        rows = page.locator("[data-line] tbody tr")
        expect(rows).to_have_count(10)
        expect(rows.first).to_contain_text("next")
        expect(rows.first).to_contain_text("fan:1")
        for shown in (20, 23):
            page.locator("[data-line]").get_by_role("button", name="Show more").click()
            expect(rows).to_have_count(shown)
        expect(rows.last).to_contain_text("fan:23")
        rows.nth(1).get_by_role("link").click()
        expect(page.locator(".facts")).to_contain_text("fan:2")
        page.locator(".facts").get_by_role("link", name="fan:2").click()
        expect(page.locator("h1")).to_have_text("fan:2")
        expect(page.locator("main tbody tr")).to_have_text("show13")
        look(page, "account/" + quote(HOSTILE, safe=""))
        expect(page.locator("h1")).to_have_text(HOSTILE)
        expect(page.locator("main tbody tr")).to_have_text("show33")


def test_the_hold_of_a_claim_is_shown_by_its_key(browser: Browser, everything: Everything) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open(f"hold/{everything.claim}")
        expect(page.locator(".plain tbody")).to_contain_text("email:ann@example.org")
        expect(page.locator(".timeline")).to_contain_text("email:ann@example.org")
        assert "res_" not in page.locator("main").inner_text()


def test_the_client_reads_the_same(everything: Everything) -> None:
    with holdkit.client.connect(everything.server.url, key=everything.server.admin) as hk:
        assert [hold.account for hold in hk.line("show", limit=2)] == ["fan:1", "fan:2"]
        assert [hold.number for hold in hk.line("show", after=22)] == [23]
        assert [pool.id for pool in hk.children("venue//stalls")] == ["venue//stalls//left"]
        assert hk.children("venue", limit=1).more
        assert hk.catalog.present().rates
        assert hk.catalog.names("calendars") == ["inn"]
        rooms = hk.catalog.calendar("inn", everything.day(1).isoformat(), 3)
        assert [len(room.cells) for room in rooms if room.room == "double"] == [3]
        assert [one.consumed for one in hk.catalog.windows("rates", "api")] == [5]
        assert len(hk.catalog.resources("shop.shelf")) == 3
