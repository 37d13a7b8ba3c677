"""A server that is killed and started again, seen on the views of faces, lines, trees, accounts, webhooks, keys and of what was
searched for: what was read stays and is called out of date, what was empty is called unknown, what was never read is called failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import holdkit
from tests.faults.sampling import sample
from tests.integration.dashboard.browser import WatchedPage, watched
from tests.integration.dashboard.test_accessibility import found
from tests.integration.dashboard.test_outage import EMPTY, KilledServer, look, says
from tests.integration.dashboard.test_views import counted, faces
from tests.support.servers import LiveServer

VIEWS = {
    "calendar/inn": "double",
    "budgets/llm": "team-a",
    "rates/api": "client-7",
    "resources/shop.shelf": '["aisle",4]',
    "section/stalls": "front",
    "account/customer:7": "venue//stalls//left",
    "pool/show": "fan:1",
    "pool/venue": "balcony",
    "webhooks": "127.0.0.1:9",
    "keys": "the key of this tab",
    "past": "pool.created",
    "holds?account=customer%3A7": "customer:7",
    "claims?q=email%3Aann%40example.org": "email:ann@example.org",
    "items?q=A1": "A1",
}
"""Each view, and what it goes on showing. Each is opened in a tab of its own: a few here, all in `make prove`."""
NOTHING = [
    "holds", "past", "claims", "items", "sagas", "faces", "webhooks", "calendar/none", "budgets/none", "rates/none",
    "resources/none", "account/none",
]  # fmt: skip
"""Views of a database that has nothing but an API key. A section without seats does not exist, and is called not found."""


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[KilledServer]:
    made = KilledServer(tmp_path, "--webhooks-allowed", "127.0.0.1")
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def opened(browser: Browser, server: LiveServer, views: list[str]) -> Iterator[list[tuple[str, WatchedPage]]]:
    """Each view in a browser of its own, with connections of its own. The browser reports requests that fail, and nothing else."""
    with ExitStack() as stack:
        tabs = [(view, stack.enter_context(watched(browser, server, quiet=False, alone=True))) for view in views]
        for view, tab in tabs:
            tab.open(view)
            expect(tab.page.locator("main h1")).not_to_have_text("Pools")
        yield tabs
        complaints = [said for _, tab in tabs for said in tab.complaints]
    assert all("ERR_" in said or "Failed to" in said for said in complaints), complaints


def test_what_was_read_stays_and_is_called_out_of_date(browser: Browser, killable: KilledServer) -> None:
    with holdkit.connect(killable.database) as hk:
        faces(hk, datetime.now(UTC).date())
        hk.claims.hold("email", "ann@example.org", ttl="1h")
        counted(hk)
    server = killable.start()
    with server.client() as http:
        http.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/", "actions": ["limits.changed"]}).raise_for_status()
    with opened(browser, server, sample(list(VIEWS), 5, at_every=True)) as tabs:
        for view, tab in tabs:
            expect(tab.page.locator("main")).to_contain_text(VIEWS[view])
            expect(tab.page.locator("[data-stale]")).to_have_count(0)
        killable.kill()
        for view, tab in tabs:
            stale = tab.page.locator("[data-stale]").first
            expect(stale).to_contain_text(re.compile(r"Out of date since \d\d:\d\d:\d\d: .+ ago", re.DOTALL))
            assert VIEWS[view] in says(tab.page), view
            assert not EMPTY.search(says(tab.page)), view
        for view, tab in tabs[:1] + tabs[-1:]:  # all of them say it with the same words, of the same element
            assert found(tab.page) == [], view
        failed_views(tabs[0][1])
        killable.start()
        for view, tab in tabs[1:]:
            tab.let_pass()
            expect(tab.page.locator("[data-stale]")).to_have_count(0)
            assert VIEWS[view] in says(tab.page), view


def failed_views(tab: WatchedPage) -> None:
    """Views that are opened while the server is away; and a search that is begun then."""
    page = tab.page
    for view in ("calendar/other", *VIEWS):
        look(tab, view)
        expect(page.get_by_role("alert").filter(has_text="cannot be reached").first).to_be_visible()
        assert not EMPTY.search(says(page)), view
    page.keyboard.press("/")
    page.keyboard.type("ann")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cannot be reached")
    assert "Nothing" not in dialog.inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")


def test_what_was_empty_is_called_unknown(browser: Browser, killable: KilledServer) -> None:
    with opened(browser, killable.start(), sample(NOTHING, 4, at_every=True)) as tabs:
        for _, tab in tabs:
            expect(tab.page.locator("main .notice h2")).to_have_text(EMPTY)
        killable.kill()
        for view, tab in tabs:
            expect(tab.page.get_by_text("What has happened since is not known")).to_be_visible()
            assert not EMPTY.search(says(tab.page)), view
        killable.start()
        for _, tab in tabs:
            tab.let_pass()
            expect(tab.page.locator("main .notice h2")).to_have_text(EMPTY)
            expect(tab.page.locator("[data-stale]")).to_have_count(0)
