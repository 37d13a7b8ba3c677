"""Views of what faces, lines, trees and accounts have: one database with something of everything, as a person finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
import holdkit.client
from holdkit import Allowance, Seat
from tests.integration.dashboard.browser import DESKTOP, PHONE, served, watched
from tests.integration.dashboard.test_accessibility import found, seen_by
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
            self.today = hk._executor.now() // 86_400_000_000
            faces(hk, self.day(1))
            faces(hk.tenant("quiet"), self.day(1))
            self.claim = hk.claims.hold("email", "ann@example.org", ttl="1h").id
            counted(hk)

    def day(self, offset: int) -> date:
        """A date, so many days after that of the engine's clock."""
        return date(1970, 1, 1) + timedelta(days=self.today + offset)


def faces(hk: holdkit.Kernel, begin: date) -> None:
    """Something of every face."""
    inn = hk.calendar("inn", {"double": 10, "suite": 2, HOSTILE[:64]: 1})
    inn.hold({"double": 3, "suite": 1}, begin, begin + timedelta(days=3), ttl="2h")
    inn.consume({"suite": 1, HOSTILE[:64]: 1}, begin + timedelta(days=1), begin + timedelta(days=2))
    llm = hk.budget("llm", tokens=Allowance(1_000, per="day"), calls=Allowance(10, per="year"))
    for client in ("team-a", HOSTILE):
        llm.hold(client, {"tokens": 100}, ttl="2h")
        llm.consume(client, {"tokens": 40, "calls": 9})
    hk.rate("api", Allowance(100, per="year")).consume("client-7", 5)
    seats = [
        Seat(f"{row}{n}", "stalls", row, n, kind="wheelchair" if n == 9 else "")
        for row in "AB"
        for n in (1, 2, 3, 5, 6, 9)
    ]
    hk.seats.add([*seats, Seat(HOSTILE, HOSTILE[:64], HOSTILE[:64], 1)])
    hk.items.hold(["A1", "A2"], ttl="2h")
    hk.confirm(hk.items.hold(["B5"], ttl="2h"))
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
        expect(tree.locator("> li > .tree-row > .id")).to_have_text(
            [HOSTILE.split("//", maxsplit=1)[0], "balcony", "stalls"]
        )
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
        look(page, "past?action=hold.held")
        expect(page.locator("h1")).to_have_text("Past journal")
        entry = page.get_by_role("listitem").filter(has_text="email:ann@example.org")
        expect(entry).to_have_count(1)
        look(page, "holds?state=held")
        expect(page.locator("h1")).to_have_text("Holds")
        expect(page.get_by_role("listitem").filter(has_text="email:ann@example.org")).to_have_count(1)
        assert "res_" not in page.locator("main").inner_text()


def test_the_client_reads_the_same(everything: Everything) -> None:
    with holdkit.client.connect(everything.server.url, key=everything.server.admin) as hk:
        assert [hold.account for hold in hk.line("show", limit=2)] == ["fan:1", "fan:2"]
        assert [hold.raw.number for hold in hk.line("show", after="22")] == [23]
        assert [pool.id for pool in hk.pools(below="venue//stalls", archived=True)] == ["venue//stalls//left"]
        assert hk.pools(below="venue", archived=True, limit=1).next
        assert hk.admin.catalog.present().rates
        assert hk.admin.catalog.names("calendars") == ["inn"]
        rooms = hk.admin.catalog.calendar("inn", everything.day(1).isoformat(), 3)
        assert [len(room.cells) for room in rooms if room.room == "double"] == [3]
        assert [one.consumed for one in hk.admin.catalog.windows("rates", "api")] == [5]
        assert len(hk.admin.catalog.resources("shop.shelf")) == 3


def test_a_calendar_is_rooms_by_nights_and_nothing_is_drawn_for_what_was_never_held(
    browser: Browser, everything: Everything
) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open("calendar/inn")
        row = page.get_by_role("row", name="double")
        expect(row.locator(".cell")).to_have_count(14)
        expect(row.locator(".cell[data-never]")).to_have_count(11)
        expect(row.locator("td").nth(1)).to_contain_text("7 free of 10, 3 held, 0 booked")
        suite = page.get_by_role("row", name="suite").locator("td").nth(2)
        expect(suite).to_contain_text("0 free of 2, 1 held, 1 booked")
        expect(suite.locator("[data-kind=full]")).to_have_count(1)
        suite.get_by_role("link").click()
        expect(page.locator("h1")).to_have_text("Holds")
        expect(page.get_by_role("listitem")).to_have_count(2)
        page.go_back()
        expect(page.get_by_role("row").filter(has_text=HOSTILE[:64])).to_be_visible()
        page.get_by_role("button", name="Later").click()
        expect(row.locator(".cell[data-never]")).to_have_count(14)
        page.get_by_label("From").fill(everything.day(3).isoformat())
        expect(row.locator("td").nth(0)).to_contain_text("7 free of 10")
        expect(page).to_have_url(re.compile(rf"#/calendar/inn\?from={everything.day(3)}$"))
        page.reload()
        expect(row.locator("td").nth(0)).to_contain_text("7 free of 10")
        look(page, "calendar/nobodys")
        expect(page.get_by_text("Nothing is kept of a calendar of this name")).to_be_visible()


def test_budgets_show_estimates_and_actual_amounts_and_rates_what_was_taken(
    browser: Browser, everything: Everything
) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open("budgets/llm")
        rows = page.locator("main tbody tr")
        expect(rows).to_have_count(4)
        expect(rows.first.locator("td").first).to_have_text(HOSTILE)
        page.get_by_label("Client").fill("team-a")
        expect(rows).to_have_count(2)
        figures = rows.filter(has_text="tokens").locator(".figure")
        expect(figures).to_have_text(["100", "40", "860", "1,000"])
        expect(rows.filter(has_text="calls").locator(".figure")).to_have_text(["0", "9", "1", "10"])
        expect(rows.filter(has_text="calls")).to_contain_text("ends in")
        expect(page).to_have_url(re.compile(r"#/budgets/llm\?client=team-a$"))
        page.reload()
        expect(rows).to_have_count(2)
        look(page, "rates/api")
        expect(rows).to_have_count(1)
        expect(rows.locator(".figure")).to_have_text(["5", "95", "100"])


def test_resources_are_shown_by_key_and_seats_as_a_map(browser: Browser, everything: Everything) -> None:
    with watched(browser, everything.server) as tab:
        page = tab.open("resources/shop.shelf")
        keys = page.locator("main tbody tr td:first-child")
        expect(keys).to_have_count(3)
        assert sorted(keys.all_inner_texts()) == sorted([HOSTILE, '["aisle",4]', "y" * 300])
        look(page, "section/stalls")
        seats = page.get_by_role("list", name="Row A").get_by_role("listitem")
        expect(seats).to_have_text(["1held", "2held", "3available", "5available", "6available", "9available"])
        assert seats.nth(3).evaluate("at => getComputedStyle(at).marginLeft") == "32px", "an aisle"
        expect(page.get_by_role("list", name="Row B").locator("[data-state=confirmed]")).to_have_text("5confirmed")
        seats.first.get_by_role("link").click()
        expect(page.locator(".plain tbody")).to_contain_text("A2")
        look(page, "section/" + quote(HOSTILE[:64], safe=""))
        expect(page.locator(".seat-row")).to_have_count(1)
        look(page, "calendar/inn")
        expect(page.get_by_role("row", name="double")).to_be_visible()
        with holdkit.client.connect(everything.server.url, key=everything.server.admin) as hk:
            before = page.get_by_role("row", name="suite").locator("td").nth(5)
            expect(before.locator("[data-never]")).to_have_count(1)
            day = everything.day(5)
            hk.calendar("inn", {"suite": 2}).consume("suite", day, day + timedelta(days=1))
            expect(before).to_contain_text("1 free of 2")


VIEWS = (
    "faces",
    "calendar/inn",
    "budgets/llm",
    "rates/api",
    "resources/shop.shelf",
    "section/stalls",
    "items",
    "account/customer:7",
    "pool/show",
    "pool/venue",
)


EYES: list[tuple[Any, Any]] = [("light", DESKTOP), ("dark", PHONE)]


@pytest.mark.parametrize("number", range(len(EYES)), ids=["light-desk", "dark-phone"])
def test_axe_finds_nothing_on_any_view(browser: Browser, everything: Everything, number: int) -> None:
    mode, size = EYES[number]
    with watched(browser, everything.server, color_scheme=mode, viewport=size) as tab:
        page = tab.open()
        for view in seen_by(VIEWS, number, len(EYES)):
            look(page, view)
            expect(page.locator("main .card, main .items").first).to_be_visible()
            expect(page.locator("main [aria-busy]")).to_have_count(0)
            assert found(page) == [], view
            wide = page.evaluate(
                "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
            )
            assert wide <= 0, f"{view} is wider than the screen"
            for side in ("Width", "Height"):
                beyond = page.evaluate(f"document.documentElement.scroll{side} - document.documentElement.client{side}")
                assert beyond <= 0, f"{view}: the page itself scrolls"
