"""The stories again, told to the client: what a kernel promises is promised at a distance too."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdkit import Limits
from holdkit.client import connect, connect_async
from holdkit.testing import FakeClock
from holdkit.testing.stories import Story, read_stories, run_story, run_story_async

from .rig import live

STORIES = read_stories(Path(__file__).parent.parent / "stories")


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story: Story, colour: str) -> None:
    with ExitStack() as stack:

        def opened(clock: FakeClock, limits: Limits | None) -> Any:
            server = stack.enter_context(live(clock=clock, limits=limits))
            hk = (connect if colour == "sync" else connect_async)(server.url, key=server.admin)
            hk._clock.now = clock.now  # what is left of a window is told exactly
            return hk

        async def opened_async(clock: FakeClock, limits: Limits | None) -> Any:
            return opened(clock, limits)

        if colour == "sync":
            told = run_story(story, opened, durable=False)
        else:
            told = asyncio.run(run_story_async(story, opened_async, durable=False))
    assert told.checked == story.checked > 0
