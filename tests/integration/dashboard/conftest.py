from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.integration.dashboard.browser import CHROMIUM, PATIENCE

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--renderer-process-limit=1", "--process-per-site"]
"""Tabs of one context share a process: to start one costs as much as a page does."""

expect.set_options(timeout=PATIENCE)
_running = ExitStack()
_browsers: list[Browser] = []


@pytest.fixture
def browser() -> Browser:
    """The browser of all tests of this folder that follow one another."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    if not _browsers:
        playwright = _running.enter_context(sync_playwright())
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        _running.callback(made.close)
        _browsers.append(made)
    return _browsers[0]


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """While Playwright runs, no other test of this process can run an event loop of its own: it ends with the folder."""
    if nextitem is None or HERE not in nextitem.path.parents:
        _browsers.clear()
        _running.close()
