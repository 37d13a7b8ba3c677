"""What the page shows and offers to an API key that may not see or do everything, and what it says of the rest."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

import holdkit
from holdkit.server import Keys
from tests.integration.dashboard.browser import Api, served, watched
from tests.integration.dashboard.test_outage import KilledServer, killable

__all__ = ["killable"]  # a fixture

POLL = 5_000
"""Milliseconds between two reads by a key that gets no summaries."""


def test_a_key_of_some_pools_sees_these_and_is_told_no_lie_about_the_server(
    browser: Browser, killable: KilledServer
) -> None:
    """It gets no summaries, because they tell of all pools: its own are read every few seconds instead."""
    with holdkit.connect(killable.database) as hk:
        for id in ("show", "show//stalls", "shop"):
            hk.create_pool(id, 10)
        hk.hold("show//stalls", 3, ttl="1h")
        key = Keys(hk).make("box office", scope="hold", pools=["show"]).text
    server = killable.start()
    with watched(browser, server, quiet=False) as tab, server.client() as http:
        tab.page.clock.install()
        page = tab.open(key=key)
        expect(page.get_by_role("list", name="Pools").get_by_role("listitem")).to_have_count(2)
        expect(page.locator("[data-sum=held]")).to_have_text("3")
        expect(page.locator("[data-sum=free]")).to_have_text("7")
        expect(page.locator(".connection")).to_contain_text("Every 5 s")
        expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(["Pools", "Holds"])
        for view in ("pool/show%2F%2Fstalls", "pool/shop", "holds", "journal", "claims", "health"):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            if view in ("pool/show%2F%2Fstalls", "holds"):
                expect(page.get_by_role("list", name="Holds").get_by_role("listitem")).to_have_count(1)
            else:
                expect(page.get_by_text("Not allowed with this API key").first).to_be_visible()
            said = page.locator("body").inner_text()
            assert not re.search("unreachable|cannot be reached|Out of date|Nothing was changed", said), (view, said)
        page.evaluate("location.hash = '#/pools'")
        Api(http).hold("show", 2)
        page.clock.fast_forward(POLL)
        expect(page.locator("[data-sum=held]")).to_have_text("5")
        killable.kill()
        page.clock.fast_forward(POLL)
        expect(page.locator("[data-stale]")).to_contain_text("the server cannot be reached")
        expect(page.locator("[data-stale]")).to_contain_text(re.compile(r"\d:\d\d ago"))
        expect(page.get_by_role("alert")).to_contain_text("Disconnected from the server")
        killable.start()
        page.clock.fast_forward(POLL)
        expect(page.locator("[data-stale]")).to_have_count(0)


def test_the_key_of_a_tenant_is_not_offered_what_covers_all_tenants(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        page = tab.open("health", key=server.key("admin", tenant="acme"))
        expect(page.get_by_text("need an API key of the default tenant")).to_be_visible()
        expect(page.get_by_role("button", name="Verify")).to_have_count(0)
        expect(page.get_by_role("button", name="Sweep now")).to_have_count(0)
        expect(page.locator("[data-concerns]")).to_have_count(0)
