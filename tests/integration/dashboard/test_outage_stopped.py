"""A server that is stopped while one looks: it keeps its connections and accepts new ones, but sends nothing.

The page may not say *Live* for longer than two intervals of the server's ping, nor while an attempt to connect hangs.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
from holdkit.server import Keys
from tests.integration.dashboard.browser import WatchedPage, watched
from tests.integration.dashboard.test_outage import EMPTY, KilledServer, look, says
from tests.support.servers import LiveServer

DISCONNECTED = "Disconnected from the server. The data shown may be out of date."
COUNT_GAPS = """() => {
  window.gaps = 0;
  new MutationObserver(() => { window.gaps += document.querySelector(".banner") === null ? 1 : 0; })
    .observe(document.body, {childList: true, subtree: true, attributes: true, characterData: true});
}"""
"""Count the changes of the page after which no banner was there."""


class StoppedServer(KilledServer):
    """A server process that can be stopped and go on: as a debugger does it, or a hypervisor."""

    limited_key = ""
    """A key that may see its pool, and gets no live updates."""

    def stop(self) -> None:
        """Its connections stay open, and new ones are accepted, but nothing is sent."""
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[StoppedServer, LiveServer]]]:
    started: list[StoppedServer] = []

    def start(*options: str) -> tuple[StoppedServer, LiveServer]:
        made = StoppedServer(tmp_path, *options)
        started.append(made)
        with holdkit.connect(made.database) as hk:
            hk.create_pool("gpu", 4)
            hk.hold("gpu", 1, ttl="1h")
            made.limited_key = Keys(hk).make("box office", scope="hold", pools=["gpu"]).text
        return made, made.start()

    yield start
    for made in started:
        made.kill()


def is_live(page: Page) -> None:
    expect(page.locator(".connection")).to_contain_text("Live")
    expect(page.locator("[data-stale], .banner")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("gpu")


def is_out_of_date(page: Page) -> None:
    """Everywhere, and with what was read."""
    expect(page.get_by_role("alert").filter(has_text=DISCONNECTED)).to_be_visible()
    expect(page.locator("[data-stale]").first).to_contain_text(re.compile(r"Out of date since \d\d:\d\d:\d\d"))
    expect(page.locator(".connection")).not_to_contain_text("Live")
    assert "gpu" in says(page)
    assert not EMPTY.search(says(page))


@pytest.mark.parametrize("view", ["pools", "journal", "pool/gpu"])
def test_what_a_stopped_server_said_last_is_out_of_date_until_it_says_something(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]], view: str
) -> None:
    process, server = serve("--streams-ping-every", "0.5")
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open(view)
        is_live(page)
        process.stop()
        is_out_of_date(page)
        page.evaluate(COUNT_GAPS)
        for _ in range(2):  # attempts that hang, each given up after a while
            with page.expect_request("**/v1/events?*"):
                pass
            expect(page.locator(".connection")).to_have_attribute("data-state", "connecting")
        is_out_of_date(page)
        assert page.evaluate("window.gaps") == 0, "the banner did not disappear while an attempt to connect hung"
        process.resume()
        is_live(page)


def test_without_another_setting_that_is_thirty_seconds(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]]
) -> None:
    process, server = serve()
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open()
        is_live(page)
        process.stop()
        page.clock.fast_forward(31_000)
        is_out_of_date(page)
        expect(page.locator("[data-stale]").first).to_contain_text("the server has sent nothing for 30 s")
        look(tab, "health")  # was never read
        page.clock.fast_forward(16_000)
        expect(page.get_by_role("alert").filter(has_text="has not answered within 15 s").first).to_be_visible()
        process.resume()
        look(tab, "pools")
        is_live(page)


def test_the_server_says_how_often_it_gives_a_sign_of_life(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]]
) -> None:
    process, server = serve("--streams-ping-every", "1000")
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open()
        is_live(page)
        process.stop()
        page.clock.fast_forward(900_000)
        page.evaluate("new Promise(requestAnimationFrame)")
        is_live(page)
        page.clock.fast_forward(1_200_000)
        is_out_of_date(page)
        process.resume()
        is_live(page)


def test_a_key_that_gets_no_updates_is_told_too(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]]
) -> None:
    process, server = serve()
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open(key=process.limited_key)
        expect(page.locator(".connection")).to_contain_text("Every 5 s")
        expect(page.locator("main")).to_contain_text("gpu")
        process.stop()
        with page.expect_request("**/v1/pools?*"):
            page.clock.fast_forward(5_000)
        page.clock.fast_forward(11_000)
        is_out_of_date(page)
        expect(page.locator(".connection")).not_to_contain_text("Every 5 s")
        process.resume()
        page.clock.fast_forward(5_000)
        expect(page.locator(".connection")).to_contain_text("Every 5 s")
        expect(page.locator("[data-stale], .banner")).to_have_count(0)


def test_whoever_looks_again_at_a_tab_sees_at_once_that_it_is_out_of_date(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]]
) -> None:
    process, server = serve()
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open()
        is_live(page)
        hide(tab, hidden=True)
        page.clock.fast_forward(10_000)  # it gives its connection back
        process.stop()
        page.clock.fast_forward(60_000)
        hide(tab, hidden=False)
        is_out_of_date(page)
        process.resume()
        is_live(page)


def hide(tab: WatchedPage, *, hidden: bool) -> None:
    tab.page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


@pytest.mark.parametrize("hours", [1, -1])
def test_a_machine_that_slept_or_whose_clock_was_set_back_notices_too(
    browser: Browser, serve: Callable[..., tuple[StoppedServer, LiveServer]], hours: int
) -> None:
    process, server = serve()
    with watched(browser, server, quiet=False, alone=True) as tab:
        page = tab.open()
        is_live(page)
        process.stop()
        page.clock.set_system_time(datetime.now(UTC) + timedelta(hours=hours))
        if hours < 0:
            page.clock.fast_forward(31_000)
        is_out_of_date(page)
        process.resume()
        is_live(page)
