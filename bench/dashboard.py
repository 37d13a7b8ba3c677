"""The dashboard in a browser, on 50,000 pools and a million holds: until the first rows are there, until a filter has answered, until
the finder has.

The server is a process of its own on SQLite. Every time is that from the key that is pressed, or from the begin of the navigation, to
the frame after the one in which the rows are drawn.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

import holdkit
from holdkit import Leg
from holdkit.commands import CreatePool, PlaceHold
from holdkit.server import Keys

from .figures import Figure
from .rows import BenchFailed
from .stores import url

if TYPE_CHECKING:
    from playwright.sync_api import Page

POOLS: Final = 50_000
HOLDS: Final = 1_000_000
BATCH: Final = 1_000
PATIENCE: Final = 120_000
"""Milliseconds that anything is waited for."""
CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Seen(Struct, frozen=True):
    """Milliseconds of each round, by what was waited for."""

    pools: int
    holds: int
    times: dict[str, list[float]]


def fill(path: Path, pools: int, holds: int, step: Callable[[int], None]) -> str:
    """Hold n is on pool n modulo their number, for customer n modulo 10,000, by user n modulo 1,000; returns an admin's key."""
    with holdkit.connect(url(path)) as hk:
        for start in range(0, pools, BATCH):
            hk.apply([CreatePool(id=f"shelf:{n:06}", total=1_000) for n in range(start, start + BATCH)])
        for start in range(0, holds, BATCH):
            hk.apply([
                PlaceHold((Leg(f"shelf:{n % pools:06}", 1),), entity=f"order:{n}", account=f"customer:{n % 10_000}",
                          actor=f"user:{n % 1_000}", ttl="1d")
                for n in range(start, start + BATCH)
            ])  # fmt: skip
            step(BATCH)
        return Keys(hk).make("bench", scope="admin").text


@contextmanager
def served(path: Path) -> Iterator[str]:
    """The address of a server on this file."""
    command = [sys.executable, "-m", "holdkit", "serve", url(path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        try:
            yield json.loads(child.stdout.readline())["listens"]
        finally:
            child.terminate()


def measure(path: Path, key: str, pools: int, holds: int, rounds: int, step: Callable[[], None]) -> Seen:
    """Look at the same pages again and again, each time in a fresh browser context."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        raise BenchFailed("there is no chromium here")
    times: dict[str, list[float]] = {}
    with served(path) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(rounds):
            context = browser.new_context()
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            for name, taken in _round(page, f"{address}/#key={key}", pools, holds):
                times.setdefault(name, []).append(taken)
            context.close()
            step()
        browser.close()
    return Seen(pools, holds, times)


def _round(page: Page, address: str, pools: int, holds: int) -> Iterator[tuple[str, float]]:
    """Each thing that is waited for, and its milliseconds."""
    yield "pools: first rows", _timed(page, lambda: page.goto(address), ".pool-row .id")
    yield f"pools: all {pools:,} loaded", _timed(page, lambda: None, f".count:has-text('{pools:,} pools')")
    page.keyboard.press("g")
    last = f"order:{holds - 1} "
    yield "holds: first page", _timed(page, lambda: page.keyboard.press("o"), f".found-hold:has-text('{last}')")
    yield (
        "holds: next page",
        _timed(page, lambda: page.keyboard.press("n"), f".found-hold:has-text('order:{holds - 101} ')"),
    )
    yield "holds: by account", _filter(page, "Account", "customer:7", f"order:{holds - 10_000 + 7} ")
    page.get_by_role("button", name="Clear").click()
    page.locator(f".found-hold:has-text('{last}')").first.wait_for()
    yield "holds: by actor, 100,000 looked at", _filter(page, "Actor", "user:7", f"order:{holds - 1_000 + 7} ")
    page.locator("main").focus()
    page.keyboard.press("/")
    yield "finder: a part of a pool's name", _timed(page, lambda: page.keyboard.insert_text("elf:0007"), ".choice")


def _filter(page: Page, label: str, text: str, first: str) -> float:
    page.get_by_label(label, exact=True).fill(text)
    return _timed(page, lambda: page.keyboard.press("Enter"), f".found-hold:has-text('{first}')")


def _timed(page: Page, act: Callable[[], object], there: str) -> float:
    """Milliseconds from an action until what it leads to is drawn."""
    begin = perf_counter()
    act()
    page.locator(there).first.wait_for()
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return (perf_counter() - begin) * 1_000


def figures(seen: Seen) -> list[Figure]:
    """The median of each."""
    note = f"{seen.pools:,} pools, {seen.holds:,} holds"
    return [Figure("dashboard", name, "ms", None, median(taken), note=note) for name, taken in seen.times.items()]
