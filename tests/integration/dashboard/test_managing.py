"""The pages of webhooks and API keys: secrets are shown once, every change has a reason, tenants are apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

import holdkit
from holdkit.core.reading import ReadHistory, entry_of
from tests.integration.dashboard.browser import Api, served, watched
from tests.integration.dashboard.test_acting import finish, focused, press_until


class Receiver(ThreadingHTTPServer):
    """Receives webhooks, and answers with the status that it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.kinds = 204, list[str]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.kinds.append(event["type"])
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def take_secret(page: Page, label: str) -> str:
    """The secret that the dialog shows; it is nowhere in the page once the dialog is closed."""
    secret = page.locator("[data-secrets]").get_by_label(label, exact=True).input_value()
    page.get_by_role("button", name="I have stored it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert secret
    assert secret not in page.content()
    assert secret not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
    return secret


def reasons(folder: Path, subject: str) -> list[tuple[str | None, str | None]]:
    with holdkit.connect(f"sqlite:///{folder}/holds.db") as hk:
        rows = hk._executor.read(ReadHistory("", subject))
    return [(entry.reason, entry.actor) for entry in map(entry_of, rows)]


def test_a_webhook_is_created_tested_rotated_replayed_and_removed(
    browser: Browser, tmp_path: Path, receiver: Receiver
) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        page, dialog = tab.open("webhooks"), tab.page.get_by_role("dialog")
        expect(page.get_by_text("No webhooks")).to_be_visible()
        page.evaluate("document.querySelector('main').focus()")
        press_until(page, "Tab", lambda: focused(page) == "New webhook")
        page.keyboard.press("Enter")
        expect(dialog.get_by_label("URL")).to_be_focused()
        page.keyboard.type(receiver.url)
        page.keyboard.press("Tab")
        page.keyboard.type("pool.created")
        page.keyboard.press("Tab")
        page.keyboard.type("for the till")
        expect(dialog.locator("[data-effect]")).to_contain_text("the entries of 1 action of this tenant's journal")
        page.keyboard.press("Enter")
        first = take_secret(page, "Signing secret")
        card = page.locator(".managed").filter(has_text=receiver.url)
        expect(card.locator(".badge")).to_have_text("active")
        card.get_by_role("button", name="Send test event").click()
        finish(dialog, says="holdkit.test is sent now", reason=None)
        expect(page.get_by_text("The test event was answered with status 204 (delivered).")).to_be_visible()
        assert receiver.kinds == ["holdkit.test"]
        card.get_by_text("Delivery log").click()
        expect(card.locator("tbody tr")).to_have_count(1)
        expect(card.locator("tbody tr")).to_contain_text("delivered")
        card.get_by_text("Delivery log").click()  # that of a webhook which is removed meanwhile cannot be read
        card.get_by_role("button", name="Rotate secret").click()
        finish(dialog, says="for 24h with the old one too", reason="leaked")
        assert take_secret(page, "Signing secret") != first
        card.get_by_role("button", name="Replay").click()
        finish(dialog, says="Nothing is parked.", reason="it answers again")
        expect(page.get_by_text("The replay of 0 deliveries has begun.")).to_be_visible()
        (hook,) = Api(http).get("/v1/webhooks")["items"]
        card.get_by_role("button", name="Remove").click()
        finish(dialog, says="Nothing is sent there any more.", reason="closed")
        expect(page.get_by_text("No webhooks")).to_be_visible()
        key = f"api_client:{Api(http).get('/v1/whoami')['id']}"
    told = reasons(tmp_path, f"~webhook/{hook['id']}")
    assert told == [(reason, key) for reason in ("for the till", "leaked", "it answers again", "closed")]


def test_a_key_is_created_once_rotated_and_revoked(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        theirs = server.key("admin", "acme")
        page, dialog = tab.open("keys"), tab.page.get_by_role("dialog")
        cards = page.locator(".managed")
        expect(cards).to_have_count(1)  # that of this tab; those of other tenants are not listed
        expect(cards).to_contain_text("the key of this tab")

        lose = ["the first answer"]

        def lost(route: Route) -> None:
            """The server creates the key, and its answer is lost."""
            if route.request.method != "POST" or not lose:
                return route.continue_()
            route.fetch()
            lose.clear()
            return route.abort()

        page.route("**/v1/keys", lost)
        page.get_by_role("button", name="New key").click()
        dialog.get_by_label("Name").fill("till")
        dialog.get_by_label("Scope").select_option("hold")
        dialog.get_by_label("Only pools").fill("show: gpu")
        expect(dialog.locator("[data-effect]")).to_contain_text("Of that, only pools that begin with show: or gpu.")
        dialog.get_by_label("Only pools").fill("")
        finish(dialog, says="It may read, and place and end holds.", reason="a new till")
        expect(dialog.locator("[data-unknown]")).to_be_visible()
        dialog.get_by_role("button", name="Create").click()
        made = take_secret(page, "API key")
        till = page.locator("[data-key=till]")
        expect(till).to_have_count(1)
        expect(till).to_contain_text("no use recorded")
        with server.client(made) as theirs_now:
            assert theirs_now.get("/v1/whoami").json()["scope"] == "hold"
        rotate(till, dialog)
        fresh = take_secret(page, "API key")
        with server.client(fresh) as now:
            assert now.get("/v1/pools").status_code == 200
        till.get_by_role("button", name="Revoke").click()
        finish(dialog, says="It was used last at", reason="closed")
        expect(till.locator(".badge")).to_have_text("revoked")
        expect(till.get_by_role("button")).to_have_count(0)
        for text in (made, fresh):
            with server.client(text) as ended:
                assert ended.get("/v1/pools").status_code == 401
        (info,) = [one for one in Api(http).get("/v1/keys")["items"] if one["name"] == "till"]
        key = f"api_client:{Api(http).get('/v1/whoami')['id']}"
        with server.client(theirs) as stranger:
            assert stranger.delete(f"/v1/keys/{info['id']}").status_code == 404
    told = reasons(tmp_path, f"~key/{info['id']}")
    assert told == [(reason, key) for reason in ("a new till", "a new till", "mislaid", "closed")]


def rotate(till: Locator, dialog: Locator) -> None:
    till.get_by_role("button", name="Rotate").click()
    dialog.get_by_label("Grace").fill("1h")
    finish(dialog, says="The old one counts for 1h more.", reason="mislaid")


def test_a_key_without_the_scope_sees_neither_page(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _http), watched(browser, server, quiet=False) as tab:
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        page = tab.open("keys", key=server.key("hold"))
        for view in ("keys", "webhooks"):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.get_by_text("Not allowed with this API key")).to_be_visible()
            expect(page.locator("main").get_by_role("button")).to_have_count(0)
            expect(page.get_by_role("navigation").get_by_role("link", name=view)).to_have_count(0)
            assert not [url for url in asked if url.endswith(f"/v1/{view}")]
        with server.client(server.key("hold")) as http:
            for method, path in (("GET", "keys"), ("GET", "webhooks"), ("DELETE", "keys/x"), ("DELETE", "webhooks/x")):
                assert http.request(method, f"/v1/{path}").json()["reason"] == "scope_too_small"
