"""A server on SQLite with something on it, a browser that looks at it, and ears for everything that goes wrong there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

import holdkit
from tests.support.servers import QUICK, LiveServer, live_server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
PATIENCE = 60_000
"""Milliseconds that a condition is waited for."""

LONGEST = 12_500
"""Milliseconds that the page waits at most before it tries again (`dashboard/src/live.ts`)."""


class WatchedPage:
    """A page, and what it complained about."""

    def __init__(self, context: BrowserContext, server: LiveServer) -> None:
        self.server = server
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.uncaught: list[str] = []
        self.page.on("pageerror", self._fall)
        self.page.on("console", self._hear)
        self.page.on("dialog", self._alarm)
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )

    def _fall(self, error: Any) -> None:
        self.uncaught.append(str(error))
        self.complaints.append(f"error: {error}")

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _alarm(self, dialog: Any) -> None:
        self.complaints.append(f"alert: {dialog.message}")
        dialog.dismiss()

    def let_pass(self) -> None:
        """Let the longest pause between two attempts pass, by the clock of a page that is `alone`: it tries again at once."""
        self.page.clock.fast_forward(LONGEST)

    def open(self, view: str = "pools", *, key: str | None = None) -> Page:
        """Come with a key in the fragment, then go to a view."""
        self.page.goto(f"{self.server.url}/#key={key or self.server.admin}")
        expect(self.page).to_have_url(f"{self.server.url}/#/pools")
        if view != "pools":
            self.page.evaluate("view => { location.hash = '#/' + view }", view)
        return self.page


_contexts = WeakKeyDictionary[Browser, dict[str, BrowserContext]]()


def context_of(browser: Browser, **options: Any) -> BrowserContext:
    """One for all tabs with these options. Its first tab stays, and with it the process that the others share."""
    made = _contexts.setdefault(browser, {})
    if repr(options) not in made:
        made[repr(options)] = browser.new_context(**options)
        made[repr(options)].new_page()
    return made[repr(options)]


@contextmanager
def watched(
    browser: Browser, server: LiveServer, *, quiet: bool = True, alone: bool = False, **more: Any
) -> Iterator[WatchedPage]:
    """A fresh tab; at the end nothing must have been complained about. Who is not `quiet` expects that the browser reports requests
    that fail; an error that nobody has caught, in a script or a promise, fails every test.

    A tab has a key and a history of its own, and each server is another origin, so tests share a context. A context has six
    connections to a server: a tab beside many others is opened `alone`, with a clock that the test may move on."""
    options = {"viewport": DESKTOP, **more}
    context = browser.new_context(**options) if alone else context_of(browser, **options)
    if alone:
        context.clock.install()
    found = WatchedPage(context, server)
    try:
        yield found
        assert found.uncaught == [], found.uncaught
        if quiet:
            assert found.complaints == [], found.complaints
    finally:
        found.page.close()
        if alone:
            context.close()


@contextmanager
def served(folder: Path, **more: Any) -> Iterator[tuple[LiveServer, httpx.Client]]:
    """A server on a file in this folder, and a client with the admin's key."""
    url, settings = f"sqlite:///{folder}/holds.db", more.pop("settings", QUICK)
    with live_server(url, settings=settings, **more) as server, server.client() as http:
        yield server, http


class Api:
    """The few calls that tests make behind the page's back."""

    def __init__(self, http: httpx.Client) -> None:
        self.http, self._count = http, 0

    def pool(self, id: str, total: int = 100) -> dict[str, Any]:
        return self._done(self.http.post("/v1/pools", json={"id": id, "total": total}))

    def pools(self, count: int, total: int = 100) -> None:
        for start in range(0, count, 1_000):
            commands = [
                {"type": "create_pool", "id": f"shelf:{n:05}", "total": total, "op": f"make-{n}"}
                for n in range(start, min(count, start + 1_000))
            ]
            self._done(self.http.post("/v1/batch", json={"commands": commands}))

    def hold(self, pool: str, quantity: int = 1, ttl: Any = 600, **more: Any) -> dict[str, Any]:
        self._count += 1
        body = {"pool": pool, "quantity": quantity, "ttl": ttl, **more}
        return self._done(self.http.post("/v1/holds", json=body, headers={"Idempotency-Key": f"test-{self._count}"}))

    def confirm(self, hold: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._count += 1
        return self._done(
            self.http.post(
                f"/v1/holds/{hold['id']}/confirm",
                json={"token": hold["token"], **more},
                headers={"Idempotency-Key": f"test-{self._count}"},
            )
        )

    def get(self, path: str) -> dict[str, Any]:
        return self._done(self.http.get(path))

    def _done(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found


class Delivery(holdkit.Saga):
    """Takes a seat, and fails where it is told to."""

    name = "errand"
    max_attempts = 1

    def reserve(self, intent: Any, step: Any) -> str:
        return "seat"

    def effect(self, intent: Any, step: Any) -> str:
        if "fails" in intent:
            raise ValueError(intent["fails"])
        return "done"
