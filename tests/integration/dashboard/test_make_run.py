"""`make run` for real: it becomes ready, its page shows what moves, and it stops cleanly. With HOLDKIT_SHOTS it sits for the
pictures of the README (`make shots`)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.dashboard.browser import PHONE, watched
from tests.support.servers import LiveServer

ROOT = Path(__file__).resolve().parents[3]
SHOTS = os.environ.get("HOLDKIT_SHOTS")
GROWING = 300_000
"""Milliseconds after which plots of 15 minutes show something."""
LIGHT = {
    "pool": "#/pool/gpu%2Fa100",
    "holds": "#/holds?state=held",
    "journal": "#/journal",
    "calendar": "#/calendar/seaside-inn",
    "seats": "#/section/hall%2Fstalls",
    "line": "#/pool/clinic%2Fappointments",
}
DARK = {"pool-dark": "#/pool/gpu%2Fa100", "health-dark": "#/health"}


@contextmanager
def running(folder: Path, *arguments: str, how: signal.Signals = signal.SIGINT) -> Iterator[LiveServer]:
    """The process, ready; stopped by a signal, which must end it with 0 and leave nothing behind."""
    child = subprocess.Popen(
        [sys.executable, "-m", "holdkit.server.trial", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert child.stdout is not None
    try:
        told = ""
        while "Ctrl-C" not in told:
            line = child.stdout.readline()
            assert line, child.communicate()
            told += line
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#key=(hk_\S+)", told)
        assert found is not None
        yield LiveServer(found[1], found[2])
        child.send_signal(how)
        said, wrong = child.communicate(timeout=120)
        assert (child.returncode, said, wrong) == (0, "Stopped.\n", "")
    finally:
        child.kill()
        child.communicate()


def test_it_opens_on_data_that_moves_and_stops_on_ctrl_c(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with watched(browser, server, device_scale_factor=1.5 if SHOTS else 1) as tab:
            page = tab.open()
            expect(page.get_by_role("link", name="show:42/stalls")).to_be_visible()
            held = page.locator("[data-sum=held]")
            first = held.text_content() or ""
            expect(held).not_to_have_text(first)
            page.evaluate("location.hash = '#/journal'")
            expect(page.get_by_role("listitem").filter(has_text="held").first).to_be_visible()
            page.evaluate("location.hash = '#/sagas'")
            expect(page.get_by_text("the depot in Lyon does not answer")).to_be_visible()
            page.evaluate("location.hash = '#/faces'")
            for name in ("Calendars", "Budgets", "Rates", "Resources", "Seats", "Accounts", "Claims", "Items", "Sagas"):
                expect(page.get_by_role("heading", name=name)).to_be_visible()
            page.evaluate("location.hash = '#/webhooks'")
            expect(page.locator("[data-hook=active]")).to_have_count(1)
            expect(page.locator("[data-hook=failing]")).to_contain_text("the receiver answered 503")
            page.evaluate("location.hash = '#/pool/clinic%2Fappointments'")
            expect(page.locator("[data-line] tbody tr").first).to_contain_text("next")
            if SHOTS:
                page.wait_for_timeout(GROWING)
                tour(page, {"pools": "#/pools", **LIGHT})
        if SHOTS:
            with watched(browser, server, color_scheme="dark", device_scale_factor=1.5) as tab:
                tour(tab.open(), DARK)
            with watched(browser, server, viewport=PHONE, has_touch=True, device_scale_factor=2) as tab:
                page = tab.open()
                expect(page.get_by_role("link", name="gpu/a100")).to_be_visible()
                sit(page, "phone")
    assert [*tmp_path.iterdir()] == [], "it leaves nothing behind"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_without_traffic_nothing_moves_and_a_named_folder_stays(tmp_path: Path, how: signal.Signals) -> None:
    kept = tmp_path / "kept"
    with running(tmp_path, "--no-traffic", "--folder", str(kept), how=how) as server, server.client() as http:
        assert http.get("/v1/overview").json()["sums"]["held"] == 0
        assert http.get("/v1/whoami").json()["scope"] == "admin"
    assert (kept / "holds.db").exists()


def tour(page: Page, views: dict[str, str]) -> None:
    """A picture of each view, once there is some of a curve to be seen: this is no test."""
    for name, hash in views.items():
        page.evaluate("hash => { location.hash = hash }", hash)
        page.wait_for_timeout(2_000)
        for recent in page.get_by_role("button", name="15 min").all():
            recent.click()
        sit(page, name)


def sit(page: Page, name: str) -> None:
    if not SHOTS:
        return
    from PIL import Image  # comes with matplotlib, which draws the bench's pictures

    path = ROOT / SHOTS / f"dashboard-{name}.png"
    page.wait_for_timeout(3_000)
    page.screenshot(path=path)
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(96).save(path, optimize=True)  # a page has few colours: a third of the size
