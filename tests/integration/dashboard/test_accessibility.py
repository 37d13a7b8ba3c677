"""Everybody can use every page: axe-core finds nothing, in light and dark, on a desk and on a phone; the keyboard reaches all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, expect

import holdkit
from tests.faults.sampling import STRIDE
from tests.integration.dashboard.browser import DESKTOP, PHONE, Api, Delivery, served, watched
from tests.support.servers import LiveServer

T = TypeVar("T")
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
RUN = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ["violations"]});
  return violations.flatMap(({id, impact, nodes}) =>
    nodes.map(({target, failureSummary}) => `${impact} ${id} at ${target}: ${failureSummary}`));
}"""


def found(page: Page) -> list[str]:
    """What axe has to say against the page as it stands."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    complaints: list[str] = page.evaluate(RUN)
    return complaints


class FilledServer:
    """A server with something to see on every page."""

    def __init__(self, server: LiveServer, api: Api, folder: Path) -> None:
        self.server = server
        for name in ("hall", "seat", "balcony"):
            api.pool(name, 4)
        self.held = api.hold("hall", 2, entity="order:9", metadata={"channel": "web"})["id"]
        ended = api.hold("seat", 3)
        api.confirm(ended)
        self.ended = ended["id"]
        claim = {"type": "email", "value": "u@example.org", "ttl": 600}
        api.http.post("/v1/claims", json=claim, headers={"Idempotency-Key": "c"})
        api.http.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/hook", "actions": ["pool.removed"]})
        api.http.post("/v1/items", json={"ids": ["seat:a1", "seat:a2", "seat:a3"]})
        api.http.post("/v1/items/hold", json={"ids": ["seat:a2"], "ttl": None}, headers={"Idempotency-Key": "i"})
        with holdkit.connect(f"sqlite:///{folder}/holds.db") as hk, pytest.raises(holdkit.errors.SagaParked):
            hk.sagas.register(Delivery()).run("order:1", {"fails": "the line went dead"})

    @property
    def views(self) -> list[tuple[str, str]]:
        """Each address, and what is there once the page has settled."""
        return [
            ("pools", ".pool-row .id"),
            ("pool/hall", ".hold-row"),
            (f"hold/{self.held}", ".timeline li"),
            (f"hold/{self.ended}", ".timeline li"),
            ("hold/missing", ".notice"),
            ("holds", ".found-hold .id"),
            ("journal", ".entry"),
            ("past", ".entry"),
            ("claims", ".face-row"),
            ("items", ".items li"),
            ("faces", ".faces .card"),
            ("sagas", ".resolve"),
            ("health", ".card"),
            ("webhooks", ".managed"),
            ("keys", ".managed"),
        ]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledServer]:
    folder = tmp_path_factory.mktemp("access")
    with served(folder) as (server, http):
        yield FilledServer(server, Api(http), folder)


EYES = [(mode, size) for mode in ("light", "dark") for size in (DESKTOP, PHONE)]
"""All four see every view in `make prove`; in `make test` each view is seen by one, the next by the next."""


def seen_by(views: Sequence[T], number: int, of: int = len(EYES)) -> Sequence[T]:
    """What this one of so many looks at."""
    return views if STRIDE == 1 else views[number::of]


@pytest.mark.parametrize("number", range(len(EYES)), ids=["light-desk", "light-phone", "dark-desk", "dark-phone"])
def test_axe_finds_nothing_on_any_page(browser: Browser, filled: FilledServer, number: int) -> None:
    complaints: dict[str, list[str]] = {}
    mode, size = EYES[number]
    eyes: dict[str, Any] = {"quiet": False, "color_scheme": mode, "viewport": size}
    with watched(browser, filled.server, **eyes) as tab:
        tab.page.goto(filled.server.url)
        expect(tab.page.get_by_label("API key")).to_be_visible()
        complaints["sign in"] = found(tab.page)
    with watched(browser, filled.server, **eyes) as tab:
        page = tab.open()
        for view, there in seen_by(filled.views, number):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.locator(there).first).to_be_visible()
            complaints[view] = found(page)
        page.evaluate("location.hash = '#/sagas'")
        page.get_by_role("button", name="Cancel saga").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        complaints["dialog"] = found(page)
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        complaints["help"] = found(page)
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("seat")
        expect(page.get_by_role("option")).to_have_count(4)
        complaints["finder"] = found(page)
    told = [f"{view}: {one}" for view, said in complaints.items() for one in said]
    assert not told, "\n".join(told)


def test_tab_reaches_a_list_and_the_arrows_move_in_it(browser: Browser, filled: FilledServer) -> None:
    with watched(browser, filled.server) as tab:
        page = tab.open()
        rows = page.get_by_role("list", name="Pools").get_by_role("link")
        expect(rows).to_have_count(3)
        page.get_by_role("combobox").focus()
        page.keyboard.press("Tab")
        expect(rows.nth(0)).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("ArrowDown")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_role("combobox")).to_be_focused()
        page.keyboard.press("Tab")
        expect(rows.nth(1)).to_be_focused()  # one stop, where one was
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("hall")
        expect(page.locator("main")).to_be_focused()
        expect(page).to_have_title("hall · Holdkit")
        page.keyboard.press("Tab")
        expect(page.get_by_role("main").get_by_role("link", name="Pools")).to_be_focused()


FOCUSED = """() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  const ring = style.outlineStyle !== "none" || style.boxShadow !== "none";
  if (at === document.body) return null;
  return [at.ariaLabel || at.innerText || at.tagName, ring, box.width > 0 && box.height > 0 && box.top < innerHeight];
}"""


STOPS = """() => {
  const brand = document.querySelector(".brand");
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((one) =>
    one.tabIndex >= 0 && !one.disabled && one.checkVisibility() &&
    brand.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING).length;
}"""
"""How many stops there are behind the brand, where the tour begins."""


def test_everything_that_tab_reaches_shows_it(browser: Browser, filled: FilledServer) -> None:
    with watched(browser, filled.server, quiet=False) as tab:
        page = tab.open()
        for view, there in filled.views:
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.locator(there).first).to_be_visible()
            page.evaluate("document.querySelector('.brand').focus()")
            assert page.evaluate(FOCUSED) is not None, "there is something to begin with"
            reached = []
            for _ in range(40):
                page.keyboard.press("Tab")
                at = page.evaluate(FOCUSED)
                if at is None or at[0] == "Skip to content":  # once around
                    break
                assert at[1:] == [True, True], f"{view}: {at[0]}"
                reached.append(at[0])
            stops = page.evaluate(STOPS)
            assert len(reached) == min(stops, 40), f"{view}: of {stops} only {reached}"
            assert stops > 5


def test_what_moves_all_the_time_is_not_announced(browser: Browser, filled: FilledServer) -> None:
    with watched(browser, filled.server) as tab:
        page = tab.open("journal")
        expect(page.locator(".entry").first).to_be_visible()
        page.evaluate(
            """() => {
              window.heard = [];
              new MutationObserver((changes) => {
                for (const {target} of changes) {
                  const at = target instanceof Element ? target : target.parentElement;
                  const region = at?.closest("[role=status], [role=alert], [aria-live]");
                  if (region && region.ariaLive !== "off") heard.push(region.textContent);
                }
              }).observe(document, {subtree: true, childList: true, characterData: true});
            }"""
        )
        with filled.server.client() as http:
            api = Api(http)
            for n in range(5):
                api.pool(f"annex:{n}", 4)
            expect(page.get_by_text("annex:4").first).to_be_visible()
            page.evaluate("location.hash = '#/health'")
            expect(page.locator(".card").first).to_be_visible()
        assert page.evaluate("heard") == []


def test_who_wants_no_motion_gets_none(browser: Browser, filled: FilledServer) -> None:
    with watched(browser, filled.server, reduced_motion="reduce") as tab:
        page = tab.open()
        expect(page.locator(".pool-row .id").first).to_be_visible()
        moving = """() => [...document.querySelectorAll("*")].filter((at) => {
          const {transitionDuration, animationName} = getComputedStyle(at);
          return transitionDuration !== "0s" || animationName !== "none";
        }).length"""
        assert page.evaluate(moving) == 0
