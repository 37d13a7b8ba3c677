"""What the page shows is what is stored, and moves with it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, expect

import holdkit
from holdkit.core.model import DAY
from holdkit.engines.doctor import Space
from tests.conftest import Migrated
from tests.integration.dashboard.browser import PHONE, Api, Delivery, served, watched
from tests.integration.dashboard.test_accessibility import found as accessibility
from tests.support.servers import QUICK, live_server


def test_pools_are_shown_and_move_as_others_change_them(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("show:42", 10)
        page = tab.open()
        row = page.get_by_role("link", name=re.compile("show:42"))
        expect(row.get_by_role("img")).to_have_attribute("aria-label", "0 consumed, 0 held, 10 free of 10")
        expect(page.get_by_text("Live")).to_be_visible()
        hold = api.hold("show:42", 3)
        expect(row.get_by_role("img")).to_have_attribute("aria-label", "0 consumed, 3 held, 7 free of 10")
        api.confirm(hold)
        expect(row.get_by_role("img")).to_have_attribute("aria-label", "3 consumed, 0 held, 7 free of 10")
        expect(page.locator("[data-sum=consumed]")).to_have_text("3")
        api.pool("another", 1)
        expect(page.get_by_role("link", name=re.compile("another"))).to_be_visible()


def test_a_hold_that_moved_says_to_whom(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("show:42", 10)
        hold = api.hold("show:42", 3, account="customer:7")
        moved = {"token": hold["token"], "account": "customer:9"}
        answer = http.post(f"/v1/holds/{hold['id']}/reassign", json=moved, headers={"Idempotency-Key": "a move"})
        assert answer.status_code == 200, answer.text
        page = tab.open(f"hold/{hold['id']}")
        entry = page.locator(".timeline li").filter(has_text="reassigned")
        expect(entry).to_contain_text("to customer:9")
        expect(entry).not_to_contain_text("show:42")


def test_the_key_leaves_the_address_at_once_and_stays_in_the_tab(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("No counted pools yet")).to_be_visible()
        assert server.admin not in page.url
        assert page.evaluate("JSON.stringify([sessionStorage, localStorage, document.cookie])").count(server.admin) == 1
        page.reload()
        expect(page.get_by_text("No counted pools yet")).to_be_visible()


@pytest.mark.parametrize("fragment", ["#key=%", "#key=", "#key=hk_cut_off", "#key=hk_%ff", "#key=<b>"])
def test_a_broken_link_says_so_and_asks_for_a_key(browser: Browser, tmp_path: Path, fragment: str) -> None:
    with served(tmp_path) as (server, _), watched(browser, server, quiet=False) as tab:
        page = tab.page
        page.goto(f"{server.url}/{fragment}")
        expect(page.get_by_text("The link does not contain a valid API key")).to_be_visible()
        assert page.url == f"{server.url}/#/pools"
        page.get_by_label("API key").fill(server.admin)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("No counted pools yet")).to_be_visible()
        assert all("401" in said for said in tab.complaints), tab.complaints


def test_a_link_does_not_switch_an_open_tab_to_another_key_unasked(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("ours")
        other = server.key("read", "acme")
        page = tab.open()
        ours = page.get_by_role("link", name=re.compile("ours"))
        expect(ours).to_be_visible()
        page.evaluate("link => { location.hash = link }", f"#key={other}")
        expect(page.get_by_role("dialog")).to_contain_text("Use the API key of this link?")
        assert other not in page.url
        page.get_by_role("button", name="Keep the current key").click()
        expect(ours).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('holdkit.key')") == server.admin
        page.evaluate("link => { location.hash = link }", "#key=%")
        expect(page.get_by_text("This tab still uses the key that it had")).to_be_visible()
        page.evaluate("link => { location.hash = link }", f"#key={other}")
        page.get_by_role("button", name="Switch key").click()
        expect(page.get_by_text("No counted pools yet")).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('holdkit.key')") == other


def test_the_page_comes_with_a_strict_policy_and_its_parts_from_here(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        answer = tab.page.goto(f"{server.url}/#key={server.admin}")
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        expect(tab.page.get_by_text("No counted pools yet")).to_be_visible()
        assert len(asked) > 3
        assert all(url.startswith(server.url) and server.admin not in url.partition("#")[0] for url in asked)


def test_no_key_a_wrong_key_and_a_pasted_key(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server, quiet=False) as tab:
        page = tab.page
        page.goto(server.url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("API key").fill("hk_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="API key not accepted")).to_be_visible()
        page.get_by_label("API key").fill(server.admin)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Pools", exact=True)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.evaluate("link => { location.hash = link }", f"#key={server.admin}")
        expect(page.get_by_role("heading", name="Pools", exact=True)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key").fill("hk_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="API key not accepted")).to_be_visible()
        page.evaluate("link => { location.hash = link }", f"#key={server.admin}")
        expect(page.get_by_role("heading", name="Pools", exact=True)).to_be_visible()
        assert server.admin not in page.url
        assert tab.complaints, "the browser itself tells of the wrong key"
        assert all("401" in said for said in tab.complaints), tab.complaints


def test_a_pool_its_holds_its_use_and_a_hold_with_its_history(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        api.hold("gpu", 2, entity="job:7", metadata={"queue": "night"}, actor="user:7")
        page = tab.open("pool/gpu")
        expect(page.locator("[data-figure=held]")).to_have_text("2")
        expect(page.get_by_label("Usage of gpu: 0 consumed and 2 held of 8").locator("canvas")).to_be_visible()
        api.hold("gpu", 3, ttl=300)
        expect(page.locator("[data-figure=held]")).to_have_text("5")
        expect(page.get_by_role("list", name="Holds").get_by_role("listitem")).to_have_count(2)
        page.get_by_role("link", name=re.compile("job:7")).click()
        expect(page.get_by_text("job:7", exact=True)).to_be_visible()
        expect(page.get_by_text('"queue": "night"')).to_be_visible()
        expect(page.locator(".countdown")).to_have_text(re.compile(r"^(10:00|[5-9]:\d\d)$"))
        story = page.locator(".timeline li")
        expect(story).to_have_count(1)
        expect(story).to_contain_text("+2 held")


def test_the_newest_changes_of_a_pool_are_shown_however_many_holds_it_had(browser: Browser, tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.create_pool("gpu", 900)
        hk.apply([holdkit.commands.PlaceHold((holdkit.Leg("gpu", 1),), ttl="1h") for _ in range(400)])
        for total in range(901, 925):
            hk.admin.resize_pool("gpu", total, reason=f"to {total}")
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        story = tab.open("pool/gpu").locator(".timeline li")
        expect(story).to_have_count(20)
        expect(story.first).to_contain_text("to 905")
        expect(story.last).to_contain_text("to 924")
        tab.page.get_by_role("link", name="past journal").click()
        entries = tab.page.get_by_role("list", name="Entries").get_by_role("listitem")
        expect(entries.first).to_have_attribute("aria-setsize", "25")


def test_a_hold_that_ends_elsewhere_is_shown_as_ended(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        hold = api.hold("gpu", 2)
        page = tab.open(f"hold/{hold['id']}")
        expect(page.locator(".timeline li")).to_have_count(1)
        api.confirm(hold, entity="order:9")
        expect(page.locator(".timeline li")).to_have_count(2)
        expect(page.locator(".life-card .badge")).to_have_text("confirmed")
        expect(page.get_by_role("button", name="Release")).to_have_count(0)


def test_a_hold_runs_out_while_one_looks(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        for ttl in (2, 10, 50):  # until the page was there before the end
            hold = api.hold("gpu", 2, ttl=ttl)
            page = tab.open(f"hold/{hold['id']}")
            badge = page.locator(".life-card .badge")
            expect(badge).to_have_text(re.compile("held|expired"))
            if badge.text_content() == "held":
                break
            page.goto("about:blank")
        else:
            raise AssertionError("nobody saw it held")
        expect(badge).to_have_text("expired")


def test_the_journal_begins_with_what_was_goes_on_live_and_filters(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        first = api.hold("gpu", 1, actor="user:ann")
        page = tab.open("journal")
        entries = page.get_by_role("list", name=re.compile("Journal")).get_by_role("listitem")
        expect(entries).to_have_count(2)
        api.confirm(first)
        expect(entries).to_have_count(3)
        expect(entries.first).to_contain_text("confirmed")
        page.get_by_role("button", name="Held").click()
        expect(entries).to_have_count(1)
        expect(entries.first).to_contain_text("user:ann")
        page.get_by_role("button", name="All").click()
        page.get_by_role("searchbox").fill("pool.created")
        expect(entries).to_have_count(1)
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Pause").click()
        api.hold("gpu", 1)
        page.get_by_role("button", name="Resume").click()
        expect(entries).to_have_count(4)


def test_health_shows_the_numbers(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 1)
        api.hold("gpu", 1)
        refused = http.post("/v1/holds", json={"pool": "gpu", "ttl": 60}, headers={"Idempotency-Key": "no"})
        assert refused.status_code == 409
        page = tab.open("health")
        expect(page.get_by_text("insufficient_capacity")).to_be_visible()
        expect(page.get_by_text("Group commit")).to_be_visible()
        expect(page.get_by_text("sweeper lag")).to_be_visible()


def test_a_key_that_may_only_look_is_offered_nothing_more(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        api = Api(http)
        api.pool("gpu", 1)
        hold = api.hold("gpu", 1)
        made = http.post("/v1/keys", json={"name": "eyes", "scope": "read"}).json()["key"]
        page = tab.open(f"hold/{hold['id']}", key=made)
        expect(page.locator(".timeline li")).to_have_count(1)
        expect(page.get_by_role("button", name="Release")).to_have_count(0)
        expect(page.get_by_role("button", name="Extend")).to_have_count(0)


def test_dark_and_light_as_the_system_says_and_by_the_switch(browser: Browser, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with served(tmp_path) as (server, _), watched(browser, server, color_scheme="dark") as tab:
        page = tab.open()
        switch = page.get_by_role("button", name="Theme")
        expect(switch).to_be_visible()
        assert page.evaluate(ground) == "rgb(17, 19, 20)"
        switch.click()
        expect(switch).to_have_accessible_name("Theme: light")
        assert page.evaluate(ground) == "rgb(246, 246, 243)"
        page.reload()
        expect(switch).to_have_accessible_name("Theme: light")


def test_nothing_scrolls_sideways_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, viewport=PHONE, has_touch=True) as tab:
        api = Api(http)
        long = "warehouse/" + "very-long-name-" * 20
        api.pool(long, 9_007_199_254_740_991)
        api.pool("gpu", 8)
        hold = api.hold(long, 123_456_789_012, actor="user:" + "x" * 80, metadata={"k": "v" * 500})
        http.post("/v1/items", json={"ids": [f"shelf/{n}" for n in range(400)]}).raise_for_status()
        page = tab.open()
        for view in (
            "pools",
            f"pool/{long.replace('/', '%2F')}",
            f"hold/{hold['id']}",
            "journal",
            "claims",
            "items",
            "sagas",
            "health",
        ):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.locator("main h1")).to_be_visible()
            expect(page.locator("[aria-busy]")).to_have_count(0)
            for part in ("document.documentElement", "document.querySelector('main')"):
                assert page.evaluate(f"{part}.scrollWidth - {part}.clientWidth") == 0, view
            beyond = "document.documentElement.scrollHeight - document.documentElement.clientHeight"
            assert page.evaluate(beyond) == 0, f"{view}: the page itself scrolls, not its content"


def test_on_a_phone_four_views_and_the_badge_are_at_hand_and_the_others_behind_a_button(
    browser: Browser, tmp_path: Path
) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.create_pool("seat", 1)
        with pytest.raises(holdkit.errors.SagaParked):
            hk.sagas.register(Delivery()).run("order:1", {"fails": "the line went dead"})
    with served(tmp_path) as (server, _), watched(browser, server, viewport=PHONE, has_touch=True) as tab:
        page = tab.open()
        views = page.get_by_role("navigation", name="Views")
        expect(views.get_by_role("img", name="1 thing needs attention")).to_be_in_viewport(ratio=1)
        expect(views.get_by_role("link")).to_have_count(4)
        views.get_by_role("button", name="More").tap()
        expect(views.get_by_role("link")).to_have_count(10)
        for link in views.get_by_role("link").all():
            expect(link).to_be_in_viewport(ratio=1)
        assert accessibility(page) == []
        page.keyboard.press("Escape")
        expect(views.get_by_role("link")).to_have_count(4)
        views.get_by_role("button", name="More").tap()
        page.get_by_role("heading", name="Pools").tap()
        expect(views.get_by_role("link")).to_have_count(4)
        views.get_by_role("button", name="More").tap()
        views.get_by_role("link", name="Keys").tap()
        expect(page.locator("h1")).to_have_text("Keys")
        expect(views.get_by_role("link")).to_have_count(4)
        expect(views.get_by_role("button")).to_have_text("Keys")


def test_on_a_phone_filters_are_behind_a_button_that_counts_them(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, viewport=PHONE, has_touch=True) as tab:
        api = Api(http)
        for pool in ("gpu", "cpu"):
            api.pool(pool)
            api.hold(pool)
        page = tab.open("holds")
        rows = page.get_by_role("list", name="Holds").get_by_role("listitem")
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="Filters").tap()
        page.get_by_label("Pool").fill("gpu")
        page.get_by_role("button", name="Find", exact=True).tap()
        expect(rows).to_have_count(1)
        expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()


def test_loose_units_and_archived_pools_are_shown(browser: Browser, tmp_path: Path) -> None:
    past = time.time_ns() // 1_000 - 500 * DAY
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db", clock=lambda: past) as hk:
        for pool in ("show:1", "show:2", "show:3"):
            hk.create_pool(pool, 10)
        hk.consume("show:1", 3)
        hk.admin.archive_pool("show:2")
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        http.post("/v1/sweep", json={}).raise_for_status()
        page = tab.open()
        found = page.get_by_role("link", name=re.compile("show:"))
        expect(found).to_have_count(2)
        page.get_by_role("button", name="Archived").click()
        expect(found).to_have_count(1)
        expect(page.get_by_text("1 archived")).to_be_visible()
        page.get_by_role("searchbox").fill("show:3")
        expect(page.get_by_text("No matching pool")).to_be_visible()
        page.get_by_role("searchbox").fill("show:2")
        found.click()
        expect(page.locator("[data-archived]")).to_contain_text("Archived: this pool grants no new holds")
        expect(page.locator("[data-loose]")).to_have_count(0)
        page.evaluate("location.hash = '#/pool/show:1'")
        expect(page.locator("[data-loose]")).to_contain_text("3 consumed units belong to holds that are no longer")
        expect(page.locator("[data-archived]")).to_have_count(0)


def test_health_shows_what_a_done_answer_survives(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        page = tab.open("health")
        card = page.locator("[data-durability=local]")
        expect(card).to_contain_text("local changes are synced to this machine's disk")
        expect(card.locator(".wrong")).to_have_count(0)


def test_health_warns_of_a_disk_that_is_nearly_full(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = [Space(4_000 << 20, 100_000 << 20)]
    monkeypatch.setattr("holdkit.server.room.space_of", lambda _path: space[0])
    keeping = replace(QUICK, journal=replace(QUICK.journal, min_free=1 << 30))
    with served(tmp_path, settings=keeping) as (server, _), watched(browser, server) as tab:
        page = tab.open("health")
        expect(page.locator("[data-disk=low]")).to_have_text(
            "The disk of the data is nearly full: 4,000 of 100,000 MiB are free. Make room."
        )
        space[0] = Space(900 << 20, 100_000 << 20)
        expect(page.locator("[data-disk=full]")).to_contain_text("Nothing new is stored until there is room.")


def test_health_warns_of_what_may_be_lost_and_of_clocks_that_differ(
    browser: Browser, migrated: Migrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time_ns
    url = f"{migrated()}&options=-csynchronous_commit%3Doff&allow_unsafe=synchronous_commit"
    with live_server(url) as server, watched(browser, server) as tab:
        monkeypatch.setattr(time, "time_ns", lambda: right() - 600 * 1_000_000_000)
        page = tab.open("health")
        card = page.locator("[data-durability=unsafe]")
        expect(card.locator(".wrong").first).to_contain_text(
            "a crash of the server may lose changes that were answered as done"
        )
        expect(card).to_contain_text("To improve this: switch on synchronous_commit")
        expect(card.locator("[data-clock]")).to_contain_text(re.compile(r"differ by (599|600)\.\d s"))
