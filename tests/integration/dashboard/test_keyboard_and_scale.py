"""Keys instead of a mouse, ten thousand pools, a server that goes and comes back."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from playwright.sync_api import Browser, Error, expect

import holdkit
from holdkit.commands import CreatePool
from holdkit.testing.postgres.server import free_port
from tests.integration.dashboard.browser import Api, served, watched
from tests.support.servers import QUICK, live_server


def test_the_keyboard_alone_finds_and_opens(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        for name in ("alpha", "beta:1", "beta:2", "gamma"):
            api.pool(name)
        page = tab.open()
        rows = page.get_by_role("list", name="Pools").get_by_role("listitem")
        expect(rows).to_have_count(4)
        page.keyboard.press("f")
        page.keyboard.type("beta")
        expect(rows).to_have_count(2)
        page.keyboard.press("ArrowDown")
        expect(rows.nth(0).get_by_role("link")).to_be_focused()
        page.keyboard.press("j")
        expect(rows.nth(1).get_by_role("link")).to_be_focused()
        page.keyboard.press("k")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("beta:2")
        page.keyboard.press("Escape")
        expect(rows).to_have_count(2)
        page.keyboard.press("f")
        page.keyboard.press("Escape")
        expect(rows).to_have_count(4)
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
        page.keyboard.press("g")
        page.keyboard.press("j")
        expect(page.locator("h1")).to_have_text("Journal")


def test_ten_thousand_pools_scroll_and_the_document_does_not_grow(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pools(10_000)
        page = tab.open()
        expect(page.get_by_text("10,000 pools")).to_be_visible()
        expect(page.get_by_text("shelf:00000")).to_be_visible()
        count = "document.querySelectorAll('*').length"
        before = page.evaluate(count)
        for part in (0.25, 0.5, 0.75, 1):
            page.evaluate(
                "part => { const m = document.querySelector('main'); m.scrollTop = m.scrollHeight * part }", part
            )
            expect(page.locator(".virtual-row").first).not_to_have_attribute("data-index", "0")
        expect(page.get_by_text("shelf:09999")).to_be_visible()
        assert page.evaluate(count) < before + 100
        assert page.locator(".virtual-row").count() < 60
        api.hold("shelf:09998", 40)
        expect(page.get_by_role("link", name=re.compile("shelf:09998")).get_by_role("img")).to_have_attribute(
            "aria-label", "0 consumed, 40 held, 60 free of 100"
        )
        page.get_by_role("searchbox").fill("0777")
        expect(page.get_by_text("11 pools")).to_be_visible()


def test_more_pools_than_are_kept_are_searched_for_on_the_server(browser: Browser, tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        for start in range(0, 102_000, 1_000):
            hk.apply([CreatePool(id=f"shelf:{n:06}", total=9) for n in range(start, start + 1_000)])
        hk.create_pool("zebra:7", total=5)
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("cover the first 50,000 by name")).to_be_visible()
        rows = page.get_by_role("list", name="Pools").get_by_role("listitem")
        page.get_by_role("searchbox").fill("zebra")
        expect(rows).to_have_count(1)
        expect(page.get_by_text("1 pool so far")).to_be_visible()
        page.get_by_role("button", name="Search more").click()
        expect(page.get_by_text("1 pool in total")).to_be_visible()
        page.get_by_role("searchbox").fill("LF:10199")
        expect(page.get_by_text("None so far")).to_be_visible()
        page.get_by_role("button", name="Search more").click()
        expect(page.get_by_text("10 pools in total")).to_be_visible()
        page.get_by_role("searchbox").fill("shelf:1017")
        expect(rows.first).to_contain_text("shelf:101700")
        page.get_by_role("searchbox").fill("nothing of the kind")
        expect(page.get_by_text("None so far")).to_be_visible()
        page.get_by_role("button", name="Search more").click()
        expect(page.get_by_text("No matching pool")).to_be_visible()
        page.get_by_role("searchbox").fill("zebra:7")
        rows.get_by_role("link").click()
        expect(page.locator("[data-figure=held]")).to_have_text("0")
        Api(http).hold("zebra:7", 3)  # beyond what is kept, and yet it moves
        expect(page.locator("[data-figure=held]")).to_have_text("3")


def test_thousands_of_entries_are_kept_within_bounds(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 1_000_000)
        page = tab.open("journal")
        expect(page.get_by_text("the last 1", exact=True)).to_be_visible()
        for batch in range(5):
            commands = [
                {"type": "hold", "pool": "gpu", "quantity": 1, "ttl": 600, "op": f"{batch}-{n}"} for n in range(1_000)
            ]
            assert http.post("/v1/batch", json={"commands": commands}).status_code == 200
        expect(page.get_by_text("the last 3,000", exact=True)).to_be_visible()
        expect(page.get_by_role("listitem").first).to_contain_text("+1 held")
        assert page.locator(".virtual-row").count() < 60
        page.evaluate("location.hash = '#/pool/gpu'")
        expect(page.locator("[data-figure=held]")).to_have_text("5,000")
        expect(page.get_by_text("showing the first 1,000")).to_be_visible()
        assert page.locator(".virtual-row").count() < 60


def test_a_server_that_was_gone_is_found_again(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    url = f"sqlite:///{tmp_path}/holds.db"
    with contextlib.ExitStack() as stack:
        with live_server(url, settings=QUICK, port=port) as server:
            tab = stack.enter_context(watched(browser, server, quiet=False))
            with server.client() as http:
                Api(http).pool("gpu", 8)
            page = tab.open()
            row = page.get_by_role("link", name=re.compile("gpu"))
            expect(row).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("Disconnected from the server")
        expect(row).to_be_visible()
        with holdkit.connect(url) as hk:
            hk.hold("gpu", 5, ttl=600)
            hk.create_pool("new", total=1)
        with live_server(url, settings=QUICK, port=port):
            now = page.get_by_role("button", name="Reconnect now")
            with contextlib.suppress(Error):  # it may have looked by itself
                now.click(timeout=1_000)
            expect(row.get_by_role("img")).to_have_attribute("aria-label", "0 consumed, 5 held, 3 free of 8")
            expect(page.get_by_role("link", name=re.compile("new"))).to_be_visible()
            expect(page.get_by_text("Live")).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
        assert tab.complaints, "the browser itself tells of a server that is gone"
        assert all("Failed to load resource" in said or "ERR_" in said for said in tab.complaints), tab.complaints
