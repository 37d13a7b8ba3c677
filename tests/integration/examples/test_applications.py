"""The example applications as a newcomer starts and uses them: one command, a browser, every button."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

import holdkit
from examples.llm_gateway import gateway
from holdkit.testing import FakeClock

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120_000
"""Milliseconds that a condition is waited for."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def started(name: str, port: int) -> Iterator[str]:
    """The address of an application that runs in a process of its own; at the end it is killed."""
    command = [sys.executable, "-m", f"examples.{name}", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with httpx.Client(transport=httpx.HTTPTransport(retries=60), timeout=60) as http:
                assert http.get(f"{address}/state").status_code == 200
            yield address
        finally:
            process.kill()


@contextmanager
def shown(browser: Browser, address: str) -> Iterator[Page]:
    """The page of an application; nothing on it may go wrong unnoticed."""
    page = browser.new_page(viewport={"width": 1100, "height": 760})
    page.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(address)
    yield page
    page.close()
    expected = (
        "Failed to load resource: the server responded with a status of 4",  # a refusal, which the page shows
        "Failed to load resource: net::ERR_CONNECTION_REFUSED",  # the server is down, which the page says
        "Failed to load resource: net::ERR_CONNECTION_RESET",  # it was killed while a request was under way: the same
    )
    assert [one for one in wrong if not one.startswith(expected)] == []


@contextmanager
def opened(browser: Browser, name: str) -> Iterator[Page]:
    with started(name, free_port()) as address, shown(browser, address) as page:
        yield page


def picture(page: Page, name: str) -> None:
    """For docs/examples.md, if `make shots` asks for it."""
    if "HOLDKIT_SHOTS" in os.environ:
        page.screenshot(path=f"{os.environ['HOLDKIT_SHOTS']}/example-{name}.png", full_page=True)


@contextmanager
def late_answer(page: Page, path: str) -> Iterator[None]:
    """Answer the next request for this path only after the block, as the server answered it before; and wait until it was read."""
    kept: list[Route] = []
    page.route(path, lambda route: kept.append(route), times=1)  # noqa: PLW0108  a built-in method is refused
    with page.expect_request(path) as asked:
        pass
    before = page.request.get(asked.value.url)
    yield
    [route] = kept
    with page.expect_request_finished(lambda request: request == route.request):
        route.fulfill(response=before)
    with page.expect_response(path):
        pass  # of a later request: the page has read the late answer by now


def says(page: Page, text: str) -> None:
    expect(page.locator("#says")).to_contain_text(text)


def test_the_ticket_shop(browser: Browser) -> None:
    with opened(browser, "ticket_shop") as page:
        page.locator("#map .seat[data-state=available]").first.wait_for()
        page.get_by_title("Seat C7").click()
        page.get_by_title("Seat C8").click()
        page.get_by_role("button", name="Hold these seats").dblclick()
        says(page, "C7, C8: yours for two minutes")
        page.locator("#many").fill("120")
        page.get_by_role("button", name="Let them in").click()
        expect(page.locator("#rivals")).to_contain_text("bought")
        picture(page, "tickets")
        page.get_by_role("button", name="Pay").dblclick()
        says(page, "Thank you")
        expect(page.get_by_title("Seat C7")).to_have_class("seat mine")
        expect(page.locator("#house")).not_to_contain_text("seats sold0")
        with late_answer(page, "**/state?hold=*"):  # of the seats, not of the standing place
            page.get_by_role("button", name="Wait for a standing place").click()
            expect(page.locator("#mine")).to_contain_text("standing")
        expect(page.locator("#mine")).to_contain_text("standing")
        expect(page.locator("#house")).to_contain_text("seats free0")
        expect(page.locator("#twice")).to_have_text("0")


def test_a_shop_that_is_killed_and_started_again(browser: Browser) -> None:
    """On a new database: what the page held there is gone, and the page goes on."""
    port = free_port()
    with shown(browser, "about:blank") as page:
        with started("ticket_shop", port) as address:
            page.goto(address)
            page.locator("#map .seat[data-state=available]").first.wait_for()
            page.get_by_title("Seat C7").click()
            page.get_by_role("button", name="Hold these seats").click()
            expect(page.locator("#mine")).to_contain_text("Held until")
        says(page, "The shop does not answer")
        with started("ticket_shop", port):
            says(page, "The shop answers again")
            expect(page.locator("#mine")).to_contain_text("Choose up to six seats")
            expect(page.locator("#house")).to_contain_text("seats free128")


def test_the_seat_map_fits_a_phone(browser: Browser) -> None:
    with opened(browser, "ticket_shop") as page:
        page.set_viewport_size({"width": 360, "height": 740})
        page.locator("#map .seat[data-state=available]").first.wait_for()
        last = page.get_by_title("Seat H16").bounding_box()
        assert last is not None
        assert last["x"] + last["width"] < 360 - 16  # within the card that would scroll
        assert last["width"] > 12


def test_the_hotel(browser: Browser) -> None:
    with opened(browser, "hotel_nights") as page:
        page.locator("#room").select_option("suite")
        page.locator("#parking").check()
        page.get_by_role("button", name="Reserve").dblclick()
        says(page, "6 nights of rooms and parking")
        page.get_by_role("button", name="Reserve").click()
        says(page, "You have a stay on hold")
        page.get_by_role("button", name="Pay now").dblclick()
        says(page, "Paid in time")
        page.get_by_role("button", name="Reserve").click()
        says(page, "suite")  # the one suite is booked: the refusal names its nights
        page.locator("#room").select_option("double")
        page.get_by_role("button", name="Reserve").click()
        says(page, "are held")
        picture(page, "hotel")
        page.get_by_role("button", name="and after a rival").click()
        says(page, "refunded")


def test_the_gateway(browser: Browser) -> None:
    with opened(browser, "llm_gateway") as page:
        page.get_by_role("button", name="Ask the model").click()
        says(page, "Done.")
        expect(page.locator("#answer")).not_to_be_empty()
        page.get_by_role("button", name="Send 100 calls").click()
        says(page, "refused with 429")
        page.get_by_role("button", name="Send 100 calls").click()
        expect(page.get_by_role("button", name="Send 100 calls")).to_be_enabled()
        expect(page.locator("#counts")).not_to_contain_text("refused0")
        picture(page, "gateway")
        expect(page.locator("#over")).to_have_text("0")


def test_a_client_of_the_gateway_that_hangs_up(browser: Browser) -> None:
    """What it used is spent: in the budgets of all levels, and in what the page counts."""
    with started("llm_gateway", free_port()) as address, shown(browser, address) as page:
        key = {"authorization": "Bearer sk-a-search"}
        with httpx.stream("POST", f"{address}/v1/complete", json={"prompt": "x"}, headers=key, timeout=60) as answer:
            next(answer.iter_text())
        row = page.get_by_role("row", name="key a-search")
        expect(row.get_by_role("cell").nth(2)).not_to_have_text("0")  # confirmed, once it has noticed
        spent = row.get_by_role("cell").nth(2).inner_text()
        expect(row.get_by_role("cell").nth(3)).to_have_text("0")  # and nothing is held any more
        assert 0 < int(spent) < 122
        expect(page.locator("#counts")).to_contain_text(f"tokens used{spent}")


def test_two_bursts_at_once_are_counted_separately() -> None:
    """Each answer is about its own hundred calls."""
    with started("llm_gateway", free_port()) as address, ThreadPoolExecutor() as threads:
        bursts = threads.map(lambda _: httpx.post(f"{address}/burst", timeout=120).json(), range(2))
        counted = [one["answered"] + one["refused"] for one in bursts]
    assert counted == [100, 100]


def test_a_call_at_the_end_of_a_minute() -> None:
    """The window closes between `units` and `hold`: the next minute pays."""

    async def main() -> list[int]:
        clock = FakeClock(start=59_000_000)
        async with await holdkit.connect_async("memory://", clock=clock) as hk:
            late = iter([1.0])

            async def hold(*arguments: Any, **options: Any) -> holdkit.Hold:
                clock.advance(next(late, 0.0))
                return await hk.hold(*arguments, **options)

            kernel: Any = SimpleNamespace(budget=hk.budget, hold=hold)
            held = await gateway.admit(kernel, ("search", "search/a", "a-search"), "hello")
            return [int(leg.pool.rpartition("@")[2]) for leg in held.legs]

    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        assert thread.submit(asyncio.run, main()).result() == [60, 60, 60]


def test_the_bank(browser: Browser) -> None:
    with opened(browser, "money_transfer") as page:
        points = page.locator("#dies option")
        expect(points).to_have_count(5)
        page.locator("#dies").select_option("left the first ledger")
        page.get_by_role("button", name="Transfer").click()
        says(page, "died")
        expect(page.locator("#ledgers")).to_contain_text("under way100")
        while "1 finished" not in page.locator("#says").inner_text():  # until the dead worker's lease is over
            page.get_by_role("button", name="Recover").click()
            expect(page.locator("#says")).to_contain_text("finished")
        expect(page.locator("#ledgers")).to_contain_text("under way0")
        page.locator("#dies").select_option("")
        page.locator("#amount").select_option("600")
        page.get_by_role("button", name="Transfer").click()
        says(page, "more than 500 at once")
        expect(page.locator("#account")).to_contain_text("available900")
        expect(page.locator("#lost")).to_have_text("0")
        picture(page, "bank")
