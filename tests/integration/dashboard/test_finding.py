"""Finding among 5,000 pools and 20,000 holds: by filters, by pages in both directions, by a text from anywhere, by keys alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import holdkit
from holdkit import Leg
from holdkit.commands import CreatePool, PlaceHold
from tests.integration.dashboard.browser import WatchedPage, served, watched
from tests.support.servers import LiveServer

POOLS, HOLDS, BATCH = 5_000, 20_000, 1_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("finding")
    _fill(folder)
    with served(folder) as (found, http):
        claim = {"type": "email", "value": "ann@example.org", "ttl": 6_000}
        assert http.post("/v1/claims", json=claim, headers={"Idempotency-Key": "c"}).is_success
        assert http.post("/v1/items", json={"ids": ["hall:a1", "hall:a2"]}).is_success
        yield found


def _fill(folder: Path) -> None:
    """Hold n is on shelf n modulo 5,000, by one of 80 users, for order n and customer n modulo 50."""
    with holdkit.connect(f"sqlite:///{folder}/holds.db") as hk:
        for start in range(0, POOLS, BATCH):
            hk.apply([CreatePool(id=f"shelf:{n:05}", total=9) for n in range(start, min(POOLS, start + BATCH))])
        for start in range(0, HOLDS, BATCH):
            placed = hk.apply([
                PlaceHold((Leg(f"shelf:{n % POOLS:05}", 1),), entity=f"order:{n}", account=f"customer:{n % 50}",
                          actor=f"user:{n % 80}", correlation_id=f"request:{n % 1_000}", ttl="1h")
                for n in range(start, start + BATCH)
            ])  # fmt: skip
            assert len(placed) == BATCH
        hk.create_pool("zebra", total=5)
        hk.create_pool("lockers", total=999)
        timed = [PlaceHold((Leg("lockers", 1),), entity=f"stay:{n}", account="mixed", ttl="1h") for n in range(150)]
        hk.apply(timed)
        own = [f"{255 - n:02x}{n:030x}" for n in range(60)]  # larger than any id that begins with a time
        hk.apply(
            [
                PlaceHold((Leg("lockers", 1),), id=id, entity=f"saga:{n}", account="mixed", ttl="1h")
                for n, id in enumerate(own)
            ]
        )


def rows(page: Page, name: str = "Holds") -> Locator:
    """The rows of a list, as far as they are drawn."""
    return page.get_by_role("list", name=name).get_by_role("listitem")


def shows(page: Page, first: str, of: int, name: str = "Holds") -> None:
    """Wait for the page whose first row has this text."""
    expect(rows(page, name).first).to_contain_text(first)
    expect(rows(page, name).first).to_have_attribute("aria-setsize", str(of))


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def shared(tab: WatchedPage, browser: Browser) -> AbstractContextManager[Page]:
    """The same address in the browser of someone else, who signs in there."""

    @contextmanager
    def other() -> Iterator[Page]:
        with watched(browser, tab.server, quiet=False) as second:
            second.page.goto(tab.page.url)
            second.page.get_by_label("API key").fill(tab.server.admin)
            second.page.keyboard.press("Enter")
            yield second.page

    return other()


def test_holds_are_filtered_and_paged_by_keys_alone_and_the_address_is_shared(
    browser: Browser, server: LiveServer
) -> None:
    with watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("5,002 pools")).to_be_visible()
        press(page, "g", "o")
        shows(page, "api_client:", 100)
        expect(page.get_by_role("status").filter(has_text="100 holds on this page")).to_be_visible()
        press(page, "f", *["Tab"] * 4)
        expect(page.get_by_label("Account")).to_be_focused()
        page.keyboard.type("customer:7")
        press(page, "Enter")
        shows(page, "order:19957", 100)
        expect(page).to_have_url(f"{server.url}/#/holds?account=customer%3A7")
        expect(page.get_by_label("Account")).to_be_focused()
        for first in (14957, 9957, 4957):
            page.get_by_role("button", name="Next").press("Enter")
            shows(page, f"order:{first} ", 100)
        expect(page.get_by_role("button", name="Next")).to_have_attribute("aria-disabled", "true")
        expect(page.get_by_role("button", name="Next")).to_be_focused()
        for first in (9957, 14957):
            page.get_by_role("button", name="Previous").press("Enter")
            shows(page, f"order:{first} ", 100)
        with shared(tab, browser) as other:
            shows(other, "order:14957 ", 100)
            expect(other.get_by_label("Account")).to_have_value("customer:7")
            press(other, "n")
            shows(other, "order:9957 ", 100)
        press(page, "p")
        shows(page, "order:19957 ", 100)
        expect(page.get_by_role("button", name="Previous")).to_have_attribute("aria-disabled", "true")
        page.go_back()
        shows(page, "order:14957 ", 100)
        press(page, "j", "j", "Enter")
        expect(page.locator(".facts")).to_contain_text("order:14907")
        press(page, "Escape")
        shows(page, "order:14957 ", 100)


def test_newest_first_begins_with_ids_that_carry_a_time(browser: Browser, server: LiveServer) -> None:
    """Those that an application chose have none, whatever their size: they come last, and turning back passes them again."""
    with watched(browser, server) as tab:
        page = tab.open("holds?account=mixed")
        turns = [("stay:149 ", 100), ("stay:49 ", 100), ("saga:50 ", 10)]
        for first, of in turns:
            shows(page, first, of)
            press(page, "n")
        expect(page.get_by_role("button", name="Next")).to_have_attribute("aria-disabled", "true")
        for first, of in turns[-2::-1]:
            press(page, "p")
            shows(page, first, of)
        expect(page.get_by_role("button", name="Previous")).to_have_attribute("aria-disabled", "true")
        page.evaluate("location.hash = '#/holds?account=mixed&entity=saga%3A7'")
        shows(page, "saga:7 ", 1)
        page.evaluate("location.hash = '#/holds?account=mixed&order=oldest'")
        shows(page, "stay:0 ", 100)


def test_every_filter_of_holds_narrows_them(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server, quiet=False) as tab:
        page = tab.open("holds?pool=shelf%3A00007&order=oldest")
        shows(page, "order:7 ", 4)
        page.get_by_label("Actor").fill("user:7")
        page.get_by_label("Actor").press("Enter")
        shows(page, "order:7 ", 2)
        page.get_by_role("button", name="Clear").click()
        shows(page, "api_client:", 100)
        page.get_by_label("Entity").fill(" order:4321 ")
        page.get_by_role("button", name="Find", exact=True).click()
        shows(page, "order:4321 ", 1)
        page.get_by_label("State").select_option("Expired")
        expect(page.get_by_text("No matching holds")).to_be_visible()
        page.get_by_label("State").select_option("Held")
        shows(page, "order:4321 ", 1)
        page.get_by_label("Placed before").fill("2h")
        page.get_by_label("Placed before").press("Enter")
        expect(page.get_by_text("No matching holds")).to_be_visible()
        page.get_by_label("Placed before").fill("")
        page.get_by_label("Placed since").fill("2020-01-01")
        page.get_by_label("Placed since").press("Enter")
        shows(page, "order:4321 ", 1)
        expect(page).to_have_url(re.compile("state=held&entity=order%3A4321&from=2020-01-01$"))
        page.get_by_label("Placed since").fill("yesterday")
        page.get_by_label("Placed since").press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("write an age such as 2h or 7d, or a date")
        page.evaluate("location.hash = '#/holds?after=x&before=y&pool=%E0%A4%A'")
        expect(page.get_by_text("No matching holds").or_(page.get_by_text("No more holds"))).to_be_visible()


def test_the_journal_is_read_back_to_its_beginning_and_forth_again(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server) as tab:
        page = tab.open("journal")
        page.get_by_role("link", name="Past journal").click()
        expect(page.locator("h1")).to_have_text("Past journal")
        page.get_by_label("Correlation id").fill("request:7")
        page.get_by_label("Correlation id").press("Enter")
        shows(page, "shelf:04007", 20, "Entries")
        page.get_by_label("Actor").fill("user:7")
        page.get_by_label("Actor").press("Enter")
        shows(page, "shelf:03007", 10, "Entries")
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Action").select_option("pool.created")
        shows(page, "hall:a2", 100, "Entries")
        page.get_by_label("Subject").fill("shelf:00000")
        page.get_by_label("Subject").press("Enter")
        shows(page, "shelf:00000", 1, "Entries")
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Actor").fill("user:3")
        page.get_by_label("Actor").press("Enter")
        newest = [f"shelf:{n % POOLS:05}" for n in reversed(range(HOLDS)) if n % 80 == 3]
        shows(page, newest[0], 100, "Entries")
        page.get_by_role("button", name="Next").press("Enter")
        shows(page, newest[100], 100, "Entries")
        press(page, "n")
        shows(page, newest[200], 50, "Entries")
        expect(page.get_by_role("button", name="Next")).to_have_attribute("aria-disabled", "true")
        with shared(tab, browser) as other:
            shows(other, newest[200], 50, "Entries")
            press(other, "p")
            shows(other, newest[100], 100, "Entries")
            press(other, "n")
            shows(other, newest[200], 50, "Entries")
        press(page, "p")
        shows(page, newest[100], 100, "Entries")
        press(page, "p")
        shows(page, newest[0], 100, "Entries")
        expect(page.get_by_role("button", name="Previous")).to_have_attribute("aria-disabled", "true")


def test_a_text_finds_anything_from_anywhere_by_keys_alone(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server) as tab:
        page = tab.open("health")
        expect(page.locator("main h1")).to_have_text("Health")  # before that there is nothing that takes keys
        box, found = page.get_by_role("combobox", name="Find"), page.get_by_role("dialog").get_by_role("option")
        for text, arrows, choice, heading in (
            ("zeb", 0, "zebra", "zebra"),
            ("shelf:0400", 2, "shelf:04002", "shelf:04002"),
            ("elf:04999", 0, "shelf:04999", "shelf:04999"),
            ("hall:a", 1, "hall:a2", "Items"),
            ("order:1999", 1, "order:1999", "Holds"),
            ("customer:49", 0, "customer:49", "Holds"),
        ):
            press(page, "/")
            expect(box).to_be_focused()
            page.keyboard.type(text)
            expect(found.first).to_be_visible()
            press(page, *["ArrowDown"] * arrows)
            expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text(choice)
            press(page, "Enter")
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(page.locator("h1")).to_have_text(heading)
            expect(page.locator("main")).to_be_focused()
        shows(page, "order:19999 · customer:49", 100)
        press(page, "/")
        page.keyboard.type("email:ann@example.org")
        press(page, "Enter")  # at once: it opens what was typed, when that is found
        expect(page.locator(".life-card .badge")).to_have_text("held")
        id = page.locator("h1").inner_text()
        press(page, "/")
        page.keyboard.type(id)
        press(page, "Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        press(page, "/")
        page.keyboard.type("nothing of the kind")
        expect(page.get_by_role("dialog")).to_contain_text("Nothing found.")
        press(page, "Enter", "Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator("h1")).to_have_text(id)


def test_what_is_typed_and_chosen_is_in_the_address_of_every_list(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server) as tab:
        page, box = tab.open(), tab.page.get_by_role("searchbox")
        steps = page.evaluate("history.length")
        box.fill("zeb")
        page.get_by_label("Order").select_option("Fullest first")
        expect(page).to_have_url(f"{server.url}/#/pools?q=zeb&order=fullest")
        for view, text in (("claims", "email:ann@example.org"), ("items", "hall:a")):
            page.evaluate("view => { location.hash = '#/' + view }", view)
            expect(page.get_by_role("searchbox", name=f"Search {view}")).to_have_value("")
            box.fill(text)
            expect(page).to_have_url(re.compile(f"#/{view}\\?q="))
            with shared(tab, browser) as other:
                expect(other.get_by_role("searchbox")).to_have_value(text)
        page.evaluate("location.hash = '#/sagas'")
        page.get_by_role("button", name="Parked").click()
        expect(page).to_have_url(f"{server.url}/#/sagas?show=parked")
        page.reload()
        expect(page.get_by_role("button", name="Parked")).to_have_attribute("aria-pressed", "true")
        assert page.evaluate("history.length") == steps + 3, "typing adds no step to go back"
        page.evaluate("history.go(-3)")
        expect(box).to_have_value("zeb")
        expect(page.get_by_label("Order")).to_have_value("fullest")
        with shared(tab, browser) as other:
            expect(rows(other, "Pools")).to_have_count(1)


LATE = """() => addEventListener("hashchange", (event) => window.late && event.stopImmediatePropagation())"""
"""While `late` is set, the page does not hear that the address has changed."""
LEAVE = """async (button) => {
  window.late = true;
  location.hash = "#/health";
  button.click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  window.late = false;
  dispatchEvent(new HashChangeEvent("hashchange"));
}"""
"""Goes to another view, and chooses something in this one before the page hears of it."""


def test_a_list_does_not_take_back_the_address_that_one_goes_to(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server) as tab:
        tab.page.add_init_script(f"({LATE})()")
        page = tab.open()
        page.get_by_role("button", name="With holds").evaluate(LEAVE)
        expect(page.locator("main h1")).to_have_text("Health")
        expect(page).to_have_url(f"{server.url}/#/health")


DELAY = """() => {
  const fetched = window.fetch;
  window.late = [];
  window.fetch = (asked, init) => {
    if (!String(asked).endsWith("q=shelf%3A01&limit=6")) return fetched(asked, init);
    return new Promise((done) => late.push(() => fetched(asked, {...init, signal: undefined}).then(done)));
  };
}"""
"""The answer to one question comes when it is told to, whether it is still wanted or not."""
ANSWER = """async () => {
  await late[0]();
  for (let turn = 0; turn < 5; turn += 1) await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
}"""
"""Let it come, and the page draw what it makes of it."""


def test_an_answer_to_an_older_text_never_replaces_a_newer_one(browser: Browser, server: LiveServer) -> None:
    with watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("5,002 pools")).to_be_visible()  # before it is signed in, keys have nothing to open
        page.evaluate(DELAY)
        found = page.get_by_role("dialog").get_by_role("option")
        press(page, "/")
        page.keyboard.type("shelf:01")
        page.wait_for_function("() => late.length === 1")
        expect(page.get_by_role("dialog")).to_contain_text("Searching")
        page.keyboard.type("234")
        expect(found).to_have_count(1)
        expect(found).to_contain_text("shelf:01234")
        page.evaluate(ANSWER)
        assert found.all_inner_texts() == ["shelf:01234"]
        expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("1 found")
        press(page, "Backspace", "Backspace")
        expect(found).to_have_count(6)
        expect(found.first).to_contain_text("shelf:01200")


def test_a_search_is_opened_with_one_enter_and_giving_it_up_throws_nothing(
    browser: Browser, server: LiveServer
) -> None:
    with watched(browser, server) as tab:
        page = tab.open()
        expect(page.get_by_text("5,002 pools")).to_be_visible()
        press(page, "f")
        page.keyboard.type("zebra")
        press(page, "Enter")
        expect(page.locator("h1")).to_have_text("zebra")
        press(page, "g", "c")
        expect(rows(page, "Claims")).to_have_count(1)
        press(page, "f")
        page.keyboard.type("email:ann@example.org", delay=5)
        press(page, "Enter")
        expect(page.locator(".life-card .badge")).to_have_text("held")


def fall(browser: Browser, server: LiveServer, wrong: str) -> None:
    with watched(browser, server, quiet=False) as tab:
        page = tab.open()
        with page.expect_event("pageerror"):
            page.evaluate(wrong)


def test_an_error_that_nobody_catches_fails_a_test(browser: Browser, server: LiveServer) -> None:
    for wrong in ("setTimeout(() => { throw new Error('uncaught') })", "void Promise.reject(new Error('uncaught'))"):
        with pytest.raises(AssertionError, match="uncaught"):
            fall(browser, server, wrong)
