"""Whatever callers wrote is shown as text, and does nothing."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.integration.dashboard.browser import Api, served, watched

CORPUS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "'-alert(1)-'",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<a href=javascript:alert(1)>x</a>",
    "</textarea><script>alert(1)</script>",
    "&lt;b&gt;&#x3c;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\u202egnp.evil",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "__proto__",
    "a/../../b?c#d",
]


def test_names_reasons_metadata_and_labels_are_text(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        for text in CORPUS:
            api.pool(text, 10)
        page = tab.open()
        expect(page.locator(".virtual-row .id")).to_have_count(len(CORPUS))
        assert sorted(page.locator(".virtual-row .id").all_text_contents()) == sorted(CORPUS)
        for text in CORPUS:
            hold = api.hold(
                text, 1, entity=text, metadata={text: text}, correlation_id=text[:64], actor=f"user:{text}", reason=text
            )
            page.evaluate("id => { location.hash = '#/pool/' + encodeURIComponent(id) }", text)
            expect(page.locator("h1")).to_have_text(text)
            page.evaluate("id => { location.hash = '#/hold/' + id }", hold["id"])
            expect(page.locator("h1")).to_have_text(hold["id"])
            expect(page.locator(".facts").get_by_text(text, exact=True).first).to_be_visible()
            expect(page.locator("pre.json")).to_contain_text(text.replace('"', '\\"'))
        page.evaluate("location.hash = '#/journal'")
        expect(page.get_by_text(CORPUS[1]).first).to_be_visible()
        assert (
            page.evaluate("document.querySelectorAll('main script, main iframe, main img, main svg[onload]').length")
            == 0
        )


def test_a_strange_address_is_no_harm(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server, quiet=False) as tab:
        page = tab.open()
        for place in (
            "#/pool/%E0%A4%A",
            "#/hold/<img src=x onerror=alert(1)>",
            "#/nowhere/at/all",
            "#javascript:alert(1)",
        ):
            page.evaluate("place => { location.hash = place }", place)
            expect(page.locator("main").get_by_role("heading").first).to_be_visible()
        assert not [said for said in tab.complaints if not said.startswith("error: Failed to load resource")]


def test_a_name_of_dots_does_not_lead_to_another_path(browser: Browser, tmp_path: Path) -> None:
    """A browser resolves it: the request to archive it would be one to /v1/archive."""
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("..", 10)
        page = tab.open("pool/..")
        expect(page.locator("[data-figure=total]")).to_have_text("10")
        page.get_by_role("button", name="Archive").click()
        expect(page.get_by_role("dialog")).to_contain_text("an id of dots alone cannot be part of a URL")
