"""The page at /docs: the vendored files are those of the package, and the page shows the API under the strict policy, without a
key, and without a request to anywhere else."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, expect

from holdkit.server.openapi import TAGS
from holdkit.server.static import POLICY, REFERENCE
from tests.integration.dashboard.browser import watched
from tests.support.servers import live_server

OURS = {"index.html", "page.js", "page.css", "README.md"}


def test_the_vendored_files_are_those_of_the_package() -> None:
    page = (REFERENCE / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{64})` \|$", page, re.MULTILINE))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in REFERENCE.iterdir()}
    assert {name: digest for name, digest in found.items() if name not in OURS} == listed
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js"} <= set(listed)


def test_no_inline_script_or_style_and_nothing_from_elsewhere() -> None:
    page = (REFERENCE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page) == []
    assert re.findall(r"(?:src|href)=\"(?!\./)[^\"]*", page) == []


def test_it_is_served_without_a_key_under_the_policy_of_the_dashboard() -> None:
    with live_server() as server, httpx.Client(base_url=server.url) as http:
        page = http.get("/docs")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.headers["content-security-policy"].encode() == POLICY
        assert "unsafe" not in page.headers["content-security-policy"]
        slash = http.get("/docs/")
        assert (slash.status_code, slash.headers["location"]) == (308, "../docs")
        for name in ("swagger-ui-bundle.js", "swagger-ui.css", "page.js", "page.css"):
            assert http.get(f"/docs/{name}").status_code == 200
        for name in ("README.md", "LICENSE", "index.html"):
            assert http.get(f"/docs/{name}").status_code == 404


def test_it_shows_the_api_and_asks_nobody_else(browser: Browser) -> None:
    with live_server() as server, watched(browser, server) as here:
        asked: list[str] = []
        here.page.on("request", lambda request: asked.append(request.url))
        here.page.goto(f"{server.url}/docs#/keys/whoami")
        expect(here.page.get_by_role("heading", name="Holdkit").first).to_be_visible()
        expect(here.page.locator(".opblock-tag")).to_have_count(len(TAGS))
        here.page.get_by_role("button", name="Authorize").first.click()
        here.page.get_by_label("auth-bearer-value").fill(server.admin)
        here.page.get_by_role("button", name="Apply credentials").click()
        here.page.get_by_role("button", name="Close").click()
        place = here.page.locator("#operations-keys-whoami")
        expect(place.get_by_text("key_required").first).to_be_visible()
        place.get_by_role("button", name="Try it out").click()
        place.get_by_role("button", name="Execute").click()
        expect(place.locator(".live-responses-table")).to_contain_text('"operator": true')
        hosts = {urlsplit(url).netloc for url in asked if not url.startswith("data:")}
        assert hosts == {urlsplit(server.url).netloc}
