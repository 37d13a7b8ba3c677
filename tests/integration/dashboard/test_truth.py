"""What the page says while it waits, by which clock, of which time, and what it counts as a matter for a person."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from playwright.sync_api import Browser, Route, expect

import holdkit
from holdkit.testing.clock import FakeClock
from tests.integration.dashboard.browser import Api, served, watched
from tests.integration.dashboard.test_managing import Receiver, receiver
from tests.integration.dashboard.test_outage import EMPTY, says
from tests.integration.dashboard.test_outage_views import NOTHING, VIEWS
from tests.support.servers import NOON, QUICK
from tests.support.threads import wait_until

__all__ = ["receiver"]  # a fixture


def test_every_view_says_that_it_loads_until_there_is_an_answer(browser: Browser, tmp_path: Path) -> None:
    """The answers to what views read are kept back, for ever."""
    views = {view for view in (*VIEWS, *NOTHING, "journal", "health", "pool/gpu") if view != "keys"} | {
        "keys",
        "hold/" + "0" * 32,
    }
    assert len(views) > 20
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("No counted pools yet")).to_be_visible()
        page.route("**/v1/**", lambda route: None)
        for view in sorted(views):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.locator("main h1")).not_to_have_text("Pools")
            expect(page.locator("main [aria-busy]").first).to_contain_text("Loading")
            assert not EMPTY.search(says(page)), view
        page.unroute_all(behavior="ignoreErrors")


def test_ages_and_countdowns_are_by_the_engines_clock(browser: Browser, tmp_path: Path) -> None:
    """Which is years behind that of the browser here."""
    clock = FakeClock(start=NOON)
    with served(tmp_path, clock=clock) as (server, http), watched(browser, server, timezone_id="UTC") as tab:
        api = Api(http)
        api.pool("gpu", 1)
        hold = api.hold("gpu", 1, ttl=7_200)
        join = {"quantity": 1, "ttl": 36_000, "offer_ttl": 60}
        http.post("/v1/pools/gpu/line", json=join, headers={"Idempotency-Key": "w"}).raise_for_status()
        clock.advance(3_600)
        page = tab.open("pool/gpu")
        waiter = page.locator("[data-line] tbody tr").first
        expect(waiter.locator("td").nth(4)).to_have_text(re.compile(r"^1:0\d:\d\d$"))
        expect(waiter.locator("td").nth(5)).to_have_text(re.compile(r"^(9:00:00|8:5\d:\d\d)$"))
        row = page.get_by_role("list", name="Holds").get_by_role("listitem").first
        expect(row.locator(".countdown")).to_have_text(re.compile(r"^(1:00:00|5\d:\d\d)$"))
        page.evaluate("location.hash = '#/holds?from=2h'")
        expect(page.get_by_role("list", name="Holds").get_by_role("listitem")).to_have_count(2)
        page.evaluate("id => { location.hash = '#/hold/' + id }", hold["id"])
        expect(page.locator(".life-card")).to_contain_text("until 15 Nov 2023, 14:00:00")


def test_plots_are_of_several_lengths_of_time_and_percentiles_of_a_stated_one(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("gpu", 4)
        asked: list[str] = []
        page = tab.open("pool/gpu")
        page.on("request", lambda request: asked.append(f"{request.url} {request.post_data or ''}"))
        short = [("15 min", "15m", "15 minutes"), ("1 h", "1h", "hour")]
        for view, title, windows in (
            ("pool/gpu", "Usage", [*short, ("24 h", "24h", "24 hours"), ("7 d", "7d", "7 days")]),
            ("health", "Requests", [*short, ("6 h", "6h", "6 hours")]),
        ):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            names = page.get_by_role("group", name=f"Time shown: {title}").get_by_role("button")
            expect(names).to_have_text([name for name, _, _ in windows])
            for name, window, long in windows:
                asked.clear()
                page.get_by_role("button", name=name, exact=True).click()
                expect(page.get_by_role("heading", name=f"{title} in the last {long}")).to_be_visible()
                expect(page.locator(".history canvas").first).to_be_visible()
                assert any(f"window={window}" in one or f'"window":"{window}"' in one for one in asked), (view, window)
        moment = r"\d+ \w+ \d{4}, \d\d:\d\d:\d\d"
        expect(page.get_by_text(re.compile(f"Of this server, from {moment} to {moment}:"))).to_be_visible()
        expect(page.get_by_text("Latency in milliseconds, of each interval")).to_be_visible()


def late(route: Route) -> None:
    """The server's own answer, with a sweeper that is a minute behind."""
    answer = route.fetch()
    body: dict[str, Any] = answer.json()
    body["sweeper"] |= {"running": True, "lag": 61.0}
    route.fulfill(response=answer, body=json.dumps(body))


def test_the_badge_counts_hooks_that_fail_a_late_sweeper_and_what_verify_found(
    browser: Browser, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.status = 503
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        hook = http.post("/v1/webhooks", json={"url": receiver.url, "actions": ["pool.created"]}).json()
        api.pool("gpu", 4)
        with sqlite3.connect(tmp_path / "holds.db") as tables:
            tables.execute("update holdkit_pools set held = 3 where id = 'gpu'")
        tables.close()
        wait_until(
            lambda: http.get(f"/v1/webhooks/{hook['id']}").json()["state"] == "failing"
        )  # else the page looks again later
        page = tab.open("health")
        expect(page.get_by_role("img", name="1 thing needs attention")).to_be_visible()
        concerns = page.locator("[data-concerns]")
        expect(concerns).to_contain_text("1 webhook is failing or has parked deliveries")
        page.get_by_role("button", name="Verify").click()
        page.get_by_role("dialog").get_by_role("button", name="Verify").click()
        expect(page.get_by_role("img", name="2 things need attention")).to_be_visible()
        page.route("**/v1/stats", late)
        page.reload()
        expect(page.get_by_role("img", name="3 things need attention")).to_be_visible()
        expect(concerns).to_contain_text("The sweeper is 61 s behind")
        expect(concerns).to_contain_text("2 differences were found by Verify")
        concerns.get_by_role("link", name="1 webhook").click()
        expect(page.locator("[data-hook=failing]")).to_contain_text(hook["id"])


def test_a_pool_whose_units_are_held_below_it_is_not_called_free(browser: Browser, tmp_path: Path) -> None:
    """The holds that are listed are those on the pool itself."""
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        for id in ("hall", "hall//stalls"):
            api.pool(id, 10)
        api.hold("hall//stalls", 3)
        page = tab.open()
        expect(page.locator("[data-sum=held]")).to_have_text("3")
        page.evaluate("location.hash = '#/pool/hall'")
        expect(page.get_by_text("Its 3 held units are held below it.")).to_be_visible()
        expect(page.locator("main")).not_to_contain_text("available.")


def test_a_long_history_says_that_it_is_not_all(browser: Browser, tmp_path: Path) -> None:
    """A lease that is renewed for hours: what is shown ends before the hold does."""
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
            hk.create_pool("gpu", 1)
            hold = hk.hold("gpu", 1, ttl=60)
            for _ in range(1_000):
                hk.extend(hold, by=1)
            hk.release(hold)
        page = tab.open(f"hold/{hold.id}")
        expect(page.locator("[data-not-all]")).to_have_text(
            "Only the first 1,000 entries. The past journal has the newest."
        )
        page.get_by_role("link", name="past journal").click()
        expect(page.get_by_role("list", name="Entries").get_by_role("listitem").first).to_contain_text("released")


def test_what_was_removed_while_one_looked_is_not_found_any_more(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        Api(http).pool("gpu", 10)
        page = tab.open("pool/gpu")
        expect(page.locator("[data-figure=total]")).to_have_text("10")
        http.delete("/v1/pools/gpu").raise_for_status()
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(page.locator("[data-figure=total]")).to_have_count(0)
        expect(page.get_by_role("button", name="Place hold")).to_have_count(0)
        expect(page.get_by_text("pool_not_found there is no pool 'gpu'")).to_be_visible()


def test_the_live_journal_begins_again_where_its_place_is_lost(browser: Browser, tmp_path: Path) -> None:
    """As after a restore. It has no gap that nobody sees, and goes on."""
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        api = Api(http)
        api.pool("old", 1)
        lost = json.dumps({"reason": "cursor_lost", "detail": "cursor_lost: the journal is another one"})
        tab.page.route("**/v1/events?after=*", lambda route: route.fulfill(status=410, body=lost), times=1)
        with tab.page.expect_response(lambda answer: "after=" in answer.url and answer.ok):
            page = tab.open("journal")
        api.pool("new", 1)
        rows = page.get_by_role("list", name="Journal entries").get_by_role("listitem")
        expect(rows).to_have_count(2)
        expect(page.locator("[data-stale]")).to_have_count(0)


def test_the_filters_of_the_live_journal_have_what_they_say(browser: Browser, tmp_path: Path) -> None:
    with (
        served(tmp_path, settings=replace(QUICK, journal=replace(QUICK.journal, audit_refusals=True))) as (
            server,
            http,
        ),
        watched(browser, server) as tab,
    ):
        api = Api(http)
        api.pool("gpu", 1)
        api.hold("gpu", 1)
        join = {"quantity": 1, "ttl": 600, "offer_ttl": 60}
        http.post("/v1/pools/gpu/line", json=join, headers={"Idempotency-Key": "w"}).raise_for_status()
        refused = http.post("/v1/holds", json={"pool": "gpu", "ttl": 60}, headers={"Idempotency-Key": "r"})
        assert refused.json()["reason"] == "insufficient_capacity"
        page = tab.open("journal")
        rows = page.get_by_role("list", name="Journal entries").get_by_role("listitem")
        expect(rows).to_have_count(4)
        for name, actions in (
            ("Held", ["held"]), ("Expired", []), ("Other", ["command.refused", "waiting", "pool.created"]),
        ):  # fmt: skip
            page.get_by_role("button", name=name, exact=True).click()
            expect(rows.locator(".badge")).to_have_text(actions)


def test_a_tab_that_nobody_looks_at_gives_its_connection_back(browser: Browser, tmp_path: Path) -> None:
    """A browser opens six to a server, for all tabs together: the seventh tab would load nothing."""
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        tab.page.clock.install()
        page = tab.open("journal")
        expect(page.locator(".connection")).to_contain_text("Live")
        wait_until(lambda: http.get("/v1/stats").json()["streams"] == 2)
        page.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.clock.fast_forward(10_000)
        wait_until(lambda: http.get("/v1/stats").json()["streams"] == 0)
        Api(http).pool("gpu", 1)
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator(".connection")).to_contain_text("Live")
        expect(page.get_by_role("list", name="Journal entries").get_by_role("listitem")).to_have_count(1)
        page.add_init_script("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
        page.reload()  # opened behind others
        expect(page.locator(".connection")).to_contain_text("Live")
        expect(page.get_by_role("list", name="Journal entries").get_by_role("listitem")).to_have_count(1)
        page.clock.fast_forward(10_000)
        wait_until(lambda: http.get("/v1/stats").json()["streams"] == 0)
