from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.integration.dashboard.browser import CHROMIUM, PATIENCE

expect.set_options(timeout=PATIENCE)


@pytest.fixture(
    scope="module"
)  # no wider: while Playwright runs, no other test of this process can run a loop of its own
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()
