"""A server that is killed and started again while one looks: no page says anything that it cannot know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
from holdkit.core.model import SECOND
from holdkit.server import Keys
from tests.faults.sampling import sample
from tests.integration.dashboard.browser import PATIENCE, Api, Delivery, WatchedPage, watched
from tests.integration.dashboard.test_accessibility import found
from tests.support.servers import LiveServer, live_server

RUN = [sys.executable, "-m", "holdkit"]
EMPTY = re.compile(
    r"^(No (?!longer)|None (?!from)|Nothing |Nobody |0 (holds|entries)|This section has no seats|This account uses nothing)",
    re.MULTILINE,
)
"""Words that no page may begin a line with while it cannot know."""


class KilledServer:
    """A server process on one database and one port, which can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._options = options
        self.database = f"sqlite:///{folder}/holds.db"
        with holdkit.connect(self.database) as hk:
            self._key = Keys(hk).make("test", scope="admin").text
        self._port = 0
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> LiveServer:
        """Return once it listens."""
        command = [*RUN, "serve", self.database, "--port", str(self._port), "--json"]
        command += self._options
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._child.stdout is not None
        url = json.loads(self._child.stdout.readline())["listens"]
        self._port = int(url.rsplit(":", 1)[1])
        return LiveServer(url, self._key)

    def kill(self) -> None:
        """As a power cut would."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[KilledServer]:
    made = KilledServer(tmp_path)
    try:
        yield made
    finally:
        made.kill()


def says(page: Page) -> str:
    return page.locator("main").inner_text()


def look(tab: WatchedPage, view: str) -> Page:
    tab.page.evaluate("view => { location.hash = '#/' + view }", view)
    expect(tab.page.locator("main h1")).to_be_visible()
    return tab.page


PAGES = {
    "pools": "gpu",
    "pool/gpu": "Change total",
    "holds": "gpu",
    "journal": "gpu",
    "health": "p99 latency",
    "claims": "email:a@b",
    "items": "seat:1",
    "sagas": "order:1",
    "hold/{hold}": "Details",
    "faces": "api",
}
"""Each page, and what it goes on showing. Each is opened in a tab of its own: a few here, all in `make prove`."""


def test_no_page_says_what_it_cannot_know(browser: Browser, killable: KilledServer) -> None:
    with holdkit.connect(killable.database) as hk:
        hk.create_pool("gpu", 4)
        hk.create_pool("seat", 1)
        hold = hk.hold("gpu", 1, ttl="1h")
        hk.claims.hold("email", "a@b", ttl="1h")
        hk.items.add(["seat:1"])
        hk.rate("api", holdkit.Allowance(9, per="year")).consume("c")
        with pytest.raises(holdkit.errors.SagaParked):
            hk.sagas.register(Delivery()).run("order:1", {"fails": "the line went dead"})
    server = killable.start()
    with ExitStack() as tabs:  # one outage for all: each tab has connections of its own
        opened = [
            (view, shown, tabs.enter_context(watched(browser, server, quiet=False, alone=True)))
            for view, shown in sample([*PAGES.items()], 4, at_every=True)
        ]
        for view, shown, tab in opened:
            page = tab.open(view.format(hold=hold.id))
            expect(page.locator("main")).to_contain_text(shown)
            expect(page.locator("[data-stale]")).to_have_count(0)
        killable.kill()
        for view, shown, tab in opened:
            page = tab.page
            expect(page.locator("[data-stale]").first).to_contain_text(re.compile(r"Out of date since \d\d:\d\d:\d\d"))
            assert shown in says(page), view
            assert not EMPTY.search(says(page)), view
        for view, _, tab in sample(
            opened, 2, at_every=True
        ):  # all of them say it with the same words, of the same element
            assert found(tab.page) == [], view
        killable.start()
        for view, shown, tab in opened:
            tab.let_pass()
            expect(tab.page.locator("[data-stale]")).to_have_count(0)
            assert shown in says(tab.page), view
        complaints = [said for _, _, tab in opened for said in tab.complaints]
    assert all("ERR_" in said or "Failed to" in said for said in complaints), complaints


def test_what_was_empty_is_unknown_while_the_server_is_away(browser: Browser, killable: KilledServer) -> None:
    server = killable.start()
    with watched(browser, server, quiet=False, alone=True) as tab:
        for view, empty in (("pools", "No counted pools yet"), ("journal", "No entries yet")):
            page = tab.open(view)
            expect(page.get_by_text(empty)).to_be_visible()
            killable.kill()
            expect(page.get_by_text("What has happened since is not known")).to_be_visible()
            assert not EMPTY.search(says(page)), view
            killable.start()
            tab.let_pass()
            expect(page.get_by_text(empty)).to_be_visible()


def test_a_page_that_is_opened_during_an_outage_says_so(browser: Browser, killable: KilledServer) -> None:
    server = killable.start()
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open("pools")
        expect(page.get_by_text("No counted pools yet")).to_be_visible()
        killable.kill()
        for view in ("journal", "health", "pool/gpu"):
            look(tab, view)
            expect(page.get_by_role("alert").filter(has_text="cannot be reached").first).to_be_visible()
            assert not EMPTY.search(says(page)), view
        killable.start()
        tab.let_pass()
        expect(page.get_by_role("alert").filter(has_text="pool_not_found")).to_be_visible()


KEEP = """() => {
  const fetched = window.fetch;
  window.answered = {};
  window.fetch = async (...asked) => {
    const answer = await fetched(...asked);
    if (String(asked[0]).includes("/v1/stats/")) {
      const body = await answer.clone().json();
      Object.assign(window.answered, body.pools?.[0] ?? body);
      window.answered.reads = (window.answered.reads ?? 0) + 1;
    }
    return answer;
  };
}"""


def test_plots_survive_a_reload_an_outage_is_a_gap_and_those_in_memory_begin_again(
    browser: Browser, killable: KilledServer
) -> None:
    server = killable.start()
    with server.client() as http:
        api = Api(http)
        api.pool("gpu", 4)
        api.hold("gpu", 1)
        eventually(lambda: all(1 in history(http, window)["held"] for window in ("15m", "24h")))
    with watched(browser, server, quiet=False, alone=True) as tab:
        tab.page.add_init_script(f"({KEEP})()")
        page = tab.open("pool/gpu")
        page.get_by_role("button", name="15 min").click()
        eventually(lambda: page.evaluate("window.answered.held?.some((value) => value === 1) ?? false"))
        page.reload()
        eventually(lambda: page.evaluate("window.answered.held?.some((value) => value === 1) ?? false"))
        expect(page.get_by_label("Usage of gpu: 0 consumed and 1 held of 4").locator("canvas")).to_be_visible()
        killable.kill()
        expect(page.locator("[data-stale]").first).to_be_visible()
        with after_a_whole_interval(killable, server):
            with server.client() as http:
                eventually(lambda: gaps(history(http, "24h")["held"]) == 1)
                told = http.get("/v1/stats/history", params={"window": "15m"}).json()
                assert [gaps(values) for values in (told["requests"], history(http)["held"])] == [0, 0]
            for view, name, window, points in (
                ("pool/gpu", "held", "24 h", 288), ("pool/gpu", "held", "15 min", 90), ("health", "requests", "15 min", 90),
            ):  # fmt: skip
                page.goto("about:blank")
                tab.open(view)
                page.get_by_role("button", name=window).first.click()
                eventually(partial(is_read, page, name, points))
                values = page.evaluate("name => window.answered[name]", name)
                assert (gaps(values), values[0]) == (int(points == 288), None), view
                expect(page.locator(".history canvas").first).to_be_visible()
                since = page.locator(".history").get_by_text(
                    "this server, since" if name == "held" else "this server only, since"
                )
                expect(since).to_have_count(int(points == 90))


@contextmanager
def after_a_whole_interval(killable: KilledServer, server: LiveServer) -> Iterator[None]:
    """Another server on the same database and port, by whose clock 11 minutes have passed without one."""
    with live_server(killable.database, port=server.port, clock=lambda: time.time_ns() // 1_000 + 660 * SECOND):
        yield


def is_read(page: Page, name: str, points: int) -> bool:
    return bool(page.evaluate(f"name => window.answered[name]?.length === {points}", name))


def gaps(values: list[Any]) -> int:
    """How many times nothing is known between two values."""
    known = "".join("-" if value is None else "x" for value in values).strip("-")
    return len(re.findall("-+", known))


def history(http: httpx.Client, window: str = "15m") -> dict[str, Any]:
    answer = http.post("/v1/stats/pools", json={"pools": ["gpu"], "window": window})
    found: dict[str, Any] = answer.json()["pools"][0]
    return found


def eventually(true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + PATIENCE / 1_000
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rows_of_pools_have_lines_read_together_and_refused_demand_is_told(
    browser: Browser, killable: KilledServer
) -> None:
    server = killable.start()
    with server.client() as http:
        api = Api(http)
        for name in ("gpu", "cpu"):
            api.pool(name, 1)
            api.hold(name, 1)
        assert http.post(
            "/v1/holds", json={"pool": "gpu", "ttl": 60}, headers={"Idempotency-Key": "no"}
        ).is_client_error
        eventually(lambda: 1 in history(http, "24h")["held"] and history(http)["reasons"] != {})
    with watched(browser, server) as tab:
        asked: list[str] = []
        tab.page.on("request", lambda request: asked.append(request.url))
        page = tab.open("pools")
        expect(page.locator(".sparkline path")).to_have_count(2)
        assert len([url for url in asked if url.endswith("/v1/stats/pools")]) == 1
        look(tab, "pool/gpu")
        expect(page.locator("[data-refused]")).to_contain_text("Refused in this time: 1 insufficient_capacity.")
        expect(page.locator("[data-refused]")).to_contain_text("processes that embed Holdkit do not report theirs")


def test_what_needs_a_person_is_counted_beside_health(browser: Browser, killable: KilledServer) -> None:
    with holdkit.connect(killable.database) as hk:
        hk.create_pool("seat", 1)
        delivery = hk.sagas.register(Delivery())
        with pytest.raises(holdkit.errors.SagaParked):
            delivery.run("order:1", {"fails": "the line went dead"})
    server = killable.start()
    with watched(browser, server) as tab:
        page = tab.open("pools")
        expect(page.get_by_role("img", name="1 thing needs attention")).to_be_visible()
        look(tab, "health")
        expect(page.locator("[data-concerns]")).to_contain_text("1 saga is parked")
        assert found(page) == []
